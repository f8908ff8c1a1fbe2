// SPDX-License-Identifier: Apache-2.0
//
// Interleavings of the slow paths: one thread is held at a point inside an eviction or a fill, with no lock held,
// and others act on the same pages; then it goes on. Whatever the order, every answer must be one the headers
// allow and every byte must be right. Nothing here depends on time: where another thread must have got somewhere
// first, that is seen in the pool's own answers. Each test runs with and without virtual-memory management.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

void a_page_wanted_while_it_is_copied_down_stays(void **state) {
  World world = world_for(state);
  weir_buffer buffer = world.buffer(two_pages);
  world.fill(buffer, two_pages, 1);
  {
    Gate gate(world.pool, "evict.claimed");
    Task trim([&] { return trim_all(world); });
    gate.await();
    want(world, buffer);
    // The trim tries a second time: what the first round came to is seen before that.
    gate.next("evict.claimed");
    gate.await();
    const weir_pool_stats stats = world.stats();
    assert_int_equal(stats.evictions, 0);
    assert_int_equal(stats.promoted_bytes, 0);
    assert_int_equal(stats.demoted_bytes, two_pages);
    assert_int_equal(query(world, buffer).both_bytes, two_pages);
    gate.open();
    ok(trim.join());
  }
  world.check_read(buffer, two_pages, 1);
  world.check(buffer, two_pages, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Acquired at either point of its eviction, for any use: the lease is granted and sees the latest bytes.
void an_acquire_meets_an_eviction(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
      World world = world_for(state);
      weir_buffer buffer = world.buffer(two_pages);
      world.fill(buffer, two_pages, 1);
      {
        Gate gate(world.pool, point);
        Task trim([&] { return trim_all(world); });
        gate.await();
        Kernel kernel{0, two_pages, mode == WEIR_READ ? 1U : 2U, 0};
        Task user([&] { return run(world, buffer, mode, &kernel); });
        want(world, buffer);
        gate.open();
        ok(user.join());
        ok(trim.join());
        assert_int_equal(kernel.wrong, 0);
      }
      world.check_read(buffer, two_pages, mode == WEIR_READ ? 1 : 2);
      world.check(buffer, two_pages, mode == WEIR_READ ? 1 : 2);
      ok(weir_buffer_destroy(world.pool, buffer));
      close_clean(world);
    }
  }
}

void an_unmapped_page_comes_back(void **state) {
  World world = world_for(state);
  weir_buffer buffer = world.buffer(two_pages);
  world.fill(buffer, two_pages, 5);
  {
    Gate gate(world.pool, "evict.unmapped");
    Task trim([&] { return trim_all(world); });
    gate.await();
    want(world, buffer);  // too late to stay
    gate.open();
    ok(trim.join());
  }
  assert_int_equal(query(world, buffer).host_bytes, two_pages);
  world.check(buffer, two_pages, 5);
  assert_int_equal(world.stats().promoted_bytes, two_pages);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Pressure instead of a trim, and the victim wanted by a third thread: all three end with what they asked for.
void pressure_and_the_victims_user(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    weir_buffer victim = world.buffer(two_pages);
    weir_buffer other = world.buffer(4 * page_bytes);
    world.fill(victim, two_pages, 1);
    {
      Gate gate(world.pool, point);
      weir_stream stream = nullptr;
      ok(weir_stream_create(world.context, 0, 0, &stream));
      Task writer([&] {
        weir_use use = WEIR_USE(other, WEIR_DISCARD_WRITE);
        weir_lease lease = nullptr;
        weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
        options.flags = WEIR_ACQUIRE_SOLE_HOLDER;
        options.timeout_ns = WEIR_INFINITE;
        weir_result result = weir_acquire(world.pool, stream, &use, 1, &options, &lease);
        if (result != WEIR_SUCCESS) return result;
        Kernel kernel{use.address, 4 * page_bytes, 2, 0};
        result = kernel.launch(stream, Kernel::write);
        const weir_result released = weir_release(lease, stream);
        (void)weir_stream_synchronize(stream);
        return result == WEIR_SUCCESS ? released : result;
      });
      gate.await();
      want(world, victim);
      gate.open();
      ok(writer.join());
      ok(weir_stream_close(stream));
    }
    world.check_read(victim, two_pages, 1);
    world.check_read(other, 4 * page_bytes, 2);
    world.check(victim, two_pages, 1);
    ok(weir_buffer_destroy(world.pool, victim));
    ok(weir_buffer_destroy(world.pool, other));
    close_clean(world);
  }
}

