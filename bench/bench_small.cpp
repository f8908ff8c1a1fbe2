// SPDX-License-Identifier: Apache-2.0
//
// What small memory costs: weir_malloc and weir_free, and a buffer's life of create, lease, release and destroy, beside the
// disjoint pool of UMF (libumf.so, from PyPI's `umf`: its path as WEIR_UMF or where the loader finds it; without it there is
// no ratio, and the line says so). Nothing here waits, so times are the thread's own of a CPU: of a busy machine's, the longer
// of two would be lengthened more. Then what a miss costs where thousands share a page, how full a budget becomes before the first
// refusal, and whether every second hole is found again.
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if a call fails.

#include "common.hpp"

#include <dlfcn.h>

#include <random>

namespace {

using namespace weir::bench;

constexpr int repetitions = 9;
constexpr int rounds = 20000;

/// UMF's disjoint pool over memory of the system, by its C ABI (version 1), for requests of up to 2 MiB.
class Umf {
 public:
  Umf() {
    const char *path = std::getenv("WEIR_UMF");
    library_ = dlopen(path != nullptr ? path : "libumf.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return;
    using Ops = const void *();
    void *settings = nullptr;
    void *provider = nullptr;
    void *sizes = nullptr;
    const bool made =
        call<int(void **)>("umfOsMemoryProviderParamsCreate", &settings) == 0 &&
        call<int(const void *, const void *, void **)>("umfMemoryProviderCreate",
                                                       call<Ops>("umfOsMemoryProviderOps"),
                                                       settings, &provider) == 0 &&
        call<int(void **)>("umfDisjointPoolParamsCreate", &sizes) == 0 &&
        call<int(void *, size_t)>("umfDisjointPoolParamsSetSlabMinSize", sizes, 2 * mib) == 0 &&
        call<int(void *, size_t)>("umfDisjointPoolParamsSetMaxPoolableSize", sizes, 2 * mib) == 0 &&
        call<int(void *, size_t)>("umfDisjointPoolParamsSetMinBucketSize", sizes, 256) == 0 &&
        call<int(const void *, void *, const void *, int, void **)>(
            "umfPoolCreate", call<Ops>("umfDisjointPoolOps"), provider, sizes, 1, &pool_) == 0;
    if (!made) {
      pool_ = nullptr;
      return;
    }
    malloc_ = find<void *(void *, size_t)>("umfPoolMalloc");
    free_ = find<int(void *, void *)>("umfPoolFree");
  }
  ~Umf() {
    if (pool_ != nullptr) (void)call<int(void *)>("umfPoolDestroy", pool_);
  }
  Umf(const Umf &) = delete;
  Umf &operator=(const Umf &) = delete;

  bool there() const { return pool_ != nullptr && malloc_ != nullptr && free_ != nullptr; }
  uint64_t take(uint64_t bytes) const {
    return reinterpret_cast<uint64_t>(malloc_(pool_, static_cast<size_t>(bytes)));
  }
  void give(uint64_t address) const { (void)free_(pool_, reinterpret_cast<void *>(address)); }
  void settle() const {}

 private:
  template <class Function>
  Function *find(const char *name) const {
    return reinterpret_cast<Function *>(dlsym(library_, name));
  }
  template <class Function, class... Arguments>
  auto call(const char *name, Arguments... arguments) const
      -> decltype(std::declval<Function>()(arguments...)) {
    Function *function = find<Function>(name);
    if (function == nullptr) {
      std::fprintf(stderr, "libumf.so has no %s\n", name);
      std::exit(1);
    }
    return function(arguments...);
  }

  void *library_ = nullptr;
  void *pool_ = nullptr;
  void *(*malloc_)(void *, size_t) = nullptr;
  int (*free_)(void *, void *) = nullptr;
};

weir_pool_desc small_pool() {
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.host_budget = WEIR_NONE;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  return desc;
}

constexpr const char *options = "host.memory=768M;host.granule=2M;host.granule_large=0";

struct Mallocs {
  Rig &rig;
  uint64_t take(uint64_t bytes) const {
    uint64_t address = 0;
    WEIR_BENCH_TRY(weir_malloc(rig.pool(), 0, nullptr, bytes, &address));
    return address;
  }
  void give(uint64_t address) const { WEIR_BENCH_TRY(weir_free(rig.pool(), nullptr, address)); }
  void settle() const { rig.synchronize(); }
};

struct Buffers {
  Rig &rig;
  uint64_t take(uint64_t bytes) const {
    weir_buffer buffer = rig.add_buffer(bytes);
    rig.touch(buffer, WEIR_DISCARD_WRITE);
    return reinterpret_cast<uint64_t>(buffer);
  }
  void give(uint64_t buffer) const {
    WEIR_BENCH_TRY(weir_buffer_destroy(rig.pool(), reinterpret_cast<weir_buffer>(buffer)));
  }
  void settle() const { rig.synchronize(); }
};

/// Nanoseconds of taking and giving back one of a size.
template <class Source>
double time_pair(const Source &source, uint64_t bytes) {
  const double start = cpu_ns();
  for (int i = 0; i < rounds; ++i) source.give(source.take(bytes));
  return (cpu_ns() - start) / rounds;
}

/// Ten thousand of random sizes that are replaced at random.
template <class Source>
class Churn {
 public:
  Churn(const Source &source, uint64_t largest) : source_(source), largest_(largest) {
    for (int i = 0; i < 10000; ++i) live_.push_back(source_.take(size()));
    source_.settle();  // fresh pages are being zeroed
  }
  ~Churn() {
    for (const uint64_t one : live_) source_.give(one);
  }
  Churn(const Churn &) = delete;
  Churn &operator=(const Churn &) = delete;
  double time() {
    const double start = cpu_ns();
    for (int i = 0; i < rounds; ++i) {
      uint64_t &one = live_[random_() % live_.size()];
      source_.give(one);
      one = source_.take(size());
    }
    return (cpu_ns() - start) / rounds;
  }

