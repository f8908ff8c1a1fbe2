// SPDX-License-Identifier: Apache-2.0
//
// The profile of planned memory against a plain array: random changes and questions in a window that moves on.

#include "core/policy/memory_profile.hpp"

#include "tests/support/cmocka.hpp"

#include <algorithm>
#include <random>
#include <vector>

namespace {

using weir::policy::MemoryProfile;

void nothing_is_planned_at_first(void **) {
  const MemoryProfile profile(8, std::pmr::get_default_resource());
  assert_int_equal(profile.operations(), 8);
  assert_int_equal(profile.largest(0, 8), 0);
  assert_int_equal(profile.largest(1000, 1008), 0);
}

void an_empty_range_has_no_largest(void **) {
  MemoryProfile profile(8, std::pmr::get_default_resource());
  profile.set(3, 5);
  assert_true(profile.largest(3, 3) == INT64_MIN);
  assert_true(profile.largest(4, 3) == INT64_MIN);
  profile.add(4, 3, 100);
  profile.add(3, 3, 100);
  assert_int_equal(profile.largest(0, 8), 5);
}

void a_range_goes_over_the_end_of_the_array(void **) {
  MemoryProfile profile(8, std::pmr::get_default_resource());
  for (uint64_t i = 6; i < 14; ++i) profile.set(i, static_cast<int64_t>(i));
  assert_int_equal(profile.largest(6, 9), 8);
  assert_int_equal(profile.largest(6, 14), 13);
  profile.add(7, 10, 100);
  assert_int_equal(profile.largest(6, 7), 6);
  assert_int_equal(profile.largest(7, 8), 107);
  assert_int_equal(profile.largest(9, 10), 109);
  assert_int_equal(profile.largest(10, 14), 13);
}

void what_enters_the_window_has_the_value_that_is_set(void **) {
  MemoryProfile profile(8, std::pmr::get_default_resource());
  for (uint64_t i = 0; i < 8; ++i) profile.set(i, 10);
  profile.add(0, 8, 7);
  profile.set(8, 1);  // in the place of 0
  assert_int_equal(profile.largest(8, 9), 1);
  assert_int_equal(profile.largest(1, 9), 17);
}

/// The array has a value an operation; the window moves by one at a time.
void agrees_with_an_array(void **) {
  for (uint32_t size : {2u, 8u, 64u, 1024u}) {
    std::mt19937_64 random(size);
    MemoryProfile profile(size, std::pmr::get_default_resource());
    std::vector<int64_t> array(size * 8, 0);
    const auto number = [&](uint64_t below) { return random() % below; };
    uint64_t first = 0;
    for (int round = 0; round < 20000; ++round) {
      const uint64_t from = first + number(size);
      const uint64_t to = from + number(first + size - from + 1);
      const auto bytes = static_cast<int64_t>(number(1 << 20)) - (1 << 19);
      switch (number(4)) {
        case 0:
          if (first + size == array.size()) break;
          array[first + size] = bytes;
          profile.set(first + size, bytes);
          ++first;
          break;
        case 1:
          array[from] = bytes;
          profile.set(from, bytes);
          break;
        case 2:
          for (uint64_t i = from; i < to; ++i) array[i] += bytes;
          profile.add(from, to, bytes);
          break;
        default:
          break;
      }
      int64_t expected = INT64_MIN;
      const uint64_t begin = std::max(from, first);
      for (uint64_t i = begin; i < to; ++i) expected = std::max(expected, array[i]);
      assert_true(profile.largest(begin, to) == expected);
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_planned_at_first),
      cmocka_unit_test(an_empty_range_has_no_largest),
      cmocka_unit_test(a_range_goes_over_the_end_of_the_array),
      cmocka_unit_test(what_enters_the_window_has_the_value_that_is_set),
      cmocka_unit_test(agrees_with_an_array),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
