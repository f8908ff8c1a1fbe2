// SPDX-License-Identifier: Apache-2.0
//
// The bound on time: worked examples, and random plans against a search through everything that can be in memory, byte by byte.
#include "tests/tools/plan_script.hpp"
#include "tests/tools/trace_files.hpp"

#include "tools/weir/bound.hpp"

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

namespace {

using namespace weir::tool;
using weir::test::PlanScript;
using weir::test::ScriptUse;

/// An operation takes its flops in seconds, a byte takes a second each way.
constexpr Pace pace{1, 1e18, 1, 1};

void is_the_compute_where_all_fits(void **) {
  PlanScript script;
  script.birth(10);
  script.birth(10);
  for (int i = 0; i < 5; ++i) script.operation({{0, plan_update}, {1, plan_update}}, {}, 3);
  const Bound bound = least_time(script.plan(), 20, pace);
  assert_int_equal(bound.fetched, 0);
  assert_true(bound.simple_seconds == 15);
  assert_true(bound.seconds == 15);
}

/// Eight blocks are written one after the other and read in the opposite order.
PlanScript there_and_back(uint64_t flops) {
  PlanScript script;
  for (uint32_t i = 0; i < 8; ++i) script.birth(10);
  for (uint32_t i = 0; i < 8; ++i) script.operation({{i, plan_write}}, {}, flops);
  for (uint32_t i = 8; i-- > 0;) script.operation({{i, plan_read}}, {i}, flops);
  return script;
}

void adds_up_what_goes_down_before_it_comes_up(void **) {
  // Four blocks stay. Four go down while all are written, and come up while all are read: 40 s and 40 s.
  const PlanScript script = there_and_back(1);
  const Bound bound = least_time(script.plan(), 40, pace);
  assert_int_equal(bound.fetched, 40);
  assert_true(bound.simple_seconds == 40);
  assert_true(bound.seconds == 80);
  // With one segment it is the simple bound.
  assert_true(least_time(script.plan(), 40, pace, false, 1).seconds == 40);
  // Where computing takes longer than both, that is all.
  const Bound slow = least_time(there_and_back(6).plan(), 40, pace);
  assert_true(slow.simple_seconds == 96);
  assert_true(slow.seconds == 96);
  // A pace twice as slow slows links and operations alike.
  Pace half = pace;
  half.slow = 2;
  assert_true(least_time(script.plan(), 40, half).seconds == 160);
}

void spares_what_dies_and_what_is_overwritten(void **) {
  PlanScript dead;
  for (uint32_t i = 0; i < 8; ++i) dead.birth(10);
  for (uint32_t i = 0; i < 8; ++i) dead.operation({{i, plan_write}}, {i}, 1);
  assert_true(least_time(dead.plan(), 10, pace).seconds == 8);
  PlanScript over;
  for (uint32_t i = 0; i < 8; ++i) over.birth(10);
  for (int round = 0; round < 3; ++round)
    for (uint32_t i = 0; i < 8; ++i) over.operation({{i, plan_write}}, {}, 1);
  assert_true(least_time(over.plan(), 10, pace).seconds == 24);
}

void what_only_stays_is_sent_once(void **) {
  // Written once and read round by round, by turns: in each round 20 of 40 bytes come up, and 20 went down once.
  PlanScript script;
  for (uint32_t i = 0; i < 4; ++i) script.birth(10);
  for (uint32_t i = 0; i < 4; ++i) script.operation({{i, plan_write}});
  for (int round = 0; round < 4; ++round)
    for (uint32_t i = 0; i < 4; ++i) script.operation({{i, plan_read}});
  const Bound bound = least_time(script.plan(), 20, pace);
  // Of four in a circle Belady keeps one of two places for a block that comes round again: 2, then 2 2/3 a round.
  assert_in_range(bound.fetched, 80, 120);
  assert_true(bound.seconds >= static_cast<double>(bound.fetched));
}

// ---- against a search ----

/// The plan's bytes, each a bit; what an operation needs and writes of them.
struct Bits {
  explicit Bits(const Plan &plan) {
    uint32_t at = 0;
    for (const uint64_t bytes : plan.block_bytes) {
      begin.push_back(at);
      at += static_cast<uint32_t>(bytes);
    }
    assert_true(at <= 12);
    all = (1U << at) - 1;
  }
  uint32_t of(uint32_t block, uint64_t offset, uint64_t length) const {
    return ((1U << length) - 1) << (begin[block] + offset);
  }
  std::vector<uint32_t> begin;
  uint32_t all = 0;
};

/// The least bytes that come in, over everything that can be kept at each step.
uint64_t by_searching(const Plan &plan, uint64_t capacity) {
  const Bits bits(plan);
  constexpr uint64_t never = UINT64_MAX;
  std::vector<uint64_t> cost(bits.all + 1, never);
  cost[0] = 0;
  uint32_t content = 0;
  for (const PlanOperation &operation : plan.operations) {
    uint32_t reads = 0, writes = 0;
    uint64_t span = operation.spans;
    for (uint64_t i = operation.body; i < operation.end; ++i) {
      const PlanKind kind = plan_kind(plan.events[i]);
      if (!plan_is_use(kind)) continue;
      const uint32_t block = plan_block(plan.events[i]);
      PlanSpan part{0, plan.block_bytes[block]};
      if (plan_has_span(kind)) part = plan.spans[span++];
      const uint32_t mask = bits.of(block, part.offset, part.length);
      if (plan_mode(kind) != plan_write) reads |= mask;
      if (plan_mode(kind) != plan_read) writes |= mask;
    }
    const uint32_t set = reads | writes, needed = reads & content;
    std::vector<uint64_t> after(bits.all + 1, never);
    for (uint32_t there = 0; there <= bits.all; ++there) {
      if (cost[there] == never) continue;
      const uint64_t now = cost[there] + static_cast<uint64_t>(std::popcount(needed & ~there));
      // What stays beside the set, and then what stays of the set.
      const uint32_t rest = there & ~set;
      for (uint32_t beside = rest;; beside = (beside - 1) & rest) {
        if (static_cast<uint64_t>(std::popcount(beside | set)) <= capacity || beside == 0) {
          const uint32_t now_there = (beside | set) & (content | writes);
          after[now_there] = std::min(after[now_there], now);
        }
        if (beside == 0) break;
      }
    }
    // Anything may be dropped, and more than the capacity never stays.
    for (uint32_t there = bits.all + 1; there-- > 0;)
      for (uint32_t bit = 1; bit <= bits.all && after[there] != never; bit <<= 1U)
        if ((there & bit) != 0) after[there & ~bit] = std::min(after[there & ~bit], after[there]);
    for (uint32_t there = 0; there <= bits.all; ++there)
      if (static_cast<uint64_t>(std::popcount(there)) > capacity) after[there] = never;
    cost = after;
    content |= writes;
  }
  return *std::min_element(cost.begin(), cost.end());
}

PlanScript random_plan(std::mt19937 &random, bool parts) {
  PlanScript script;
  const auto blocks = static_cast<uint32_t>(3 + random() % 3);
  std::vector<uint64_t> sizes;
  for (uint32_t i = 0; i < blocks; ++i) {
    sizes.push_back(1 + random() % 2);
    script.birth(sizes.back());
  }
  for (int op = 0; op < 30; ++op) {
    std::vector<ScriptUse> uses;
    for (uint32_t i = 0; i < 1 + random() % 2; ++i) {
      const auto block = static_cast<uint32_t>(random() % blocks);
      const auto kind = static_cast<PlanKind>(plan_read + random() % (parts ? 6 : 3));
      const uint64_t offset = random() % sizes[block];
      uses.push_back({block, kind, {offset, 1 + random() % (sizes[block] - offset)}});
    }
    script.operation(uses);
  }
  return script;
}

void whole_blocks_cost_what_a_search_finds(void **) {
  std::mt19937 random(5);
  uint64_t moved = 0;
  for (int round = 0; round < 300; ++round) {
    const PlanScript script = random_plan(random, false);
    const uint64_t capacity = 2 + random() % 5;
    const uint64_t found = by_searching(script.plan(), capacity);
    assert_int_equal(least_time(script.plan(), capacity, pace).fetched, found);
    moved += found;
  }
  assert_true(moved > 1000);  // else nothing was compared
}

void parts_of_blocks_never_cost_more(void **) {
  std::mt19937 random(6);
  uint64_t bounds = 0, found = 0;
  for (int round = 0; round < 300; ++round) {
    const PlanScript script = random_plan(random, true);
    const uint64_t capacity = 2 + random() % 5;
    const uint64_t least = by_searching(script.plan(), capacity);
    const uint64_t bound = least_time(script.plan(), capacity, pace).fetched;
    assert_true(bound <= least);
    bounds += bound;
    found += least;
  }
  assert_true(bounds * 10 > found * 7);  // and not by much less
}

// ---- against a policy ----

/// Whole blocks, thrown out at random, one thing done after the other: a time that can be reached.
double by_serving(const Plan &plan, uint64_t capacity, std::mt19937 &random) {
  struct Block {
    bool there = false, content = false, dirty = false;
  };
  std::vector<Block> blocks(plan.block_bytes.size());
  double seconds = 0;
  uint64_t held = 0;
  for (const PlanOperation &operation : plan.operations) {
    seconds += pace.seconds(plan, operation);
    std::vector<uint32_t> set;
    for (uint64_t i = operation.body; i < operation.end; ++i) {
      const uint32_t used = plan_block(plan.events[i]);
      Block &block = blocks[used];
      const PlanKind kind = plan_kind(plan.events[i]);
      set.push_back(used);
      if (!block.there) {
        block.there = true;
        held += plan.block_bytes[used];
        if (block.content && kind != plan_write)
          seconds += static_cast<double>(plan.block_bytes[used]);
      }
      if (kind != plan_read) block.content = block.dirty = true;
    }
    while (held > capacity) {
      const auto victim = static_cast<uint32_t>(random() % blocks.size());
      Block &block = blocks[victim];
      if (!block.there || std::find(set.begin(), set.end(), victim) != set.end()) continue;
      if (block.dirty) seconds += static_cast<double>(plan.block_bytes[victim]);
      block.there = block.dirty = false;
      held -= plan.block_bytes[victim];
    }
  }
  return seconds;
}

void no_policy_is_below_it(void **) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    PlanScript script;
    for (uint32_t i = 0; i < 6; ++i) script.birth(1 + random() % 9);
    for (int op = 0; op < 30; ++op)
      script.operation(
          {{static_cast<uint32_t>(random() % 6), static_cast<PlanKind>(plan_read + random() % 3)}},
          {}, random() % 5);
    const Bound bound = least_time(script.plan(), 18, pace);
    assert_true(bound.seconds >= bound.simple_seconds);
    for (int tries = 0; tries < 5; ++tries)
      assert_true(bound.seconds <= by_serving(script.plan(), 18, random));
  }
}

