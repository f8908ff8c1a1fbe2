// SPDX-License-Identifier: Apache-2.0
//
// The oracle: worked examples with every byte accounted for, and random plans against a plain reimplementation that
// looks for the farthest next use by scanning.
#include "tests/tools/plan_script.hpp"
#include "tests/tools/trace_files.hpp"

#include "tools/weir/oracle.hpp"

#include <algorithm>
#include <random>
#include <vector>

namespace {

using namespace weir::tool;

using Script = weir::test::PlanScript;

void check(const OracleTraffic &traffic, uint64_t fetched, uint64_t written_back,
           uint64_t dropped) {
  assert_int_equal(traffic.fetched, fetched);
  assert_int_equal(traffic.written_back, written_back);
  assert_int_equal(traffic.dropped_clean, dropped);
}

void moves_nothing_when_all_fits(void **) {
  Script script;
  script.birth(10);
  script.birth(10);
  for (int i = 0; i < 5; ++i) script.operation({{0, plan_update}, {1, plan_update}});
  check(run_oracle(script.plan(), 20), 0, 0, 0);
}

void writes_back_dirty_and_drops_clean(void **) {
  Script script;
  for (int i = 0; i < 3; ++i) script.birth(10);
  script.operation({{0, plan_write}});
  script.operation({{1, plan_write}});  // out goes 0, dirty, as it is used later than 1
  script.operation({{1, plan_read}});
  script.operation({{0, plan_read}});  // in comes 0; 1 goes, dirty, used again
  script.operation({{1, plan_read}});  // in comes 1; 0 goes, clean now
  script.operation({{0, plan_read}});  // in comes 0; 1 goes, clean, never used again
  check(run_oracle(script.plan(), 10), 30, 20, 20);
}

void keeps_the_soonest_used(void **) {
  Script script;
  for (int i = 0; i < 3; ++i) script.birth(10);
  script.operation({{0, plan_write}});
  script.operation({{1, plan_write}});
  script.operation({{2, plan_write}});  // room for two: 0 is used after 1
  script.operation({{1, plan_read}});
  script.operation({{2, plan_read}});
  script.operation({{0, plan_read}});
  check(run_oracle(script.plan(), 20), 10, 10, 0);
}

void spares_the_dead(void **) {
  Script script;
  script.birth(10);
  script.birth(10);
  script.operation({{0, plan_write}}, {0});  // freed: no write-back
  script.operation({{1, plan_write}});
  check(run_oracle(script.plan(), 10), 0, 0, 0);
  Script unused;
  unused.birth(10);
  unused.birth(10);
  unused.operation({{0, plan_write}});  // alive, but never used again
  unused.operation({{1, plan_write}});
  check(run_oracle(unused.plan(), 10), 0, 0, 0);
}

void fetches_only_what_is_read(void **) {
  Script script;
  script.birth(10);
  script.birth(10);
  script.operation({{0, plan_read}});  // never written: nothing to fetch
  script.operation({{0, plan_write}});
  script.operation({{1, plan_write}});       // 0 out, dirty
  script.operation({{0, plan_write}});       // wholly written: not fetched
  script.operation({{1, plan_write_span}});  // partly written: the rest is needed
  // 1 left dirty at the third step back, 0 left dirty at the last but is never used again.
  check(run_oracle(script.plan(), 10), 10, 20, 0);
}

void reports_operations_beyond_capacity(void **) {
  Script script;
  script.birth(10);
  script.birth(10);
  script.operation({{0, plan_write}, {1, plan_write}});
  assert_int_equal(run_oracle(script.plan(), 15).overfull, 1);
  assert_int_equal(run_oracle(script.plan(), 20).overfull, 0);
}

/// The same rules, every step by scanning. Next uses are distinct here, so the victim is never a matter of taste.
OracleTraffic by_scanning(const Plan &plan, uint64_t capacity) {
  struct Block {
    bool resident = false, written = false, dirty = false;
  };
  std::vector<Block> blocks(plan.block_bytes.size());
  OracleTraffic traffic;
  const auto next_use = [&](uint32_t block, size_t after) {
    for (size_t op = after + 1; op < plan.operations.size(); ++op)
      for (uint64_t i = plan.operations[op].body; i < plan.operations[op].end; ++i)
        if (plan_is_use(plan_kind(plan.events[i])) && plan_block(plan.events[i]) == block)
          return op;
    return plan.operations.size();
  };
  for (size_t op = 0; op < plan.operations.size(); ++op) {
    const PlanEvent event = plan.events[plan.operations[op].body];
    const uint32_t used = plan_block(event);
    Block &block = blocks[used];
    if (!block.resident && block.written && plan_kind(event) != plan_write)
      traffic.fetched += plan.block_bytes[used];
    block.resident = true;
    if (plan_mode(plan_kind(event)) != plan_read) block.written = block.dirty = true;
    for (;;) {
      uint64_t bytes = 0;
      uint32_t victim = used;
      size_t farthest = 0;
      for (uint32_t i = 0; i < blocks.size(); ++i) {
        if (!blocks[i].resident) continue;
        bytes += plan.block_bytes[i];
        if (i != used && next_use(i, op) > farthest) {
          farthest = next_use(i, op);
          victim = i;
        }
      }
      if (bytes <= capacity || victim == used) break;
      Block &gone = blocks[victim];
      if (gone.written && !gone.dirty) traffic.dropped_clean += plan.block_bytes[victim];
      if (gone.dirty && farthest != plan.operations.size())
        traffic.written_back += plan.block_bytes[victim];
      gone.resident = gone.dirty = false;
    }
  }
  return traffic;
}

void agrees_with_a_scan(void **) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    Script script;
    constexpr uint32_t blocks = 12;
    for (uint32_t i = 0; i < blocks; ++i) script.birth(7);
    for (int op = 0; op < 120; ++op)
      script.operation({{static_cast<uint32_t>(random() % blocks),
                         static_cast<PlanKind>(plan_read + random() % 6)}});
    // Every block ends with a use: what is never used again could be evicted in any order.
    for (uint32_t i = 0; i < blocks; ++i) script.operation({{i, plan_read}});
    const uint64_t capacity = 7 * (1 + random() % blocks);
    const OracleTraffic expected = by_scanning(script.plan(), capacity);
    const OracleTraffic got = run_oracle(script.plan(), capacity);
    assert_int_equal(got.fetched, expected.fetched);
    assert_int_equal(got.written_back, expected.written_back);
  }
}

void time_is_the_longest_of_three(void **) {
  OracleTraffic traffic;
  traffic.fetched = 300;
  traffic.written_back = 200;
  assert_true(oracle_slowdown(traffic, 10, 100).value() == 1.0);
  assert_true(oracle_slowdown(traffic, 1, 100).value() == 3.0);
  std::swap(traffic.fetched, traffic.written_back);
  assert_true(oracle_slowdown(traffic, 1, 100).value() == 3.0);
  assert_false(oracle_slowdown(traffic, 0, 100).has_value());
  assert_false(oracle_slowdown(traffic, 1, 0).has_value());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(moves_nothing_when_all_fits),
      cmocka_unit_test(writes_back_dirty_and_drops_clean),
      cmocka_unit_test(keeps_the_soonest_used),
      cmocka_unit_test(spares_the_dead),
      cmocka_unit_test(fetches_only_what_is_read),
      cmocka_unit_test(reports_operations_beyond_capacity),
      cmocka_unit_test(agrees_with_a_scan),
      cmocka_unit_test(time_is_the_longest_of_three),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
