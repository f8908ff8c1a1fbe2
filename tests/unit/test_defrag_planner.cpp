// SPDX-License-Identifier: Apache-2.0
//
// The planner against a shadow: places as plain maps of ranges, on which every move is carried out alone, in the plan's
// order and in any other, and must find its target free each time. Bounds hold to the byte; what is said to be won is won.

#include "core/policy/defragment_planner.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "tests/support/cmocka.hpp"

namespace {

using namespace weir::defrag;

struct Shadow {
  struct Range {
    uint64_t size;
    uint32_t tenant;
  };
  std::vector<uint64_t> sizes;
  std::vector<PlaceRole> roles;
  std::vector<std::map<uint64_t, Range>> places;
  std::vector<Tenant> tenants;

  void add_place(uint64_t size, PlaceRole role = {}) {
    if (role.worth == UINT64_MAX) role.worth = size;
    sizes.push_back(size);
    roles.push_back(role);
    places.emplace_back();
  }
  void add(Tenant tenant) {
    tenant.name = static_cast<uint32_t>(tenants.size());
    places.back().emplace(tenant.offset, Range{tenant.size, tenant.name});
    tenants.push_back(tenant);
  }
  void describe(Planner *planner) const {
    planner->clear();
    for (size_t i = 0; i < places.size(); ++i) {
      planner->add_place(sizes[i], roles[i]);
      for (const auto &[offset, range] : places[i]) planner->add_tenant(tenants[range.tenant]);
    }
  }
  bool is_free(uint32_t place, uint64_t offset, uint64_t size) const {
    if (offset + size > sizes[place]) return false;
    const auto after = places[place].lower_bound(offset);
    if (after != places[place].end() && after->first < offset + size) return false;
    if (after == places[place].begin()) return true;
    const auto before = std::prev(after);
    return before->first + before->second.size <= offset;
  }
  /// Where the free range that a move names ends.
  uint64_t end_of_hole(const Planner &planner, const Move &move) const {
    return move.before == Move::none ? sizes[move.to] : planner.tenant(move.before).offset;
  }
  void execute(const Planner &planner, const Move &move) {
    const Tenant &tenant = planner.tenant(move.tenant);
    assert_int_equal(places[move.from].count(tenant.offset), 1);
    assert_int_equal(places[move.from][tenant.offset].tenant, tenant.name);
    assert_true(tenant.movable && !tenant.filler);
    if (move.to != Move::none) {
      assert_true(is_free(move.to, move.offset, tenant.size));
      assert_int_equal(move.offset & ((uint64_t{1} << tenant.alignment_log2) - 1), 0);
      assert_true(move.offset + tenant.size <= end_of_hole(planner, move));
      if (move.before != Move::none) {
        // It is found by a tenant of the place that no move takes away.
        const Tenant &next = planner.tenant(move.before);
        assert_int_equal(places[move.to].count(next.offset), 1);
        assert_false(next.filler);
      }
      places[move.to].emplace(move.offset, Range{tenant.size, tenant.name});
    }
    places[move.from].erase(tenant.offset);
  }
};

struct Random {
  std::mt19937_64 engine;
  uint64_t below(uint64_t n) { return engine() % n; }
  uint64_t size(uint64_t most) {
    const double exponent = std::uniform_real_distribution<double>(0, 1)(engine);
    return std::max<uint64_t>(1, static_cast<uint64_t>(std::pow(double(most), exponent)));
  }
};

/// Places of one size, filled to different shares.
Shadow random_world(Random &random, uint32_t places, bool odd) {
  Shadow shadow;
  for (uint32_t p = 0; p < places; ++p) {
    const uint64_t size = 4096;
    PlaceRole role{size, true};
    if (odd && random.below(8) == 0) role.worth = 0;
    if (odd && random.below(8) == 0) role.target = false;
    shadow.add_place(size, role);
    const uint64_t fill = random.below(101);
    for (uint64_t at = 0; at < size;) {
      Tenant tenant;
      tenant.alignment_log2 = static_cast<uint8_t>(odd ? random.below(6) : 0);
      const uint64_t mask = (uint64_t{1} << tenant.alignment_log2) - 1;
      tenant.offset = (at + mask) & ~mask;
      tenant.size = random.size(512);
      if (tenant.offset + tenant.size > size) break;
      at = tenant.offset + tenant.size;
      if (random.below(100) >= fill) continue;
      tenant.movable = !odd || random.below(40) != 0;
      tenant.filler = odd && random.below(20) == 0;
      shadow.add(tenant);
    }
  }
  return shadow;
}

uint64_t used(const Shadow &shadow, uint32_t place) {
  uint64_t bytes = 0;
  for (const auto &[offset, range] : shadow.places[place]) {
    if (!shadow.tenants[range.tenant].filler) bytes += range.size;
  }
  return bytes;
}

void check_plan(Random &random, const Shadow &before, bool odd, const Bounds &bounds) {
  Planner planner(std::pmr::get_default_resource());
  std::pmr::vector<Move> moves;
  before.describe(&planner);
  const Outcome outcome = planner.evacuate(bounds, &moves);
  uint64_t bytes = 0;
  uint64_t won = 0;
  std::set<uint32_t> moved;
  for (const Move &move : moves) {
    bytes += planner.tenant(move.tenant).size;
    assert_true(moved.insert(move.tenant).second);
    assert_int_not_equal(move.to, Move::none);
    // From emptier places to fuller ones, or to such as can't be emptied.
    if (!odd) assert_true(used(before, move.from) <= used(before, move.to));
    if (move.last) won += before.roles[move.from].worth;
  }
  assert_int_equal(bytes, outcome.moved_bytes);
  assert_int_equal(won, outcome.won_bytes);
  assert_true(bytes <= bounds.bytes && moves.size() <= bounds.moves);
  Shadow in_order = before;
  for (const Move &move : moves) {
    in_order.execute(planner, move);
    if (move.last) assert_int_equal(used(in_order, move.from), 0);
  }
  // Each alone, whatever was done before it.
  Shadow in_any_order = before;
  std::shuffle(moves.begin(), moves.end(), random.engine);
  if (!moves.empty()) moves.resize(moves.size() - random.below(moves.size()));
  for (const Move &move : moves) in_any_order.execute(planner, move);
}

void evacuation_follows_its_rules(void **) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random{std::mt19937_64(seed)};
    const bool odd = seed % 2 == 0;
    const Shadow shadow = random_world(random, 1 + static_cast<uint32_t>(random.below(24)), odd);
    Bounds bounds;
    check_plan(random, shadow, odd, bounds);
    bounds.moves = random.below(40);
    check_plan(random, shadow, odd, bounds);
    bounds.moves = UINT64_MAX;
    bounds.bytes = random.below(8192);
    check_plan(random, shadow, odd, bounds);
    bounds.cost_permille = random.below(1000);
    check_plan(random, shadow, odd, bounds);
  }
}

