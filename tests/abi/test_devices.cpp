// SPDX-License-Identifier: Apache-2.0
//
// Devices that join a pool and leave it while it is used: what was on one that leaves lives on elsewhere, byte for byte,
// and is used from there; what forbids leaving is told and changes nothing; one that has left gets nothing and can come
// back.

#include <cstdlib>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

constexpr const char *two_devices =
    "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=2";
const uint64_t size = 2 * page_bytes;

Setup two(uint32_t pool_devices = 2) {
  Setup setup;
  setup.options = two_devices;
  setup.devices = 2;
  setup.pool_devices = pool_devices;
  // Where pages go is another test's (tests/unit/test_membership.cpp): here it is HOST, whatever the machine's links.
  setup.flags = WEIR_POOL_NO_BACKGROUND | WEIR_POOL_NO_PEER;
  return setup;
}

weir_pool_device entry(weir_device device, uint64_t budget = 8 * page_bytes) {
  weir_pool_device made{};
  made.device = device;
  made.budget = budget;
  return made;
}

weir_result add(World &world, weir_device device, uint64_t budget = 8 * page_bytes) {
  const weir_pool_device made = entry(device, budget);
  return weir_pool_add_device(world.pool, &made);
}

weir_result remove_now(World &world, weir_device device) {
  return weir_pool_remove_device(world.pool, device, 0);
}

weir_buffer_info info_of(World &world, weir_buffer buffer) {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  ok(weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info));
  return info;
}

weir_pool_device_stats device_stats(World &world, weir_device device) {
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(world.pool, device, &stats));
  return stats;
}

// ---- small buffers ----

/// A small buffer's priority is its slab's until it is used on another device, and has pages of its own.
void a_small_buffers_priority_comes_with_its_own_pages(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(256, 1), other = world.buffer(256, 1);
  world.fill(buffer, 256, 1, 1);
  world.fill(other, 256, 2, 1);
  ok(weir_buffer_set_priority(world.pool, buffer, WEIR_PRIORITY_LOW));
  ok(weir_buffer_set_priority(world.pool, buffer, WEIR_PRIORITY_HIGH));
  assert_int_equal(info_of(world, buffer).priority, WEIR_PRIORITY_NORMAL);
  for (const weir_buffer each : {buffer, other}) world.check(each, 256, each == buffer ? 1 : 2, 0);
  assert_int_equal(info_of(world, buffer).priority, WEIR_PRIORITY_HIGH);
  assert_int_equal(info_of(world, other).priority, WEIR_PRIORITY_NORMAL);
  ok(weir_buffer_set_priority(world.pool, buffer, WEIR_PRIORITY_LOWEST));
  assert_int_equal(info_of(world, buffer).priority, WEIR_PRIORITY_LOWEST);
  // Nothing of it is left for who has its number next.
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_buffer_destroy(world.pool, other));
  for (int i = 0; i < 4; ++i) {
    weir_buffer fresh = world.buffer(256, 1);
    ok(weir_buffer_set_priority(world.pool, fresh, WEIR_PRIORITY_HIGH));
    ok(weir_buffer_destroy(world.pool, fresh));
    fresh = world.buffer(256, 1);
    world.fill(fresh, 256, 3, 1);
    world.check(fresh, 256, 3, 0);
    assert_int_equal(info_of(world, fresh).priority, WEIR_PRIORITY_NORMAL);
    ok(weir_buffer_destroy(world.pool, fresh));
  }
  world.close();
}

// ---- coming ----

void a_device_joins(void **) {
  World world(two(1));
  weir_buffer first = world.buffer(size);
  world.fill(first, size, 1);
  assert_int_equal(world.stats().generation, 0);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, world.acquire(first, WEIR_READ, &lease, nullptr, 1));
  ok(add(world, 1));
  assert_int_equal(world.stats().generation, 1);
  assert_int_equal(world.stats().device_budget, 16 * page_bytes);
  assert_int_equal(device_stats(world, 1).state, WEIR_POOL_DEVICE_PRESENT);
  // What was there before is used from there, and what is new has its home there.
  world.check(first, size, 1, 1);
  weir_buffer second = world.buffer(size, 1);
  world.fill(second, size, 2, 1);
  world.check(second, size, 2, 0);
  world.check(first, size, 1, 0);
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, add(world, 1));
  ok(weir_buffer_destroy(world.pool, first));
  ok(weir_buffer_destroy(world.pool, second));
  world.close();
}

/// The log says so, with no lock held (checked builds abort otherwise).
void a_budget_beyond_the_memory_is_logged(void **) {
  assert_int_equal(setenv("WEIR_LOG", "warning", 1), 0);
  World world(two(1));
  assert_int_equal(unsetenv("WEIR_LOG"), 0);
  ok(add(world, 1, uint64_t{1} << 50U));
  world.close();
}

