// SPDX-License-Identifier: Apache-2.0
//
// The counters of plans (weir_pool_stats): what the policy "auto" has learned and planned, and which bytes were moved for that. With "lru-window" they
// are zero.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

constexpr uint32_t pages = 64;   // of the device
constexpr uint32_t larger = 96;  // buffers of a round, of a page each

/// Writes them all, and reads them backwards, each for the last time if it is to be destroyed: 192 operations, which is worth a plan.
struct Round {
  World &world;
  std::vector<weir_buffer> buffers;
  std::vector<weir_use> uses;

  explicit Round(World &world_) : world(world_) {
    for (uint32_t i = 0; i < larger; ++i) buffers.push_back(world.buffer(page_bytes));
    for (uint32_t i = 0; i < larger; ++i) uses.push_back(WEIR_USE(buffers[i], WEIR_DISCARD_WRITE));
    for (uint32_t i = larger; i-- > 0;) uses.push_back(WEIR_USE(buffers[i], WEIR_READ));
  }
  void announce() {
    std::vector<weir_operation> announced(uses.size(), WEIR_OPERATION_INIT);
    for (size_t i = 0; i < uses.size(); ++i) {
      announced[i].uses = &uses[i];
      announced[i].use_count = 1;
    }
    ok(weir_announce(world.pool, world.streams[0], announced.data(), announced.size(), 0));
  }
  void run() {
    for (const weir_use &use : uses) run(use);
  }
  /// The plan keeps pace.
  void run_and_destroy() {
    for (const weir_use &use : uses) {
      while (engine_of(world).upkeep().look_at_plans()) continue;
      run(use);
      if (use.mode == WEIR_READ) ok(weir_buffer_destroy(world.pool, use.buffer));
    }
    buffers.clear();
  }
  void run(const weir_use &use) {
    weir_use asked = use;
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], &asked, 1, nullptr, &lease));
    ok(weir_release(lease, world.streams[0]));
    ok(weir_stream_synchronize(world.streams[0]));
  }
  void end() {
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
};

void a_plan_of_what_is_announced_counts_what_it_does(void **) {
  World world({.device_pages = pages, .host_pages = 256, .policy = "auto"});
  Round round(world);
  round.announce();
  round.run_and_destroy();
  const weir_pool_stats stats = world.stats();
  assert_true(stats.plans_made > 0);
  assert_int_equal(stats.planned_operations, round.uses.size());
  assert_true(stats.plan_fetched_bytes > 0 && stats.plan_cleaned_bytes > 0);
  assert_int_equal(stats.plan_fetched_bytes, stats.prefetched_bytes);
  assert_int_equal(stats.plan_cleaned_bytes, stats.background_demoted_bytes);
  assert_int_equal(stats.learned_operations, 0);  // nothing learns in a pool without threads
  assert_int_equal(stats.policy_carries_plans, 0);
  round.end();
}

void what_is_prefetched_without_a_plan_is_not_the_plan_s(void **) {
  World world({.device_pages = pages, .host_pages = 256, .policy = "auto"});
  Round round(world);
  round.run();
  const weir_use use = WEIR_USE(round.buffers[larger - 1], WEIR_READ);
  ok(weir_prefetch(world.pool, world.streams[0], &use, 1));
  const weir_pool_stats stats = world.stats();
  assert_true(stats.prefetched_bytes > 0);
  assert_int_equal(stats.plan_fetched_bytes, 0);
  assert_int_equal(stats.planned_operations, 0);
  assert_int_equal(stats.plans_made, 0);
  round.end();
}

void learn(weir_context context) {
  reinterpret_cast<weir::pool::Context *>(context)->learns = true;
}

/// The planner's thread comes to each of them some time.
void each_operation_that_is_learned_from_counts_once(void **) {
  World world({.device_pages = pages,
               .host_pages = 256,
               .flags = 0,
               .policy = "auto",
               .before_pool = learn});
  assert_int_equal(world.stats().policy_carries_plans, 0);
  Round round(world);
  for (int i = 0; i < 3; ++i) round.run();
  while (world.stats().learned_operations < 3 * round.uses.size()) std::this_thread::yield();
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.learned_operations, 3 * round.uses.size());
  assert_int_equal(stats.lost_uses, 0);
  assert_in_range(stats.planned_operations, 0, stats.learned_operations);
  for (int i = 0; i < 100 && world.stats().policy_carries_plans == 0; ++i) {
    round.run();
    const uint64_t done = (4 + static_cast<uint64_t>(i)) * round.uses.size();
    while (world.stats().learned_operations < done) std::this_thread::yield();
  }
  // Enough has come true by now.
  const weir_pool_stats later = world.stats();
  assert_int_equal(later.policy_carries_plans, 1);
  assert_int_equal(later.policy_switches % 2, 1);
  round.end();
}

void lru_window_has_no_plans(void **) {
  World world({.device_pages = pages, .host_pages = 256, .flags = 0, .before_pool = learn});
  Round round(world);
  round.announce();
  round.run();
  const weir_pool_stats stats = world.stats();
  for (const uint64_t counter :
       {stats.learned_operations, stats.lost_uses, stats.planned_operations, stats.plans_made,
        stats.plan_fetched_bytes, stats.plan_cleaned_bytes, stats.policy_switches,
        stats.policy_carries_plans})
    assert_int_equal(counter, 0);
  round.end();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_plan_of_what_is_announced_counts_what_it_does),
      cmocka_unit_test(what_is_prefetched_without_a_plan_is_not_the_plan_s),
      cmocka_unit_test(each_operation_that_is_learned_from_counts_once),
      cmocka_unit_test(lru_window_has_no_plans),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