/// What an acquire is about to take, and then what it has just brought, is no victim for the background beside it.
void the_background_takes_nothing_beside_an_acquire_that_makes_room(void **state) {
  World world = world_for(state);
  weir_buffer older = world.buffer(two_pages), newer = world.buffer(two_pages);
  world.fill(older, two_pages, 1);
  world.fill(newer, two_pages, 2);
  weir_buffer wanted = world.buffer(page_bytes);
  bool beside = false;
  {
    Gate gate(world.pool, "evict.claimed");
    Kernel kernel{0, page_bytes, 3, 0};
    Task user([&] { return run(world, wanted, WEIR_DISCARD_WRITE, &kernel); });
    gate.await();
    beside = engine_of(world).upkeep().look_at_room();
    gate.open();
    ok(user.join());
  }
  assert_false(beside);
  assert_int_equal(world.stats().background_demoted_bytes, 0);
  // The budget is full again: now it keeps some of it free, where that can be done by the page.
  assert_int_equal(engine_of(world).upkeep().look_at_room(), has_vmm(world));
  assert_int_equal(world.stats().background_demoted_bytes, has_vmm(world) ? page_bytes : 0);
  world.check(older, two_pages, 1);
  world.check(newer, two_pages, 2);
  world.check(wanted, page_bytes, 3);
  for (weir_buffer buffer : {older, newer, wanted}) ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

void a_buffer_is_destroyed_while_its_pages_leave(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    weir_buffer buffer = world.buffer(two_pages);
    world.fill(buffer, two_pages, 1);
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      Task destroyer([&] { return weir_buffer_destroy(world.pool, buffer); });
      // From its first step on the handle is dead, though the pages are still under way.
      weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
      while (weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info) == WEIR_SUCCESS)
        std::this_thread::yield();
      weir_lease lease = nullptr;
      expect_result(WEIR_ERROR_INVALID_HANDLE, world.acquire(buffer, WEIR_READ, &lease));
      gate.open();
      ok(destroyer.join());
      ok(trim.join());
    }
    close_clean(world);
  }
}

void a_write_from_the_host_meets_an_eviction(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    weir_buffer buffer = world.buffer(two_pages);
    world.fill(buffer, two_pages, 1);
    std::vector<uint8_t> bytes(two_pages);
    for (uint64_t i = 0; i < two_pages; ++i) bytes[i] = pattern(2, i);
    const uint64_t from = page_bytes / 2;
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      Task writer([&] {
        return weir_buffer_write(world.pool, buffer, from, page_bytes, bytes.data() + from);
      });
      await_claim(world, buffer, writer);
      gate.open();
      ok(writer.join());
      ok(trim.join());
    }
    std::vector<uint8_t> got(two_pages);
    for (uint32_t turn = 0; turn < 2; ++turn) {  // where it is, and after a way up and down again
      ok(weir_buffer_read(world.pool, buffer, 0, two_pages, got.data()));
      for (uint64_t i = 0; i < two_pages; ++i) {
        const bool written = i >= from && i < from + page_bytes;
        assert_int_equal(got[i], pattern(written ? 2 : 1, i));
      }
      weir_lease lease = nullptr;
      ok(world.acquire(buffer, WEIR_READ_WRITE, &lease));
      ok(weir_release(lease, world.streams[0]));
      ok(trim_all(world));
    }
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

