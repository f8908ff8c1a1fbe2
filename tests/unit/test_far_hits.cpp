// SPDX-License-Identifier: Apache-2.0
//
// The hit path on other devices than a buffer's home: it goes to where the buffer is used, and to a sharded buffer's readers it is open on
// any of its devices. Seen by leases beside a thread that holds the pool's lock. It leaves with its device, no hit is granted once
// another device has written, and a conflict is refused as ever.

#include <array>
#include <atomic>
#include <random>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "tests/support/watchdog.hpp"
#include "tests/unit/lock_holder.hpp"
#include "tests/unit/sharded.hpp"

namespace {

using namespace weir::test;

constexpr uint32_t pages = 6;
const uint64_t size = pages * page_bytes;

void twice(Trio &world, weir_buffer of, uint32_t mode, uint32_t device) {
  Kernel kernel{0, size, 1, 0};
  for (int i = 0; i < 2; ++i) ok(world.use(of, mode, device, &kernel));
}
/// Leases, and nothing else.
weir_result lease(Trio &world, weir_use use, uint32_t device, weir_lease *out) {
  return weir_acquire(world.pool, world.all[device], &use, 1, nullptr, out);
}
void expect_hit(Trio &world, weir_use use, uint32_t device) {
  const LockHolder holder(world);
  for (int i = 0; i < 3; ++i) {
    weir_lease out = nullptr;
    ok(lease(world, use, device, &out));
    ok(weir_release(out, world.all[device]));
  }
}
weir_use range(weir_buffer of, uint32_t mode, uint32_t first, uint32_t count) {
  weir_use use = WEIR_USE(of, mode);
  use.offset = first * page_bytes;
  use.length = count * page_bytes;
  return use;
}

void it_goes_where_the_buffer_is_used(void **) {
  Watchdog dog;
  Trio world(32);
  const weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  for (const uint32_t device : {1U, 2U, 0U, 1U}) {
    twice(world, buffer, WEIR_READ_WRITE, device);
    dog.at("a lease away from home, beside a thread that holds the pool's lock");
    for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE})
      expect_hit(world, WEIR_USE(buffer, mode), device);
    twice(world, buffer, WEIR_READ_WRITE, device);
    validate(world);
  }
  // Where it only reads, too, though the home has the bytes as well.
  for (const uint32_t device : {0U, 2U, 0U}) {
    twice(world, buffer, WEIR_READ, device);
    expect_hit(world, WEIR_USE(buffer, WEIR_READ), device);
    validate(world);
  }
  world.see(buffer, size, 1, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
  dog.stop();
}

