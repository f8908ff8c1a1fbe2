// SPDX-License-Identifier: Apache-2.0
//
// Leases on another device's memory (WEIR_USE_ALLOW_REMOTE): nothing is copied, the bytes are right whichever device writes and
// reads them, and the pages stay where they are for as long as the lease and its work. Conflicts, waiting and sets of both
// kinds are as the documentation says.

#include "tests/unit/remote_lease.hpp"

namespace {

using namespace weir::test;

const uint64_t size = lease_bytes;

// ---- what it is ----

void reads_where_the_bytes_are(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  const uint64_t there = address_on(world, buffer, 1);
  assert_int_equal(use_remote(world, buffer, size, WEIR_READ, 1), there);
  assert_int_equal(use_remote(world, buffer, size, WEIR_READ, 1), there);
  weir_pool_stats stats = world.stats();
  assert_int_equal(stats.remote_uses, 2);
  assert_int_equal(stats.peer_bytes, 0);
  assert_int_equal(device_bytes(world, 0), 0);
  world.check(buffer, size, 1, 1);
  // Without the flag it comes here; with the flag it is here then.
  world.check(buffer, size, 1, 0);
  assert_int_equal(world.stats().peer_bytes, size);
  assert_true(use_remote(world, buffer, size, WEIR_READ, 1) != there);
  assert_int_equal(world.stats().remote_uses, 2);
  ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

void writes_where_the_bytes_are(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  const uint64_t there = address_on(world, buffer, 1);
  uint32_t seed = 2;
  for (const uint32_t mode : {uint32_t{WEIR_READ_WRITE}, uint32_t{WEIR_DISCARD_WRITE}}) {
    assert_int_equal(use_remote(world, buffer, size, mode, seed), there);
    assert_int_equal(device_bytes(world, 0), 0);
    world.check_read(buffer, size, seed);
    world.check(buffer, size, seed, 1);
    assert_int_equal(use_remote(world, buffer, size, WEIR_READ, seed), there);
    ++seed;
  }
  // Copies of what was written so are the new version; a copy that was there before is stale.
  world.check(buffer, size, 3, 0);
  world.fill(buffer, size, 4, 1);
  assert_int_equal(use_remote(world, buffer, size, WEIR_READ_WRITE, 5), there);
  world.check(buffer, size, 5, 0);
  world.check(buffer, size, 5, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

/// A copy in HOST is stale after a remote write too.
void other_copies_are_stale(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  world.check(buffer, size, 1, 1);
  assert_int_equal(query(world, buffer).both_bytes, size);
  assert_int_equal(use_remote(world, buffer, size, WEIR_READ, 1), address_on(world, buffer, 1));
  assert_int_equal(query(world, buffer).both_bytes, size);
  (void)use_remote(world, buffer, size, WEIR_READ_WRITE, 2);
  assert_int_equal(query(world, buffer).both_bytes, 0);
  world.check_read(buffer, size, 2);
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  world.check(buffer, size, 2, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

/// The stream that waits and the stream that is waited for are of two devices.
void work_is_ordered(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  // A reader here after a writer there, and a writer there after a reader here.
  for (const bool writes_there : {true, false}) {
    const uint32_t first = writes_there ? 1 : 0;
    const uint32_t second = 1 - first;
    Barrier barrier;
    barrier.hold(world.streams[first]);
    Kernel before{0, size, writes_there ? 2U : 2U, 0};
    Kernel after{0, size, writes_there ? 2U : 3U, 0};
    weir_lease lease = nullptr;
    if (writes_there) {
      ok(world.acquire(buffer, WEIR_READ_WRITE, &lease, &before.address, 1));
    } else {
      ok(acquire_remote(world, buffer, WEIR_READ, &lease, &before.address));
    }
    ok(before.launch(world.streams[first], writes_there ? Kernel::write : Kernel::compare));
    ok(weir_release(lease, world.streams[first]));
    if (writes_there) {
      ok(acquire_remote(world, buffer, WEIR_READ, &lease, &after.address));
    } else {
      ok(world.acquire(buffer, WEIR_READ_WRITE, &lease, &after.address, 1));
    }
    assert_int_equal(after.address, before.address);
    ok(after.launch(world.streams[second], writes_there ? Kernel::compare : Kernel::write));
    ok(weir_release(lease, world.streams[second]));
    assert_true(never_ready(world.streams[second]));
    barrier.open();
    for (weir_stream stream : world.streams) ok(weir_stream_synchronize(stream));
    assert_int_equal(before.wrong + after.wrong, 0);
  }
  world.check(buffer, size, 3, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

// ---- conflicts ----

void conflicts_as_a_lease_there(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  weir_lease lease = nullptr;
  weir_lease other = nullptr;
  // Readers anywhere beside each other; a writer beside no other, whichever of them is the remote one.
  ok(acquire_remote(world, buffer, WEIR_READ, &lease));
  ok(world.acquire(buffer, WEIR_READ, &other, nullptr, 1));
  ok(weir_release(other, world.streams[1]));
  expect_result(WEIR_ERROR_LEASE_CONFLICT,
                world.acquire(buffer, WEIR_READ_WRITE, &other, nullptr, 1));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(buffer, WEIR_READ_WRITE, &other));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_buffer_write(world.pool, buffer, 0, 1, "x"));
  expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(world.pool, buffer));
  ok(weir_release(lease, world.streams[0]));
  ok(acquire_remote(world, buffer, WEIR_READ_WRITE, &lease));
  for (uint32_t device = 0; device < 2; ++device) {
    expect_result(WEIR_ERROR_LEASE_CONFLICT,
                  world.acquire(buffer, WEIR_READ, &other, nullptr, device));
    expect_result(WEIR_ERROR_LEASE_CONFLICT,
                  acquire_remote(world, buffer, WEIR_READ, &other, nullptr, device));
  }
  ok(weir_release(lease, world.streams[0]));
  ok(world.acquire(buffer, WEIR_READ_WRITE, &lease, nullptr, 1));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, acquire_remote(world, buffer, WEIR_READ, &other));
  assert_int_equal(last_error().use_index, 0);
  ok(weir_release(lease, world.streams[1]));
  validate(world);
  ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

/// It is a lease on the memory it is on: byte by byte with others there, page by page with those elsewhere.
void ranges_conflict_by_place(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  weir_lease lease = nullptr;
  weir_lease other = nullptr;
  weir_use mine = part(buffer, WEIR_READ_WRITE, 0, WEIR_USE_ALLOW_REMOTE);
  ok(weir_acquire(world.pool, world.streams[0], &mine, 1, nullptr, &lease));
  assert_int_equal(world.stats().remote_uses, 1);
  weir_use there = part(buffer, WEIR_READ_WRITE, 200);
  ok(weir_acquire(world.pool, world.streams[1], &there, 1, nullptr, &other));
  assert_int_equal(there.address, mine.address + 200);
  ok(weir_release(other, world.streams[1]));
  weir_use here = part(buffer, WEIR_READ, 200);
  expect_result(WEIR_ERROR_LEASE_CONFLICT,
                weir_acquire(world.pool, world.streams[0], &here, 1, nullptr, &other));
  here.offset = page_bytes;
  ok(weir_acquire(world.pool, world.streams[0], &here, 1, nullptr, &other));
  ok(weir_release(other, world.streams[0]));
  ok(weir_release(lease, world.streams[0]));
  validate(world);
  ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

/// A buffer's uses in one set go to one place.
void uses_of_a_buffer_go_together(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  for (const bool both : {true, false}) {
    weir_use uses[2] = {part(buffer, WEIR_READ, 0, WEIR_USE_ALLOW_REMOTE),
                        part(buffer, WEIR_READ_WRITE, 200, both ? WEIR_USE_ALLOW_REMOTE : 0)};
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease));
    assert_int_equal(uses[1].address, uses[0].address + 200);
    assert_int_equal(world.stats().remote_uses, 2);
    ok(weir_release(lease, world.streams[0]));
    validate(world);
  }
  assert_int_equal(device_bytes(world, 0), page_bytes);
  world.check_read(buffer, size, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

// ---- eviction ----

void eviction_steps_around(void **) {
  World world(two(near_devices, 8));
  weir_buffer leased = world.buffer(size, 1);
  world.fill(leased, size, 1, 1);
  weir_lease lease = nullptr;
  Kernel kernel{0, size, 1, 0};
  ok(acquire_remote(world, leased, WEIR_READ, &lease, &kernel.address));
  weir_buffer others[2] = {world.buffer(size, 1), world.buffer(size, 1)};
  for (uint32_t i = 0; i < 2; ++i) world.fill(others[i], size, 10 + i, 1);
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  assert_int_equal(query(world, leased).device_bytes, size);
  weir_buffer big = world.buffer(5 * page_bytes, 1);
  weir_lease none = nullptr;
  expect_result(WEIR_ERROR_WOULD_BLOCK, world.acquire(big, WEIR_READ_WRITE, &none, nullptr, 1));
  ok(kernel.launch(world.streams[0], Kernel::compare));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(kernel.wrong, 0);
  world.fill(big, 5 * page_bytes, 20, 1);
  world.check(leased, size, 1, 1);
  for (uint32_t i = 0; i < 2; ++i) world.check(others[i], size, 10 + i, 1);
  for (weir_buffer buffer : {leased, others[0], others[1], big})
    ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

/// Released, but its work runs yet, on the other device's stream.
void eviction_waits_for_the_stream(void **) {
  for (const uint32_t mode : {uint32_t{WEIR_READ}, uint32_t{WEIR_READ_WRITE}}) {
    World world(two());
    weir_buffer buffer = world.buffer(size, 1);
    world.fill(buffer, size, 1, 1);
    Barrier barrier;
    barrier.hold(world.streams[0]);
    weir_lease lease = nullptr;
    Kernel kernel{0, size, mode == WEIR_READ ? 1U : 2U, 0};
    ok(acquire_remote(world, buffer, mode, &lease, &kernel.address));
    ok(kernel.launch(world.streams[0], mode == WEIR_READ ? Kernel::compare : Kernel::write));
    ok(weir_release(lease, world.streams[0]));
    Task trimmer([&world] {
      return weir_pool_trim(world.pool, 1, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr);
    });
    assert_true(keeps_waiting(trimmer));
    barrier.open();
    ok(trimmer.join());
    ok(weir_stream_synchronize(world.streams[0]));
    assert_int_equal(kernel.wrong, 0);
    assert_int_equal(query(world, buffer).device_bytes, 0);
    world.check_read(buffer, size, mode == WEIR_READ ? 1 : 2);
    ok(weir_buffer_destroy(world.pool, buffer));
    finish(world);
  }
}

/// It comes while the pages are leaving: wherever they are then, it gets them whole.
void comes_while_they_leave(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  weir_lease lease = nullptr;
  uint64_t address = 0;
  {
    Gate gate(world.pool, "evict.claimed");
    Task trimmer([&world] {
      return weir_pool_trim(world.pool, 1, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr);
    });
    gate.await();
    Task user([&] { return acquire_remote(world, buffer, WEIR_READ, &lease, &address); });
    assert_true(keeps_waiting(user));
    gate.open();
    ok(trimmer.join());
    ok(user.join());
  }
  Kernel kernel{address, size, 1, 0};
  ok(kernel.launch(world.streams[0], Kernel::compare));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(kernel.wrong, 0);
  world.check(buffer, size, 1, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

// ---- mixed sets ----

void local_and_remote_in_one_set(void **) {
  World world(two());
  weir_buffer there = world.buffer(size, 1);
  weir_buffer here = world.buffer(size, 0);
  weir_buffer fresh = world.buffer(size, 0);
  world.fill(there, size, 1, 1);
  world.fill(here, size, 2, 0);
  ok(trim_all(world));
  weir_use uses[3] = {remote_use(here, WEIR_READ), remote_use(there, WEIR_READ_WRITE),
                      remote_use(fresh, WEIR_DISCARD_WRITE)};
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], uses, 3, nullptr, &lease));
  assert_int_equal(world.stats().remote_uses, query(world, here).peer_bytes != 0 ? 2 : 1);
  Kernel kernels[3] = {
      {uses[0].address, size, 2, 0}, {uses[1].address, size, 3, 0}, {uses[2].address, size, 4, 0}};
  ok(kernels[0].launch(world.streams[0], Kernel::compare));
  ok(kernels[1].launch(world.streams[0], Kernel::write));
  ok(kernels[2].launch(world.streams[0], Kernel::write));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(kernels[0].wrong, 0);
  validate(world);
  world.check(there, size, 3, 1);
  world.check(fresh, size, 4, 1);
  for (weir_buffer buffer : {there, here, fresh}) ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

/// Three devices: a set on the memory of all of them.
void on_several_devices(void **) {
  const weir_context context = make_context(
      "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=3;host.links=0-1:nvlink:"
      "150G,0-2:nvlink:150G,1-2:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G,h-2:pcie:16G");
  weir_pool_device devices[3] = {};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  for (uint32_t i = 0; i < 3; ++i) {
    devices[i].device = i;
    devices[i].budget = 8 * page_bytes;
  }
  desc.devices = devices;
  desc.device_count = 3;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 64 * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  World world(context, pool);
  weir_stream third = nullptr;
  for (uint32_t i = 0; i < 2; ++i) ok(weir_stream_create(context, i, 0, &world.streams[i]));
  ok(weir_stream_create(context, 2, 0, &third));
  weir_buffer buffers[6];
  weir_stream streams[3] = {world.streams[0], world.streams[1], third};
  weir_use uses[6];
  for (uint32_t i = 0; i < 6; ++i) {
    buffers[i] = world.buffer(page_bytes, i % 3);
    weir_use use = WEIR_USE(buffers[i], WEIR_DISCARD_WRITE);
    weir_lease lease = nullptr;
    ok(weir_acquire(pool, streams[i % 3], &use, 1, nullptr, &lease));
    Kernel kernel{use.address, page_bytes, i, 0};
    ok(kernel.launch(streams[i % 3], Kernel::write));
    ok(weir_release(lease, streams[i % 3]));
    ok(weir_stream_synchronize(streams[i % 3]));
    uses[i] = remote_use(buffers[i], WEIR_READ_WRITE);
  }
  weir_lease lease = nullptr;
  ok(weir_acquire(pool, world.streams[0], uses, 6, nullptr, &lease));
  assert_int_equal(world.stats().remote_uses, 4);
  Kernel kernels[6];
  for (uint32_t i = 0; i < 6; ++i) {
    kernels[i] = Kernel{uses[i].address, page_bytes, i, 0};
    ok(kernels[i].launch(world.streams[0], Kernel::compare));
  }
  weir_lease none = nullptr;
  for (uint32_t i = 0; i < 6; ++i) {
    weir_use use = WEIR_USE(buffers[i], WEIR_READ);
    expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_acquire(pool, third, &use, 1, nullptr, &none));
  }
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  for (const Kernel &kernel : kernels) assert_int_equal(kernel.wrong, 0);
  validate(world);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(pool, buffer));
  ok(weir_pool_destroy(pool));
  for (weir_stream stream : streams) ok(weir_stream_close(stream));
  ok(weir_context_destroy(context));
}

/// What was leased there is let go of if the rest can't be had.
void a_failed_set_leaves_nothing(void **) {
  World world(two(near_devices, 8));
  weir_buffer there = world.buffer(size, 1);
  world.fill(there, size, 1, 1);
  weir_buffer in_the_way = world.buffer(6 * page_bytes, 0);
  weir_buffer big = world.buffer(9 * page_bytes, 0);
  weir_buffer middling = world.buffer(4 * page_bytes, 0);
  weir_lease blocking = nullptr;
  ok(world.acquire(in_the_way, WEIR_DISCARD_WRITE, &blocking));
  for (const weir_buffer local : {big, middling}) {
    weir_use uses[2] = {remote_use(there, WEIR_READ_WRITE), remote_use(local, WEIR_DISCARD_WRITE)};
    weir_lease lease = nullptr;
    expect_result(local == big ? WEIR_ERROR_OVER_BUDGET : WEIR_ERROR_WOULD_BLOCK,
                  weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease));
    assert_int_equal(query(world, there).leases, 0);
    world.fill(there, size, 2, 1);
    validate(world);
  }
  assert_int_equal(world.stats().remote_uses, 0);
  ok(weir_release(blocking, world.streams[0]));
  for (weir_buffer buffer : {there, in_the_way, big, middling})
    ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

/// While the set waits for leases on its own device it holds nothing on the others'.
void waiting_holds_nothing(void **) {
  World world(two(near_devices, 8));
  weir_buffer there = world.buffer(size, 1);
  world.fill(there, size, 1, 1);
  weir_buffer in_the_way = world.buffer(6 * page_bytes, 0);
  weir_buffer local = world.buffer(4 * page_bytes, 0);
  weir_lease blocking = nullptr;
  ok(world.acquire(in_the_way, WEIR_DISCARD_WRITE, &blocking));
  weir_use uses[2] = {remote_use(there, WEIR_READ_WRITE), WEIR_USE(local, WEIR_DISCARD_WRITE)};
  weir_lease lease = nullptr;
  Task waiter([&] {
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    options.timeout_ns = WEIR_INFINITE;
    options.flags = WEIR_ACQUIRE_SOLE_HOLDER;
    return weir_acquire(world.pool, world.streams[0], uses, 2, &options, &lease);
  });
  // What it tries before it waits comes to an end, on a busy machine after any number of looks; from then on nothing there is
  // leased.
  const auto unleased = [&] { return query(world, there).leases == 0; };
  while (!stays(unleased)) std::this_thread::yield();
  assert_false(waiter.ended());
  ok(weir_release(blocking, world.streams[0]));
  ok(waiter.join());
  assert_int_equal(world.stats().remote_uses, 1);
  Kernel kernel{uses[0].address, size, 1, 0};
  ok(kernel.launch(world.streams[0], Kernel::compare));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(kernel.wrong, 0);
  for (weir_buffer buffer : {there, in_the_way, local}) ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(reads_where_the_bytes_are),     cmocka_unit_test(writes_where_the_bytes_are),
      cmocka_unit_test(other_copies_are_stale),        cmocka_unit_test(work_is_ordered),
      cmocka_unit_test(conflicts_as_a_lease_there),    cmocka_unit_test(ranges_conflict_by_place),
      cmocka_unit_test(uses_of_a_buffer_go_together),  cmocka_unit_test(eviction_steps_around),
      cmocka_unit_test(eviction_waits_for_the_stream), cmocka_unit_test(comes_while_they_leave),
      cmocka_unit_test(local_and_remote_in_one_set),   cmocka_unit_test(on_several_devices),
      cmocka_unit_test(a_failed_set_leaves_nothing),   cmocka_unit_test(waiting_holds_nothing),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
