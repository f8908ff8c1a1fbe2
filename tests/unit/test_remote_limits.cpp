// SPDX-License-Identifier: Apache-2.0
//
// Where a use with WEIR_USE_ALLOW_REMOTE is an ordinary one, and what becomes of it with borrowed pages, lost devices and
// two devices at each other's memory.

#include "tests/unit/remote_lease.hpp"

#include <array>
#include <vector>

namespace {

using namespace weir::test;

const uint64_t size = lease_bytes;

// ---- where it is not possible ----

void ordinary_elsewhere(void **) {
  const std::string base = near_devices;
  const std::string without = base.substr(0, base.find("host.links="));
  const std::string staged =
      without + "host.links=0-1:nvlink:150G:1:0:staged,h-0:pcie:16G,h-1:pcie:16G";
  for (const std::string &options : {staged, base + ";host.peer=0", base + ";host.vmm=0"}) {
    World world(two(options.c_str()));
    weir_buffer buffer = world.buffer(size, 1);
    world.fill(buffer, size, 1, 1);
    const uint64_t there = address_on(world, buffer, 1);
    assert_true(use_remote(world, buffer, size, WEIR_READ, 1) != there);
    assert_true(use_remote(world, buffer, size, WEIR_READ_WRITE, 2) != there);
    assert_int_equal(world.stats().remote_uses, 0);
    world.check(buffer, size, 2, 1);
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

void ordinary_if_they_are_not_all_there(void **) {
  World world(two());
  weir_buffer unwritten = world.buffer(size, 1);
  assert_int_equal(use_remote(world, unwritten, size, WEIR_DISCARD_WRITE, 1),
                   address_on(world, unwritten, 0));
  weir_buffer in_host = world.buffer(size, 1);
  world.fill(in_host, size, 2, 1);
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  weir_buffer divided = world.buffer(size, 1);
  world.fill(divided, size, 3, 1);
  weir_use one = part(divided, WEIR_READ_WRITE, 0);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], &one, 1, nullptr, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(acquire_remote(world, divided, WEIR_READ, &lease));
  ok(weir_release(lease, world.streams[0]));
  assert_int_equal(world.stats().remote_uses, 0);
  world.check(divided, size, 3, 0);
  // A stream of the CPU's.
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = remote_use(in_host, WEIR_READ);
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  assert_int_equal(wrong_bytes(reinterpret_cast<uint8_t *>(use.address), size, PatternOf{2}), 0);
  ok(weir_release(lease, cpu));
  ok(weir_stream_close(cpu));
  assert_int_equal(world.stats().remote_uses, 0);
  for (weir_buffer buffer : {unwritten, in_host, divided})
    ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

/// Read in their slab; to be written elsewhere they get pages of their own, as ever.
void small_buffers(void **) {
  World world(two());
  weir_buffer small[3];
  for (uint32_t i = 0; i < 3; ++i) {
    small[i] = world.buffer(500, 1);
    world.fill(small[i], 500, i, 1);
  }
  const uint64_t there = address_on(world, small[0], 1);
  assert_int_equal(use_remote(world, small[0], 500, WEIR_READ, 0), there);
  assert_int_equal(world.stats().remote_uses, 1);
  assert_true(use_remote(world, small[1], 500, WEIR_READ_WRITE, 7) != there);
  assert_int_equal(world.stats().remote_uses, 1);
  // One that is not used there yet has no bytes there.
  weir_buffer untouched = world.buffer(500, 1);
  (void)use_remote(world, untouched, 500, WEIR_READ_WRITE, 8);
  assert_int_equal(world.stats().remote_uses, 1);
  world.check(small[0], 500, 0, 1);
  world.check(small[1], 500, 7, 1);
  world.check(small[2], 500, 2, 0);
  world.check(untouched, 500, 8, 1);
  for (weir_buffer buffer : {small[0], small[1], small[2], untouched})
    ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

void prefetch_brings_nothing(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  weir_use use = remote_use(buffer, WEIR_READ);
  ok(weir_prefetch(world.pool, world.streams[0], &use, 1));
  assert_int_equal(world.stats().peer_bytes, 0);
  use.flags = 0;
  ok(weir_prefetch(world.pool, world.streams[0], &use, 1));
  assert_int_equal(world.stats().peer_bytes, size);
  world.check(buffer, size, 1, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

// ---- borrowed pages ----

/// What was spilled to the neighbour is used there: it stays while it is leased, stays borrowed, and goes first after.
void borrowed_pages_are_used_where_they_are(void **) {
  World world(two(near_devices, 20, WEIR_POOL_NO_BACKGROUND));
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  ok(trim_all(world));
  assert_int_equal(world.stats().borrowed_bytes, size);
  weir_lease lease = nullptr;
  Kernel kernel{0, size, 1, 0};
  Barrier barrier;
  barrier.hold(world.streams[0]);
  ok(acquire_remote(world, buffer, WEIR_READ, &lease, &kernel.address));
  assert_int_equal(world.stats().remote_uses, 1);
  assert_int_equal(world.stats().borrowed_bytes, size);
  // Another copy would make it a spare, if it were not leased.
  weir_lease reader = nullptr;
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &reader));
  ok(weir_release(reader, cpu));
  ok(weir_stream_close(cpu));
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  assert_int_equal(world.stats().borrowed_bytes, size);
  ok(kernel.launch(world.streams[0], Kernel::compare));
  ok(weir_release(lease, world.streams[0]));
  // Its work has not ended.
  Task trimmer(
      [&world] { return weir_pool_trim(world.pool, 1, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr); });
  assert_true(keeps_waiting(trimmer));
  barrier.open();
  ok(trimmer.join());
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(kernel.wrong, 0);
  assert_int_equal(world.stats().borrowed_bytes, 0);
  world.check(buffer, size, 1);
  world.fill(buffer, size, 3);
  ok(trim_all(world));
  assert_int_equal(world.stats().borrowed_bytes, size);
  (void)use_remote(world, buffer, size, WEIR_READ_WRITE, 2);
  assert_int_equal(world.stats().borrowed_bytes, size);
  weir_buffer own = world.buffer(19 * page_bytes, 1);
  world.fill(own, 19 * page_bytes, 9, 1);
  assert_int_equal(world.stats().borrowed_bytes <= page_bytes, 1);
  world.check(own, 19 * page_bytes, 9, 1);
  world.check(buffer, size, 2);
  for (weir_buffer of : {buffer, own}) ok(weir_buffer_destroy(world.pool, of));
  finish(world);
}

// ---- loss ----

void the_memory_is_lost(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  weir_lease lease = nullptr;
  ok(acquire_remote(world, buffer, WEIR_READ, &lease));
  engine_of(world).lose_device(1);
  ok(weir_release(lease, world.streams[0]));
  expect_result(WEIR_ERROR_DATA_LOST, acquire_remote(world, buffer, WEIR_READ, &lease));
  assert_int_equal(query(world, buffer).lost_bytes, size);
  world.fill(buffer, size, 2, 0);
  world.check(buffer, size, 2, 0);
  validate(world);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// ... while the rest of the set is being brought in: nothing of the set is granted, and nothing of it stays leased.
void the_memory_is_lost_meanwhile(void **) {
  World world(two());
  weir_buffer there = world.buffer(size, 1);
  weir_buffer here = world.buffer(size, 0);
  world.fill(there, size, 1, 1);
  weir_use uses[2] = {remote_use(there, WEIR_READ), WEIR_USE(here, WEIR_READ_WRITE)};
  weir_lease lease = nullptr;
  {
    Gate gate(world.pool, "fill");
    Task user([&] { return weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease); });
    gate.await();
    assert_int_equal(query(world, there).leases, 1);
    engine_of(world).lose_device(1);
    gate.open();
    expect_result(WEIR_ERROR_DATA_LOST, user.join());
  }
  validate(world);
  assert_int_equal(query(world, there).leases + query(world, here).leases, 0);
  assert_int_equal(world.stats().remote_uses, 0);
  world.fill(here, size, 2, 0);
  world.check(here, size, 2, 0);
  for (weir_buffer buffer : {there, here}) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// What a lost device was writing on another's memory is lost with it; what it has written is not.
void the_writer_is_lost(void **) {
  for (const bool released : {false, true}) {
    World world(two());
    weir_buffer done = world.buffer(size, 1);
    weir_buffer half = world.buffer(size, 1);
    weir_buffer read = world.buffer(size, 1);
    uint32_t seed = 1;
    for (weir_buffer buffer : {done, half, read}) world.fill(buffer, size, seed++, 1);
    (void)use_remote(world, done, size, WEIR_READ_WRITE, 4);
    Barrier barrier;
    barrier.hold(world.streams[0]);
    weir_use uses[2] = {remote_use(read, WEIR_READ), remote_use(half, WEIR_READ_WRITE)};
    uses[1].offset = page_bytes;
    uses[1].length = page_bytes + 1;
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease));
    if (released) ok(weir_release(lease, world.streams[0]));
    engine_of(world).lose_device(0);
    if (!released) ok(weir_release(lease, world.streams[0]));
    barrier.open();
    validate(world);
    world.check(done, size, 4, 1);
    world.check(read, size, 3, 1);
    assert_int_equal(query(world, half).lost_bytes, 2 * page_bytes);
    expect_result(WEIR_ERROR_DATA_LOST, world.acquire(half, WEIR_READ, &lease, nullptr, 1));
    weir_use rest = part(half, WEIR_READ, 0);
    ok(weir_acquire(world.pool, world.streams[1], &rest, 1, nullptr, &lease));
    ok(weir_release(lease, world.streams[1]));
    world.fill(half, size, 5, 1);
    world.check(half, size, 5, 1);
    for (weir_buffer buffer : {done, half, read}) ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

/// ... while what it was writing leaves the device it is on, or is copied to a third place: no copy of it is good.
void the_writer_is_lost_on_the_way(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  Barrier barrier;
  barrier.hold(world.streams[0]);
  weir_lease lease = nullptr;
  ok(acquire_remote(world, buffer, WEIR_READ_WRITE, &lease));
  ok(weir_release(lease, world.streams[0]));
  {
    Gate gate(world.pool, "evict.claimed");
    Task trimmer([&world] {
      return weir_pool_trim(world.pool, 1, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr);
    });
    gate.await();
    engine_of(world).lose_device(0);
    assert_int_equal(query(world, buffer).lost_bytes, size);
    gate.open();
    barrier.open();
    ok(trimmer.join());
  }
  validate(world);
  assert_int_equal(query(world, buffer).lost_bytes, size);
  assert_int_equal(world.stats().host_used_bytes, 0);
  expect_result(WEIR_ERROR_DATA_LOST, world.acquire(buffer, WEIR_READ, &lease, nullptr, 1));
  world.fill(buffer, size, 5, 1);
  world.check(buffer, size, 5, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// ... and so is the device it is on, before or after: bytes of the writer's unfinished work are never read, though a copy of
/// them has come down.
void the_writer_and_the_memory_are_lost_on_the_way(void **) {
  for (const std::array<uint8_t, 2> order : {std::array<uint8_t, 2>{0, 1}, {1, 0}}) {
    World world(two());
    weir_buffer buffer = world.buffer(size, 1);
    world.fill(buffer, size, 1, 1);
    Barrier barrier;
    barrier.hold(world.streams[0]);
    weir_lease lease = nullptr;
    ok(acquire_remote(world, buffer, WEIR_READ_WRITE, &lease));
    ok(weir_release(lease, world.streams[0]));
    {
      Gate gate(world.pool, "evict.claimed");
      Task trimmer([&world] {
        return weir_pool_trim(world.pool, 1, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr);
      });
      gate.await();
      for (const uint8_t device : order) engine_of(world).lose_device(device);
      gate.open();
      barrier.open();
      ok(trimmer.join());
    }
    validate(world);
    assert_int_equal(query(world, buffer).lost_bytes, size);
    std::vector<uint8_t> bytes(size);
    expect_result(WEIR_ERROR_DATA_LOST,
                  weir_buffer_read(world.pool, buffer, 0, size, bytes.data()));
    ok(weir_discard(world.pool, buffer, 0, WEIR_WHOLE));
    ok(weir_buffer_write(world.pool, buffer, 0, size, bytes.data()));
    ok(weir_buffer_read(world.pool, buffer, 0, size, bytes.data()));
    assert_int_equal(query(world, buffer).lost_bytes, 0);
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

// ---- devices that come and go ----

/// What was mapped before a device came is not in its reach; and one that leaves waits for the work that uses its memory.
void devices_come_and_go(void **) {
  World world(two());
  ok(weir_pool_remove_device(world.pool, 1, 0));
  weir_buffer before = world.buffer(size, 0);
  world.fill(before, size, 1, 0);
  weir_pool_device back{};
  back.device = 1;
  back.budget = 16 * page_bytes;
  ok(weir_pool_add_device(world.pool, &back));
  weir_buffer after = world.buffer(size, 0);
  world.fill(after, size, 2, 0);
  weir_lease lease = nullptr;
  Kernel kernels[2] = {{0, size, 1, 0}, {0, size, 2, 0}};
  weir_use uses[2] = {remote_use(before, WEIR_READ), remote_use(after, WEIR_READ_WRITE)};
  ok(weir_acquire(world.pool, world.streams[1], uses, 2, nullptr, &lease));
  assert_int_equal(world.stats().remote_uses, 1);
  assert_int_equal(uses[1].address, query(world, after).address);
  assert_true(uses[0].address != query(world, before).address);
  for (uint32_t i = 0; i < 2; ++i) {
    kernels[i].address = uses[i].address;
    ok(kernels[i].launch(world.streams[1], Kernel::compare));
  }
  expect_result(WEIR_ERROR_TIMEOUT, weir_pool_remove_device(world.pool, 0, 0));
  ok(weir_release(lease, world.streams[1]));
  ok(weir_pool_remove_device(world.pool, 0, WEIR_INFINITE));
  ok(weir_stream_synchronize(world.streams[1]));
  assert_int_equal(kernels[0].wrong + kernels[1].wrong, 0);
  validate(world);
  world.check(before, size, 1, 1);
  world.check(after, size, 2, 1);
  for (weir_buffer buffer : {before, after}) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// Two threads with sets on each other's memory, and waits: every byte is right, and both come to their end.
void two_devices_at_each_other(void **) {
  World world(two(near_devices, 8));
  const uint64_t bytes = 3 * page_bytes;
  weir_buffer buffers[2] = {world.buffer(bytes, 0), world.buffer(bytes, 1)};
  weir_buffer fillers[4];
  for (uint32_t i = 0; i < 4; ++i) fillers[i] = world.buffer(size, i / 2);
  for (uint32_t i = 0; i < 2; ++i) world.fill(buffers[i], bytes, i, i);
  const auto work = [&](uint32_t me) -> weir_result {
    uint64_t wrong = 0;
    for (uint32_t turn = 0; turn < 200; ++turn) {
      weir_use uses[2] = {remote_use(buffers[1 - me], WEIR_READ),
                          WEIR_USE(fillers[2 * me + turn % 2], WEIR_DISCARD_WRITE)};
      weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
      options.timeout_ns = WEIR_INFINITE;
      options.flags = WEIR_ACQUIRE_SOLE_HOLDER;
      weir_lease lease = nullptr;
      const weir_result result =
          weir_acquire(world.pool, world.streams[me], uses, 2, &options, &lease);
      if (result != WEIR_SUCCESS) return result;
      Kernel kernel{uses[0].address, bytes, 1 - me, 0};
      (void)kernel.launch(world.streams[me], Kernel::compare);
      const weir_result released = weir_release(lease, world.streams[me]);
      (void)weir_stream_synchronize(world.streams[me]);
      wrong += kernel.wrong;
      if (released != WEIR_SUCCESS) return released;
    }
    return wrong == 0 ? WEIR_SUCCESS : WEIR_ERROR_CORRUPT;
  };
  Task first([&work] { return work(0); });
  Task second([&work] { return work(1); });
  const weir_result of_first = first.join();
  ok(second.join());
  ok(of_first);
  for (uint32_t i = 0; i < 2; ++i) {
    world.check(buffers[i], bytes, i, i);
    ok(weir_buffer_destroy(world.pool, buffers[i]));
  }
  for (weir_buffer filler : fillers) ok(weir_buffer_destroy(world.pool, filler));
  assert_true(world.stats().remote_uses != 0);
  finish(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(ordinary_elsewhere),
      cmocka_unit_test(ordinary_if_they_are_not_all_there),
      cmocka_unit_test(small_buffers),
      cmocka_unit_test(prefetch_brings_nothing),
      cmocka_unit_test(borrowed_pages_are_used_where_they_are),
      cmocka_unit_test(the_memory_is_lost),
      cmocka_unit_test(the_memory_is_lost_meanwhile),
      cmocka_unit_test(the_writer_is_lost),
      cmocka_unit_test(the_writer_is_lost_on_the_way),
      cmocka_unit_test(the_writer_and_the_memory_are_lost_on_the_way),
      cmocka_unit_test(devices_come_and_go),
      cmocka_unit_test(two_devices_at_each_other),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
