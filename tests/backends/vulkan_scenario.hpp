// SPDX-License-Identifier: Apache-2.0
//
// One scenario over the Vulkan backend that uses every entry that it has, with the bytes looked at. It insists: a call that
// failed is made again, as what failed must have changed nothing. Or the device may be lost at any call: then every
// call says so from some moment on, what ends something ends it, and what is told to be done is done.
#pragma once

#include "tests/backends/vulkan_fixture.hpp"

#include <sys/mman.h>

#include <atomic>

namespace vulkan_test {

class Scenario {
 public:
  enum class Fault { once, loss };
  Scenario(const Backend &backend, Fault fault, std::string when)
      : backend_(backend), fault_(fault), when_(std::move(when)) {}
  ~Scenario() {
    if (own_ != MAP_FAILED) munmap(own_, size);
  }
  Scenario(const Scenario &) = delete;
  Scenario &operator=(const Scenario &) = delete;

  void all() {
    make();
    map();
    exports();
    work();
    look();
    batches();
    end();
  }
  bool lost() const { return lost_; }
  int refused() const { return refused_; }

 private:
  static constexpr uint64_t size = 256 * KiB, unit = 64 * KiB;
  static constexpr uint32_t pieces = 4;

  /// True if it went well.
  template <class Call>
  bool act(const char *what, Call call) {
    for (int i = 0; i < 3; ++i) {
      const weir_result result = call();
      if (result == WEIR_SUCCESS) return true;
      const int64_t code = t.last_error_code(backend_.state);
      if (code == 0 || t.error_text(backend_.state, code)[0] == '\0')
        fail_msg("%s: %s failed without a sentence", when_.c_str(), what);
      ++refused_;
      if (fault_ == Fault::loss) {
        if (result != WEIR_ERROR_DEVICE_LOST)
          fail_msg("%s: %s = %d: %s", when_.c_str(), what, result, backend_.error().c_str());
        lost_ = true;
        return false;
      }
    }
    fail_msg("%s: %s fails again and again: %s", when_.c_str(), what, backend_.error().c_str());
    return false;
  }
  /// What is about work of a device that is known to be lost must not go well.
  template <class Call>
  bool work_act(const char *what, Call call) {
    const bool known = lost_;
    const bool well = act(what, call);
    if (known && well) fail_msg("%s: %s goes well on a lost device", when_.c_str(), what);
    return well;
  }
  /// What ends something never fails for good, and on a lost device not at all.
  template <class Call>
  void end_act(const char *what, Call call) {
    const bool known = lost_;
    if (!act(what, call) && known) fail_msg("%s: %s fails on a lost device", when_.c_str(), what);
  }
#define WEIR_DO(call) act(#call, [&] { return (call); })
#define WEIR_WORK(call) work_act(#call, [&] { return (call); })
#define WEIR_END(call) end_act(#call, [&] { return (call); })

  void make() {
    device_.struct_size = sizeof device_;
    WEIR_DO(t.device_describe(s, 0, &device_));
    uint64_t free_bytes = 0, total = 0;
    WEIR_DO(t.device_memory(s, 0, &free_bytes, &total));
    WEIR_DO(t.plain_allocate(s, 0, size, 2 * MiB, &plain_));
    if (plain_ % (2 * MiB) != 0) fail_msg("%s: alignment", when_.c_str());
    WEIR_DO(t.host_allocate(s, size, &pinned_));
    if (has(WEIR_CAP_HOST_REGISTER)) registered_ = WEIR_DO(t.host_register(s, own_, size));
    WEIR_DO(t.stream_create(s, 0, 0, &one_));
    const uint64_t flags = has(WEIR_CAP_TRANSFER_STREAM) ? WEIR_BE_STREAM_TRANSFER : 0;
    WEIR_DO(t.stream_create(s, 0, flags, &two_));
    void *native = nullptr;
    weir_be_stream again = nullptr;
    if (one_ != nullptr && WEIR_DO(t.stream_native(s, one_, &native)) &&
        WEIR_DO(t.stream_wrap(s, 0, native, &again)))
      WEIR_END(t.stream_destroy(s, again));
  }