void a_read_from_the_host_meets_an_eviction(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    weir_buffer buffer = world.buffer(two_pages);
    world.fill(buffer, two_pages, 1);
    std::vector<uint8_t> got(two_pages);
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      Task reader([&] { return weir_buffer_read(world.pool, buffer, 0, two_pages, got.data()); });
      await_claim(world, buffer, reader);
      gate.open();
      ok(reader.join());
      ok(trim.join());
    }
    for (uint64_t i = 0; i < two_pages; ++i) assert_int_equal(got[i], pattern(1, i));
    world.check(buffer, two_pages, 1);
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// "Read as zero from then on": also if the page was on its way out when the discard came.
void a_discard_meets_an_eviction(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    weir_buffer buffer = world.buffer(two_pages);
    world.fill(buffer, two_pages, 1);
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      Task discard([&] { return weir_discard(world.pool, buffer, 0, WEIR_WHOLE); });
      await_claim(world, buffer, discard);
      gate.open();
      ok(discard.join());
      ok(trim.join());
    }
    assert_int_equal(query(world, buffer).unwritten_bytes, two_pages);
    std::vector<uint8_t> got(two_pages, 1);
    ok(weir_buffer_read(world.pool, buffer, 0, two_pages, got.data()));
    assert_true(std::all_of(got.begin(), got.end(), [](uint8_t b) { return b == 0; }));
    world.fill(buffer, two_pages, 3);
    world.check_read(buffer, two_pages, 3);
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// Buffers of pages of their own, and a tenant, which leaves its slab for a lease on the CPU.
void a_host_lease_meets_an_eviction(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    for (const uint64_t size : {two_pages, uint64_t{600}}) {
      World world = world_for(state);
      weir_stream cpu = nullptr;
      ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
      weir_buffer buffer = world.buffer(size);
      world.fill(buffer, size, 1);
      Kernel kernel{0, size, 1, 0};
      {
        Gate gate(world.pool, point);
        Task trim([&] { return trim_all(world); });
        gate.await();
        Task user([&] { return rewrite_on_cpu(world, cpu, buffer, &kernel); });
        await_claim(world, buffer, user);
        gate.open();
        ok(user.join());
        ok(trim.join());
      }
      assert_int_equal(kernel.wrong, 0);
      world.check_read(buffer, size, 2);
      world.check(buffer, size, 2);
      ok(weir_buffer_destroy(world.pool, buffer));
      ok(weir_stream_close(cpu));
      close_clean(world);
    }
  }
}

void a_hold_meets_an_eviction(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    weir_buffer buffer = world.buffer(two_pages);
    world.fill(buffer, two_pages, 1);
    Kernel kernel{0, two_pages, 1, 0};
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      Task holder([&] { return weir_hold(world.pool, buffer, 0, &kernel.address); });
      want(world, buffer);
      gate.open();
      ok(holder.join());
      ok(trim.join());
    }
    ok(trim_all(world));
    assert_int_equal(query(world, buffer).device_bytes, two_pages);
    assert_int_equal(world.stats().device_held_bytes, two_pages);
    Kernel::compare(&kernel);
    assert_int_equal(kernel.wrong, 0);
    ok(weir_unhold(world.pool, buffer));
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// All room is on its way out: an acquire that needs some waits for it, and is not told that leases are in the way.
void an_acquire_waits_for_room_under_way(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    weir_buffer leaving = world.buffer(4 * page_bytes);
    weir_buffer next = world.buffer(two_pages);
    world.fill(leaving, 4 * page_bytes, 1);
    Kernel kernel{0, two_pages, 2, 0};
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      Task writer([&] { return run(world, next, WEIR_DISCARD_WRITE, &kernel); });
      const bool waited = keeps_waiting(writer);
      gate.open();
      ok(writer.join());
      ok(trim.join());
      assert_true(waited);
    }
    world.check_read(leaving, 4 * page_bytes, 1);
    world.check(next, two_pages, 2);
    for (weir_buffer b : {leaving, next}) ok(weir_buffer_destroy(world.pool, b));
    close_clean(world);
  }
}

/// The last copy of a page is not given up for room in HOST while the other one is leaving its device.
void host_room_is_not_made_of_what_is_leaving(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world({.options = std::string(small_host) + static_cast<const char *>(*state),
                 .device_pages = 4,
                 .host_pages = 2});
    weir_buffer clean = world.buffer(two_pages);
    weir_buffer other = world.buffer(two_pages);
    world.fill(clean, two_pages, 1);
    ok(trim_all(world));
    world.check(clean, two_pages, 1);  // in both places now; HOST is full
    std::vector<uint8_t> bytes(two_pages, 7);
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      const weir_result written = weir_buffer_write(world.pool, other, 0, two_pages, bytes.data());
      assert_true(written == WEIR_SUCCESS || written == WEIR_ERROR_OVER_BUDGET);
      gate.open();
      ok(trim.join());
    }
    world.check_read(clean, two_pages, 1);
    for (weir_buffer b : {clean, other}) ok(weir_buffer_destroy(world.pool, b));
    close_clean(world);
  }
}