 private:
  uint64_t size() { return 256 + random_() % (largest_ - 256); }
  const Source &source_;
  uint64_t largest_;
  std::mt19937_64 random_{5};
  std::vector<uint64_t> live_;
};

template <class Source>
void pairs(const char *what, const Source &source, const Umf &umf, bool alone, const char *goal) {
  const uint64_t other = alone ? 0 : source.take(256);
  for (const uint64_t bytes : {uint64_t{256}, 4 * kib, 64 * kib}) {
    Json json("small_pair");
    json.text("what", what).text("else", alone ? "nothing live" : "one live").count("bytes", bytes);
    const Pair pair = interleave(
        repetitions, [&] { return time_pair(source, bytes); },
        [&] { return umf.there() ? time_pair(umf, bytes) : 1.0; });
    json.number("ns", pair.subject);
    if (umf.there()) {
      json.pair("subject_ns", "umf_ns", pair).text("goal", goal);
    } else {
      json.text("yardstick", "libumf.so is not here: no ratio");
    }
    json.print();
  }
  if (!alone) source.give(other);
}

template <class Source>
void churns(const char *what, const Source &source, const Umf &umf, uint64_t largest,
            const char *goal) {
  Churn<Source> churn(source, largest);
  Json json("small_churn");
  json.text("what", what).count("live", 10000).count("largest", largest);
  if (umf.there()) {
    Churn<Umf> yardstick(umf, largest);
    const Pair pair = interleave(
        repetitions, [&] { return churn.time(); }, [&] { return yardstick.time(); });
    json.pair("subject_ns", "umf_ns", pair).text("goal", goal);
  } else {
    json.number("ns", churn.time()).text("yardstick", "libumf.so is not here: no ratio");
  }
  json.print();
}

/// Live bytes at the first refusal, of random sizes that came and went before at three quarters of the budget.
void utilisation(bool buffers, uint64_t budget) {
  Rig rig(options, small_pool(), budget);
  std::mt19937_64 random(3);
  std::vector<std::pair<uint64_t, uint64_t>> live;
  uint64_t bytes = 0;
  const auto add = [&](uint64_t size) {
    uint64_t one = 0;
    if (buffers) {
      weir_buffer buffer = rig.add_buffer(size);
      weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
      weir_lease lease = nullptr;
      const weir_result result = weir_acquire(rig.pool(), rig.stream(), &use, 1, nullptr, &lease);
      if (result != WEIR_SUCCESS) {
        WEIR_BENCH_TRY(weir_buffer_destroy(rig.pool(), buffer));
        return false;
      }
      WEIR_BENCH_TRY(weir_release(lease, rig.stream()));
      one = reinterpret_cast<uint64_t>(buffer);
    } else if (weir_malloc(rig.pool(), 0, nullptr, size, &one) != WEIR_SUCCESS) {
      return false;
    }
    live.push_back({one, size});
    bytes += size;
    return true;
  };
  const auto drop = [&] {
    std::swap(live[random() % live.size()], live.back());
    const auto [one, size] = live.back();
    live.pop_back();
    bytes -= size;
    if (buffers) {
      WEIR_BENCH_TRY(weir_buffer_destroy(rig.pool(), reinterpret_cast<weir_buffer>(one)));
    } else {
      WEIR_BENCH_TRY(weir_free(rig.pool(), nullptr, one));
    }
  };
  const auto size = [&] { return 256 + random() % (mib - 256); };
  while (add(size())) {
  }
  const double first = static_cast<double>(bytes) / static_cast<double>(budget);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t next = size();
    while (bytes + next > budget / 4 * 3) drop();
    if (!add(next)) {
      std::fprintf(stderr, "refused at three quarters\n");
      break;
    }
  }
  const uint64_t taken = rig.stats().device_bytes;
  while (add(size())) {
  }
  Json("small_utilisation")
      .text("what", buffers ? "buffers" : "weir_malloc")
      .count("budget", budget)
      .number("first_fill", first)
      .number("taken_at_three_quarters", static_cast<double>(taken) / static_cast<double>(budget))
      .number("after_churn", static_cast<double>(bytes) / static_cast<double>(budget))
      .text("goal", ">= 0.95")
      .print();
  while (!live.empty()) drop();
}

/// Buffers of 256 bytes on twice the pages that the device has, one a page leased in turn, against as many buffers of a page: each lease
/// is a miss, which moves a page of as many bytes. What it costs beside that is looking for what is to leave.
void misses() {
  constexpr uint64_t page = 2 * mib;
  constexpr size_t pages = 64, each = page / 256;
  weir_pool_desc desc = small_pool();
  desc.page_size = desc.large_page_size = page;
  desc.host_budget = pages * page + 64 * mib;
  Rig small("host.memory=256M;host.granule=2M;host.granule_large=0", desc, pages / 2 * page);
  Rig large("host.memory=256M;host.granule=2M;host.granule_large=0", desc, pages / 2 * page);
  std::vector<weir_buffer> tenants, whole;
  for (size_t i = 0; i < pages * each; ++i) tenants.push_back(small.add_buffer(256));
  for (const weir_buffer buffer : tenants) (void)small.touch(buffer, WEIR_DISCARD_WRITE);
  for (size_t i = 0; i < pages; ++i) whole.push_back(large.add_buffer(page));
  for (const weir_buffer buffer : whole) (void)large.touch(buffer, WEIR_DISCARD_WRITE);
  const auto turn = [](Rig &rig, const std::vector<weir_buffer> &buffers, size_t step) {
    const double start = cpu_ns();
    for (size_t i = 0; i < pages; ++i) (void)rig.touch(buffers[i * step], WEIR_READ);
    rig.synchronize();
    return (cpu_ns() - start) / pages;
  };
  (void)turn(small, tenants, each);
  (void)turn(large, whole, 1);
  const Pair pair = interleave(
      repetitions, [&] { return turn(small, tenants, each); },
      [&] { return turn(large, whole, 1); });
  Json("small_miss")
      .count("buffers_a_page", each)
      .pair("small_ns", "page_ns", pair)
      .text("goal", "ratio <= 2")
      .print();
}

/// Of every second freed, how many fit again.
void holes(uint64_t bytes) {
  Rig rig(options, small_pool(), 320 * mib);
  std::vector<uint64_t> blocks;
  uint64_t address = 0;
  while (weir_malloc(rig.pool(), 0, nullptr, bytes, &address) == WEIR_SUCCESS)
    blocks.push_back(address);
  const size_t all = blocks.size();
  size_t freed = 0;
  for (size_t i = 0; i < all; i += 2, ++freed)
    WEIR_BENCH_TRY(weir_free(rig.pool(), nullptr, blocks[i]));
  size_t again = 0;
  std::vector<uint64_t> fresh;
  while (weir_malloc(rig.pool(), 0, nullptr, bytes, &address) == WEIR_SUCCESS) {
    fresh.push_back(address);
    ++again;
  }
  Json("small_holes")
      .count("bytes", bytes)
      .count("blocks", all)
      .count("freed", freed)
      .count("fit_again", again)
      .text("goal", "all that were freed")
      .print();
  for (size_t i = 1; i < all; i += 2) WEIR_BENCH_TRY(weir_free(rig.pool(), nullptr, blocks[i]));
  for (const uint64_t one : fresh) WEIR_BENCH_TRY(weir_free(rig.pool(), nullptr, one));
}

}  // namespace

int main() {
  const Umf umf;
  {
    Rig rig(options, small_pool(), 640 * mib);
    const Mallocs mallocs{rig};
    const Buffers buffers{rig};
    for (const bool alone : {true, false}) {
      pairs("weir_malloc, weir_free", mallocs, umf, alone, "ratio <= 5");
      pairs("create, lease, release, destroy", buffers, umf, alone, "ratio <= 8");
    }
    for (const uint64_t largest : {32 * kib, 96 * kib}) {
      churns("weir_malloc, weir_free", mallocs, umf, largest, "ratio <= 5");
      churns("create, lease, release, destroy", buffers, umf, largest, "ratio <= 8");
    }
  }
  misses();
  for (const bool buffers : {false, true}) utilisation(buffers, 320 * mib);
  for (const uint64_t bytes : {kib, 64 * kib, 768 * kib}) holes(bytes);
  return 0;
}