/// While a lease is out that may be reading where the path leads, it stays; each has an address of its own device.
void it_stays_while_somebody_has_a_lease(void **) {
  Watchdog dog;
  Trio world(32);
  const weir_buffer buffer = world.buffer(size);
  const uint64_t there = world.put(buffer, size, 1, 1);
  twice(world, buffer, WEIR_READ_WRITE, 1);
  weir_lease held = nullptr, other = nullptr;
  ok(lease(world, WEIR_USE(buffer, WEIR_READ), 1, &held));
  weir_lease copied = nullptr;
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  ok(weir_acquire(world.pool, world.all[0], &use, 1, nullptr, &copied));
  assert_int_not_equal(use.address, there);
  dog.at("a lease where the path has to be still");
  {
    const LockHolder holder(world);
    ok(weir_acquire(world.pool, world.all[1], &use, 1, nullptr, &other));
    assert_int_equal(use.address, there);
  }
  ok(weir_release(copied, world.all[0]));
  expect_result(WEIR_ERROR_LEASE_CONFLICT,
                lease(world, WEIR_USE(buffer, WEIR_READ_WRITE), 0, &other));
  expect_result(WEIR_ERROR_LEASE_CONFLICT,
                lease(world, WEIR_USE(buffer, WEIR_READ_WRITE), 1, &other));
  ok(weir_release(held, world.all[1]));
  validate(world);
  ok(weir_release(other, world.all[1]));
  // What a device has written is nowhere else from then on.
  world.put(buffer, size, 2, 0);
  world.see(buffer, size, 2, 1);
  world.see(buffer, size, 2, 1);
  world.put(buffer, size, 3, 1);
  world.see(buffer, size, 3, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
  dog.stop();
}

/// Ranges have the path at home alone: one that is leased comes back there, and conflicts with the same as ever.
void ranges_have_it_at_home(void **) {
  Watchdog dog;
  Trio world(32);
  const weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  const weir_use part = range(buffer, WEIR_READ_WRITE, 1, 2);
  for (int i = 0; i < 3; ++i) {
    weir_lease out = nullptr;
    twice(world, buffer, WEIR_READ, 1);  // the home keeps its copy
    validate(world);
    for (int again = 0; again < 2; ++again) {
      ok(lease(world, part, 0, &out));
      ok(weir_release(out, world.all[0]));
      ok(weir_stream_synchronize(world.all[0]));
    }
    twice(world, buffer, WEIR_READ_WRITE, 0);
    ok(lease(world, part, 0, &out));
    ok(weir_release(out, world.all[0]));
    dog.at("a range at home");
    expect_hit(world, part, 0);
    ok(lease(world, part, 0, &out));
    weir_lease beside = nullptr;
    expect_result(WEIR_ERROR_LEASE_CONFLICT,
                  lease(world, range(buffer, WEIR_READ, 2, 1), 1, &beside));
    expect_result(WEIR_ERROR_LEASE_CONFLICT, lease(world, WEIR_USE(buffer, WEIR_READ), 1, &beside));
    ok(weir_release(out, world.all[0]));
    validate(world);
  }
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
  dog.stop();
}

void a_sharded_buffers_readers_have_it(void **) {
  Watchdog dog;
  Trio world(32);
  const weir_buffer buffer = world.sharded(size);
  world.put(buffer, size, 1, 0);
  for (const uint32_t device : {0U, 1U, 2U, 0U}) {
    twice(world, buffer, WEIR_READ, device);
    dog.at("a sharded buffer, beside a thread that holds the pool's lock");
    expect_hit(world, WEIR_USE(buffer, WEIR_READ), device);
    for (int i = 0; i < 2; ++i) {
      weir_lease out = nullptr;
      ok(lease(world, range(buffer, WEIR_READ, 1, 3), device, &out));
      ok(weir_release(out, world.all[device]));
    }
    expect_hit(world, range(buffer, WEIR_READ, 1, 3), device);
    expect_hit(world, range(buffer, WEIR_READ, 5, 1), device);
    validate(world);
    // Beside a lease of a range no thread writes those bytes, on any device; other bytes may be written.
    weir_lease out = nullptr, other = nullptr;
    ok(lease(world, range(buffer, WEIR_READ, 1, 2), device, &out));
    const uint32_t next = (device + 1) % 3;
    expect_result(WEIR_ERROR_LEASE_CONFLICT,
                  lease(world, range(buffer, WEIR_READ_WRITE, 2, 1), next, &other));
    expect_result(WEIR_ERROR_LEASE_CONFLICT,
                  lease(world, WEIR_USE(buffer, WEIR_READ_WRITE), device, &other));
    ok(lease(world, range(buffer, WEIR_READ_WRITE, 3, 1), next, &other));
    ok(weir_release(other, world.all[next]));
    ok(weir_release(out, world.all[device]));
    validate(world);
    // A writer is listed as one, and what it has written is seen.
    world.put(buffer, size, 10 + device, next);
    world.see(buffer, size, 10 + device, device);
    world.put(buffer, size, 1, device);
  }
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close_sharded();
  dog.stop();
}

/// What was granted there keeps a device from leaving, and from then on nothing is granted there.
void it_leaves_with_its_device(void **) {
  Watchdog dog;
  for (const bool sharded : {false, true}) {
    Trio world(32);
    const weir_buffer buffer = sharded ? world.sharded(size) : world.buffer(size);
    world.put(buffer, size, 1, 1);
    twice(world, buffer, WEIR_READ, 1);
    weir_lease out = nullptr;
    ok(lease(world, WEIR_USE(buffer, WEIR_READ), 1, &out));
    expect_result(WEIR_ERROR_TIMEOUT, weir_pool_remove_device(world.pool, 1, 0));
    twice(world, buffer, WEIR_READ, 1);
    {
      Gate gate(world.pool, "remove.part");
      Task task([&] { return weir_pool_remove_device(world.pool, 1, WEIR_INFINITE); });
      dog.at("a device that is leaving");
      gate.await();
      weir_lease late = nullptr;
      expect_result(WEIR_ERROR_DEVICE_REMOVED, lease(world, WEIR_USE(buffer, WEIR_READ), 1, &late));
      ok(weir_release(out, world.all[1]));
      gate.open();
      ok(task.join());
    }
    validate(world);
    expect_result(WEIR_ERROR_DEVICE_REMOVED, lease(world, WEIR_USE(buffer, WEIR_READ), 1, &out));
    world.see(buffer, size, 1, 0);
    twice(world, buffer, WEIR_READ, 2);
    ok(weir_pool_remove_device(world.pool, 0, WEIR_INFINITE));  // the home
    validate(world);
    world.see(buffer, size, 1, 2);
    ok(weir_buffer_destroy(world.pool, buffer));
    ok(weir_pool_destroy(world.pool));
    for (weir_stream stream : world.all) ok(weir_stream_close(stream));
    ok(weir_context_destroy(world.context));
  }
  dog.stop();
}

/// The device that has the path is lost, or one that the bytes are on.
void it_is_lost_with_its_device(void **) {
  for (const bool sharded : {false, true}) {
    for (const uint32_t lost : {1U, 2U}) {
      Trio world(32);
      const weir_buffer buffer = sharded ? world.sharded(size) : world.buffer(size);
      world.put(buffer, size, 1, 1);
      twice(world, buffer, WEIR_READ, 1);
      engine_of(world).lose_device(static_cast<uint8_t>(lost));
      validate(world);
      weir_lease out = nullptr;
      const weir_result then = lease(world, WEIR_USE(buffer, WEIR_READ), 1, &out);
      if (lost == 1) {
        expect_result(WEIR_ERROR_DEVICE_LOST, then);
      } else if (sharded) {
        assert_true(then == WEIR_ERROR_DATA_LOST || then == WEIR_ERROR_DEVICE_LOST);
      } else {
        ok(then);  // another's
        ok(weir_release(out, world.all[1]));
      }
      if (lost == 1 && !sharded)
        expect_result(WEIR_ERROR_DATA_LOST, lease(world, WEIR_USE(buffer, WEIR_READ), 0, &out));
      ok(weir_buffer_destroy(world.pool, buffer));
      ok(weir_pool_destroy(world.pool));
      for (weir_stream stream : world.all) ok(weir_stream_close(stream));
      ok(weir_context_destroy(world.context));
    }
  }
}

/// What is announced on a device is brought there, though the hit path is open on another.
void what_is_announced_elsewhere_is_brought(void **) {
  Watchdog dog;
  Trio world(32, three_near, 64, 3, 0);
  const weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  twice(world, buffer, WEIR_READ, 0);
  const weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_operation operation = WEIR_OPERATION_INIT;
  operation.uses = &use;
  operation.use_count = 1;
  ok(weir_announce(world.pool, world.all[1], &operation, 1, 0));
  dog.at("an announced use on another device");
  while (world.pages_on(1) < pages) std::this_thread::yield();
  world.see(buffer, size, 1, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  dog.at("the end");
  world.close_sharded();
  dog.stop();
}

/// What a thread on each device sees of a word that all write: never an old value, and none while another writes.
struct Shared {
  std::atomic<int> readers{0}, writers{0};
  std::atomic<uint64_t> version{0}, wrong{0}, failures{0}, granted{0};

  void use(Trio &world, weir_buffer buffer, uint32_t device, std::mt19937 &random) {
    const bool write = random() % 3 == 0;
    weir_use use = WEIR_USE(buffer, write ? WEIR_READ_WRITE : WEIR_READ);
    if (random() % 4 == 0) use.length = page_bytes;
    weir_lease out = nullptr;
    const weir_result result = weir_acquire(world.pool, world.all[device], &use, 1, nullptr, &out);
    if (result == WEIR_ERROR_LEASE_CONFLICT) return;
    if (result != WEIR_SUCCESS) {
      ++failures;
      return;
    }
    ++granted;
    if (write ? writers++ != 0 || readers != 0 : (++readers, writers != 0)) ++wrong;
    if (weir_stream_synchronize(world.all[device]) != WEIR_SUCCESS) ++failures;
    auto *word = reinterpret_cast<std::atomic<uint64_t> *>(use.address);
    if (word->load() != version) ++wrong;
    if (write) word->store(++version);
    write ? --writers : --readers;
    if (weir_release(out, world.all[device]) != WEIR_SUCCESS) ++failures;
  }
};

void devices_take_turns(void **) {
  Watchdog dog;
  for (const bool sharded : {false, true}) {
    Trio world(32);
    const weir_buffer buffer = sharded ? world.sharded(size) : world.buffer(size);
    const std::vector<uint8_t> zeros(size, 0);
    ok(weir_buffer_write(world.pool, buffer, 0, size, zeros.data()));
    Shared shared;
    std::atomic<bool> over{false};
    dog.at("threads on three devices");
    {
      Task trimmer([&] {
        while (!over) {
          for (uint32_t i = 0; i < 3; ++i)
            (void)weir_pool_trim(world.pool, i, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr);
          for (int i = 0; i < 50; ++i) std::this_thread::yield();
        }
        return WEIR_SUCCESS;
      });
      const auto body = [&](uint32_t device) {
        std::mt19937 random(device);
        for (int i = 0; i < 3000; ++i) shared.use(world, buffer, device, random);
        return WEIR_SUCCESS;
      };
      {
        Task a([&] { return body(0); }), b([&] { return body(1); }), c([&] { return body(2); });
        ok(a.join());
        ok(b.join());
        ok(c.join());
      }
      over = true;
      ok(trimmer.join());
    }
    dog.at("the end");
    assert_int_equal(shared.failures, 0);
    assert_int_equal(shared.wrong, 0);
    assert_true(shared.granted > 100);
    validate(world);
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close_sharded();
  }
  dog.stop();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(it_goes_where_the_buffer_is_used),
      cmocka_unit_test(it_stays_while_somebody_has_a_lease),
      cmocka_unit_test(ranges_have_it_at_home),
      cmocka_unit_test(a_sharded_buffers_readers_have_it),
      cmocka_unit_test(it_leaves_with_its_device),
      cmocka_unit_test(it_is_lost_with_its_device),
      cmocka_unit_test(what_is_announced_elsewhere_is_brought),
      cmocka_unit_test(devices_take_turns),
  };
  return cmocka_run_group_tests_name("far hits", tests, nullptr, nullptr);
}
