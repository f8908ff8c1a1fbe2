// SPDX-License-Identifier: Apache-2.0
//
// What the offset allocator costs and wastes, through the C ABI: an allocate and a free on three loads against a
// std::map best fit and the C library's malloc, a refusal against a success, and how full a line is at the first
// refusal. Prints one JSON object with the goals beside the figures; the ratios are what to compare between
// machines, the times are not.
//
//   bench_arena [pairs|refusals|fill]...
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if an allocator misbehaves.

#include "bench/arena/allocators.hpp"
#include "bench/arena/loads.hpp"
#include "bench/arena/pairs.hpp"

#include <string_view>

namespace {

using namespace weir::bench;

double mean(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// ---- a pair at 10,000 live ----

void print_pairs() {
  constexpr int repetitions = 9;
  for (const Load &load : all_loads()) {
    const PairCost cost = measure_pairs(load, repetitions);
    std::printf(
        ",\n  \"pair_%s\": {\"load\": \"%s\", \"arena_ns\": %.1f, \"map_best_fit_ns\": %.1f, "
        "\"malloc_ns\": %.1f,\n    \"to_map\": %.4f, \"to_map_low\": %.4f, \"to_map_high\": %.4f, "
        "\"goal\": \"<= %.2f\", \"to_malloc\": %.3f}",
        load.name, load.what, cost.arena_ns, cost.map_ns, cost.malloc_ns, cost.to_map,
        cost.to_map_low, cost.to_map_high, load.goal, cost.to_malloc);
  }
  std::printf(
      ",\n  \"malloc\": \"the same sizes, a byte for each 256, never touched; M_MMAP_THRESHOLD 32 "
      "MiB "
      "and no trimming, so that it makes no system calls\"");
}

// ---- a refusal against a success ----

/// What is asked for that the arena has not got.
struct Refusal {
  const char *name;
  uint64_t size;
  uint64_t alignment;
};

void print_refusals() {
  WeirArena arena(72 * gib);
  Sizes sizes(3);
  std::vector<Range> live(live_count);
  for (Range &range : live) range = arena.allocate(sizes());
  const auto replace = [&](size_t slot) {
    if (live[slot].size != 0) arena.free(live[slot]);
    live[slot] = arena.allocate(sizes());
  };
  for (int i = 0; i < 100000; ++i) replace(sizes.below(live_count));
  // Take what is left of the end, so that a request may be smaller than all free units together and still fail.
  while (arena.allocate(uint64_t{64} << 20).size != 0) {
  }
  constexpr size_t count = 64;
  std::vector<double> success, refused[3];
  const char *names[3] = {};
  for (int round = 0; round < 401; ++round) {
    std::vector<std::pair<size_t, uint64_t>> steps(count);
    for (auto &[slot, size] : steps) {
      slot = sizes.below(live_count);
      size = sizes();
      if (live[slot].size != 0) arena.free(live[slot]);
      live[slot] = {};
    }
    const weir_arena_stats stats = arena.stats();
    if (stats.largest_free + count * quantum > stats.free) die("nothing is fragmented");
    const Refusal refusals[3] = {
        {"no_range_though_bytes_suffice", stats.largest_free + quantum, quantum},
        {"bytes_do_not_suffice", stats.free + quantum, quantum},
        {"no_range_at_1_GiB_alignment", stats.largest_free / 2 + quantum, gib}};
    for (size_t kind = 0; kind < 3; ++kind) {
      const Refusal &refusal = refusals[kind];
      names[kind] = refusal.name;
      size_t given = 0;
      const double ns = nanoseconds([&] {
        for (uint64_t i = 0; i < count; ++i) {
          const Range range = arena.allocate(refusal.size + i * quantum, refusal.alignment);
          if (range.size == 0) continue;
          ++given;  // by luck, at a multiple of 1 GiB
          arena.free(range);
        }
      });
      if (given != 0 && kind != 2) die("what can't be had was given");
      if (given == 0) refused[kind].push_back(ns / count);
    }
    success.push_back(nanoseconds([&] {
                        for (const auto &[slot, size] : steps) {
                          if (live[slot].size == 0) live[slot] = arena.allocate(size);
                        }
                      }) /
                      count);
  }
  const double good = undisturbed(success);
  std::printf(",\n  \"refusal\": {\"success_ns\": %.1f, \"goal\": \"< 1.5\"", good);
  for (size_t kind = 0; kind < 3; ++kind) {
    if (!refused[kind].empty()) {
      std::printf(", \"%s\": %.3f", names[kind], undisturbed(refused[kind]) / good);
    }
  }
  std::printf("}");
}

// ---- how full it is when it first refuses ----

/// Below `filled` it only allocates; above, that share of the operations allocates and the rest frees.
struct Filling {
  const char *name;
  double filled;
  unsigned allocate_percent;
};
constexpr Filling fillings[] = {{"growing_55", 0, 55}, {"growing_60", 0, 60}, {"full", 0.9, 50}};
constexpr uint64_t fill_size = 40 * gib;
constexpr uint64_t seeds = 8;

struct Filled {
  double utilisation;
  uint64_t live;
};

template <class Allocator>
Filled fill(Allocator &allocator, const Filling &filling, uint64_t seed) {
  Sizes sizes(seed);
  std::vector<Range> live;
  uint64_t used = 0;
  for (;;) {
    const double share = double(used) / double(fill_size);
    if (live.empty() || share < filling.filled || sizes.below(100) < filling.allocate_percent) {
      const Range range = allocator.allocate(sizes());
      if (range.size == 0) return {share, live.size()};
      live.push_back(range);
      used += rounded(range.size);
    } else {
      std::swap(live[sizes.below(live.size())], live.back());
      allocator.free(live.back());
      used -= rounded(live.back().size);
      live.pop_back();
    }
  }
}

void print_fill(const Filling &filling, const char *goal) {
  std::vector<double> arena_fill, map_fill, bytes;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    WeirArena arena(fill_size);
    MapBestFit map(fill_size);
    const Filled filled = fill(arena, filling, seed);
    arena_fill.push_back(filled.utilisation);
    bytes.push_back(double(arena.stats().node_bytes) / double(filled.live));
    map_fill.push_back(fill(map, filling, seed).utilisation);
  }
  std::printf(
      ",\n  \"utilisation_%s\": {\"mean\": %.4f, \"min\": %.4f, %s\"map_best_fit_mean\": %.4f, "
      "\"map_best_fit_min\": %.4f, \"ratio\": %.4f, \"node_bytes_per_live\": %.1f}",
      filling.name, mean(arena_fill), *std::min_element(arena_fill.begin(), arena_fill.end()), goal,
      mean(map_fill), *std::min_element(map_fill.begin(), map_fill.end()),
      mean(arena_fill) / mean(map_fill), mean(bytes));
}

}  // namespace

int main(int count, char **arguments) {
  if (count == 4 && std::string_view("--one") == arguments[1]) {
    return run_one(arguments[2], arguments[3]);
  }
  const auto wanted = [&](std::string_view part) {
    bool named = false;
    for (int i = 1; i < count; ++i) named = named || part == arguments[i];
    return named || count == 1;
  };
  std::printf("{\n  \"bench\": \"arena\",\n  \"live\": %zu", live_count);
  if (wanted("pairs")) print_pairs();
  if (wanted("refusals")) print_refusals();
  if (wanted("fill")) {
    // The field notes' figures (a map best fit 96.1 %) are those of 55 in a hundred; the goals are for that one.
    print_fill(fillings[0], "\"goal\": \"mean >= 0.96 (stretch 0.965), min >= 0.95\", ");
    print_fill(fillings[1], "");
    print_fill(fillings[2], "");
  }
  std::printf("\n}\n");
  return 0;
}
