// SPDX-License-Identifier: Apache-2.0
//
// How many calls of the driver things take, counted by the shim: a run of pages side by side is bound by one vkQueueBindSparse, a lease of what is resident makes no call at all, and the end of a lease that only waits for a copy makes no submission, and without virtual memory
// a page that goes makes one. The shim lends the driver sparse binding.
#include "tests/drivers/vulkan_shim/control.h"
#include "tests/support/cmocka.hpp"

#include <dlfcn.h>
#include <weir/weir.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

/// A pool maps neighbours in runs of 1, 2, 4, 8 and 16 pages, so that the first copy need not wait for all.
constexpr uint64_t page = uint64_t{64} << 10U, runs = 5, pages = 31;

void ok(weir_result result) {
  if (result != WEIR_SUCCESS) fail_msg("%s: %s", weir_result_string(result), weir_last_error());
}

template <class Function>
Function *control(const char *name) {
  void *shim = dlopen(std::getenv("WEIR_VULKAN_LIBRARY"), RTLD_NOW);
  void *found = shim != nullptr ? dlsym(shim, name) : nullptr;
  if (found == nullptr) fail_msg("WEIR_VULKAN_LIBRARY names no shim: no %s", name);
  Function *function = nullptr;
  std::memcpy(&function, &found, sizeof found);
  return function;
}

uint64_t calls(const char *name) {
  return control<uint64_t(const char *)>("weir_shim_calls")(name);
}
uint64_t binds() { return calls("vkQueueBindSparse"); }
uint64_t submits() { return calls("vkQueueSubmit"); }

/// A pool of twice `pages` pages on the first device, and a buffer of `pages`.
struct World {
  weir_context context = nullptr;
  weir_device device = 0;
  weir_stream stream = nullptr;
  weir_pool pool = nullptr;
  weir_buffer buffer = nullptr;

  explicit World(const char *more = "", bool vmm = true) {
    control<void()>("weir_shim_reset")();
    assert_int_equal(control<int(const char *)>("weir_shim_pretend")("sparse=1"), 0);
    const std::string options =
        std::string("vulkan.integrated=0;vulkan.granule=64K;vulkan.granule_large=0") + more;
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.options = options.c_str();
    ok(weir_context_create(&desc, &context));
    ok(weir_device_find(context, "vulkan", &device));
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    ok(weir_device_info_get(context, device, &info));
    if (((info.capabilities & WEIR_CAP_VMM) != 0) != vmm)
      fail_msg("device %u has %s virtual memory", device, vmm ? "no" : "yet");
    ok(weir_stream_create(context, device, 0, &stream));
    weir_pool_device where{};
    where.device = device;
    where.budget = 2 * pages * page;
    weir_pool_desc pooled = WEIR_POOL_DESC_INIT;
    pooled.devices = &where;
    pooled.device_count = 1;
    pooled.host_budget = 4 * pages * page;
    pooled.page_size = pooled.large_page_size = page;
    pooled.flags = WEIR_POOL_NO_BACKGROUND;
    ok(weir_pool_create(context, &pooled, &pool));
    buffer = add();
  }
  weir_buffer add() {
    weir_buffer_desc wanted = WEIR_BUFFER_DESC_INIT;
    wanted.size = pages * page;
    weir_buffer made = nullptr;
    ok(weir_buffer_create(pool, &wanted, &made));
    return made;
  }
  void lease(uint32_t mode) {
    weir_use use = WEIR_USE(buffer, mode);
    weir_lease held = nullptr;
    ok(weir_acquire(pool, stream, &use, 1, nullptr, &held));
    ok(weir_release(held, stream));
    ok(weir_stream_synchronize(stream));
  }
  void evict() {
    uint64_t freed = 0;
    ok(weir_pool_trim(pool, device, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, &freed));
    assert_true(freed >= pages * page);
  }
  void close() {
    ok(weir_pool_destroy(pool));
    ok(weir_stream_close(stream));
    ok(weir_context_destroy(context));
    const char *text = "";
    if (control<uint64_t(const char **)>("weir_shim_misuse")(&text) != 0)
      fail_msg("Vulkan was misused: %s", text);
  }
};