void more_cuts_never_bound_less(void **) {
  std::mt19937 random(8);
  for (int round = 0; round < 30; ++round) {
    PlanScript script;
    for (uint32_t i = 0; i < 8; ++i) script.birth(1 + random() % 9);
    for (int op = 0; op < 64; ++op)
      script.operation(
          {{static_cast<uint32_t>(random() % 8), random() % 2 == 0 ? plan_update : plan_read}}, {},
          1);
    // Cuts at each operation have those of any other number among them.
    const double all = least_time(script.plan(), 20, pace, false, 100'000).seconds;
    for (const uint32_t cuts : {1U, 2U, 4U, 8U, 16U, 32U})
      assert_true(least_time(script.plan(), 20, pace, false, cuts).seconds <= all);
  }
}

void what_is_written_at_birth_has_content(void **) {
  // Nobody but the birth writes them: read by turns they come in each time.
  PlanScript script;
  for (uint32_t i = 0; i < 4; ++i) script.birth(10);
  for (int round = 0; round < 3; ++round)
    for (uint32_t i = 0; i < 4; ++i) script.operation({{i, plan_read}});
  assert_int_equal(least_time(script.plan(), 10, pace, false).fetched, 0);
  // The first stays from its birth on.
  assert_int_equal(least_time(script.plan(), 10, pace, true).fetched, 110);
  assert_int_equal(least_time(script.plan(), 40, pace, true).fetched, 0);
}

Bound of_loaded(const PlanScript &script, uint64_t capacity) {
  return least_time(script.plan(), capacity, pace, false, 256, Unwritten::loaded);
}

/// What is loaded comes in for nothing when it is read first, and then as if it had been written there.
void what_is_loaded_is_kept_as_what_is_written(void **) {
  PlanScript turns;
  for (uint32_t i = 0; i < 4; ++i) turns.birth(10);
  for (int round = 0; round < 3; ++round)
    for (uint32_t i = 0; i < 4; ++i) turns.operation({{i, plan_read}});
  assert_int_equal(of_loaded(turns, 10).fetched, 80);
  assert_int_equal(of_loaded(turns, 40).fetched, 0);
  // It has come from below, where it still is: nothing of it goes down.
  assert_true(of_loaded(turns, 10).seconds == 80);

  std::mt19937 random(9);
  uint64_t moved = 0;
  for (int round = 0; round < 200; ++round) {
    PlanScript loaded, written;
    for (uint32_t i = 0; i < 6; ++i) {
      const uint64_t size = 1 + random() % 9;
      loaded.birth(size);
      written.birth(size);
    }
    for (uint32_t op = 0; op < 40; ++op) {
      const uint32_t block = op < 6 ? op : static_cast<uint32_t>(random() % 6);
      const auto kind = static_cast<PlanKind>(plan_read + random() % 3);
      loaded.operation({{block, op < 6 ? plan_read : kind}});
      written.operation({{block, op < 6 ? plan_write : kind}});
    }
    const uint64_t fetched = of_loaded(loaded, 18).fetched;
    assert_int_equal(fetched, least_time(written.plan(), 18, pace).fetched);
    assert_true(of_loaded(loaded, 18).seconds <= least_time(written.plan(), 18, pace).seconds);
    moved += fetched;
  }
  assert_true(moved > 1000);  // else nothing was compared
}

void an_empty_plan_takes_no_time(void **) {
  const PlanScript script;
  assert_true(least_time(script.plan(), 10, pace).seconds == 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(is_the_compute_where_all_fits),
      cmocka_unit_test(adds_up_what_goes_down_before_it_comes_up),
      cmocka_unit_test(spares_what_dies_and_what_is_overwritten),
      cmocka_unit_test(what_only_stays_is_sent_once),
      cmocka_unit_test(whole_blocks_cost_what_a_search_finds),
      cmocka_unit_test(parts_of_blocks_never_cost_more),
      cmocka_unit_test(no_policy_is_below_it),
      cmocka_unit_test(more_cuts_never_bound_less),
      cmocka_unit_test(what_is_written_at_birth_has_content),
      cmocka_unit_test(what_is_loaded_is_kept_as_what_is_written),
      cmocka_unit_test(an_empty_plan_takes_no_time),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
