// SPDX-License-Identifier: Apache-2.0
//
// Interleavings around a fill: one thread is held where its pages are FILLING, with no lock held, and others act on
// the same buffer, on its neighbours or on the whole pool. What test_interleaving.cpp says of evictions holds
// here too: nothing depends on time, and every byte is looked at in the end.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

/// A buffer that has its bytes in HOST only, so that the next acquire has to bring them in.
weir_buffer on_host(World &world, uint64_t size, uint32_t seed) {
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, seed);
  ok(trim_all(world));
  assert_int_equal(query(world, buffer).host_bytes, size);
  return buffer;
}

void two_readers_of_one_fill(void **state) {
  World world = world_for(state);
  weir_buffer buffer = on_host(world, two_pages, 1);
  Kernel first{0, two_pages, 1, 0};
  Kernel second{0, two_pages, 1, 0};
  {
    Gate gate(world.pool, "fill");
    Task one([&] { return run(world, buffer, WEIR_READ, &first); });
    gate.await();
    Task two([&] { return run(world, buffer, WEIR_READ, &second); });
    want(world, buffer);
    gate.open();
    ok(one.join());
    ok(two.join());
  }
  assert_int_equal(first.wrong + second.wrong, 0);
  assert_int_equal(world.stats().promoted_bytes, two_pages);  // once for both
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// A lease is there from its claim on: what conflicts with it is refused at once, though its bytes are still coming.
void a_fill_under_a_lease_conflicts_at_once(void **state) {
  for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE}) {
    World world = world_for(state);
    weir_buffer buffer = on_host(world, two_pages, 1);
    Kernel kernel{0, two_pages, mode == WEIR_READ ? 1U : 2U, 0};
    {
      Gate gate(world.pool, "fill");
      Task holder([&] { return run(world, buffer, mode, &kernel); });
      gate.await();
      weir_lease lease = nullptr;
      uint8_t byte = 0;
      uint64_t address = 0;
      expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(buffer, WEIR_READ_WRITE, &lease));
      expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(buffer, WEIR_DISCARD_WRITE, &lease));
      expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_buffer_write(world.pool, buffer, 0, 1, &byte));
      expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_discard(world.pool, buffer, 0, WEIR_WHOLE));
      expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(world.pool, buffer));
      if (mode == WEIR_READ_WRITE) {
        expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(buffer, WEIR_READ, &lease));
        expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_buffer_read(world.pool, buffer, 0, 1, &byte));
        expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_hold(world.pool, buffer, 0, &address));
      }
      expect_result(WEIR_ERROR_BUSY, weir_pool_destroy(world.pool));
      gate.open();
      ok(holder.join());
    }
    assert_int_equal(kernel.wrong, 0);
    world.check_read(buffer, two_pages, mode == WEIR_READ ? 1 : 2);
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

void a_trim_leaves_pages_alone_that_are_filling(void **state) {
  World world = world_for(state);
  weir_buffer buffer = on_host(world, two_pages, 1);
  weir_buffer other = world.buffer(page_bytes);
  world.fill(other, page_bytes, 2);
  Kernel kernel{0, two_pages, 1, 0};
  {
    Gate gate(world.pool, "fill");
    Task reader([&] { return run(world, buffer, WEIR_READ, &kernel); });
    gate.await();
    uint64_t freed = 0;
    ok(trim_all(world, &freed));  // does not wait either
    const weir_pool_stats stats = world.stats();
    assert_int_equal(query(world, other).device_bytes, 0);
    if (has_vmm(world)) {
      assert_int_equal(freed, page_bytes);
      assert_int_equal(stats.device_bytes, two_pages);
    }
    assert_int_equal(stats.device_bytes - stats.device_free_bytes, two_pages);
    gate.open();
    ok(reader.join());
  }
  assert_int_equal(kernel.wrong, 0);
  world.check(other, page_bytes, 2);
  world.check(buffer, two_pages, 1);
  for (weir_buffer b : {buffer, other}) ok(weir_buffer_destroy(world.pool, b));
  close_clean(world);
}

