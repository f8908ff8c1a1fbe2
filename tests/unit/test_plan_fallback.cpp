// SPDX-License-Identifier: Apache-2.0
//
// What decides where there is no plan, though what comes is known: "lru-window" by when each page is foreseen to be used. The pool is driven by hand.

#include "tests/unit/hand_driven.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t hour = 3'600'000 * ms;

/// Walks of regions take so long that no second plan is made; the first ends as the share of the CPU is used up, and learning goes on.
void learn_and_lose_the_plan(Loop &loop) {
  World &world = loop.world;
  while (!planned(world)) {
    test_clock.tick = 1'000 * hour;
    loop.step();
    learn_all(world);
  }
  test_clock.tick = 0;
  test_clock.step = 1'000 * ms;
  loop.step();
  learn_all(world);
  assert_false(planned(world));
  test_clock.step = 0;
  test_clock.now += hour;
  learn_all(world);
  for (uint32_t i = 0; i < 3 * looped; ++i) {
    loop.step();
    learn_all(world);
  }
  assert_false(planned(world));
}

/// In a loop what was used last is needed last, and what was used longest ago is needed next.
void without_a_plan_what_is_foreseen_last_goes(void **) {
  World world = learning({.device_pages = loop_pages, .host_pages = 512});
  Loop loop(world);
  learn_and_lose_the_plan(loop);
  const weir_pool_stats before = world.stats();
  uint32_t misses = 0;
  for (uint32_t i = 0; i < 2 * looped; ++i) {
    const std::set<uint32_t> had = loop.there();
    const bool misses_it = !had.contains(loop.next());
    uint32_t last = 0;
    for (const uint32_t buffer : had)
      if (loop.distance(buffer) > loop.distance(last) || !had.contains(last)) last = buffer;
    loop.step();
    const std::set<uint32_t> has = loop.there();
    if (misses_it && had.size() == loop_pages) {
      ++misses;
      assert_true(had.contains(last) && !has.contains(last));
      assert_int_equal(has.size(), loop_pages);
    }
    learn_all(world);
  }
  assert_false(planned(world));
  assert_int_equal(world.stats().plan_fetched_bytes, before.plan_fetched_bytes);
  // A lap misses what does not fit; by recency it would miss everything.
  assert_in_range(misses, 2 * (looped - loop_pages) - 2, 2 * (looped - loop_pages) + 4);
  loop.end();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(without_a_plan_what_is_foreseen_last_goes),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