/// Pass after pass under small bounds comes to where there is nothing more to do.
void small_passes_come_to_an_end(void **) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random{std::mt19937_64(seed)};
    Shadow shadow = random_world(random, 24, false);
    uint64_t empty_before = 0;
    uint64_t left = 0;
    for (uint32_t p = 0; p < 24; ++p) {
      empty_before += used(shadow, p) == 0 ? 1 : 0;
      left += used(shadow, p);
    }
    Planner planner(std::pmr::get_default_resource());
    std::pmr::vector<Move> moves;
    uint64_t moved = 0;
    for (int pass = 0;; ++pass) {
      assert_true(pass < 2000);
      shadow.describe(&planner);
      moves.clear();
      Bounds bounds;
      bounds.moves = 3;
      bounds.bytes = 600;
      const Outcome outcome = planner.evacuate(bounds, &moves);
      for (const Move &move : moves) {
        const uint32_t name = planner.tenant(move.tenant).name;
        shadow.execute(planner, move);
        shadow.tenants[name].offset = move.offset;
      }
      moved += outcome.moved_bytes;
      if (!outcome.bounded) break;
      assert_false(moves.empty());
    }
    uint64_t empty = 0;
    for (uint32_t p = 0; p < 24; ++p) empty += used(shadow, p) == 0 ? 1 : 0;
    // What is left fits into so many places; a good packing is near that.
    const uint64_t least = (left + 4095) / 4096;
    assert_true(24 - empty <= least + 2);
    assert_true(empty == empty_before || moved > 0);
  }
}