/// Where there is room, no fill waits for another thread's eviction.
void a_fill_passes_an_eviction_that_is_held(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    weir_buffer coming = on_host(world, two_pages, 1);
    weir_buffer leaving = world.buffer(two_pages);
    world.fill(leaving, two_pages, 2);
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      world.check(coming, two_pages, 1);
      ok(weir_buffer_set_priority(world.pool, leaving, WEIR_PRIORITY_LOW));
      gate.open();
      ok(trim.join());
    }
    world.check(leaving, two_pages, 2);
    world.check(coming, two_pages, 1);
    for (weir_buffer b : {coming, leaving}) ok(weir_buffer_destroy(world.pool, b));
    close_clean(world);
  }
}

/// Without room the second has to wait for the first one's eviction, and must not be refused for it.
void two_acquires_share_the_room_one_makes(void **state) {
  World world = world_for(state);
  weir_buffer a = on_host(world, page_bytes, 1);
  weir_buffer b = on_host(world, page_bytes, 2);
  weir_buffer full = world.buffer(4 * page_bytes);
  world.fill(full, 4 * page_bytes, 3);
  Kernel first{0, page_bytes, 1, 0};
  Kernel second{0, page_bytes, 2, 0};
  {
    Gate gate(world.pool, "evict.claimed");
    Task one([&] { return run(world, a, WEIR_READ, &first); });
    gate.await();
    Task two([&] { return run(world, b, WEIR_READ, &second); });
    gate.open();
    ok(one.join());
    ok(two.join());
  }
  assert_int_equal(first.wrong + second.wrong, 0);
  world.check(full, 4 * page_bytes, 3);
  for (weir_buffer buffer : {a, b, full}) ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// While a tenant's place is zeroed, its neighbours on the page are released, die, and are born.
void neighbours_come_and_go_during_a_fill(void **state) {
  World world = world_for(state);
  weir_buffer leased = world.buffer(700);
  weir_buffer dying = world.buffer(700);
  weir_buffer fresh = world.buffer(700);
  world.fill(leased, 700, 1);
  world.fill(dying, 700, 2);
  weir_lease lease = nullptr;
  ok(world.acquire(leased, WEIR_READ, &lease));
  weir_buffer born = nullptr;
  std::vector<uint8_t> got(700, 1);
  {
    Gate gate(world.pool, "fill");
    Task reader([&] {  // never written: its place is zeroed
      weir_lease own = nullptr;
      Kernel kernel{0, 700, 0, 0};
      const weir_result result = world.acquire(fresh, WEIR_READ, &own, &kernel.address);
      if (result != WEIR_SUCCESS) return result;
      (void)weir_stream_synchronize(world.streams[0]);
      std::copy_n(reinterpret_cast<const uint8_t *>(kernel.address), 700, got.begin());
      return weir_release(own, world.streams[0]);
    });
    gate.await();
    ok(weir_release(lease, world.streams[0]));
    ok(weir_buffer_destroy(world.pool, dying));
    born = world.buffer(700);
    gate.open();
    ok(reader.join());
  }
  assert_true(std::all_of(got.begin(), got.end(), [](uint8_t b) { return b == 0; }));
  world.check(leased, 700, 1);
  world.fill(born, 700, 4);
  world.check(leased, 700, 1);
  world.check(born, 700, 4);
  ok(trim_all(world));
  world.check_read(leased, 700, 1);
  world.check_read(born, 700, 4);
  for (weir_buffer b : {leased, fresh, born}) ok(weir_buffer_destroy(world.pool, b));
  close_clean(world);
}

/// A tenant's page is brought in for another tenant of it; it dies meanwhile, the last one too.
void a_slab_dies_while_a_prefetch_brings_it_in(void **state) {
  World world = world_for(state);
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  weir_buffer tenant = world.buffer(700, WEIR_DEVICE_DEFAULT, client);
  world.fill(tenant, 700, 1);
  ok(trim_all(world));
  {
    Gate gate(world.pool, "fill");
    Task prefetch([&] {
      const weir_use use = WEIR_USE(tenant, WEIR_READ);
      return weir_prefetch(world.pool, world.streams[0], &use, 1);
    });
    gate.await();
    ok(weir_buffer_destroy(world.pool, tenant));  // waits for nothing: the slab outlives it
    weir_buffer next = world.buffer(700, WEIR_DEVICE_DEFAULT, client);
    world.fill(next, 700, 2);  // elsewhere: its page would have to be waited for
    validate(world);
    gate.open();
    ok(prefetch.join());
    validate(world);
    world.check(next, 700, 2);
    ok(weir_buffer_destroy(world.pool, next));
  }
  ok(trim_all(world));
  weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
  ok(weir_client_stats_get(client, &stats));
  assert_int_equal(stats.device_bytes, 0);
  assert_int_equal(stats.host_bytes, 0);
  ok(weir_client_destroy(client));
  close_clean(world);
}

void a_buffer_is_destroyed_while_a_prefetch_brings_it_in(void **state) {
  World world = world_for(state);
  weir_buffer buffer = on_host(world, two_pages, 1);
  {
    Gate gate(world.pool, "fill");
    Task prefetch([&] {
      const weir_use use = WEIR_USE(buffer, WEIR_READ);
      return weir_prefetch(world.pool, world.streams[0], &use, 1);
    });
    gate.await();
    Task destroyer([&] { return weir_buffer_destroy(world.pool, buffer); });
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
    while (weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info) == WEIR_SUCCESS)
      std::this_thread::yield();
    gate.open();
    ok(prefetch.join());
    ok(destroyer.join());
  }
  close_clean(world);
}

