// SPDX-License-Identifier: Apache-2.0
//
// What planning a compaction costs, and what the plans win. Places are filled by best fit, then tenants die at random,
// some places losing more of them than others; the plan is timed against an insert and an erase in a std::map of as many
// entries as there are tenants, in the same run: the ratio is what to compare between machines. Beside it: bytes moved
// for each byte won, at all that can be won and at half of it.
//
//   bench_defrag [--seed N] [--tenants N]...
//
// Must never judge: it exits 0 whatever the numbers are.

#include "common.hpp"

#include "core/base/clock.hpp"
#include "core/policy/defragment_planner.hpp"

#include <cmath>
#include <map>
#include <random>

namespace {

using namespace weir::bench;
using namespace weir::defrag;

/// What this thread has used of a CPU: neighbours on the machine are not counted.
double cpu_ns() { return static_cast<double>(weir::Clock().thread_cpu_ns()); }

constexpr uint64_t place_bytes = 8 * mib;

struct Range {
  uint64_t offset, size;
};
using World = std::vector<std::vector<Range>>;

/// Tenants of 256 bytes to 512 KiB, log-uniform; of each place a share that is its own dies.
World make_world(std::mt19937_64 &random, size_t live) {
  std::uniform_real_distribution<double> exponent(std::log2(256.0), std::log2(512.0 * 1024));
  std::uniform_real_distribution<double> share(0, 1);
  World world;
  for (size_t count = 0; count < live;) {
    const double survivors = share(random);
    world.emplace_back();
    for (uint64_t at = 0;;) {
      const uint64_t size = (static_cast<uint64_t>(std::exp2(exponent(random))) + 255) / 256 * 256;
      if (at + size > place_bytes) break;
      if (share(random) < survivors) {
        world.back().push_back(Range{at, size});
        ++count;
      }
      at += size;
    }
  }
  return world;
}

void describe(const World &world, Planner *planner) {
  planner->clear();
  for (const auto &place : world) {
    planner->add_place(place_bytes, PlaceRole{place_bytes, true});
    for (const Range &range : place)
      planner->add_tenant(Tenant{range.offset, range.size, 0, 8, true, false});
  }
}

/// Nanoseconds for an insert and an erase, at random, in a map of that many entries.
double map_operation(std::mt19937_64 &random, size_t entries) {
  std::map<uint64_t, uint64_t> map;
  std::vector<uint64_t> keys(entries);
  for (uint64_t &key : keys) map.emplace(key = random(), 0);
  constexpr size_t operations = 20000;
  const double start = cpu_ns();
  for (size_t i = 0; i < operations; ++i) {
    uint64_t &key = keys[random() % entries];
    map.erase(key);
    map.emplace(key = random(), i);
  }
  return (cpu_ns() - start) / operations;
}

void run(uint64_t seed, size_t tenants) {
  std::mt19937_64 random(seed);
  const World world = make_world(random, tenants);
  Planner planner(std::pmr::get_default_resource());
  std::pmr::vector<Move> moves;
  Outcome all;
  const Pair pair = interleave(
      5,
      [&] {
        describe(world, &planner);
        moves.clear();
        moves.shrink_to_fit();
        const double start = cpu_ns();
        all = planner.evacuate({}, &moves);
        return (cpu_ns() - start) / static_cast<double>(std::max<size_t>(moves.size(), 1));
      },
      [&] { return map_operation(random, tenants); });
  const size_t count = moves.size();
  // The cheap half: what a caller with a bound gets first.
  Bounds bounds;
  bounds.bytes = all.moved_bytes / 4;
  moves.clear();
  const Outcome part = planner.evacuate(bounds, &moves);
  const auto per_byte = [](const Outcome &outcome) {
    return outcome.won_bytes != 0
               ? static_cast<double>(outcome.moved_bytes) / static_cast<double>(outcome.won_bytes)
               : 0.0;
  };
  Json("defrag_planner")
      .count("seed", seed)
      .count("tenants", tenants)
      .count("places", world.size())
      .count("moves", count)
      .pair("ns_per_move", "ns_per_map_operation", pair)
      .text("goal_ns_per_move", "<= 1000")
      .number("moved_per_won", per_byte(all))
      .number("moved_per_won_quarter", per_byte(part))
      .text("goal_moved_per_won", "<= 0.4")
      .number("won_share",
              static_cast<double>(all.won_bytes) / static_cast<double>(world.size() * place_bytes))
      .print();
}

}  // namespace

int main(int argc, char **argv) {
  uint64_t seed = 1;
  std::vector<size_t> sizes;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--tenants") sizes.push_back(std::strtoull(argv[i + 1], nullptr, 10));
  }
  if (sizes.empty()) sizes = {10'000, 100'000, 1'000'000};
  for (const size_t tenants : sizes) run(seed, tenants);
  return 0;
}