void a_run_of_neighbours_is_bound_by_one_call(void **) {
  World world;
  world.lease(WEIR_READ_WRITE);
  assert_int_equal(binds(), runs);
  const weir_pool_stats none = WEIR_POOL_STATS_INIT;
  weir_pool_stats before = none, after = none;
  ok(weir_pool_stats_get(world.pool, &before));
  world.evict();
  ok(weir_pool_stats_get(world.pool, &after));
  assert_int_equal(after.demoted_bytes - before.demoted_bytes, pages * page);
  const uint64_t evicted = binds();
  assert_true(evicted > runs && evicted <= runs + pages);
  world.lease(WEIR_READ);
  ok(weir_pool_stats_get(world.pool, &before));
  assert_int_equal(before.promoted_bytes - after.promoted_bytes, pages * page);
  assert_int_equal(binds(), evicted + runs);
  world.close();
}

/// Where runs are off there is a call for each: the counts above count what they are about.
void without_runs_each_is_bound_alone(void **) {
  World world(";vulkan.map_run=0");
  world.lease(WEIR_READ_WRITE);
  assert_int_equal(binds(), pages);
  world.evict();
  assert_int_equal(binds(), 2 * pages);
  world.close();
}

void a_hit_calls_nobody(void **) {
  World world;
  world.lease(WEIR_READ_WRITE);
  const uint64_t all = calls(nullptr), submitted = submits();
  for (int i = 0; i < 1000; ++i) {
    weir_use use = WEIR_USE(world.buffer, i % 2 == 0 ? WEIR_READ : WEIR_READ_WRITE);
    weir_lease held = nullptr;
    ok(weir_acquire(world.pool, world.stream, &use, 1, nullptr, &held));
    assert_int_equal(submits(), submitted);
    assert_int_equal(calls(nullptr), all);
    ok(weir_release(held, world.stream));
    assert_int_equal(submits(), submitted);
  }
  world.close();
}

/// What is brought up is one batch of copies; the lease's own stream only waits for it.
void a_wait_is_no_submission(void **) {
  World world;
  world.lease(WEIR_READ_WRITE);
  world.evict();
  const uint64_t submitted = submits();
  world.lease(WEIR_READ);
  assert_int_equal(submits(), submitted + 1);
  world.close();
}

/// The copy of what goes. What comes is not zeroed where its own client's bytes were: two clients' are.
void what_goes_is_one_submission(void **) {
  World world(";vulkan.vmm=0", false);
  const weir_buffer all[] = {world.buffer, world.add(), world.add()};
  for (int i = 0; i < 2; ++i) {
    world.buffer = all[i];
    world.lease(WEIR_DISCARD_WRITE);
  }
  weir_pool_stats before = WEIR_POOL_STATS_INIT, after = WEIR_POOL_STATS_INIT;
  ok(weir_pool_stats_get(world.pool, &before));
  for (uint64_t i = 2; i < 8; ++i) {
    const uint64_t submitted = submits();
    world.buffer = all[i % 3];
    world.lease(WEIR_DISCARD_WRITE);
    assert_int_equal(submits(), submitted + 1);
    ok(weir_pool_stats_get(world.pool, &after));
    assert_int_equal(after.demoted_bytes - before.demoted_bytes, (i - 1) * pages * page);
  }
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  weir_client other = nullptr;
  ok(weir_client_create(world.pool, &desc, &other));
  weir_buffer_desc wanted = WEIR_BUFFER_DESC_INIT;
  wanted.size = pages * page;
  wanted.client = other;
  ok(weir_buffer_create(world.pool, &wanted, &world.buffer));
  const uint64_t submitted = submits();
  world.lease(WEIR_DISCARD_WRITE);
  assert_int_equal(submits(), submitted + 2);
  ok(weir_buffer_destroy(world.pool, world.buffer));
  ok(weir_client_destroy(other));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_run_of_neighbours_is_bound_by_one_call),
      cmocka_unit_test(without_runs_each_is_bound_alone),
      cmocka_unit_test(a_hit_calls_nobody),
      cmocka_unit_test(a_wait_is_no_submission),
      cmocka_unit_test(what_goes_is_one_submission),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
