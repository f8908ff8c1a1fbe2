// SPDX-License-Identifier: Apache-2.0
//
// How what a call costs grows with the number of buffers: each call in pools of 10,000, 100,000 and 1,000,000 buffers, and the
// exponent between the first and the last. A call of which one is made for each buffer, or that does not depend on their number, has
// one of 0 where it costs the same among many; one that does something with all has 1 where each costs the same. Beside them stands
// one dependent read at random in a table of as many records of 64 bytes, which tells what of it is the machine's: caches.
//
//   bench_growth [--counts 10000,100000,1000000] [--only WORLD]
//
// Times are the process's own of all CPUs, and the pools have no threads, so a busy machine lengthens them little. Must never judge:
// it exits 0 whatever the numbers are, and 1 only if a call fails.

#include "common.hpp"

#include <weir/backend.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

extern "C" const weir_backend_table *weir_host_backend_query(uint32_t abi_major);

namespace {

using namespace weir::bench;

double process_ns() {
  timespec used{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

template <class Work>
double time_of(Work &&work) {
  const double start = process_ns();
  work();
  return process_ns() - start;
}

/// The least of several: of a call that may be made again.
template <class Work>
double least_of(int times, Work &&work) {
  double least = 1e300;
  for (int i = 0; i < times; ++i) least = std::min(least, time_of(work));
  return least;
}

/// Nanoseconds of each call, by the number of buffers.
class Table {
 public:
  explicit Table(std::vector<uint64_t> counts) : counts_(std::move(counts)) {}
  const std::vector<uint64_t> &counts() const { return counts_; }
  void note(const char *world, const char *call, const char *what, double ns) {
    const std::string key = std::string(world) + '|' + call + '|' + what;
    if (rows_.find(key) == rows_.end()) order_.push_back(key);
    rows_[key].push_back(ns);
  }
  void print() const {
    for (const std::string &key : order_) {
      const std::vector<double> &ns = rows_.at(key);
      const size_t first = key.find('|'), second = key.find('|', first + 1);
      Json line("growth");
      line.text("buffers_are", key.substr(0, first).c_str())
          .text("call", key.substr(first + 1, second - first - 1).c_str())
          .text("ns_are_of", key.substr(second + 1).c_str());
      for (size_t i = 0; i < ns.size(); ++i)
        line.number(("ns_" + std::to_string(counts_[i])).c_str(), ns[i]);
      const double grown = std::log(ns.back() / ns.front());
      const double more =
          std::log(static_cast<double>(counts_.back()) / static_cast<double>(counts_.front()));
      line.number("exponent", counts_.size() > 1 ? grown / more : 0).print();
    }
  }

 private:
  const std::vector<uint64_t> counts_;
  std::map<std::string, std::vector<double>> rows_;
  std::vector<std::string> order_;
};

constexpr const char *each = "one call", *all = "one call, for all buffers";

/// A pool of so many buffers, and what is measured in it.
class World {
 public:
  World(Table &table, const char *name, uint64_t count, std::unique_ptr<Rig> rig)
      : table_(table), name_(name), rig_(std::move(rig)), buffers_(count) {}

  /// Makes the buffers, all of the size: the first half untimed, so that what grows is full of them.
  void make(uint64_t size, weir_device home = WEIR_DEVICE_DEFAULT) {
    const size_t timed = edge();
    for (size_t i = 0; i + timed < buffers_.size(); ++i) buffers_[i] = rig_->add_buffer(size, home);
    const double ns = time_of([&] {
      for (size_t i = buffers_.size() - timed; i < buffers_.size(); ++i)
        buffers_[i] = rig_->add_buffer(size, home);
    });
    note("weir_buffer_create", each, ns / static_cast<double>(timed));
    order_.resize(buffers_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::shuffle(order_.begin(), order_.end(), std::mt19937_64(7));
  }
  /// Writes all, one after the other.
  void write() {
    for (const weir_buffer buffer : buffers_) (void)rig_->touch(buffer, WEIR_DISCARD_WRITE);
    rig_->synchronize();
  }
  /// A call for each of some buffers drawn at random.
  template <class Call>
  void per_buffer(const char *call, Call &&work) {
    const size_t timed = edge();
    const double ns = time_of([&] {
      for (size_t i = 0; i < timed; ++i) work(buffers_[order_[next_++ % order_.size()]]);
    });
    note(call, each, ns / static_cast<double>(timed));
  }
  template <class Call>
  void repeated(const char *call, int times, Call &&work) {
    const double ns = least_of(5, [&] {
      for (int i = 0; i < times; ++i) work();
    });
    note(call, each, ns / times);
  }
  template <class Call>
  void whole(const char *call, Call &&work) {
    note(call, all, time_of(work));
  }
  template <class Call>
  void whole_again(const char *call, Call &&work) {
    note(call, all, least_of(3, work));
  }
  void destroy_some() {
    const size_t timed = edge();
    const double ns = time_of([&] {
      for (size_t i = 0; i < timed; ++i) {
        weir_buffer &buffer = buffers_[order_[i]];
        WEIR_BENCH_TRY(weir_buffer_destroy(rig_->pool(), buffer));
        buffer = nullptr;
      }
    });
    note("weir_buffer_destroy, at random", each, ns / static_cast<double>(timed));
  }
  void end() {
    whole("weir_pool_destroy", [&] { rig_.reset(); });
  }
  void note(const char *call, const char *what, double ns) { table_.note(name_, call, what, ns); }
  Rig &rig() { return *rig_; }
  weir_pool pool() { return rig_->pool(); }
  const std::vector<weir_buffer> &buffers() const { return buffers_; }

 private:
  size_t edge() const { return std::min<size_t>(5000, buffers_.size() / 2); }

  Table &table_;
  const char *const name_;
  std::unique_ptr<Rig> rig_;
  std::vector<weir_buffer> buffers_;
  std::vector<size_t> order_;
  size_t next_ = 0;
};

weir_pool_desc desc_of(uint64_t page, uint64_t host) {
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = host;
  desc.page_size = page;
  desc.large_page_size = page;
  desc.record_budget = WEIR_UNLIMITED;
  return desc;
}

std::unique_ptr<Rig> rig_of(const char *options, uint64_t page, uint64_t host, uint64_t device,
                            uint32_t devices = 1) {
  return std::make_unique<Rig>(options, desc_of(page, host), device, devices);
}

/// What looks at the pool, or at one buffer of it.
void look(World &world) {
  const weir_pool pool = world.pool();
  world.repeated("weir_pool_stats_get", 1000, [&] { (void)world.rig().stats(); });
  world.repeated("weir_pool_device_stats_get", 1000, [&] {
    weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    WEIR_BENCH_TRY(weir_pool_device_stats_get(pool, WEIR_DEVICE_DEFAULT, &stats));
  });
  world.repeated("weir_pool_codec_stats_get", 1000, [&] {
    weir_codec_stats stats = WEIR_CODEC_STATS_INIT;
    WEIR_BENCH_TRY(weir_pool_codec_stats_get(pool, &stats));
  });
  world.per_buffer("weir_buffer_info_get", [&](weir_buffer buffer) {
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
    WEIR_BENCH_TRY(weir_buffer_info_get(pool, buffer, 0, WEIR_WHOLE, &info));
  });
  world.per_buffer("weir_buffer_set_priority", [&](weir_buffer buffer) {
    WEIR_BENCH_TRY(weir_buffer_set_priority(pool, buffer, WEIR_PRIORITY_HIGH));
  });
  world.whole_again("weir_pool_snapshot", [&] {
    size_t needed = 0;
    WEIR_BENCH_TRY(weir_pool_snapshot(pool, nullptr, 0, &needed));
  });
  world.whole_again("weir_pool_lost_ranges", [&] {
    size_t count = 0;
    WEIR_BENCH_TRY(weir_pool_lost_ranges(pool, nullptr, 0, &count));
  });
  world.whole_again("weir_pool_map", [&] {
    size_t count = 0;
    WEIR_BENCH_TRY(weir_pool_map(pool, nullptr, 0, &count));
  });
}

void announce(World &world) {
  world.per_buffer("weir_announce of one operation", [&](weir_buffer buffer) {
    const weir_use use = WEIR_USE(buffer, WEIR_READ);
    weir_operation operation = WEIR_OPERATION_INIT;
    operation.uses = &use;
    operation.use_count = 1;
    WEIR_BENCH_TRY(weir_announce(world.pool(), world.rig().stream(), &operation, 1, 0));
  });
  WEIR_BENCH_TRY(
      weir_announce(world.pool(), world.rig().stream(), nullptr, 0, WEIR_ANNOUNCE_REPLACE));
}

void trim(World &world, weir_device device, uint32_t level, const char *call) {
  world.whole(call, [&] {
    uint64_t freed = 0;
    WEIR_BENCH_TRY(weir_pool_trim(world.pool(), device, level, UINT64_MAX, &freed));
  });
}

/// Buffers of a page that nobody has used.
void made(Table &table, uint64_t count) {
  World world(
      table, "of one page, made", count,
      rig_of("host.memory=64M;host.granule=2M;host.granule_large=0", 2 * mib, 32 * mib, 64 * mib));
  world.make(2 * mib);
  look(world);
  announce(world);
  world.whole_again("weir_pool_defragment", [&] {
    const weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
    WEIR_BENCH_TRY(weir_pool_defragment(world.pool(), &desc, nullptr));
  });
  world.destroy_some();
  world.end();
}

/// Buffers of a page with contents, all but 4096 of them in HOST.
void in_host(Table &table, uint64_t count) {
  constexpr uint64_t page = 4 * kib;
  World world(table, "of one page, in HOST", count,
              rig_of("host.memory=16M;host.granule=4K;host.granule_large=0", page,
                     count * page + 256 * mib, 16 * mib));
  world.make(page);
  world.write();
  look(world);
  announce(world);
  world.per_buffer("weir_acquire and release of one in HOST",
                   [&](weir_buffer buffer) { (void)world.rig().touch(buffer, WEIR_READ); });
  world.rig().synchronize();
  world.per_buffer("weir_buffer_write of 64 bytes", [&](weir_buffer buffer) {
    const char bytes[64] = {};
    WEIR_BENCH_TRY(weir_buffer_write(world.pool(), buffer, 0, sizeof bytes, bytes));
  });
  world.per_buffer("weir_discard", [&](weir_buffer buffer) {
    WEIR_BENCH_TRY(weir_discard(world.pool(), buffer, 0, WEIR_WHOLE));
  });
  trim(world, 0, WEIR_TRIM_EMERGENCY, "weir_pool_trim of the device, to the end");
  world.destroy_some();
  // Every second buffer: what is free in HOST lies between what is not.
  world.whole("weir_buffer_destroy of half of them", [&] {
    for (size_t i = 0; i < count; i += 2) {
      if (world.buffers()[i] != nullptr)
        (void)weir_buffer_destroy(world.pool(), world.buffers()[i]);
    }
  });
  trim(world, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, "weir_pool_trim of HOST, half of it free");
  world.end();
}

/// Buffers of 256 bytes in shared pages, all on the device.
void tenants(Table &table, uint64_t count) {
  World world(
      table, "of 256 bytes, on the device", count,
      rig_of("host.memory=1G;host.granule=2M;host.granule_large=0", 2 * mib, 64 * mib, 1024 * mib));
  world.make(256);
  world.write();
  look(world);
  announce(world);
  world.per_buffer("weir_acquire and release of one that is there",
                   [&](weir_buffer buffer) { (void)world.rig().touch(buffer, WEIR_READ); });
  world.repeated("weir_malloc and weir_free of 256 bytes", 1000, [&] {
    uint64_t address = 0;
    WEIR_BENCH_TRY(weir_malloc(world.pool(), 0, world.rig().stream(), 256, &address));
    WEIR_BENCH_TRY(weir_free(world.pool(), world.rig().stream(), address));
  });
  world.rig().synchronize();
  world.destroy_some();
  world.whole("weir_buffer_destroy of three quarters of them", [&] {
    for (size_t i = 0; i < count; ++i) {
      if (i % 4 != 0 && world.buffers()[i] != nullptr)
        (void)weir_buffer_destroy(world.pool(), world.buffers()[i]);
    }
  });
  world.whole("weir_pool_defragment after that", [&] {
    weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
    desc.flags = WEIR_DEFRAGMENT_WAIT;
    WEIR_BENCH_TRY(weir_pool_defragment(world.pool(), &desc, nullptr));
  });
  world.end();
}

/// A device leaves that all are at home on: of one page, made or in HOST, or tenants.
void leaving(Table &table, uint64_t count) {
  const auto remove = [](World &world, const char *call) {
    world.whole(call,
                [&] { WEIR_BENCH_TRY(weir_pool_remove_device(world.pool(), 1, WEIR_UNLIMITED)); });
  };
  constexpr const char *call = "weir_pool_remove_device of their home";
  {
    World world(table, "of one page, made, at home on device 1", count,
                rig_of("host.devices=2;host.memory=64M;host.granule=2M;host.granule_large=0",
                       2 * mib, 32 * mib, 64 * mib, 2));
    world.make(2 * mib, 1);
    remove(world, call);
    world.end();
  }
  {
    World world(table, "of 256 bytes, on device 1", count,
                rig_of("host.devices=2;host.memory=1G;host.granule=2M;host.granule_large=0",
                       2 * mib, 1024 * mib, 1024 * mib, 2));
    world.make(256, 1);
    const weir_stream stream = world.rig().add_stream(1);
    for (const weir_buffer buffer : world.buffers())
      (void)world.rig().touch(stream, buffer, WEIR_DISCARD_WRITE);
    WEIR_BENCH_TRY(weir_stream_synchronize(stream));
    remove(world, call);
    world.end();
  }
}

/// A few buffers take turns on what room is left, beside many that stay: leased, held, or another client's.
void beside(Table &table, uint64_t count, const char *name, bool leased, bool held) {
  constexpr uint64_t page = 4 * kib;
  constexpr size_t few = 128;
  const auto rig = rig_of("host.memory=8G;host.granule=4K;host.granule_large=0", page, 256 * mib,
                          (count + few / 2) * page);
  weir_client client = nullptr;
  if (!leased && !held) {
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    desc.device_quota = few / 2 * page;
    WEIR_BENCH_TRY(weir_client_create(rig->pool(), &desc, &client));
  }
  std::vector<weir_lease> leases;
  std::vector<weir_use> uses;
  for (uint64_t i = 0; i < count; ++i) {
    weir_use use = WEIR_USE(rig->add_buffer(page), WEIR_DISCARD_WRITE);
    (void)rig->touch(use.buffer, WEIR_DISCARD_WRITE);
    if (held) WEIR_BENCH_TRY(weir_hold(rig->pool(), use.buffer, 0, &use.address));
    if (!leased) continue;
    uses.push_back(use);
    if (uses.size() < 64 && i + 1 < count) continue;  // of so many leases a stream can have 65,536
    leases.push_back(nullptr);
    WEIR_BENCH_TRY(weir_acquire(rig->pool(), rig->stream(), uses.data(), uses.size(), nullptr,
                                &leases.back()));
    uses.clear();
  }
  std::vector<weir_buffer> turns(few);
  for (weir_buffer &buffer : turns) {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = page;
    desc.client = client;
    WEIR_BENCH_TRY(weir_buffer_create(rig->pool(), &desc, &buffer));
  }
  const auto take_turns = [&](int times) {
    for (int i = 0; i < times; ++i)
      for (const weir_buffer buffer : turns) (void)rig->touch(buffer, WEIR_READ_WRITE);
    rig->synchronize();
  };
  take_turns(1);
  constexpr int times = 20;
  const double ns = time_of([&] { take_turns(times); });
  table.note(name, "weir_acquire and release of another, in HOST", each, ns / (times * few));
  for (const weir_lease lease : leases) WEIR_BENCH_TRY(weir_release(lease, rig->stream()));
}
void crowds(Table &table, uint64_t count) {
  beside(table, count, "of one page, leased", true, false);
  beside(table, count, "of one page, held", false, true);
  beside(table, count, "of one page, another client's", false, false);
}

/// The host backend, whose device 1 answers that it is lost when it is told to. Its functions have no user pointer: one at a time.
struct Losing {
  static inline const weir_backend_table *real = nullptr;
  static inline weir_backend_table table{};
  static inline std::atomic<weir_be_stream> streams[64] = {};  ///< of device 1
  static inline std::atomic<bool> lost{false};

  static bool concerns(weir_be_stream stream) {
    return lost && std::find(std::begin(streams), std::end(streams), stream) != std::end(streams);
  }
  static weir_result create(weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
    const weir_result result = real->stream_create(state, device, flags, stream);
    if (result == WEIR_SUCCESS && device == 1)
      for (auto &slot : streams) {
        weir_be_stream none{};
        if (slot.compare_exchange_strong(none, *stream)) break;
      }
    return result;
  }
  static weir_result synchronize(weir_be_state *state, weir_be_stream stream) {
    const weir_result result = real->stream_synchronize(state, stream);
    return concerns(stream) ? WEIR_ERROR_DEVICE_LOST : result;
  }
  static weir_result record(weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
    return concerns(stream) ? WEIR_ERROR_DEVICE_LOST : real->fence_record(state, stream, fence);
  }
  static const weir_backend_table *query(uint32_t abi_major) {
    real = weir_host_backend_query(abi_major);
    if (real == nullptr) return nullptr;
    table = *real;
    table.stream_create = create;
    table.stream_synchronize = synchronize;
    table.fence_record = record;
    lost = false;
    for (auto &slot : streams) slot = weir_be_stream{};
    return &table;
  }
};

/// The device is lost that all are on, and nowhere else.
void loss_of(Table &table, uint64_t count, const char *name, uint64_t size, uint64_t page,
             const char *memory) {
  weir_context_desc context = WEIR_CONTEXT_DESC_INIT;
  const weir_backend_query_fn backend = Losing::query;
  const std::string options = std::string("host.devices=2;host.granule_large=0;") + memory;
  context.flags = WEIR_CONTEXT_NO_SEARCH | WEIR_CONTEXT_NO_HOST_BACKEND;
  context.backend_count = 1;
  context.backends = &backend;
  context.options = options.c_str();
  const uint64_t bytes = count * size + 64 * page;
  World world(table, name, count,
              std::make_unique<Rig>(context, desc_of(page, 64 * mib), bytes, 2));
  world.make(size, 1);
  const weir_stream stream = world.rig().add_stream(1);
  for (const weir_buffer buffer : world.buffers())
    (void)world.rig().touch(stream, buffer, WEIR_DISCARD_WRITE);
  WEIR_BENCH_TRY(weir_stream_synchronize(stream));
  weir_use use = WEIR_USE(world.buffers()[0], WEIR_READ);
  weir_lease lease = nullptr;
  WEIR_BENCH_TRY(weir_acquire(world.pool(), stream, &use, 1, nullptr, &lease));
  Losing::lost = true;
  world.whole("the loss of the device that they are on",
              [&] { (void)weir_release(lease, stream); });
  size_t ranges = 0;
  world.whole("weir_pool_lost_ranges after it",
              [&] { WEIR_BENCH_TRY(weir_pool_lost_ranges(world.pool(), nullptr, 0, &ranges)); });
  if (ranges == 0) check(WEIR_ERROR_BACKEND, "nothing was lost");
  Losing::lost = false;  // its streams can be ended
  world.end();
}
void loss(Table &table, uint64_t count) {
  loss_of(table, count, "of one page, on device 1", 4 * kib, 4 * kib,
          "host.memory=8G;host.granule=4K");
  loss_of(table, count, "of 256 bytes, on device 1 alone", 256, 2 * mib,
          "host.memory=1G;host.granule=2M");
}

/// Two clients make, use and end buffers beside many of one of them: each in its own turn, and in turns with the other, where memory
/// that goes from one to the other is zeroed. And small ones of a client that is at its quota.
void clients(Table &table, uint64_t count) {
  World world(table, "of 256 bytes, one client's", count,
              rig_of("host.memory=2G;host.granule=64K;host.granule_large=0", 64 * kib, 64 * mib,
                     count * 256 + 64 * mib));
  world.make(256);
  world.write();
  weir_client client = nullptr;
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.device_quota = 4 * mib;
  WEIR_BENCH_TRY(weir_client_create(world.pool(), &desc, &client));
  const auto make = [&](uint64_t size, weir_client of) {
    weir_buffer_desc buffer = WEIR_BUFFER_DESC_INIT;
    buffer.size = size;
    buffer.client = of;
    weir_buffer made = nullptr;
    WEIR_BENCH_TRY(weir_buffer_create(world.pool(), &buffer, &made));
    return made;
  };
  const auto churn = [&](uint64_t size, weir_client first, weir_client second) {
    return [&world, make, size, first, second] {
      for (const weir_client of : {first, second}) {
        const weir_buffer made = make(size, of);
        (void)world.rig().touch(made, WEIR_DISCARD_WRITE);
        WEIR_BENCH_TRY(weir_buffer_destroy(world.pool(), made));
      }
    };
  };
  world.repeated("two of 256 bytes made, leased and destroyed, by one client", 2000,
                 churn(256, client, client));
  world.repeated("the same, one by each client", 2000, churn(256, nullptr, client));
  world.repeated("two of a page made, leased and destroyed, by one client", 500,
                 churn(64 * kib, client, client));
  world.repeated("the same of a page, one by each client", 500, churn(64 * kib, nullptr, client));
  std::vector<weir_buffer> turns(64 * 1024);  // four times its quota
  for (weir_buffer &buffer : turns) {
    buffer = make(256, client);
    (void)world.rig().touch(buffer, WEIR_DISCARD_WRITE);
  }
  size_t next = 0;
  world.repeated("weir_acquire and release of one of a client at its quota, in HOST", 1000, [&] {
    (void)world.rig().touch(turns[next], WEIR_READ_WRITE);
    next = (next + 4099) % turns.size();
  });
  world.rig().synchronize();
  world.end();
}

void bare_read(Table &table, uint64_t count) {
  struct alignas(64) Line {
    uint64_t next;
  };
  std::vector<Line> lines(count);
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(11));
  for (uint64_t i = 0; i < count; ++i) lines[order[i]].next = order[(i + 1) % count];
  constexpr int reads = 200'000;
  volatile uint64_t at = 0;
  const double ns = least_of(5, [&] {
    uint64_t next = at;
    for (int i = 0; i < reads; ++i) next = lines[next].next;
    at = next;
  });
  table.note("no buffers: records of 64 bytes", "a dependent read at random", each, ns / reads);
}

std::vector<uint64_t> numbers(const char *text) {
  std::vector<uint64_t> found;
  for (char *end = nullptr; *text != '\0'; text = *end == ',' ? end + 1 : end) {
    const uint64_t value = std::strtoull(text, &end, 10);
    if (end == text || value < 2) return {};
    found.push_back(value);
  }
  return found;
}

}  // namespace

int main(int argc, char **argv) {
  std::vector<uint64_t> counts = {10'000, 100'000, 1'000'000};
  std::string only;
  bool understood = argc % 2 == 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--counts") == 0) {
      counts = numbers(argv[i + 1]);
    } else if (std::strcmp(argv[i], "--only") == 0) {
      only = argv[i + 1];
    } else {
      understood = false;
    }
  }
  const std::vector<std::pair<const char *, void (*)(Table &, uint64_t)>> worlds = {
      {"read", bare_read},  {"made", made},     {"host", in_host}, {"tenants", tenants},
      {"leaving", leaving}, {"crowds", crowds}, {"loss", loss},    {"clients", clients}};
  if (!understood || counts.empty()) {
    std::fprintf(stderr,
                 "bench_growth [--counts N,N,...] [--only "
                 "read|made|host|tenants|leaving|crowds|loss|clients]\n");
    return 1;
  }
  Table table(counts);
  for (const auto &[name, run] : worlds) {
    if (!only.empty() && only != name) continue;
    for (const uint64_t count : counts) {
#if defined(__GLIBC__)
      (void)malloc_trim(0);
#endif
      std::fprintf(stderr, "%s, %llu\n", name, static_cast<unsigned long long>(count));
      run(table, count);
    }
  }
  table.print();
  return 0;
}
