// SPDX-License-Identifier: Apache-2.0
//
// Births and deaths that the planner was not told of: more came while it might not look than its ring holds. It counts them, and compares what
// it takes for alive with the buffers there are. The pool is driven by hand.

#include "tests/unit/hand_driven.hpp"

namespace {

using namespace weir::test;

constexpr uint32_t held_in_ring = 4096;

World small_learner() {
  return learning({.device_pages = loop_pages, .host_pages = 512, .policy_memory = 2 * mib});
}

/// The share of the CPU is used up: nothing is looked at until look_again().
void look_away(World &world) {
  weir_buffer buffer = world.buffer(page_bytes);
  test_clock.step = 1'000 * ms;
  use(world, buffer);
  learn_all(world);
  ok(weir_buffer_destroy(world.pool, buffer));
}
void look_again(World &world) {
  test_clock.step = 0;
  test_clock.now += 1'000'000 * ms;
  learn_all(world);
}

/// What was in the ring is written over.
void fill_the_ring(World &world) {
  for (uint32_t i = 0; i < held_in_ring / 2 + 100; ++i)
    ok(weir_buffer_destroy(world.pool, world.buffer(page_bytes)));
}

/// So many that die unseen would take all the room that there is for buffers, and no other would be learned of.
void die_unseen(bool first_born_first) {
  World world = small_learner();
  std::vector<weir_buffer> many;
  for (int i = 0; i < 8000; ++i) {
    many.push_back(world.buffer(page_bytes));
    if (i % 1000 == 0) learn_all(world);
  }
  learn_all(world);
  assert_int_equal(world.stats().lost_uses, 0);
  look_away(world);
  // Their numbers are given away again: not those that are known, in one of the two orders.
  if (!first_born_first) std::ranges::reverse(many);
  for (weir_buffer buffer : many) ok(weir_buffer_destroy(world.pool, buffer));
  fill_the_ring(world);
  look_again(world);
  // The ring has the newest; what was lost is counted.
  assert_in_range(world.stats().lost_uses, 8000, 8000 + held_in_ring + 300);
  Loop loop(world);
  assert_true(loop.begin());
  loop.end();
}

void who_has_died_unseen_is_not_thought_alive(void **) {
  die_unseen(true);
  die_unseen(false);
}

void who_was_born_unseen_is_learned_of(void **) {
  World world = small_learner();
  look_away(world);
  Loop loop(world);
  fill_the_ring(world);
  look_again(world);
  assert_true(world.stats().lost_uses >= looped);
  assert_true(loop.begin());
  loop.end();
}

/// Each number has another buffer than the planner knows, of which it was told neither the end nor the beginning.
void who_has_another_s_number_is_not_taken_for_it(void **) {
  World world = small_learner();
  std::vector<weir_buffer> before;
  for (uint32_t i = 0; i < looped; ++i) before.push_back(world.buffer(page_bytes));
  learn_all(world);
  look_away(world);
  for (uint32_t i = looped; i-- > 0;) ok(weir_buffer_destroy(world.pool, before[i]));
  Loop loop(world);
  fill_the_ring(world);
  look_again(world);
  assert_true(loop.begin());
  loop.end();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(who_has_died_unseen_is_not_thought_alive),
      cmocka_unit_test(who_was_born_unseen_is_learned_of),
      cmocka_unit_test(who_has_another_s_number_is_not_taken_for_it),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
