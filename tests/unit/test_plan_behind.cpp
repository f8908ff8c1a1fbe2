// SPDX-License-Identifier: Apache-2.0
//
// The planner's thread is behind the program: a call that is short of room learns what has been logged, and what leaves is what the plan has done
// with by then. The pool is driven by hand, so the planner looks only where the test lets it.

#include "tests/unit/hand_driven.hpp"

#include <thread>

namespace {

using namespace weir::test;

constexpr uint32_t many_pages = 512, many = 768;  // of the device; buffers of a page

/// Uses that find nothing there, while no thread looks at plans.
uint32_t misses_in(Loop &loop, uint32_t operations) {
  uint32_t misses = 0;
  for (; operations != 0; --operations) {
    if (query(loop.world, loop.buffers[loop.next()]).device_bytes == 0) ++misses;
    loop.step();
  }
  return misses;
}

World large_enough() { return learning({.device_pages = many_pages, .host_pages = 1024}); }

Loop followed(World &world) {
  Loop loop(world, 0, many);
  assert_true(loop.begin());
  return loop;
}

void who_is_short_of_room_gives_up_what_is_due(void **) {
  World world = large_enough();
  Loop loop = followed(world);
  const uint64_t learned = world.stats().learned_operations;
  // What does not fit is missed, and nothing else: by what was known a lap ago it would be half as much again.
  const uint32_t misses = misses_in(loop, 2 * many);
  assert_true(planned(world));
  assert_in_range(misses, 2 * (many - many_pages) - 8, 2 * (many - many_pages) + 40);
  assert_in_range(world.stats().learned_operations, learned + 1, learned + 2 * many);
  loop.end();
}

void nobody_learns_beyond_the_share(void **) {
  World world = large_enough();
  Loop loop = followed(world);
  // Each look finds that a second more was used, by the learner.
  test_clock.step = 1'000 * ms;
  const uint64_t learned = world.stats().learned_operations;
  (void)misses_in(loop, 2 * many);
  test_clock.step = 0;
  // The first of them, and no more.
  assert_in_range(world.stats().learned_operations, learned, learned + many / 2);
  learn_all(world);
  assert_false(planned(world));
  loop.end();
}

/// A set is planned anew after it: its buffer may be destroyed in between.
void who_learns_much_looks_again(void **) {
  World world = large_enough();
  Loop loop = followed(world);
  uint32_t missing = 0;
  while (query(world, loop.buffers[missing]).device_bytes != 0) ++missing;
  uint32_t there = missing;
  while (query(world, loop.buffers[there]).device_bytes == 0) ++there;
  for (int i = 0; i < 100; ++i) use(world, loop.buffers[there], 0, there + 1);
  weir_result result = WEIR_SUCCESS;
  const auto acquires = [&] {
    weir_use use = WEIR_USE(loop.buffers[missing], WEIR_READ_WRITE);
    weir_lease lease = nullptr;
    auto &stream = *reinterpret_cast<weir::backend::Stream *>(world.streams[0]);
    result = engine_of(world).acquire(stream, &use, 1, {}, &lease).code();
    if (result == WEIR_SUCCESS) ok(weir_release(lease, world.streams[0]));
  };
  {
    Stops stops(world, {"plans.behind"});
    std::thread other(acquires);
    stops.await("plans.behind");
    ok(weir_buffer_destroy(world.pool, loop.buffers[missing]));
    stops.let_go("plans.behind");
    other.join();
  }
  assert_int_equal(result, WEIR_ERROR_INVALID_HANDLE);
  validate(world);
  loop.buffers.erase(loop.buffers.begin() + missing);
  loop.end();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(who_is_short_of_room_gives_up_what_is_due),
      cmocka_unit_test(nobody_learns_beyond_the_share),
      cmocka_unit_test(who_learns_much_looks_again),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