void a_trim_meets_a_prefetch(void **state) {
  World world = world_for(state);
  weir_buffer buffer = on_host(world, two_pages, 1);
  {
    Gate gate(world.pool, "fill");
    Task prefetch([&] {
      const weir_use use = WEIR_USE(buffer, WEIR_READ);
      return weir_prefetch(world.pool, world.streams[0], &use, 1);
    });
    gate.await();
    ok(trim_all(world));  // the pages can't be taken yet
    gate.open();
    ok(prefetch.join());
  }
  assert_int_equal(query(world, buffer).both_bytes, two_pages);
  assert_int_equal(world.stats().prefetched_bytes, two_pages);
  world.check(buffer, two_pages, 1);
  ok(trim_all(world));
  world.check_read(buffer, two_pages, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// A prefetch opens the hit path when it ends; what was done from the host meanwhile must be seen through it.
void a_prefetch_does_not_hide_what_the_host_did(void **state) {
  for (const bool writes : {false, true}) {
    World world = world_for(state);
    weir_buffer buffer = on_host(world, two_pages, 1);
    std::vector<uint8_t> expected(two_pages);
    for (uint64_t i = 0; i < two_pages; ++i) expected[i] = pattern(1, i);
    // Without VMM a buffer is one page, and only the whole of it can be discarded.
    const uint64_t length = has_vmm(world) || writes ? page_bytes : two_pages;
    std::fill_n(expected.begin(), length, writes ? 7 : 0);
    {
      Gate gate(world.pool, "fill");
      Task prefetch([&] {
        const weir_use use = WEIR_USE(buffer, WEIR_READ);
        return weir_prefetch(world.pool, world.streams[0], &use, 1);
      });
      gate.await();
      Task host([&] {
        return writes ? weir_buffer_write(world.pool, buffer, 0, length, expected.data())
                      : weir_discard(world.pool, buffer, 0, length);
      });
      await_claim(world, buffer, host);
      gate.open();
      ok(prefetch.join());
      ok(host.join());
    }
    std::vector<uint8_t> got(two_pages);
    weir_lease lease = nullptr;
    uint64_t address = 0;
    ok(world.acquire(buffer, WEIR_READ, &lease, &address));
    ok(weir_stream_synchronize(world.streams[0]));
    std::copy_n(reinterpret_cast<const uint8_t *>(address), two_pages, got.begin());
    ok(weir_release(lease, world.streams[0]));
    assert_memory_equal(got.data(), expected.data(), two_pages);
    ok(weir_buffer_read(world.pool, buffer, 0, two_pages, got.data()));
    assert_memory_equal(got.data(), expected.data(), two_pages);
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// A prefetch copies from one device while a writer comes on that device: the writer waits for the copy, and the
/// copy is stale afterwards.
void a_writer_meets_a_prefetch_to_another_device(void **state) {
  World world = world_for(state, 2);
  weir_buffer buffer = world.buffer(two_pages);
  world.fill(buffer, two_pages, 1);
  Kernel kernel{0, two_pages, 2, 0};
  {
    Gate gate(world.pool, "fill");
    Task prefetch([&] {
      const weir_use use{buffer, 0, page_bytes, WEIR_READ, 0, 0, {0, 0, 0}};
      return weir_prefetch(world.pool, world.streams[1], &use, 1);
    });
    gate.await();
    // A reader of another page must not open the hit path over the one that is being copied.
    weir_use part{buffer, page_bytes, page_bytes, WEIR_READ, 0, 0, {0, 0, 0}};
    weir_lease lease = nullptr;
    if (has_vmm(world)) {
      ok(weir_acquire(world.pool, world.streams[0], &part, 1, nullptr, &lease));
      ok(weir_release(lease, world.streams[0]));
    }
    Task writer([&] { return run(world, buffer, WEIR_READ_WRITE, &kernel); });
    const bool waited = keeps_waiting(writer);
    gate.open();
    ok(prefetch.join());
    ok(writer.join());
    assert_true(waited);
  }
  world.check(buffer, two_pages, 2, 1);
  world.check(buffer, two_pages, 2, 0);
  world.check_read(buffer, two_pages, 2);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// The copy on the second device is stale; while it is brought up to date the hold on the first goes.
void a_hold_ends_while_its_page_is_filled(void **state) {
  World world = world_for(state, 2);
  weir_buffer buffer = world.buffer(two_pages);
  uint64_t address = 0;
  world.fill(buffer, two_pages, 1);
  world.check(buffer, two_pages, 1, 1);
  ok(weir_hold(world.pool, buffer, 0, &address));
  world.fill(buffer, two_pages, 2);
  Kernel kernel{0, two_pages, 2, 0};
  {
    Gate gate(world.pool, "fill");
    Task reader([&] { return run(world, buffer, WEIR_READ, &kernel, 1); });
    gate.await();
    ok(weir_unhold(world.pool, buffer));
    assert_int_equal(world.stats().device_held_bytes, 0);
    gate.open();
    ok(reader.join());
  }
  assert_int_equal(kernel.wrong, 0);
  assert_int_equal(world.stats().device_held_bytes, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      BOTH(two_readers_of_one_fill),
      BOTH(a_fill_under_a_lease_conflicts_at_once),
      BOTH(a_trim_leaves_pages_alone_that_are_filling),
      BOTH(a_fill_passes_an_eviction_that_is_held),
      BOTH(two_acquires_share_the_room_one_makes),
      BOTH(neighbours_come_and_go_during_a_fill),
      BOTH(a_slab_dies_while_a_prefetch_brings_it_in),
      BOTH(a_buffer_is_destroyed_while_a_prefetch_brings_it_in),
      BOTH(a_trim_meets_a_prefetch),
      BOTH(a_prefetch_does_not_hide_what_the_host_did),
      BOTH(a_writer_meets_a_prefetch_to_another_device),
      BOTH(a_hold_ends_while_its_page_is_filled),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
