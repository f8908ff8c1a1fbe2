// SPDX-License-Identifier: Apache-2.0
//
// What the offset allocator costs and wastes, through the C ABI, against a std::map best fit in the same
// run. Prints one JSON object; the ratios are what to compare between machines, the times are not. Short
// rounds of the two allocators alternate and a low percentile of each is taken, against busy neighbours.
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if an allocator misbehaves.

#include <weir/arena.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace {

constexpr uint64_t quantum = 256;
constexpr uint64_t gib = uint64_t{1} << 30;
constexpr uint64_t smallest = 256;
constexpr uint64_t largest = uint64_t{64} << 20;

[[noreturn]] void die(const char *what) {
  std::fprintf(stderr, "bench_arena: %s: %s\n", what, weir_last_error());
  std::exit(1);
}

/// A range as the caller keeps it: `name` is what the allocator wants back. Size 0: none.
struct Range {
  uint64_t name = 0;
  uint64_t size = 0;
};

class WeirArena {
 public:
  explicit WeirArena(uint64_t size) {
    weir_arena_desc desc = WEIR_ARENA_DESC_INIT;
    desc.size = size;
    desc.quantum = quantum;
    if (weir_arena_create(&desc, &arena_) != WEIR_SUCCESS) die("create");
  }
  ~WeirArena() { weir_arena_destroy(arena_); }
  WeirArena(const WeirArena &) = delete;
  WeirArena &operator=(const WeirArena &) = delete;

  Range allocate(uint64_t size) {
    Range range{0, size};
    uint64_t offset = 0;
    const weir_result result = weir_arena_allocate(arena_, size, quantum, &range.name, &offset);
    if (result == WEIR_SUCCESS) return range;
    if (result != WEIR_ERROR_OVER_BUDGET) die("allocate");
    return {};
  }
  void free(const Range &range) {
    if (weir_arena_free(arena_, range.name) != WEIR_SUCCESS) die("free");
  }
  weir_arena_stats stats() const {
    weir_arena_stats stats = WEIR_ARENA_STATS_INIT;
    if (weir_arena_stats_get(arena_, &stats) != WEIR_SUCCESS) die("stats");
    return stats;
  }

 private:
  weir_arena arena_ = nullptr;
};

class MapBestFit {
 public:
  explicit MapBestFit(uint64_t size) { add(0, size); }

  Range allocate(uint64_t size) {
    size = (size + quantum - 1) & ~(quantum - 1);
    const auto found = by_size_.lower_bound({size, 0});
    if (found == by_size_.end()) return {};
    const auto [length, offset] = *found;
    by_size_.erase(found);
    by_offset_.erase(offset);
    if (length > size) add(offset + size, length - size);
    return Range{offset, size};
  }
  void free(const Range &range) {
    uint64_t begin = range.name;
    uint64_t end = begin + range.size;
    auto after = by_offset_.lower_bound(begin);
    if (after != by_offset_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == begin) {
        begin = before->first;
        remove(before);
      }
    }
    if (after != by_offset_.end() && after->first == end) {
      end += after->second;
      remove(after);
    }
    add(begin, end - begin);
  }

 private:
  using ByOffset = std::map<uint64_t, uint64_t>;
  void add(uint64_t offset, uint64_t length) {
    by_offset_.emplace(offset, length);
    by_size_.emplace(length, offset);
  }
  void remove(ByOffset::iterator range) {
    by_size_.erase({range->second, range->first});
    by_offset_.erase(range);
  }

  ByOffset by_offset_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;
};

class Sizes {
 public:
  explicit Sizes(uint64_t seed) : engine_(seed) {}
  uint64_t operator()() { return static_cast<uint64_t>(std::exp2(exponent_(engine_))); }
  size_t below(size_t limit) { return static_cast<size_t>(engine_() % limit); }

 private:
  std::mt19937_64 engine_;
  std::uniform_real_distribution<double> exponent_{std::log2(double(smallest)),
                                                   std::log2(double(largest))};
};

/// A low percentile: what the work costs when no neighbour on the machine interferes.
double undisturbed(std::vector<double> values) {
  const auto tenth = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), tenth, values.end());
  return *tenth;
}