void what_cant_join(void **) {
  World world(two(1));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_add_device(world.pool, nullptr));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, add(world, 1000));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, add(world, WEIR_DEVICE_HOST));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, add(world, 1, page_bytes - 1));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, add(world, 0));
  weir_pool_device odd = entry(1);
  odd.reserved[1] = 1;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_add_device(world.pool, &odd));
  const weir_pool_device good = entry(1);
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_pool_add_device(nullptr, &good));
  assert_int_equal(world.stats().generation, 0);
  ok(add(world, 1));
  world.close();
}

// ---- going ----

/// All of the content, more than the other device has room for, and in slabs too.
void what_was_there_lives_on(void **) {
  World world(two());
  std::vector<weir_buffer> large, small;
  const uint64_t few = 1000;
  for (uint32_t i = 0; i < 3; ++i) {
    large.push_back(world.buffer(size, 1));
    world.fill(large[i], size, 10 + i, 1);
    small.push_back(world.buffer(few, 1));
    world.fill(small[i], few, 20 + i, 1);
  }
  weir_buffer own = world.buffer(size, 0);
  world.fill(own, size, 1, 0);
  weir_buffer untouched = world.buffer(size, 1);
  weir_buffer odd =
      world.buffer(size + page_bytes / 2, 1);  // whose end shares a granule, where that is possible
  world.fill(odd, size + page_bytes / 2, 40, 1);
  ok(remove_now(world, 1));
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.generation, 1);
  assert_int_equal(stats.device_budget, 8 * page_bytes);
  weir_pool_device_stats gone = WEIR_POOL_DEVICE_STATS_INIT;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_device_stats_get(world.pool, 1, &gone));
  for (uint32_t i = 0; i < 3; ++i) {
    assert_int_equal(info_of(world, large[i]).home, 0);
    assert_int_equal(info_of(world, small[i]).home, 0);
    world.check_read(large[i], size, 10 + i);
    world.check(large[i], size, 10 + i, 0);
    world.check_read(small[i], few, 20 + i);
    world.check(small[i], few, 20 + i, 0);
  }
  world.check(own, size, 1, 0);
  world.check(odd, size + page_bytes / 2, 40, 0);
  world.fill(untouched, size, 30, 0);
  world.check(untouched, size, 30, 0);
  // And it is a device of the pool no more.
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_DEVICE_REMOVED, world.acquire(own, WEIR_READ, &lease, nullptr, 1));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, remove_now(world, 1));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  for (uint32_t i = 0; i < 3; ++i) {
    ok(weir_buffer_destroy(world.pool, large[i]));
    ok(weir_buffer_destroy(world.pool, small[i]));
  }
  ok(weir_buffer_destroy(world.pool, own));
  ok(weir_buffer_destroy(world.pool, odd));
  ok(weir_buffer_destroy(world.pool, untouched));
  world.close();
}

/// Hits without the lock are granted again, on the new home.
void the_new_home_takes_hits(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  world.check(buffer, size, 1, 1);
  ok(remove_now(world, 1));
  world.check(buffer, size, 1, 0);
  const weir_pool_stats before = world.stats();
  world.check(buffer, size, 1, 0);
  world.check(buffer, size, 1, 0);
  const weir_pool_stats after = world.stats();
  assert_int_equal(after.hits, before.hits + 2);
  assert_int_equal(after.misses, before.misses);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// The first of the pool too; the next one is the default then.
void the_first_leaves(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1, 0);
  ok(remove_now(world, WEIR_DEVICE_DEFAULT));
  world.check(buffer, size, 1, 1);
  // Its streams are there still, and are told why they get nothing.
  weir_lease none = nullptr;
  expect_result(WEIR_ERROR_DEVICE_REMOVED, world.acquire(buffer, WEIR_READ, &none, nullptr, 0));
  const weir_use use = WEIR_USE(buffer, WEIR_READ);
  expect_result(WEIR_ERROR_DEVICE_REMOVED, weir_prefetch(world.pool, world.streams[0], &use, 1));
  weir_buffer next = world.buffer(size);
  assert_int_equal(info_of(world, next).home, 1);
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, remove_now(world, 1));
  assert_non_null(strstr(weir_last_error(), "only one"));
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_buffer_destroy(world.pool, next));
  world.close();
}

