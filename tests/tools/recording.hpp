// SPDX-License-Identifier: Apache-2.0
//
// A program that records itself: calls of the public interface, each with its line of a trace "#vmt 2". Handles have the numbers of
// their place in lists here. For tests of what replays such a trace.
#pragma once

#include "tests/support/cmocka.hpp"

#include "core/record/vmt_line.hpp"

#include <weir/weir.h>

#include <functional>
#include <string>
#include <vector>

namespace weir::test {

class Recording {
 public:
  static constexpr uint64_t page = 65536;

  explicit Recording(uint64_t pool_flags, uint64_t budget, const char *policy = "lru-window",
                     uint32_t devices = 1)
      : memory_(size_t{1} << 20), lines_(memory_.data(), memory_.size()) {
    say([](VmtLines &lines) { return lines.begin() && lines.context(0, {}); });
    weir_context_desc context = WEIR_CONTEXT_DESC_INIT;
    const std::string options = "host.devices=" + std::to_string(devices) +
                                ";host.memory=64M;host.granule=65536;host.granule_large=0";
    context.options = options.c_str();
    context.flags = WEIR_CONTEXT_NO_SEARCH;
    good(weir_context_create(&context, &context_));
    std::vector<weir_pool_device> places(devices);
    for (uint32_t i = 0; i < devices; ++i) {
      places[i].device = i;
      places[i].budget = budget;
      weir_device_info info = WEIR_DEVICE_INFO_INIT;
      good(weir_device_info_get(context_, i, &info));
      say([&](VmtLines &lines) {
        return lines.device(
            {0, i, "host", info.name, info.memory_total, info.granule, info.capabilities});
      });
    }
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = devices;
    desc.devices = places.data();
    desc.flags = pool_flags;
    desc.host_budget = uint64_t{32} << 20;
    desc.page_size = desc.large_page_size = page;
    desc.policy = policy;
    desc.name = "recorded";
    good(weir_pool_create(context_, &desc, &pool_));
    record::VmtPool pool;
    pool.flags = desc.flags;
    pool.host_budget = desc.host_budget;
    pool.page_size = pool.large_page_size = page;
    pool.policy = policy;
    pool.name = "recorded";
    say([&](VmtLines &lines) { return lines.pool(pool); });
    for (uint32_t i = 0; i < devices; ++i)
      say([&](VmtLines &lines) { return lines.pool_device(0, i, budget); });
  }
  ~Recording() {
    if (pool_ != nullptr) (void)finish();
  }
  Recording(const Recording &) = delete;
  Recording &operator=(const Recording &) = delete;

  using VmtLines = record::VmtLines;
  weir_pool pool() const { return pool_; }

  size_t stream(weir_device device) {
    weir_stream stream = nullptr;
    good(weir_stream_create(context_, device, 0, &stream));
    streams_.push_back(stream);
    say([&](VmtLines &lines) { return lines.stream(streams_.size() - 1, 0, device, false); });
    return streams_.size() - 1;
  }

  size_t buffer(uint64_t size, weir_device home = WEIR_DEVICE_DEFAULT) {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = size;
    desc.home = home;
    weir_buffer buffer = nullptr;
    good(weir_buffer_create(pool_, &desc, &buffer));
    buffers_.push_back(buffer);
    sizes_.push_back(size);
    record::VmtBuffer one;
    one.buffer = buffers_.size() - 1;
    one.size = size;
    one.home = home;
    say([&](VmtLines &lines) { return lines.buffer(one); });
    return buffers_.size() - 1;
  }

  void destroy(size_t buffer) {
    say([&](VmtLines &lines) { return lines.ends(record::VmtThing::buffer, buffer); });
    good(weir_buffer_destroy(pool_, buffers_[buffer]));
    buffers_[buffer] = nullptr;
  }

  struct Use {
    size_t buffer;
    uint32_t mode;
    uint64_t offset = 0, length = WEIR_WHOLE;
    uint32_t flags = 0;
  };

  /// SIZE_MAX: it would not be granted, and is not in the trace.
  size_t acquire(size_t stream, const std::vector<Use> &uses, const char *name) {
    std::vector<weir_use> wanted;
    for (const Use &use : uses) {
      weir_use one = WEIR_USE(buffers_[use.buffer], use.mode);
      one.offset = use.offset;
      one.length = use.length;
      one.flags = use.flags;
      wanted.push_back(one);
    }
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    options.operation = name;
    weir_lease lease = nullptr;
    const weir_result result =
        weir_acquire(pool_, streams_[stream], wanted.data(), wanted.size(), &options, &lease);
    record::VmtAcquire acquire;
    acquire.lease = leases_.size();
    acquire.stream = stream;
    acquire.operation.name = name;
    acquire.uses = uses.size();
    if (result != WEIR_SUCCESS) {
      say([&](VmtLines &lines) { return lines.refused(acquire, result); });
    } else {
      say([&](VmtLines &lines) { return lines.acquire(acquire); });
    }
    for (const Use &use : uses)
      say([&](VmtLines &lines) {
        return lines.use({use.buffer, use.offset, use.length, use.mode, use.flags});
      });
    if (result != WEIR_SUCCESS) return SIZE_MAX;
    leases_.push_back({lease, stream});
    return leases_.size() - 1;
  }

