// SPDX-License-Identifier: Apache-2.0
//
// The residency plan kept up: when it is made again, what it holds, what is left where memory runs out; victims by themselves.

#include "core/policy/residency_plan.hpp"

#include "tests/support/cmocka.hpp"
#include "tests/unit/plan_follower.hpp"

#include <memory>
#include <new>
#include <random>
#include <vector>

namespace {

using namespace weir::policy;
using namespace weir::test;

void a_plan_without_memory_is_empty_and_can_be_made_again(void **) {
  std::mt19937_64 random(13);
  const Program program = any(random, mb, 4, 8, 40, false);
  const uint64_t capacity = std::max(program.largest_set(), 10 * mb);
  int failed = 0;
  for (int64_t left = 0;; ++left) {
    std::unique_ptr<Follower> follower = std::make_unique<Follower>(program, terms_of(capacity));
    follower->memory.left = left;
    follower->run();
    const bool all = follower->refused == 0;
    failed += follower->refused;
    assert_true(follower->emptied);
    const uint64_t bytes = follower->plan.bytes();
    assert_int_equal(bytes, follower->memory.held);
    if (all) break;
  }
  assert_true(failed > 5);
  Scarce none;
  none.left = 0;
  Cast cast(std::pmr::get_default_resource());
  bool refused = false;
  try {
    ResidencyPlan plan(cast, terms_of(mb), &none);
  } catch (const std::bad_alloc &) {
    refused = true;
  }
  assert_true(refused);
}

void its_counts_are_those_of_the_parts_after_a_failure(void **) {
  // Steps fail one after the other; what is left is nothing, and what is rebuilt is all.
  Cast cast(std::pmr::get_default_resource());
  Scarce memory;
  ResidencyPlan plan(cast, terms_of(4 * mb), &memory);
  Program program = written({mb, mb, mb, mb, mb, mb});
  Future future(program, cast, 1);
  const uint32_t part = all_born(cast, program);
  future.begins(0);
  future.rewind();
  const ResidencyPlan::Resident resident{part, mb, mb, true, future.outlook(part), 0};
  memory.left = 0;
  bool refused = false;
  try {
    plan.rebuild(0, {&resident, 1});
  } catch (const std::bad_alloc &) {
    refused = true;
  }
  assert_true(refused);
  assert_int_equal(plan.virtual_bytes(), 0);
  assert_false(plan.step(future));
  memory.left = -1;
  future.rewind();
  plan.rebuild(0, {&resident, 1});
  assert_int_equal(plan.virtual_bytes(), mb);
  while (plan.step(future)) continue;
  assert_int_equal(plan.virtual_bytes(), 4 * mb);
  assert_int_equal(plan.most_planned(1, 6), 4 * mb);
  plan.died(part);
  plan.clear();
  assert_int_equal(plan.virtual_bytes(), 0);
  uint64_t number = 0;
  assert_null(plan.next_fetch(&number));
  assert_false(plan.next_drop().has_value());
}

void is_made_again_when_it_is_wrong_or_old(void **) {
  Cast cast(std::pmr::get_default_resource());
  ResidencyPlan plan(cast, terms_of(4 * mb), std::pmr::get_default_resource());
  assert_true(plan.wants_rebuild(false));  // there is none
  plan.rebuild(100, {});
  plan.advance(115);
  assert_false(plan.wants_rebuild(true));  // too soon
  plan.advance(116);
  assert_true(plan.wants_rebuild(true));
  assert_false(plan.wants_rebuild(false));
  for (int i = 0; i < 63; ++i) plan.missed(0);
  assert_false(plan.wants_rebuild(false));
  plan.missed(0);
  assert_true(plan.wants_rebuild(false));
  plan.rebuild(116, {});
  assert_false(plan.wants_rebuild(false));
  plan.advance(116 + 4095);
  assert_false(plan.wants_rebuild(false));
  plan.advance(116 + 4096);
  assert_true(plan.wants_rebuild(false));
  // What was planned is paid for: 320 operations later than 16.
  Program program;
  const uint32_t buffer = program.birth(mb);
  for (int i = 0; i < 5200; ++i) program.operation(1, {reads(buffer, mb)}, {});
  Future future(program, cast, 1);
  plan.advance(5000);
  plan.rebuild(5000, {});
  future.begins(0);
  future.rewind();
  while (plan.planned() < 5000 + 320 * 16 && plan.step(future)) continue;
  plan.advance(5000 + 16 + 319);
  assert_false(plan.wants_rebuild(true));
  plan.advance(5000 + 16 + 320);
  assert_true(plan.wants_rebuild(true));
}

void a_fetch_that_is_only_late_does_not_count_against_the_plan(void **) {
  Program program = written({mb, mb, mb});
  program.operation(1, {reads(0, mb), reads(1, mb)}, {});
  Cast cast(std::pmr::get_default_resource());
  ResidencyPlan plan(cast, terms_of(2 * mb), std::pmr::get_default_resource());
  Future future(program, cast, 1);
  const uint32_t part = all_born(cast, program);
  future.begins(0);
  future.rewind();
  const ResidencyPlan::Resident resident{part, mb, mb, true, future.outlook(part), 0};
  plan.rebuild(0, {&resident, 1});
  while (plan.step(future)) continue;
  plan.advance(3);
  uint64_t number = 0;
  assert_null(plan.next_fetch(&number));            // it is over
  for (int i = 0; i < 100; ++i) plan.missed(part);  // gone for 2: of equal ones the first goes
  plan.advance(60);
  assert_false(plan.wants_rebuild(false));
  for (int i = 0; i < 100; ++i) plan.missed(part);
  assert_true(plan.wants_rebuild(false));
}

void holds_bounded_memory(void **) {
  std::vector<uint64_t> sizes(8, mb);
  Program program = written(sizes);
  for (uint32_t i = 0; i < 30000; ++i) program.operation(1, {reads(i % 8, mb)}, {});
  ResidencyPlan::Terms terms = terms_of(4 * mb);
  terms.horizon = 8192;
  terms.queued_permille = 1'000'000;
  terms.most_items = 100;
  Follower follower(program, terms);
  uint64_t early = 0;
  for (uint32_t i = 0; i < program.count(); ++i) {
    follower.operation();
    if (i == 1000) early = follower.plan.bytes();
    assert_true(follower.plan.planned() <= i + 256);  // 100 items
  }
  assert_int_equal(follower.plan.bytes(), early);
  assert_true(early < 256 << 10);
  assert_true(follower.most <= 4 * mb);
}

void plans_no_further_than_half_the_capacity_is_queued(void **) {
  std::vector<uint64_t> sizes(8, mb);
  Program program = written(sizes);
  for (uint32_t i = 0; i < 4000; ++i) program.operation(1, {reads(i % 8, mb)}, {});
  Cast cast(std::pmr::get_default_resource());
  ResidencyPlan plan(cast, terms_of(4 * mb), std::pmr::get_default_resource());
  Future future(program, cast, 1);
  all_born(cast, program);
  future.begins(0);
  future.rewind();
  plan.rebuild(0, {});
  while (plan.step(future)) continue;
  assert_int_equal(plan.planned(), 256);  // that far always
  plan.advance(10);
  while (plan.step(future)) continue;
  assert_int_equal(plan.planned(), 266);
}

void plans_no_further_than_the_horizon(void **) {
  Program program = written({mb});
  for (uint32_t i = 0; i < 4000; ++i) program.operation(1, {reads(0, mb)}, {});
  Cast cast(std::pmr::get_default_resource());
  ResidencyPlan::Terms terms = terms_of(4 * mb);
  terms.horizon = 1000;  // a power of two it is
  ResidencyPlan plan(cast, terms, std::pmr::get_default_resource());
  Future future(program, cast, 1);
  all_born(cast, program);
  future.begins(0);
  future.rewind();
  plan.rebuild(7, {});
  while (plan.step(future)) continue;
  assert_int_equal(plan.planned(), 7 + 1024);
}

void the_bytes_of_the_dead_are_gone(void **) {
  Cast cast(std::pmr::get_default_resource());
  ResidencyPlan plan(cast, terms_of(4 * mb), std::pmr::get_default_resource());
  const uint32_t parts[] = {cast.born(0, 0, mb), cast.born(1, 0, 2 * mb)};
  const ResidencyPlan::Resident residents[] = {{parts[0], mb, mb, true, {}, 0},
                                               {parts[1], 2 * mb, 2 * mb, true, {}, 0}};
  plan.rebuild(0, residents);
  assert_int_equal(plan.virtual_bytes(), 3 * mb);
  plan.died(parts[1]);
  plan.died(parts[1]);
  assert_int_equal(plan.virtual_bytes(), mb);
}

void one_that_is_smaller_than_expected_takes_less(void **) {
  Program program;
  program.operation(1, {}, {});
  const uint32_t buffer = program.birth(3 * mb);
  program.operation(1, {writes(buffer, 3 * mb)}, {});
  Cast cast(std::pmr::get_default_resource());
  ResidencyPlan plan(cast, terms_of(4 * mb), std::pmr::get_default_resource());
  Future future(program, cast, 1);
  future.begins(0);
  future.rewind();
  plan.rebuild(0, {});
  while (plan.step(future)) continue;
  assert_int_equal(plan.virtual_bytes(), 3 * mb);
  plan.born(cast.born(buffer, 0, mb, future.expected(buffer)));
  assert_int_equal(plan.virtual_bytes(), mb);
}

void what_is_clean_costs_least_and_what_is_dirty_most(void **) {
  const auto of = [](Cost cost) { return Prices::of_classes[static_cast<size_t>(cost)]; };
  assert_true(Prices::fetch + Prices::write_back == 1);
  assert_true(of(Cost::clean) < of(Cost::dead) && of(Cost::dead) < of(Cost::dirty));
  assert_true(Prices::clean_dead < of(Cost::clean));
}

void victims_come_by_priority_and_the_farthest_key(void **) {
  std::mt19937_64 random(3);
  Victims victims(std::pmr::get_default_resource());
  victims.make_room(50);
  struct Known {
    bool there = false;
    Cost cost = Cost::clean;
    int8_t priority = 0;
    uint64_t key = 0;
    bool before(const Known &other) const {
      return priority != other.priority ? priority < other.priority : key > other.key;
    }
  };
  std::vector<Known> all(50);
  for (int round = 0; round < 20000; ++round) {
    const auto part = static_cast<uint32_t>(random() % all.size());
    if (random() % 3 == 0) {
      victims.remove(part);
      all[part].there = false;
    } else {
      all[part] = {true, static_cast<Cost>(random() % costs),
                   static_cast<int8_t>(static_cast<int>(random() % 5) - 2), random() % 40};
      victims.put({all[part].key, part, all[part].priority}, all[part].cost);
    }
    for (uint32_t i = 0; i < costs; ++i) {
      uint32_t best = Victims::none;
      for (uint32_t other = 0; other < all.size(); ++other)
        if (all[other].there && all[other].cost == static_cast<Cost>(i) &&
            (best == Victims::none || all[other].before(all[best])))
          best = other;
      const Victims::Entry first = victims.first(static_cast<Cost>(i));
      assert_int_equal(first.part, best);
      if (best != Victims::none) assert_int_equal(first.key, all[best].key);
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_plan_without_memory_is_empty_and_can_be_made_again),
      cmocka_unit_test(its_counts_are_those_of_the_parts_after_a_failure),
      cmocka_unit_test(is_made_again_when_it_is_wrong_or_old),
      cmocka_unit_test(a_fetch_that_is_only_late_does_not_count_against_the_plan),
      cmocka_unit_test(holds_bounded_memory),
      cmocka_unit_test(plans_no_further_than_half_the_capacity_is_queued),
      cmocka_unit_test(plans_no_further_than_the_horizon),
      cmocka_unit_test(the_bytes_of_the_dead_are_gone),
      cmocka_unit_test(one_that_is_smaller_than_expected_takes_less),
      cmocka_unit_test(what_is_clean_costs_least_and_what_is_dirty_most),
      cmocka_unit_test(victims_come_by_priority_and_the_farthest_key),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
