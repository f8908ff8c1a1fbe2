// SPDX-License-Identifier: Apache-2.0
//
// Whether a forecast is trusted: it earns that by coming true, loses it by going wrong, and nothing that nobody foresaw counts.

#include "core/policy/trust.hpp"

#include "tests/support/cmocka.hpp"
#include "tests/unit/learned_program.hpp"

#include <algorithm>
#include <random>

namespace {

using namespace weir::policy;
using namespace weir::test;

void trust_is_earned(void **) {
  Trust trust;
  assert_false(trust.holds());
  int operations = 0;
  for (; !trust.holds() && operations < 10'000; ++operations) trust.note_operation(false);
  assert_in_range(operations, 100, 400);
}

void who_is_lost_too_often_is_not_trusted(void **) {
  for (const int every : {32, 512}) {
    Trust trust;
    for (int i = 0; i < 10'000; ++i) trust.note_operation(i % every == 0);
    assert_int_equal(trust.holds(), every == 512);
  }
}

void uses_by_others_than_foreseen_cost_trust(void **) {
  for (const int every : {2, 8}) {
    Trust trust;
    for (int i = 0; i < 10'000; ++i) {
      trust.note_operation(false);
      trust.note_use(i % every == 0);
    }
    assert_int_equal(trust.holds(), every == 8);
  }
}

void trust_comes_back(void **) {
  Trust trust;
  for (int i = 0; i < 1000; ++i) trust.note_operation(true);
  assert_false(trust.holds());
  int operations = 0;
  for (; !trust.holds() && operations < 10'000; ++operations) trust.note_operation(false);
  assert_in_range(operations, 500, 3000);
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

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(trust_is_earned),
      cmocka_unit_test(who_is_lost_too_often_is_not_trusted),
      cmocka_unit_test(uses_by_others_than_foreseen_cost_trust),
      cmocka_unit_test(trust_comes_back),
      cmocka_unit_test(a_program_that_repeats_itself_is_trusted),
      cmocka_unit_test(a_program_of_shuffled_names_is_not_trusted),
      cmocka_unit_test(a_program_of_cyclic_names_that_uses_what_it_likes_is_not_trusted),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