  void release(size_t lease) {
    const size_t stream = leases_[lease].stream;
    say([&](VmtLines &lines) { return lines.release(lease, stream); });
    good(weir_release(leases_[lease].handle, streams_[stream]));
    leases_[lease].handle = nullptr;
    say([&](VmtLines &lines) { return lines.kernel(lease, 1000); });
  }

  void bytes(record::VmtBytes what, size_t buffer, uint64_t offset, uint64_t length) {
    std::vector<char> memory(length);
    if (what == record::VmtBytes::read)
      good(weir_buffer_read(pool_, buffers_[buffer], offset, length, memory.data()));
    else if (what == record::VmtBytes::write)
      good(weir_buffer_write(pool_, buffers_[buffer], offset, length, memory.data()));
    else
      good(weir_discard(pool_, buffers_[buffer], offset, length));
    say([&](VmtLines &lines) { return lines.bytes(what, {buffer, offset, length}); });
  }

  void hold(size_t buffer) {
    uint64_t address = 0;
    good(weir_hold(pool_, buffers_[buffer], 0, &address));
    say([&](VmtLines &lines) { return lines.hold(buffer, 0, WEIR_READ_WRITE, 0); });
  }
  void unhold(size_t buffer) {
    say([&](VmtLines &lines) { return lines.unhold(buffer); });
    good(weir_unhold(pool_, buffers_[buffer]));
  }

  size_t allocate(size_t stream, uint64_t bytes) {
    uint64_t address = 0;
    good(weir_malloc(pool_, 0, streams_[stream], bytes, &address));
    allocations_.push_back(address);
    say([&](VmtLines &lines) { return lines.allocate(address, 0, 0, stream, bytes, {}); });
    return allocations_.size() - 1;
  }
  void free(size_t allocation, size_t stream) {
    say([&](VmtLines &lines) { return lines.free(allocations_[allocation], stream); });
    good(weir_free(pool_, streams_[stream], allocations_[allocation]));
  }

  void prefetch(size_t stream, size_t buffer) {
    const weir_use use = WEIR_USE(buffers_[buffer], WEIR_READ);
    good(weir_prefetch(pool_, streams_[stream], &use, 1));
    say([&](VmtLines &lines) {
      return lines.prefetch(0, stream, 1) && lines.use({buffer, 0, record::vmt_none, WEIR_READ, 0});
    });
  }

  void announce(size_t stream, const std::vector<size_t> &buffers, const char *name) {
    std::vector<weir_use> uses;
    for (const size_t buffer : buffers) uses.push_back(WEIR_USE(buffers_[buffer], WEIR_READ));
    weir_operation operation = WEIR_OPERATION_INIT;
    operation.name = name;
    operation.uses = uses.data();
    operation.use_count = uses.size();
    good(weir_announce(pool_, streams_[stream], &operation, 1, 0));
    say([&](VmtLines &lines) {
      return lines.announce(0, stream, 1, 0) && lines.operation({0, name}, uses.size());
    });
    for (const size_t buffer : buffers)
      say([&](VmtLines &lines) { return lines.use({buffer, 0, record::vmt_none, WEIR_READ, 0}); });
  }

  void synchronize(size_t stream) {
    good(weir_stream_synchronize(streams_[stream]));
    say([&](VmtLines &lines) { return lines.synchronize(stream); });
  }

  /// Ends the program; the trace.
  std::string finish() {
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    good(weir_pool_stats_get(pool_, &stats));
    std::vector<record::VmtFigure> figures;
#define WEIR_FIELD(field, meaning) figures.push_back({#field, stats.field});
    WEIR_POOL_STATS_FIELDS(WEIR_FIELD)
#undef WEIR_FIELD
    say([&](VmtLines &lines) { return lines.stats(0, figures); });
    for (size_t i = 0; i < leases_.size(); ++i)
      if (leases_[i].handle != nullptr) release(i);
    for (size_t i = 0; i < streams_.size(); ++i) {
      say([&](VmtLines &lines) { return lines.ends(record::VmtThing::stream, i); });
      good(weir_stream_close(streams_[i]));
    }
    say([](VmtLines &lines) { return lines.ends(record::VmtThing::pool, 0) && lines.end(); });
    good(weir_pool_destroy(pool_));
    good(weir_context_destroy(context_));
    pool_ = nullptr;
    return text_ + std::string(lines_.text());
  }

  void say(const std::function<bool(VmtLines &)> &line) {
    if (lines_.text().size() > memory_.size() / 2) {
      text_ += lines_.text();
      lines_.clear();
    }
    assert_true(line(lines_));
  }

 private:
  static void good(weir_result result) {
    if (result != WEIR_SUCCESS) fail_msg("%s", weir_last_error());
  }

  struct Lease {
    weir_lease handle;
    size_t stream;
  };

  std::vector<char> memory_;
  VmtLines lines_;
  std::string text_;
  weir_context context_ = nullptr;
  weir_pool pool_ = nullptr;
  std::vector<weir_stream> streams_;
  std::vector<weir_buffer> buffers_;
  std::vector<uint64_t> sizes_;
  std::vector<uint64_t> allocations_;
  std::vector<Lease> leases_;
};

}  // namespace weir::test