void it_comes_back(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  for (uint32_t turn = 0; turn < 5; ++turn) {
    world.fill(buffer, size, turn + 1, turn == 0 ? 1 : 0);
    ok(remove_now(world, 1));
    world.check(buffer, size, turn + 1, 0);
    ok(add(world, 1, (4 + turn) * page_bytes));
    assert_int_equal(device_stats(world, 1).budget, (4 + turn) * page_bytes);
    world.check(buffer, size, turn + 1, 1);
    assert_int_equal(world.stats().generation, 2 * (turn + 1));
  }
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// A client keeps its quota on a device that comes later, and pays for nothing on one that has left.
void quotas_hold(void **) {
  World world(two(1));
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.device_quota = 2 * page_bytes;
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  ok(add(world, 1));
  weir_buffer small = world.buffer(2 * page_bytes, 1, client);
  weir_buffer large = world.buffer(3 * page_bytes, 1, client);
  world.fill(small, 2 * page_bytes, 1, 1);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(large, WEIR_READ, &lease, nullptr, 1));
  ok(remove_now(world, 1));
  weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
  ok(weir_client_stats_get(client, &stats));
  assert_int_equal(stats.device_bytes, 0);
  assert_int_equal(stats.host_bytes, 2 * page_bytes);
  world.check(small, 2 * page_bytes, 1, 0);
  ok(weir_buffer_destroy(world.pool, small));
  ok(weir_buffer_destroy(world.pool, large));
  ok(weir_client_destroy(client));
  world.close();
}

// ---- what forbids leaving ----