double mean(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

template <class Body>
double nanoseconds(Body &&body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// ---- a pair at 10,000 live ----

constexpr size_t live_count = 10000;

/// What to replace and by how much, drawn before the clock runs.
struct Step {
  size_t slot;
  uint64_t size;
};

template <class Allocator>
class Churn {
 public:
  explicit Churn(Sizes sizes) : allocator_(72 * gib), live_(live_count) {
    for (auto &slot : live_) slot = allocator_.allocate(sizes());
  }
  double run(const std::vector<Step> &steps) {
    return nanoseconds([&] {
             for (size_t i = 0; i < steps.size(); ++i) {
               // The caller has the handle at hand: finding it in this table is not the allocator's cost.
               if (i + 8 < steps.size()) __builtin_prefetch(&live_[steps[i + 8].slot], 1);
               replace(steps[i]);
             }
           }) /
           static_cast<double>(steps.size());
  }
  void replace(const Step &step) {
    drop(step);
    take(step);
  }
  void drop(const Step &step) {
    Range &range = live_[step.slot];
    if (range.size != 0) allocator_.free(range);
    range.size = 0;
  }
  void take(const Step &step) {
    Range &range = live_[step.slot];
    if (range.size == 0) range = allocator_.allocate(step.size);
  }
  Allocator &allocator() { return allocator_; }

 private:
  Allocator allocator_;
  std::vector<Range> live_;
};

std::vector<Step> draw(Sizes &sizes, size_t count) {
  std::vector<Step> steps(count);
  for (Step &step : steps) step = {sizes.below(live_count), sizes()};
  return steps;
}

struct PairCost {
  double arena_ns, map_ns, ratio;
};

PairCost measure_pairs() {
  Churn<WeirArena> arena(Sizes(1));
  Churn<MapBestFit> map(Sizes(1));
  Sizes sizes(2);
  const auto warm = draw(sizes, 100000);
  arena.run(warm);
  map.run(warm);
  std::vector<double> arena_ns, map_ns;
  for (int round = 0; round < 121; ++round) {
    const auto steps = draw(sizes, 4000);
    const auto before = draw(sizes, 4000);  // the other one's nodes leave the cache, untimed
    arena.run(before);
    arena_ns.push_back(arena.run(steps));
    map.run(before);
    map_ns.push_back(map.run(steps));
  }
  const double arena_cost = undisturbed(arena_ns), map_cost = undisturbed(map_ns);
  return {arena_cost, map_cost, arena_cost / map_cost};
}

// ---- a refusal against a success ----

struct RefusalCost {
  double success_ns, refusal_ns, ratio;
};

RefusalCost measure_refusals() {
  Churn<WeirArena> arena(Sizes(3));
  Sizes sizes(4);
  arena.run(draw(sizes, 100000));
  // Take what is left of the end, so that a request may be smaller than all free units together and still fail.
  while (arena.allocator().allocate(largest).size != 0) {
  }
  std::vector<double> success_ns, refusal_ns;
  for (int round = 0; round < 401; ++round) {
    const auto steps = draw(sizes, 64);
    for (const Step &step : steps) arena.drop(step);
    const uint64_t too_much = arena.allocator().stats().largest_free + quantum;
    if (too_much > arena.allocator().stats().free) die("nothing is fragmented");
    refusal_ns.push_back(nanoseconds([&] {
                           for (uint64_t i = 0; i < steps.size(); ++i) {
                             if (arena.allocator().allocate(too_much + i * quantum).size != 0)
                               die("refusal");
                           }
                         }) /
                         static_cast<double>(steps.size()));
    success_ns.push_back(nanoseconds([&] {
                           for (const Step &step : steps) arena.take(step);
                         }) /
                         static_cast<double>(steps.size()));
  }
  const double success = undisturbed(success_ns), refusal = undisturbed(refusal_ns);
  return {success, refusal, refusal / success};
}

// ---- how full it is when it first refuses ----

/// Below `filled` it only allocates; above, that share of the operations allocates and the rest frees.
struct Load {
  const char *name;
  double filled;
  unsigned allocate_percent;
};
constexpr Load loads[] = {{"growing", 0, 60}, {"full", 0.9, 50}};
constexpr uint64_t fill_size = 40 * gib;
constexpr uint64_t seeds = 8;

struct Fill {
  double utilisation;
  uint64_t live;
};

template <class Allocator>
Fill fill(Allocator &allocator, const Load &load, uint64_t seed) {
  Sizes sizes(seed);
  std::vector<Range> live;
  uint64_t used = 0;
  for (;;) {
    const double share = double(used) / double(fill_size);
    if (live.empty() || share < load.filled || sizes.below(100) < load.allocate_percent) {
      const Range range = allocator.allocate(sizes());
      if (range.size == 0) return {share, live.size()};
      live.push_back(range);
      used += (range.size + quantum - 1) & ~(quantum - 1);
    } else {
      std::swap(live[sizes.below(live.size())], live.back());
      allocator.free(live.back());
      used -= (live.back().size + quantum - 1) & ~(quantum - 1);
      live.pop_back();
    }
  }
}

void print_fill(const Load &load) {
  std::vector<double> arena_fill, map_fill, bytes;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    WeirArena arena(fill_size);
    MapBestFit map(fill_size);
    const Fill filled = fill(arena, load, seed);
    arena_fill.push_back(filled.utilisation);
    bytes.push_back(double(arena.stats().node_bytes) / double(filled.live));
    map_fill.push_back(fill(map, load, seed).utilisation);
  }
  std::printf(
      "  \"utilisation_%s\": {\"mean\": %.4f, \"min\": %.4f, \"map_best_fit_mean\": %.4f, "
      "\"ratio\": %.4f, \"node_bytes_per_live\": %.1f},\n",
      load.name, mean(arena_fill), *std::min_element(arena_fill.begin(), arena_fill.end()),
      mean(map_fill), mean(arena_fill) / mean(map_fill), mean(bytes));
}

}  // namespace

int main() {
  std::printf("{\n  \"bench\": \"arena\",\n");
  const PairCost pair = measure_pairs();  // first: a worn heap would slow the map alone
  const RefusalCost refusal = measure_refusals();
  for (const Load &load : loads) print_fill(load);
  std::printf(
      "  \"pair\": {\"live\": %zu, \"arena_ns\": %.1f, \"map_best_fit_ns\": %.1f, \"ratio\": "
      "%.4f},\n"
      "  \"refusal\": {\"success_ns\": %.1f, \"refusal_ns\": %.1f, \"ratio\": %.3f}\n}\n",
      live_count, pair.arena_ns, pair.map_ns, pair.ratio, refusal.success_ns, refusal.refusal_ns,
      refusal.ratio);
  return 0;
}
