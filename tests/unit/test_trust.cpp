// SPDX-License-Identifier: Apache-2.0
//
// Whether a forecast is trusted: it earns that by coming true, loses it by going wrong, and nothing that was not foreseen counts.

#include "core/policy/trust.hpp"

#include "tests/support/cmocka.hpp"
#include "tests/unit/learned_program.hpp"

#include <algorithm>
#include <random>

namespace {

using namespace weir::policy;
using namespace weir::test;

/// Uses that come as foreseen until it holds.
int earn(Trust &trust) {
  int uses = 0;
  for (; !trust.holds() && uses < 10'000; ++uses) trust.note_use(false);
  return uses;
}

void trust_is_earned(void **) {
  Trust trust;
  assert_false(trust.holds());
  for (int i = 0; i < 1000; ++i) trust.note_operation(false);
  assert_false(trust.holds());  // to know the place is not enough
  assert_int_equal(earn(trust), 1);
  // What goes wrong at once ends it at once.
  Trust wrong;
  wrong.note_use(false);
  wrong.note_use(true);
  assert_false(wrong.holds());
}

void uses_that_come_when_they_are_not_foreseen_cost_trust(void **) {
  for (const int every : {3, 8}) {
    Trust trust;
    for (int i = 0; i < 10'000; ++i) trust.note_use(i % every == 0);
    assert_int_equal(trust.holds(), every == 8);
  }
}

void who_is_lost_too_often_is_not_trusted(void **) {
  for (const int every : {8, 64}) {
    Trust trust;
    for (int i = 0; i < 10'000; ++i) {
      trust.note_operation(i % every == 0);
      trust.note_use(false);
    }
    assert_int_equal(trust.holds(), every == 64);
  }
}

void trust_comes_back(void **) {
  Trust trust;
  for (int i = 0; i < 3000; ++i) trust.note_use(true);
  assert_false(trust.holds());
  assert_in_range(earn(trust), 250, 1000);
  trust.note_use(true);
  trust.grant();
  assert_true(trust.holds());
}

// ---- what a learned forecast makes of it ----

constexpr uint32_t steps = 40;
constexpr uint64_t bytes = uint64_t{1} << 20;

struct Site {
  Cast cast{std::pmr::get_default_resource()};
  LearnedForecast forecast{cast, {}, std::pmr::get_default_resource()};
  std::set<uint32_t> free;
  Site() {
    for (uint32_t number = 0; number < 2 * steps; ++number) free.insert(number);
  }
};

Step step_of(uint32_t name, uint32_t buffer) {
  return {name + 1, {}, {{buffer, use_needs, 0, bytes}}, {}};
}

/// All buffers are born before the first operation.
void begin(Doer &doer) {
  Step first{steps + 1, {}, {}, {}};
  for (uint32_t id = 0; id < steps; ++id) first.births.push_back({id, bytes});
  doer.run(first);
}

void a_program_that_repeats_itself_is_trusted(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  begin(doer);
  for (int round = 0; round < 20; ++round) {
    if (round == 1) assert_false(site.forecast.trusted());  // nothing has come true yet
    for (uint32_t i = 0; i < steps; ++i) doer.run(step_of(i, i));
  }
  assert_true(site.forecast.trusted());
}

void a_program_of_shuffled_names_is_not_trusted(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  begin(doer);
  std::mt19937 random(7);
  std::vector<uint32_t> names(steps);
  for (uint32_t i = 0; i < steps; ++i) names[i] = i;
  for (int round = 0; round < 100; ++round) {
    std::shuffle(names.begin(), names.end(), random);
    for (uint32_t i = 0; i < steps; ++i) {
      doer.run(step_of(names[i], i));
      assert_false(site.forecast.trusted());
    }
  }
}

void a_program_of_cyclic_names_that_uses_what_it_likes_is_not_trusted(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  begin(doer);
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round)
    for (uint32_t i = 0; i < steps; ++i)
      doer.run(step_of(i, static_cast<uint32_t>(random() % steps)));
  assert_true(site.forecast.aligned());
  assert_false(site.forecast.trusted());
}

/// It does something else for a moment, again and again, as a server does when a request joins; its buffers are used when they were.
void a_program_that_turns_elsewhere_now_and_then_is_trusted(void **) {
  Site site;
  Doer doer(site.forecast, site.free);
  begin(doer);
  for (int round = 0; round < 60; ++round) {
    for (uint32_t i = 0; i < steps; ++i) doer.run(step_of(i, i));
    doer.run({steps + 2 + static_cast<uint32_t>(round), {}, {}, {}});  // a name that was never seen
  }
  assert_true(site.forecast.trust().lost() > 1.0 / 128);
  doer.run(step_of(0, 0));
  assert_true(site.forecast.trusted());
}

/// What was foreseen to die lives on: it would have been given up without a copy being kept.
void what_is_used_though_it_was_to_die_costs_trust(void **) {
  for (const bool dies : {true, false}) {
    Site site;
    Doer doer(site.forecast, site.free);
    uint32_t next = 0;
    const auto round = [&](bool again) {
      Step first = step_of(0, next);
      first.births.push_back({next, bytes});
      doer.run(first);
      Step second = step_of(1, next);
      if (!again) second.deaths.push_back(next);
      doer.run(second);
      if (again) {
        Step third = step_of(2, next);
        third.deaths.push_back(next);
        doer.run(third);
      }
      next = (next + 1) % steps;
    };
    for (int i = 0; i < 800; ++i) round(false);
    assert_true(site.forecast.trusted());
    const double before = site.forecast.trust().off();
    if (dies) round(true);
    assert_int_equal(site.forecast.trust().off() > before, dies);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(trust_is_earned),
      cmocka_unit_test(uses_that_come_when_they_are_not_foreseen_cost_trust),
      cmocka_unit_test(who_is_lost_too_often_is_not_trusted),
      cmocka_unit_test(trust_comes_back),
      cmocka_unit_test(a_program_that_repeats_itself_is_trusted),
      cmocka_unit_test(a_program_of_shuffled_names_is_not_trusted),
      cmocka_unit_test(a_program_of_cyclic_names_that_uses_what_it_likes_is_not_trusted),
      cmocka_unit_test(a_program_that_turns_elsewhere_now_and_then_is_trusted),
      cmocka_unit_test(what_is_used_though_it_was_to_die_costs_trust),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