void leases_are_waited_for(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ, &lease, nullptr, 1));
  expect_result(WEIR_ERROR_TIMEOUT, remove_now(world, 1));
  assert_int_equal(device_stats(world, 1).state, WEIR_POOL_DEVICE_PRESENT);
  assert_int_equal(world.stats().generation, 0);
  // As before: leases, and new buffers.
  weir_lease second = nullptr;
  ok(world.acquire(buffer, WEIR_READ, &second, nullptr, 1));
  ok(weir_release(second, world.streams[1]));
  std::thread leaver([&] { ok(weir_pool_remove_device(world.pool, 1, WEIR_INFINITE)); });
  while (device_stats(world, 1).state != WEIR_POOL_DEVICE_LEAVING) std::this_thread::yield();
  expect_result(WEIR_ERROR_BUSY, remove_now(world, 1));
  expect_result(WEIR_ERROR_DEVICE_REMOVED, world.acquire(buffer, WEIR_READ, &second, nullptr, 1));
  ok(weir_release(lease, world.streams[1]));
  leaver.join();
  world.check(buffer, size, 1, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// What has been released and still runs keeps the device as well.
void running_work_is_waited_for(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  std::atomic<bool> go{false};
  weir_lease lease = nullptr;
  Kernel kernel{0, size, 2, 0};
  ok(world.acquire(buffer, WEIR_READ_WRITE, &lease, &kernel.address, 1));
  ok(weir_stream_host_call(
      world.streams[1],
      [](void *user) {
        while (!static_cast<std::atomic<bool> *>(user)->load()) std::this_thread::yield();
      },
      &go));
  ok(kernel.launch(world.streams[1], Kernel::write));
  ok(weir_release(lease, world.streams[1]));
  expect_result(WEIR_ERROR_TIMEOUT, remove_now(world, 1));
  go.store(true);
  ok(weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
  world.check(buffer, size, 2, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void it_can_be_cancelled(void **) {
  World world(two());
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_cancel_remove(world.pool, 1));
  weir_buffer buffer = world.buffer(size, 1);
  weir_buffer other = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  world.fill(other, size, 2, 1);
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ, &lease, nullptr, 1));
  std::atomic<weir_result> left{WEIR_NOT_READY};
  std::thread leaver([&] { left.store(weir_pool_remove_device(world.pool, 1, WEIR_INFINITE)); });
  while (device_stats(world, 1).state != WEIR_POOL_DEVICE_LEAVING) std::this_thread::yield();
  ok(weir_pool_cancel_remove(world.pool, 1));
  leaver.join();
  assert_int_equal(left.load(), WEIR_ERROR_CANCELLED);
  ok(weir_release(lease, world.streams[1]));
  world.check(buffer, size, 1, 1);
  world.check(other, size, 2, 1);
  assert_int_equal(info_of(world, other).home, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_buffer_destroy(world.pool, other));
  world.close();
}

void held_memory_stays(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  uint64_t address = 0;
  ok(weir_hold(world.pool, buffer, 1, &address));
  expect_result(WEIR_ERROR_BUSY, weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
  ok(weir_unhold(world.pool, buffer));
  ok(weir_malloc(world.pool, 1, nullptr, size, &address));
  expect_result(WEIR_ERROR_BUSY, weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
  ok(weir_free(world.pool, nullptr, address));
  ok(weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
  world.check(buffer, size, 1, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// Where its pages have nowhere to go the device stays, and all of them do.
void no_room_elsewhere(void **) {
  Setup setup = two();
  setup.host_pages = 2;
  World world(setup);
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 3; ++i) {
    buffers.push_back(world.buffer(size, 1));
    world.fill(buffers[i], size, i + 1, 1);
  }
  weir_buffer own = world.buffer(size, 0);
  world.fill(own, size, 9, 0);
  uint64_t address = 0;
  ok(weir_hold(world.pool, own, 0, &address));
  expect_result(WEIR_ERROR_OVER_BUDGET, weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
  assert_int_equal(device_stats(world, 1).state, WEIR_POOL_DEVICE_PRESENT);
  for (uint32_t i = 0; i < 3; ++i) world.check(buffers[i], size, i + 1, 1);
  ok(weir_unhold(world.pool, own));
  ok(weir_buffer_destroy(world.pool, buffers[0]));
  ok(weir_buffer_destroy(world.pool, buffers[1]));
  ok(weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
  world.check(buffers[2], size, 3, 0);
  world.check(own, size, 9, 0);
  ok(weir_buffer_destroy(world.pool, buffers[2]));
  ok(weir_buffer_destroy(world.pool, own));
  world.close();
}

// ---- beside others ----

/// One thread uses buffers on both devices without pause; the second device leaves and comes back again and again.
void under_load(void **) {
  Setup setup = two();
  setup.flags = 0;  // background threads and neighbours
  World world(setup);
  constexpr uint32_t count = 8;
  std::vector<weir_buffer> buffers;
  uint32_t seeds[count] = {};
  for (uint32_t i = 0; i < count; ++i) buffers.push_back(world.buffer(size, i % 2));
  std::atomic<bool> done{false};
  std::atomic<uint64_t> turns{0};
  std::atomic<weir_result> failed{WEIR_SUCCESS};
  std::thread elastic([&] {
    while (!done.load() && failed.load() == WEIR_SUCCESS) {
      failed.store(weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
      if (failed.load() == WEIR_SUCCESS) failed.store(add(world, 1));
      if (turns.fetch_add(1) == 400) return;
    }
  });
  uint64_t wrong = 0;
  uint32_t refused = 0;
  for (uint32_t n = 0; n < 1000 || turns.load() < 20; ++n) {
    if (failed.load() != WEIR_SUCCESS) break;
    const uint32_t i = n % count;
    const uint32_t device = (n / count) % 2;
    const bool write = seeds[i] == 0 || n % 3 == 0;
    weir_lease lease = nullptr;
    Kernel kernel{0, size, write ? n + 1 : seeds[i], 0};
    const weir_result got = world.acquire(buffers[i], write ? WEIR_DISCARD_WRITE : WEIR_READ,
                                          &lease, &kernel.address, device);
    if (got != WEIR_SUCCESS) {
      if (got != WEIR_ERROR_DEVICE_REMOVED) {
        print_error("acquire: %d (%s)\n", got, weir_last_error());
        ++wrong;
      }
      ++refused;
      continue;
    }
    ok(kernel.launch(world.streams[device], write ? Kernel::write : Kernel::compare));
    ok(weir_release(lease, world.streams[device]));
    ok(weir_stream_synchronize(world.streams[device]));
    wrong += kernel.wrong;
    if (write) seeds[i] = n + 1;
  }
  done.store(true);
  elastic.join();
  assert_int_equal(failed.load(), WEIR_SUCCESS);
  assert_int_equal(wrong, 0);
  assert_int_equal(world.stats().generation, 2 * turns.load());
  for (uint32_t i = 0; i < count; ++i) {
    world.check(buffers[i], size, seeds[i], 0);
    ok(weir_buffer_destroy(world.pool, buffers[i]));
  }
  print_message("%u acquires met the device leaving or gone, in %llu turns\n", refused,
                static_cast<unsigned long long>(turns.load()));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_small_buffers_priority_comes_with_its_own_pages),
      cmocka_unit_test(a_device_joins),
      cmocka_unit_test(a_budget_beyond_the_memory_is_logged),
      cmocka_unit_test(what_cant_join),
      cmocka_unit_test(what_was_there_lives_on),
      cmocka_unit_test(the_new_home_takes_hits),
      cmocka_unit_test(the_first_leaves),
      cmocka_unit_test(it_comes_back),
      cmocka_unit_test(quotas_hold),
      cmocka_unit_test(leases_are_waited_for),
      cmocka_unit_test(running_work_is_waited_for),
      cmocka_unit_test(it_can_be_cancelled),
      cmocka_unit_test(held_memory_stays),
      cmocka_unit_test(no_room_elsewhere),
      cmocka_unit_test(under_load),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