/// A dead buffer's pages are taken over as they are by the next of its shape, but not when they are leaving.
void a_new_buffer_meets_the_eviction_of_a_dead_one(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    weir_buffer dead = world.buffer(two_pages);
    world.fill(dead, two_pages, 1);
    ok(weir_buffer_destroy(world.pool, dead));
    uint64_t freed = 0;
    ok(trim_all(
        world, &freed));  // with VMM this gives its memory back, so that the next one is really new
    dead = world.buffer(two_pages);
    world.fill(dead, two_pages, 1);
    ok(weir_buffer_destroy(world.pool, dead));
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      weir_buffer fresh = world.buffer(two_pages);
      world.fill(fresh, two_pages, 2);
      gate.open();
      ok(trim.join());
      world.check(fresh, two_pages, 2);
      ok(weir_buffer_destroy(world.pool, fresh));
    }
    close_clean(world);
  }
}

/// Registering and unregistering host memory waits for pages on their way down, wherever they go.
void registration_meets_an_eviction(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    for (const bool registers : {true, false}) {
      World world = world_for(state);
      static uint8_t *const memory = aligned_memory(two_pages);
      weir_buffer buffer = world.buffer(two_pages);
      world.fill(buffer, two_pages, 1);
      if (!registers) ok(weir_host_register(world.pool, buffer, memory, 0));
      {
        Gate gate(world.pool, point);
        Task trim([&] { return trim_all(world); });
        gate.await();
        Task host([&] {
          return registers ? weir_host_register(world.pool, buffer, memory, 0)
                           : weir_host_unregister(world.pool, buffer);
        });
        await_claim(world, buffer, host);
        const bool waited = keeps_waiting(host);
        gate.open();
        ok(host.join());
        ok(trim.join());
        assert_true(waited);
      }
      if (!registers) {
        for (uint64_t i = 0; i < two_pages; ++i) assert_int_equal(memory[i], pattern(1, i));
      }
      world.check_read(buffer, two_pages, 1);
      world.check(buffer, two_pages, 1);
      if (registers) ok(weir_host_unregister(world.pool, buffer));
      std::fill_n(memory, two_pages, uint8_t{0});
      world.check(buffer, two_pages, 1);
      ok(weir_buffer_destroy(world.pool, buffer));
      close_clean(world);
    }
  }
}

/// Pages without an owner are on their way out, by another thread; the rest have nowhere to go. An acquire that needs room is not refused for that.
void an_acquire_waits_for_what_was_nobodys(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world({.options = std::string(small_host) + static_cast<const char *>(*state),
                 .device_pages = 4,
                 .host_pages = 0});
    weir_buffer live = world.buffer(two_pages);
    weir_buffer dead = world.buffer(two_pages);
    world.fill(live, two_pages, 1);
    world.fill(dead, two_pages, 2);
    ok(weir_buffer_destroy(world.pool, dead));
    weir_buffer next = world.buffer(page_bytes);
    {
      Gate gate(world.pool, point);
      Task trim(
          [&] { return weir_pool_trim(world.pool, 0, WEIR_TRIM_GRADUAL, two_pages, nullptr); });
      gate.await();
      Kernel kernel{0, page_bytes, 3, 0};
      Task user([&] { return run(world, next, WEIR_DISCARD_WRITE, &kernel); });
      await_claim(world, next, user);
      assert_true(keeps_waiting(user));
      gate.open();
      ok(user.join());
      ok(trim.join());
    }
    world.check(live, two_pages, 1);
    world.check(next, page_bytes, 3);
    ok(weir_buffer_destroy(world.pool, live));
    ok(weir_buffer_destroy(world.pool, next));
    close_clean(world);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      BOTH(a_page_wanted_while_it_is_copied_down_stays),
      BOTH(an_acquire_meets_an_eviction),
      BOTH(an_unmapped_page_comes_back),
      BOTH(pressure_and_the_victims_user),
      BOTH(the_background_takes_nothing_beside_an_acquire_that_makes_room),
      BOTH(a_buffer_is_destroyed_while_its_pages_leave),
      BOTH(a_write_from_the_host_meets_an_eviction),
      BOTH(a_read_from_the_host_meets_an_eviction),
      BOTH(a_discard_meets_an_eviction),
      BOTH(a_host_lease_meets_an_eviction),
      BOTH(a_hold_meets_an_eviction),
      BOTH(an_acquire_waits_for_room_under_way),
      BOTH(host_room_is_not_made_of_what_is_leaving),
      BOTH(a_new_buffer_meets_the_eviction_of_a_dead_one),
      BOTH(registration_meets_an_eviction),
      BOTH(an_acquire_waits_for_what_was_nobodys),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
