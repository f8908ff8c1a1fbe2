// SPDX-License-Identifier: Apache-2.0
//
// Parts of a plan: a buffer has one, an expected buffer becomes the real one, and a number that is given again is told by its life.

#include "core/policy/cast.hpp"

#include "tests/support/cmocka.hpp"

namespace {

using weir::policy::Cast;

void an_expected_buffer_becomes_the_real_one(void **) {
  Cast cast(std::pmr::get_default_resource());
  const uint32_t part = cast.expect(4096);
  assert_int_equal(cast[part].buffer, Cast::none);
  assert_int_equal(cast.of(7), Cast::none);
  const uint32_t life = cast[part].life;
  assert_int_equal(cast.born(7, 3, 8192, part), part);
  assert_int_equal(cast.of(7), part);
  assert_int_equal(cast[part].life, life);  // with what has been planned for it
  assert_int_equal(cast[part].bytes, 8192);
  assert_int_equal(cast[part].generation, 3);
}

void a_part_that_is_taken_is_not_taken_again(void **) {
  Cast cast(std::pmr::get_default_resource());
  const uint32_t part = cast.born(1, 0, 100);
  const uint32_t other = cast.born(2, 0, 100, part);
  assert_true(other != part);
  assert_int_equal(cast.of(1), part);
  assert_int_equal(cast.of(2), other);
}

void a_number_that_is_given_again_has_another_life(void **) {
  Cast cast(std::pmr::get_default_resource());
  const uint32_t part = cast.born(1, 0, 100);
  const uint32_t life = cast[part].life;
  assert_true(cast.lives(part, life));
  cast.end(part);
  cast.end(part);  // passed over
  assert_false(cast.lives(part, life));
  assert_int_equal(cast.of(1), Cast::none);
  assert_int_equal(cast.born(2, 0, 100), part);
  assert_false(cast.lives(part, life));
  assert_true(cast.born(3, 0, 100) != part);  // it was free once only
}

void only_the_expected_are_forgotten(void **) {
  Cast cast(std::pmr::get_default_resource());
  const uint32_t real = cast.born(1, 0, 100);
  const uint32_t expected = cast.expect(100);
  const uint32_t life = cast[expected].life;
  cast.forget_expected();
  assert_true(cast.lives(real, cast[real].life));
  assert_false(cast.lives(expected, life));
}

/// A buffer's number is given to the next buffer: the part of the old one, ended late, leaves the new one's alone.
void the_part_of_an_old_buffer_ends_alone(void **) {
  Cast cast(std::pmr::get_default_resource());
  const uint32_t old = cast.born(1, 0, 100);
  const uint32_t fresh = cast.born(1, 1, 100);
  assert_true(old != fresh);
  cast.end(old);
  assert_int_equal(cast.of(1), fresh);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_expected_buffer_becomes_the_real_one),
      cmocka_unit_test(a_part_that_is_taken_is_not_taken_again),
      cmocka_unit_test(a_number_that_is_given_again_has_another_life),
      cmocka_unit_test(only_the_expected_are_forgotten),
      cmocka_unit_test(the_part_of_an_old_buffer_ends_alone),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
