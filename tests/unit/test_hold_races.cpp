// SPDX-License-Identifier: Apache-2.0
//
// Holds beside what the public interface alone can't show: devices that are lost, leases on another device's memory, sharded
// buffers, and holds that come and go while copies are made, pages leave and hits are granted. tests/abi/test_holds.cpp
// walks the table.

#include "tests/unit/sharded.hpp"

#include <atomic>

namespace {

using namespace weir::test;

const uint64_t size = lease_bytes;

enum Mode : uint32_t { reading, shared, alone };
constexpr Mode every_mode[] = {reading, shared, alone};

weir_result hold(World &world, weir_buffer buffer, Mode mode, uint64_t *address,
                 weir_device device = 0) {
  return weir_hold_as(world.pool, buffer, device, mode == reading ? WEIR_READ : WEIR_READ_WRITE,
                      mode == alone ? WEIR_HOLD_ALONE : 0, address);
}
/// A kernel without a lease.
void graph(World &world, uint64_t address, uint64_t bytes, uint32_t seed) {
  Kernel kernel{address, bytes, seed, 0};
  ok(kernel.launch(world.streams[0], Kernel::write));
  ok(weir_stream_synchronize(world.streams[0]));
}
weir_result write_byte(World &world, weir_buffer buffer) {
  const uint8_t byte = 1;
  return weir_buffer_write(world.pool, buffer, 0, 1, &byte);
}
weir_result read_byte(World &world, weir_buffer buffer) {
  uint8_t byte = 0;
  return weir_buffer_read(world.pool, buffer, 0, 1, &byte);
}
// ---- loss ----

/// What was held to be read lives on in its copies; what was held to be written has none.
void a_lost_device(void **) {
  for (const Mode mode : every_mode) {
    for (const bool copied : {false, true}) {
      World world(two());
      weir_buffer buffer = world.buffer(size, 0);
      world.fill(buffer, size, 1, 0);
      if (copied) world.check(buffer, size, 1, 1);
      uint64_t address = 0;
      ok(hold(world, buffer, mode, &address));
      engine_of(world).lose_device(0);
      validate(world);
      const bool lives = mode == reading && copied;
      assert_int_equal(query(world, buffer).lost_bytes, lives ? 0 : size);
      if (lives) world.check(buffer, size, 1, 1);
      if (mode != alone)
        expect_result(lives ? WEIR_SUCCESS : WEIR_ERROR_DATA_LOST, read_byte(world, buffer));
      if (mode != shared) expect_result(WEIR_ERROR_LEASE_CONFLICT, write_byte(world, buffer));
      expect_result(mode == alone ? WEIR_ERROR_LEASE_CONFLICT : WEIR_ERROR_DEVICE_LOST,
                    hold(world, buffer, mode, &address));
      if (mode == shared) {  // nothing writes there any more: it can be begun anew at once
        ok(weir_discard(world.pool, buffer, 0, WEIR_WHOLE));
        ok(write_byte(world, buffer));
        validate(world);
      }
      ok(weir_unhold(world.pool, buffer));
      ok(weir_discard(world.pool, buffer, 0, WEIR_WHOLE));
      world.fill(buffer, size, 2, 1);
      world.check_read(buffer, size, 2);
      validate(world);
      ok(weir_buffer_destroy(world.pool, buffer));
      world.close();
    }
  }
}

/// Another device that is lost takes nothing along but copies.
void a_lost_neighbour(void **) {
  for (const Mode mode : every_mode) {
    World world(two());
    weir_buffer buffer = world.buffer(size, 1);
    world.fill(buffer, size, 1, 1);
    uint64_t address = 0;
    ok(hold(world, buffer, mode, &address));
    if (mode != reading) graph(world, address, size, 2);
    if (mode != alone) world.check(buffer, size, mode == reading ? 1 : 2, 1);
    engine_of(world).lose_device(1);
    validate(world);
    assert_int_equal(query(world, buffer).lost_bytes, 0);
    ok(weir_unhold(world.pool, buffer));
    world.check(buffer, size, mode == reading ? 1 : 2, 0);
    validate(world);
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

// ---- leases on another device's memory ----

/// They are leases on the device that holds, and use the held memory itself.
void remote_uses(void **) {
  for (const Mode mode : every_mode) {
    World world(two());
    weir_buffer buffer = world.buffer(size, 1);
    world.fill(buffer, size, 1, 1);
    world.check(buffer, size, 1, 0);  // a copy that would do, were there no hold
    uint64_t address = 0;
    ok(hold(world, buffer, mode, &address, 1));
    weir_lease lease = nullptr;
    uint64_t there = 0;
    if (mode == alone) {
      expect_result(WEIR_ERROR_LEASE_CONFLICT, acquire_remote(world, buffer, WEIR_READ, &lease));
    }
    if (mode == shared) {
      graph(world, address, size, 2);
      assert_int_equal(use_remote(world, buffer, size, WEIR_READ, 2), address);
      assert_int_equal(use_remote(world, buffer, size, WEIR_READ_WRITE, 3), address);
      graph(world, address, size, 4);
    } else {
      expect_result(WEIR_ERROR_LEASE_CONFLICT,
                    acquire_remote(world, buffer, WEIR_READ_WRITE, &lease));
    }
    if (mode == reading) {
      ok(acquire_remote(world, buffer, WEIR_READ, &lease, &there));
      assert_int_not_equal(there, address);  // its own copy is as good
      ok(weir_release(lease, world.streams[0]));
    }
    ok(weir_unhold(world.pool, buffer));
    world.check(buffer, size, mode == shared ? 4 : 1, 0);
    world.check(buffer, size, mode == shared ? 4 : 1, 1);
    ok(weir_buffer_destroy(world.pool, buffer));
    finish(world);
  }
}

/// The writer is lost, and with it what it wrote to memory that is held on a device which is well.
void a_lost_remote_writer(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  uint64_t address = 0;
  ok(hold(world, buffer, shared, &address, 1));
  weir_lease lease = nullptr;
  ok(acquire_remote(world, buffer, WEIR_READ_WRITE, &lease));
  engine_of(world).lose_device(0);
  validate(world);
  (void)weir_release(lease, world.streams[0]);
  expect_result(WEIR_ERROR_DATA_LOST, read_byte(world, buffer));
  expect_result(WEIR_ERROR_DATA_LOST, hold(world, buffer, shared, &address, 1));
  ok(weir_discard(world.pool, buffer, 0, WEIR_WHOLE));
  validate(world);
  std::vector<uint8_t> bytes(size, 1);
  ok(weir_buffer_read(world.pool, buffer, 0, size, bytes.data()));
  assert_true(all_zero(bytes));
  ok(weir_unhold(world.pool, buffer));
  world.fill(buffer, size, 2, 1);
  world.check_read(buffer, size, 2);
  validate(world);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

// ---- sharded buffers ----

/// One memory of several devices: it is held on all of them, and all of them are "the device".
void sharded_buffers(void **) {
  for (const Mode mode : every_mode) {
    Trio world(8);
    const uint64_t bytes = 6 * page_bytes;
    weir_buffer buffer = world.sharded(bytes);
    world.put(buffer, bytes, 1, 0);
    world.trim_devices();
    world.see(buffer, bytes, 1, 1);  // in HOST too
    uint64_t address = 0;
    uint64_t again = 0;
    ok(hold(world, buffer, mode, &address, 2));
    validate(world);
    const weir_result joins = mode == alone ? WEIR_ERROR_LEASE_CONFLICT : WEIR_SUCCESS;
    expect_result(joins, hold(world, buffer, mode, &again, 0));
    if (mode != alone) {
      assert_int_equal(again, address);
      ok(weir_unhold(world.pool, buffer));
    }
    uint32_t seed = 1;
    if (mode != reading) graph(world, address, bytes, ++seed);
    for (uint32_t device = 0; device < 3; ++device) {
      Kernel kernel{0, bytes, seed, 0};
      expect_result(joins, world.use(buffer, WEIR_READ, device, &kernel));
      assert_int_equal(kernel.wrong, 0);
      if (mode == shared) ++kernel.seed;
      expect_result(mode == shared ? WEIR_SUCCESS : WEIR_ERROR_LEASE_CONFLICT,
                    world.use(buffer, WEIR_READ_WRITE, device, &kernel));
      seed = kernel.seed;
      validate(world);
    }
    expect_result(joins, read_byte(world, buffer));
    if (mode == shared) {
      ok(weir_discard(world.pool, buffer, 0, WEIR_WHOLE));
      validate(world);
      graph(world, address, bytes, ++seed);
    }
    weir_stream cpu = nullptr;
    ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
    weir_use use = WEIR_USE(buffer, WEIR_READ);
    weir_lease lease = nullptr;
    expect_result(joins, weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
    if (mode != alone) {
      Kernel kernel{use.address, bytes, seed, 0};
      Kernel::compare(&kernel);
      assert_int_equal(kernel.wrong, 0);
      ok(weir_release(lease, cpu));
    }
    use.mode = WEIR_READ_WRITE;
    expect_result(WEIR_ERROR_LEASE_CONFLICT,
                  weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
    if (mode != reading) graph(world, address, bytes, ++seed);
    validate(world);
    world.trim_devices();
    ok(weir_unhold(world.pool, buffer));
    world.trim_devices();
    for (uint32_t device = 0; device < 3; ++device) world.see(buffer, bytes, seed, device);
    ok(weir_buffer_destroy(world.pool, buffer));
    ok(weir_stream_close(cpu));
    world.close_sharded();
  }
}

// ---- while copies are made ----

/// A copy elsewhere is under way as the hold goes: what was written under it before is not in it, so it counts for nothing.
void a_hold_goes_while_a_copy_is_made(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 0);
  world.fill(buffer, size, 1, 0);
  uint64_t address = 0;
  ok(hold(world, buffer, shared, &address));
  Kernel kernel{0, size, 1, 0};
  {
    Gate gate(world.pool, "fill");
    Task reader([&] { return run(world, buffer, WEIR_READ, &kernel, 1); });
    gate.await();
    validate(world);
    ok(weir_unhold(world.pool, buffer));
    gate.open();
    ok(reader.join());
  }
  assert_int_equal(kernel.wrong, 0);
  validate(world);
  // As if it had been written before the copy was told of. The held copy alone is the latest.
  graph(world, address, size, 2);
  world.check(buffer, size, 2, 1);
  world.check_read(buffer, size, 2);
  ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

/// The same for a copy in HOST, for the CPU.
void a_hold_goes_while_the_cpu_gets_a_copy(void **) {
  World world(two());
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_buffer buffer = world.buffer(page_bytes, 0);
  world.fill(buffer, page_bytes, 1, 0);
  uint64_t address = 0;
  ok(hold(world, buffer, shared, &address));
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  {
    Gate gate(world.pool, "copy");
    Task reader([&] { return weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease); });
    gate.await();
    ok(weir_unhold(world.pool, buffer));
    gate.open();
    ok(reader.join());
  }
  ok(weir_release(lease, cpu));
  validate(world);
  graph(world, address, page_bytes, 2);
  world.check_read(buffer, page_bytes, 2);
  ok(weir_stream_close(cpu));
  ok(weir_buffer_destroy(world.pool, buffer));
  finish(world);
}

/// A copy is being made as the hold comes. It waits for that, and the copy does not count.
void a_hold_comes_while_copies_are_made(void **) {
  for (const Mode mode : {shared, reading}) {
    for (const bool to_cpu : {false, true}) {
      World world(two());
      weir_stream cpu = nullptr;
      ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
      weir_buffer buffer = world.buffer(size, 0);
      world.fill(buffer, size, 1, 0);
      uint64_t address = 0;
      Kernel kernel{0, size, 1, 0};
      weir_use use = WEIR_USE(buffer, WEIR_READ);
      weir_lease lease = nullptr;
      {
        Gate gate(world.pool, to_cpu ? "copy" : "fill");
        Task reader([&] {
          return to_cpu ? weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease)
                        : run(world, buffer, WEIR_READ, &kernel, 1);
        });
        gate.await();
        Task holder([&] { return hold(world, buffer, mode, &address); });
        assert_true(keeps_waiting(holder));
        gate.open();
        ok(holder.join());
        ok(reader.join());
      }
      validate(world);
      if (to_cpu) {  // every page of it can be looked at
        kernel.address = use.address;
        Kernel::compare(&kernel);
      }
      assert_int_equal(kernel.wrong, 0);
      if (mode == shared) graph(world, address, size, 2);
      if (to_cpu) ok(weir_release(lease, cpu));
      const uint32_t seed = mode == shared ? 2 : 1;
      world.check(buffer, size, seed, 1);
      world.check_read(buffer, size, seed);
      ok(weir_unhold(world.pool, buffer));
      world.check(buffer, size, seed, 1);
      validate(world);
      ok(weir_stream_close(cpu));
      ok(weir_buffer_destroy(world.pool, buffer));
      finish(world);
    }
  }
}

/// Two calls bring the same buffer in at once: the first has it, and the other is told.
void two_holds_at_once(void **) {
  for (const Mode first : {reading, shared}) {
    for (const Mode second : {reading, shared}) {
      World world(two());
      weir_buffer buffer = world.buffer(size, 0);
      std::vector<uint8_t> bytes(size);
      for (uint64_t i = 0; i < size; ++i) bytes[i] = pattern(1, i);
      ok(weir_buffer_write(world.pool, buffer, 0, size, bytes.data()));
      uint64_t address = 0;
      uint64_t again = 0;
      weir_result one = WEIR_SUCCESS;
      weir_result two = WEIR_SUCCESS;
      {
        Gate gate(world.pool, "fill");
        Task early([&] { return hold(world, buffer, first, &address); });
        gate.await();
        Task late([&] { return hold(world, buffer, second, &again); });
        expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(world.pool, buffer));
        gate.open();
        one = early.join();
        two = late.join();
      }
      validate(world);
      const bool both = first == second;
      assert_int_equal((one == WEIR_SUCCESS) + (two == WEIR_SUCCESS), both ? 2 : 1);
      if (one != WEIR_SUCCESS) assert_int_equal(one, WEIR_ERROR_LEASE_CONFLICT);
      if (two != WEIR_SUCCESS) assert_int_equal(two, WEIR_ERROR_LEASE_CONFLICT);
      assert_int_equal(query(world, buffer).held, both ? 2 : 1);
      for (int i = 0; i < (both ? 2 : 1); ++i) ok(weir_unhold(world.pool, buffer));
      expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_unhold(world.pool, buffer));
      world.check(buffer, size, 1, 0);
      ok(weir_buffer_destroy(world.pool, buffer));
      finish(world);
    }
  }
}

/// A copy in HOST is on its way to COMPRESSED as the hold makes it an older version.
void a_hold_comes_while_a_copy_sinks(void **) {
  for (const char *point : {"sink", "sunk"}) {
    Setup setup = two();
    setup.host_pages = 8;
    setup.compressed_pages = 32;
    World world(setup);
    weir_buffer buffer = world.buffer(two_pages, 0);
    world.fill(buffer, two_pages, 1, 0);
    ok(trim_all(world));
    uint64_t address = 0;
    {
      Gate gate(world.pool, point);
      Task sink([&] {
        return weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE,
                              nullptr);
      });
      gate.await();
      Task holder([&] { return hold(world, buffer, shared, &address); });
      (void)keeps_waiting(holder);
      gate.open();
      ok(sink.join());
      ok(holder.join());
    }
    validate(world);
    graph(world, address, two_pages, 2);
    ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    world.check_read(buffer, two_pages, 2);
    ok(weir_unhold(world.pool, buffer));
    ok(trim_all(world));
    world.check_read(buffer, two_pages, 2);
    validate(world);
    ok(weir_buffer_destroy(world.pool, buffer));
    finish(world);
  }
}

// ---- hits ----

/// One thread takes leases by the hit path, as fast as it can; another holds and lets go. What a hold forbids is never granted
/// under it, and what was granted before keeps the hold from being taken.
void hits_beside_holds(void **) {
  for (const Mode mode : {reading, alone}) {
    World world(two());
    weir_buffer buffer = world.buffer(page_bytes, 0);
    world.fill(buffer, page_bytes, 1, 0);
    std::atomic<bool> held{false};
    std::atomic<bool> stop{false};
    std::atomic<uint32_t> wrong{0};
    std::atomic<uint32_t> granted{0};
    std::atomic<uint32_t> tries{0};
    const uint32_t use = mode == reading ? WEIR_READ_WRITE : WEIR_READ;
    std::thread hitter([&] {
      while (!stop.load()) {
        weir_lease lease = nullptr;
        const weir_result result = world.acquire(buffer, use, &lease);
        ++tries;
        if (result != WEIR_SUCCESS) {
          wrong += result == WEIR_ERROR_LEASE_CONFLICT ? 0 : 1;
          continue;
        }
        wrong += held.load() ? 1 : 0;
        ++granted;
        wrong += weir_release(lease, world.streams[0]) == WEIR_SUCCESS ? 0 : 1;
      }
    });
    uint32_t taken = 0;
    // Both come to it many times, within a bound that no machine needs.
    for (uint32_t i = 0; i < 2'000'000 && (taken < 50 || granted.load() < 50); ++i) {
      uint64_t address = 0;
      const weir_result result = hold(world, buffer, mode, &address);
      if (result != WEIR_SUCCESS) {
        wrong += result == WEIR_ERROR_LEASE_CONFLICT ? 0 : 1;
        std::this_thread::yield();
        continue;
      }
      held.store(true);
      // It is tried under the hold, however the threads are scheduled: the second try from now on has begun under it.
      const uint32_t begun = tries.load();
      while (tries.load() - begun < 3) wrong += query(world, buffer).leases != 0 ? 1 : 0;
      held.store(false);
      ++taken;
      wrong += weir_unhold(world.pool, buffer) == WEIR_SUCCESS ? 0 : 1;
      // Opens the hit path again.
      const uint32_t before = granted.load();
      for (int k = 0; k < 200 && granted.load() == before; ++k) std::this_thread::yield();
    }
    stop.store(true);
    hitter.join();
    assert_int_equal(wrong.load(), 0);
    assert_true(taken >= 50 && granted.load() >= 50);
    validate(world);
    ok(weir_buffer_destroy(world.pool, buffer));
    finish(world);
  }
}

/// Under a shared hold at home leases are hits as before, and after any hold they are again.
void hits_go_on(void **) {
  for (const Mode mode : every_mode) {
    World world(two());
    weir_buffer buffer = world.buffer(page_bytes, 0);
    world.fill(buffer, page_bytes, 1, 0);
    weir_lease lease = nullptr;
    uint64_t address = 0;
    const auto hit = [&](uint32_t use) {
      const uint64_t misses = world.stats().misses;
      const weir_result result = world.acquire(buffer, use, &lease);
      if (result == WEIR_SUCCESS) ok(weir_release(lease, world.streams[0]));
      assert_int_equal(world.stats().misses, misses);
      validate(world);
      return result;
    };
    ok(hold(world, buffer, mode, &address));
    validate(world);
    for (int i = 0; i < 3; ++i) {
      expect_result(mode == alone ? WEIR_ERROR_LEASE_CONFLICT : WEIR_SUCCESS, hit(WEIR_READ));
      expect_result(mode == shared ? WEIR_SUCCESS : WEIR_ERROR_LEASE_CONFLICT,
                    hit(WEIR_READ_WRITE));
    }
    ok(weir_unhold(world.pool, buffer));
    for (int i = 0; i < 3; ++i) ok(hit(WEIR_READ_WRITE));
    ok(weir_buffer_destroy(world.pool, buffer));
    finish(world);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_lost_device),
      cmocka_unit_test(a_lost_neighbour),
      cmocka_unit_test(remote_uses),
      cmocka_unit_test(a_lost_remote_writer),
      cmocka_unit_test(sharded_buffers),
      cmocka_unit_test(a_hold_goes_while_a_copy_is_made),
      cmocka_unit_test(a_hold_goes_while_the_cpu_gets_a_copy),
      cmocka_unit_test(a_hold_comes_while_copies_are_made),
      cmocka_unit_test(two_holds_at_once),
      cmocka_unit_test(a_hold_comes_while_a_copy_sinks),
      cmocka_unit_test(hits_beside_holds),
      cmocka_unit_test(hits_go_on),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