  void map() {
    if (!has(WEIR_CAP_VMM)) return;
    bool whole = WEIR_DO(t.range_reserve(s, 0, 2 * size, MiB, &range_));
    if (whole && range_ % MiB != 0) fail_msg("%s: alignment of a range", when_.c_str());
    weir_be_piece list[pieces];
    for (uint32_t i = 0; i < pieces; ++i) {
      whole = WEIR_DO(t.granule_create(s, 0, unit, 0, &granules_[i])) && whole;
      list[i] = {granules_[i], 0, unit};
    }
    if (!whole) return;
    if (has(WEIR_CAP_MAP_RUN)) {
      mapped_ = WEIR_WORK(t.map_run(s, 0, range_, list, pieces, nullptr, 0));
    } else {
      mapped_ = true;
      for (uint32_t i = 0; i < pieces; ++i)
        mapped_ = WEIR_WORK(t.map(s, 0, range_ + i * unit, unit, list[i].granule, 0, nullptr, 0)) &&
                  mapped_;
    }
    if (mapped_ && has(WEIR_CAP_MULTI_MAP) &&
        WEIR_WORK(t.map(s, 0, range_ + size, unit, granules_[0], 0, nullptr, 0)))
      WEIR_END(t.unmap(s, 0, range_ + size, unit));
  }

  /// A granule leaves the process and comes back, and its copy is mapped.
  void exports() {
    if (!has(WEIR_CAP_EXPORT_FD) || range_ == 0) return;
    weir_be_granule out = 0, in = 0;
    int32_t fd = -1;
    const bool made = WEIR_DO(t.granule_create(s, 0, unit, WEIR_BE_GRANULE_EXPORT_FD, &out));
    if (made && WEIR_DO(t.granule_export(s, 0, out, &fd))) {
      (void)WEIR_DO(t.granule_import(s, 0, fd, unit, &in));
      if (close(fd) != 0) fail_msg("%s: the import closed the descriptor", when_.c_str());
    }
    if (in != 0 && WEIR_WORK(t.map(s, 0, range_ + size, unit, in, 0, nullptr, 0)))
      WEIR_END(t.unmap(s, 0, range_ + size, unit));
    if (in != 0) WEIR_END(t.granule_destroy(s, 0, in));
    if (out != 0) WEIR_END(t.granule_destroy(s, 0, out));
  }

  void work() {
    target_ = mapped_ ? range_ : plain_;
    if (one_ == nullptr || two_ == nullptr || pinned_ == nullptr || target_ == 0) return;
    const void *source = registered_ ? own_ : pinned_;
    std::memset(own_, 7, size);
    std::memset(pinned_, registered_ ? 1 : 7, size);
    const auto count = [](void *user) { ++*static_cast<std::atomic<int> *>(user); };
    bool well = copy_all(one_, target_, address_of(source));
    well = WEIR_WORK(t.fill_async(s, one_, target_ + 16, 9, 64)) && well;
    well = WEIR_WORK(t.fill_async(s, one_, target_ + 101, 8, 3)) && well;
    called_ = WEIR_WORK(t.stream_host_call(s, one_, count, &ran_));
    well = WEIR_WORK(t.fence_record(s, one_, &middle_)) && well;
    // Some driver failures come when the stream is asked for its end, which an earlier call did not wait for.
    if (middle_ != 0) well = WEIR_WORK(t.stream_wait(s, two_, middle_)) && well;
    well = copy_all(two_, address_of(pinned_), target_) && well;
    well = WEIR_WORK(t.fence_record(s, two_, &end_)) && well;
    arrived_ = end_ != 0 && WEIR_WORK(t.fence_wait(s, end_, UINT64_MAX)) && well;
  }
  /// A copy stays inside one mapping.
  bool copy_all(weir_be_stream stream, uint64_t to, uint64_t from) {
    bool well = true;
    for (uint64_t at = 0; at < size; at += unit) {
      const weir_be_copy what{to + at, from + at, unit};
      well = WEIR_WORK(t.copy_async(s, stream, &what)) && well;
    }
    return well;
  }