void what_is_pinned_keeps_its_place(void **) {
  Shadow shadow;
  shadow.add_place(100, {100, true});
  Tenant pinned;
  pinned.offset = 50;
  pinned.size = 10;
  pinned.movable = false;
  shadow.add(pinned);
  shadow.add_place(100, {100, true});
  Tenant free;
  free.offset = 20;
  free.size = 30;
  shadow.add(free);
  Planner planner(std::pmr::get_default_resource());
  std::pmr::vector<Move> moves;
  shadow.describe(&planner);
  const Outcome outcome = planner.evacuate({}, &moves);
  assert_int_equal(moves.size(), 1);
  assert_int_equal(moves[0].from, 1);
  assert_int_equal(moves[0].to, 0);
  assert_int_equal(outcome.won_bytes, 100);
}

/// One place that nothing can take in must not keep the others from being emptied.
void a_place_without_room_elsewhere_is_passed_over(void **) {
  Shadow shadow;
  shadow.add_place(1000, {1000, true});
  shadow.add({0, 400, 0, 0, true, false});  // the emptiest, but no hole is as large
  for (int i = 0; i < 2; ++i) {
    shadow.add_place(1000, {1000, true});
    for (uint64_t at = 0; at < 1000; at += 200) shadow.add({at, 100, 0, 0, true, false});
  }
  Planner planner(std::pmr::get_default_resource());
  std::pmr::vector<Move> moves;
  shadow.describe(&planner);
  const Outcome outcome = planner.evacuate({}, &moves);
  assert_int_equal(outcome.no_room_bytes, 400);
  assert_int_equal(moves.size(), 5);
  assert_int_equal(outcome.won_bytes, 1000);
}

/// The cheapest range by looking at every one.
uint64_t cheapest(const Shadow &shadow, uint64_t bytes) {
  uint64_t best = UINT64_MAX;
  for (uint64_t begin = 0; begin + bytes <= shadow.sizes[0]; ++begin) {
    uint64_t cost = 0;
    for (const auto &[offset, range] : shadow.places[0]) {
      if (offset >= begin + bytes || offset + range.size <= begin) continue;
      const Tenant &tenant = shadow.tenants[range.tenant];
      cost =
          tenant.movable && !tenant.filler && cost != UINT64_MAX ? cost + range.size : UINT64_MAX;
    }
    best = std::min(best, cost);
  }
  return best;
}

void a_range_is_cleared_at_the_least_cost(void **) {
  uint32_t cleared = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random{std::mt19937_64(seed)};
    const Shadow before = random_world(random, 1, seed % 3 == 0);
    const uint64_t bytes = 1 + random.below(2000);
    Planner planner(std::pmr::get_default_resource());
    std::pmr::vector<Move> moves;
    before.describe(&planner);
    Bounds bounds;
    bounds.may_evict = seed % 2 == 0;
    if (seed % 5 == 0) bounds.bytes = random.below(2000);
    const Outcome outcome = planner.clear_range(0, bytes, 0, bounds, &moves);
    const uint64_t least = cheapest(before, bytes);
    if (outcome.won_bytes == 0) {
      assert_true(moves.empty());
      if (bounds.may_evict) assert_true(least == UINT64_MAX || least > bounds.bytes);
      continue;
    }
    ++cleared;
    assert_int_equal(outcome.won_bytes, bytes);
    assert_true(outcome.moved_bytes <= bounds.bytes && outcome.moved_bytes >= least);
    if (bounds.may_evict && least == 0) assert_int_equal(outcome.moved_bytes, 0);
    std::shuffle(moves.begin(), moves.end(), random.engine);
    Shadow shadow = before;
    uint64_t moved = 0;
    for (const Move &move : moves) {
      assert_true(bounds.may_evict || move.to != Move::none);
      moved += planner.tenant(move.tenant).size;
      shadow.execute(planner, move);
    }
    assert_int_equal(moved, outcome.moved_bytes);
    assert_true(shadow.is_free(0, outcome.range, bytes));
  }
  assert_true(cleared > 150);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(evacuation_follows_its_rules),
      cmocka_unit_test(small_passes_come_to_an_end),
      cmocka_unit_test(what_is_pinned_keeps_its_place),
      cmocka_unit_test(a_place_without_room_elsewhere_is_passed_over),
      cmocka_unit_test(a_range_is_cleared_at_the_least_cost),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
