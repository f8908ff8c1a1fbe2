// SPDX-License-Identifier: Apache-2.0
//
// Pace: unknown until both ways have been seen, then it follows what is measured, slowly.

#include "core/tier/pace.hpp"

#include "tests/support/cmocka.hpp"

namespace {

using weir::tier::Pace;

void nothing_is_known_before_both_ways_were_gone(void **) {
  Pace pace;
  assert_int_equal(pace.cost(), 0);
  pace.went_down(1000, 1000);
  assert_int_equal(pace.cost(), 0);
  pace.went_down(0, 1000);
  pace.came_up(0, 1000);
  assert_int_equal(pace.cost(), 0);
  pace.came_up(1000, 2000);
  // A nanosecond a byte down, which counts half, and two up.
  assert_in_range(pace.cost(), 2500, 2510);
}

void one_slow_transfer_changes_little_and_many_all(void **) {
  Pace pace;
  pace.went_down(1000, 1000);
  pace.came_up(1000, 1000);
  const uint64_t before = pace.cost();
  pace.came_up(1000, 8000);
  assert_in_range(pace.cost(), before + 800, before + 900);
  for (int i = 0; i < 100; ++i) pace.came_up(1000, 8000);
  assert_in_range(pace.cost(), 8400, 8600);
  for (int i = 0; i < 100; ++i) pace.came_up(1000, 0);
  for (int i = 0; i < 100; ++i) pace.went_down(1000, 0);
  assert_in_range(pace.cost(), 1, 30);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_known_before_both_ways_were_gone),
      cmocka_unit_test(one_slow_transfer_changes_little_and_many_all),
  };
  return cmocka_run_group_tests_name("pace", tests, nullptr, nullptr);
}
