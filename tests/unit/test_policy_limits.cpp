// SPDX-License-Identifier: Apache-2.0
//
// What the policy "auto" may take to learn: memory, shared by a pool's devices whenever they come, a share of a CPU, and few looks while nothing
// happens. The pool is driven by hand.

#include "tests/unit/hand_driven.hpp"

namespace {

using namespace weir::test;

/// How much the records of the pool have grown since.
uint64_t grown(World &world, uint64_t before) {
  const uint64_t now = world.stats().bookkeeping_bytes;
  return now - std::min(now, before);
}

constexpr uint64_t others = mib / 2;  // other records, which come and go

// ---- the descriptor ----

void what_is_out_of_range_is_refused_with_its_value(void **) {
  weir_context context = make_context(small_host);
  weir_pool_device device = {};
  device.budget = 8 * page_bytes;
  const auto make = [&](void (*change)(weir_pool_desc &), const char *policy) {
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 1;
    desc.devices = &device;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.policy = policy;
    change(desc);
    weir_pool pool = nullptr;
    const weir_result result = weir_pool_create(context, &desc, &pool);
    if (result == WEIR_SUCCESS) ok(weir_pool_destroy(pool));
    return result;
  };
  using Desc = weir_pool_desc;
  for (const char *policy : {"auto", "lru-window"}) {
    const auto refused = [&](void (*change)(Desc &), const char *words) {
      assert_int_equal(make(change, policy), WEIR_ERROR_INVALID_ARGUMENT);
      assert_non_null(std::strstr(weir_last_error(), words));
    };
    refused([](Desc &desc) { desc.policy_memory = 1; }, "policy_memory is 1, less than 2097152");
    refused([](Desc &desc) { desc.policy_memory = 2 * mib - 1; }, "policy_memory is 2097151");
    refused([](Desc &desc) { desc.policy_memory = WEIR_NONE; }, "policy_memory is 18446744073709");
    refused([](Desc &desc) { desc.policy_memory = desc.record_budget = 4 * mib; },
            "record_budget, of which it is a part, 4194304");
    refused([](Desc &desc) { desc.policy_cpu_percent = 101; }, "policy_cpu_percent is 101");
    refused([](Desc &desc) { desc.reserved2 = 7; }, "reserved2 is 7");
    ok(make([](Desc &desc) { desc.policy_memory = 2 * mib; }, policy));
    ok(make([](Desc &desc) { desc.policy_cpu_percent = 100; }, policy));
    ok(make([](Desc &desc) { desc.record_budget = mib; }, policy));
  }
  ok(weir_context_destroy(context));
}

// ---- memory ----

void what_is_learned_takes_the_memory_that_it_is_given(void **) {
  for (const uint64_t memory : {2 * mib, 8 * mib, uint64_t{0}}) {
    World world = learning({.policy_memory = memory});
    const uint64_t before = world.stats().bookkeeping_bytes;
    assert_true(before < mib);  // nothing before it is needed
    weir_buffer buffer = world.buffer(page_bytes);
    use(world, buffer);
    learn_all(world);
    assert_int_equal(world.stats().learned_operations, 1);
    const uint64_t most = memory != 0 ? memory : 32 * mib;
    assert_in_range(grown(world, before), most / 2, most + others);
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

void lru_window_takes_none_of_it(void **) {
  World world = learning({.policy = "lru-window", .policy_memory = 8 * mib});
  const uint64_t before = world.stats().bookkeeping_bytes;
  weir_buffer buffer = world.buffer(page_bytes);
  use(world, buffer);
  assert_in_range(grown(world, before), 0, others);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

const char *two_devices = "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=2";

void all_devices_share_the_memory(void **) {
  World world = learning({.options = two_devices, .devices = 2, .policy_memory = 8 * mib});
  const uint64_t before = world.stats().bookkeeping_bytes;
  for (uint32_t device = 0; device < 2; ++device) {
    weir_buffer buffer = world.buffer(page_bytes, device);
    use(world, buffer, device);
    learn_all(world);
    ok(weir_buffer_destroy(world.pool, buffer));
  }
  assert_int_equal(world.stats().learned_operations, 2);
  assert_in_range(grown(world, before), 4 * mib, 8 * mib + 4 * others);
  world.close();
}

/// The buffers that live are known to what learns from then on.
void a_device_that_comes_later_gets_its_part(void **) {
  World world = learning({.options = two_devices,
                          .device_pages = 64,
                          .host_pages = 512,
                          .devices = 2,
                          .pool_devices = 1,
                          .policy_memory = 8 * mib});
  const uint64_t before = world.stats().bookkeeping_bytes;
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 96; ++i) buffers.push_back(world.buffer(page_bytes));
  loop_until_planned(world, buffers, 0);
  assert_in_range(grown(world, before), 4 * mib, 8 * mib + 4 * others);
  weir_pool_device more = {};
  more.device = 1;
  more.budget = 64 * page_bytes;
  ok(weir_pool_add_device(world.pool, &more));
  weir_buffer there = world.buffer(page_bytes, 1);
  const uint64_t learned = world.stats().learned_operations;
  use(world, there, 1);
  learn_all(world);
  assert_int_equal(world.stats().learned_operations, learned + 1);
  assert_in_range(grown(world, before), 4 * mib, 8 * mib + 4 * others);
  loop_until_planned(world, buffers, 0);
  // One that leaves gives its part back, and has one again when it is back.
  ok(weir_buffer_destroy(world.pool, there));
  const uint64_t both = world.stats().bookkeeping_bytes;
  ok(weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
  use(world, buffers[0]);
  learn_all(world);
  assert_true(world.stats().bookkeeping_bytes + 3 * mib < both);
  ok(weir_pool_add_device(world.pool, &more));
  there = world.buffer(page_bytes, 1);
  use(world, there, 1);
  learn_all(world);
  assert_in_range(grown(world, before), 4 * mib, 8 * mib + 4 * others);
  ok(weir_buffer_destroy(world.pool, there));
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void a_device_that_can_have_no_plan_is_not_learned_from(void **) {
  World world = learning({.options = std::string(small_host) + ";host.vmm=0"});
  const uint64_t before = world.stats().bookkeeping_bytes;
  weir_buffer buffer = world.buffer(page_bytes);
  for (int i = 0; i < 100; ++i) use(world, buffer);
  learn_all(world);
  assert_int_equal(world.stats().learned_operations, 0);
  assert_false(engine_of(world).inspector().use_log().on());
  assert_in_range(grown(world, before), 0, others);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

// ---- the share of a CPU ----

/// Each use comes to the learner, or is counted as lost.
void who_has_used_up_the_share_learns_nothing_until_there_is_some(void **) {
  World world = learning({.policy_cpu_percent = 50});
  weir_buffer buffer = world.buffer(page_bytes);
  use(world, buffer);
  learn_all(world);
  assert_int_equal(world.stats().learned_operations, 1);
  test_clock.step = 1'000 * ms;  // a step takes a second
  use(world, buffer);
  assert_true(engine_of(world).upkeep().look_at_plans());
  assert_int_equal(world.stats().learned_operations, 2);
  for (int i = 0; i < 100; ++i) use(world, buffer);
  learn_all(world);
  assert_int_equal(world.stats().learned_operations, 2);
  // 900 ms used in advance, and 25 that are to be there before it goes on.
  assert_int_equal(plans_of(world).rest_ns(), 2 * 925 * ms);
  test_clock.now += 2 * 925 * ms - 1;
  learn_all(world);
  assert_int_equal(world.stats().learned_operations, 2);
  assert_int_equal(world.stats().lost_uses, 0);
  test_clock.now += 1;
  test_clock.step = 0;
  learn_all(world);
  use(world, buffer);
  learn_all(world);
  assert_int_equal(world.stats().learned_operations, 3);
  assert_int_equal(world.stats().lost_uses, 100);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void a_whole_cpu_is_never_used_up(void **) {
  World world = learning({.policy_cpu_percent = 100});
  weir_buffer buffer = world.buffer(page_bytes);
  test_clock.step = 1'000 * ms;
  for (int i = 0; i < 10; ++i) {
    use(world, buffer);
    learn_all(world);
  }
  assert_int_equal(world.stats().learned_operations, 10);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// No thread would go on with it.
void a_plan_ends_with_the_share(void **) {
  World world = learning({.device_pages = 64, .host_pages = 512});
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 96; ++i) buffers.push_back(world.buffer(page_bytes));
  loop_until_planned(world, buffers, 0);
  assert_true(engine_of(world).prefetcher().planned(0));
  test_clock.step = 1'000 * ms;
  use(world, buffers[0]);
  learn_all(world);
  assert_false(engine_of(world).prefetcher().planned(0));
  const weir_pool_stats before = world.stats();
  for (weir_buffer buffer : buffers) {
    use(world, buffer);
    learn_all(world);
  }
  assert_int_equal(world.stats().plan_fetched_bytes, before.plan_fetched_bytes);
  assert_int_equal(world.stats().planned_operations, before.planned_operations);
  test_clock.step = 0;
  test_clock.now += 1'000'000 * ms;
  loop_until_planned(world, buffers, 0);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

// ---- rest ----

void the_longer_nothing_comes_the_rarer_it_is_looked(void **) {
  World world = learning({});
  weir_buffer buffer = world.buffer(page_bytes);
  for (int i = 0; i < 3; ++i) {  // from now on it is there, with all that was done to bring it
    use(world, buffer);
    ok(weir_stream_synchronize(world.streams[0]));
  }
  learn_all(world);
  uint64_t idle = 0, looks = 0;
  for (uint64_t rest = 0; rest < 1'000 * ms; ++looks) {
    assert_false(engine_of(world).upkeep().look_at_plans());
    const uint64_t next = plans_of(world).rest_ns();
    assert_in_range(next, rest, std::max(50 * ms, rest + rest / 8));
    idle += rest = next;
  }
  assert_in_range(looks, 1, 100);
  assert_in_range(idle, 1'000 * ms, 20'000 * ms);
  use(world, buffer);  // a hit, which wakes no thread: it is found at the next look
  assert_int_equal(plans_of(world).rest_ns(), 1'000 * ms);
  assert_true(engine_of(world).upkeep().look_at_plans());
  assert_true(plans_of(world).rest_ns() < ms);
  while (plans_of(world).rest_ns() < 1'000 * ms) (void)engine_of(world).upkeep().look_at_plans();
  ok(trim_all(world));
  use(world, buffer);  // brings it in again
  assert_true(plans_of(world).rest_ns() < ms);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_is_out_of_range_is_refused_with_its_value),
      cmocka_unit_test(what_is_learned_takes_the_memory_that_it_is_given),
      cmocka_unit_test(lru_window_takes_none_of_it),
      cmocka_unit_test(all_devices_share_the_memory),
      cmocka_unit_test(a_device_that_comes_later_gets_its_part),
      cmocka_unit_test(a_device_that_can_have_no_plan_is_not_learned_from),
      cmocka_unit_test(who_has_used_up_the_share_learns_nothing_until_there_is_some),
      cmocka_unit_test(a_whole_cpu_is_never_used_up),
      cmocka_unit_test(a_plan_ends_with_the_share),
      cmocka_unit_test(the_longer_nothing_comes_the_rarer_it_is_looked),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