  void look() {
    if (!arrived_) return;
    const auto *bytes = static_cast<const unsigned char *>(pinned_);
    for (uint64_t i = 0; i < size; ++i) {
      const int wanted = i >= 16 && i < 80 ? 9 : i >= 101 && i < 104 ? 8 : 7;
      if (bytes[i] != wanted)
        fail_msg("%s: byte %llu is %d, not %d", when_.c_str(), static_cast<unsigned long long>(i),
                 bytes[i], wanted);
    }
    if (called_ && ran_.load() != 1)
      fail_msg("%s: the host function ran %d times", when_.c_str(), ran_.load());
  }

  void batches() {
    if (one_ == nullptr || !arrived_ || !has(WEIR_CAP_BATCH_COPY)) return;
    weir_be_copy parts[8];
    for (uint64_t i = 0; i < 8; ++i)
      parts[i] = {plain_ + i * 1024, address_of(pinned_) + i * 1024, 1024};
    const bool sent = WEIR_WORK(t.copy_batch_async(s, one_, parts, 8));
    WEIR_WORK(t.stream_synchronize(s, one_));
    if (sent)
      (void)act("stream_query", [&] {
        const weir_result result = t.stream_query(s, one_);
        return result == WEIR_NOT_READY ? WEIR_SUCCESS : result;
      });
    if (middle_ != 0)
      (void)act("fence_poll", [&] {
        const weir_result result = t.fence_poll(s, middle_);
        return result == WEIR_NOT_READY ? WEIR_SUCCESS : result;
      });
  }

  void end() {
    // What was enqueued uses what ends here; on a lost device nothing is done any more.
    if (one_ != nullptr) WEIR_DO(t.stream_synchronize(s, one_));
    if (two_ != nullptr) WEIR_DO(t.stream_synchronize(s, two_));
    if (middle_ != 0) WEIR_END(t.fence_destroy(s, middle_));
    if (end_ != 0) WEIR_END(t.fence_destroy(s, end_));
    if (one_ != nullptr) WEIR_END(t.stream_destroy(s, one_));
    if (two_ != nullptr) WEIR_END(t.stream_destroy(s, two_));
    if (mapped_ && has(WEIR_CAP_MAP_RUN)) {
      (void)WEIR_DO(t.unmap_run(s, 0, range_, size));
    } else if (mapped_) {
      for (uint32_t i = 0; i < pieces; ++i) (void)WEIR_DO(t.unmap(s, 0, range_ + i * unit, unit));
    }
    for (const weir_be_granule each : granules_)
      if (each != 0) WEIR_END(t.granule_destroy(s, 0, each));
    if (range_ != 0) WEIR_END(t.range_free(s, 0, range_, 2 * size));
    if (registered_) WEIR_END(t.host_unregister(s, own_, size));
    if (pinned_ != nullptr) WEIR_END(t.host_free(s, pinned_, size));
    if (plain_ != 0) WEIR_END(t.plain_free(s, 0, plain_, size));
    uint64_t free_bytes = 0, total = 0;
    WEIR_DO(t.device_memory(s, 0, &free_bytes, &total));
    if (free_bytes != total)
      fail_msg("%s: %llu bytes are still counted as used", when_.c_str(),
               static_cast<unsigned long long>(total - free_bytes));
  }

  bool has(uint64_t capability) const { return (device_.capabilities & capability) != 0; }

  const Backend &backend_;
  const Fault fault_;
  const std::string when_;
  const weir_backend_table &t = table();
  weir_be_state *const s = backend_.state;
  weir_be_device device_{};
  void *own_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void *pinned_ = nullptr;
  uint64_t plain_ = 0, range_ = 0, target_ = 0;
  weir_be_granule granules_[pieces] = {};
  weir_be_stream one_ = nullptr, two_ = nullptr;
  weir_be_fence middle_ = 0, end_ = 0;
  std::atomic<int> ran_{0};
  bool registered_ = false, mapped_ = false, called_ = false, arrived_ = false, lost_ = false;
  int refused_ = 0;
};
#undef WEIR_DO
#undef WEIR_WORK
#undef WEIR_END

}  // namespace vulkan_test
