// SPDX-License-Identifier: Apache-2.0
//
// Interleavings of slabs: a page is on its way when it runs empty, or is empty when it goes; its slab stays for as long as it
// has pages. The next buffer waits for none of that, and nothing of the dead is kept. As test_interleaving.cpp.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

/// A tenant goes at once while its slab's page is on its way down, and the next one has a place elsewhere.
void the_last_tenant_is_destroyed_while_its_page_leaves(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    weir_client client = nullptr;
    ok(weir_client_create(world.pool, &desc, &client));
    weir_buffer tenant = world.buffer(600, WEIR_DEVICE_DEFAULT, client);
    world.fill(tenant, 600, 1);
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      ok(weir_buffer_destroy(world.pool, tenant));  // waits for nothing
      weir_buffer next = world.buffer(600, WEIR_DEVICE_DEFAULT, client);
      world.fill(next, 600, 2);  // nor does this
      validate(world);
      gate.open();
      ok(trim.join());
      validate(world);
      world.check(next, 600, 2);
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
}

/// A page whose tenant dies while it leaves keeps no copy in HOST either, though its slab lives on with another page.
void a_tenants_copies_end_with_it(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    weir_buffer tenant = world.buffer(page_bytes - 256);
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = 600;
    desc.alignment = page_bytes;  // not on the same page
    weir_buffer neighbour = nullptr;
    ok(weir_buffer_create(world.pool, &desc, &neighbour));
    world.fill(tenant, page_bytes - 256, 1);
    world.fill(neighbour, 600, 2);
    ok(trim_all(world));
    assert_int_equal(world.stats().host_used_bytes, two_pages);
    world.check(tenant, page_bytes - 256, 1);  // in HOST and on the device
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      ok(weir_buffer_destroy(world.pool, tenant));
      gate.open();
      ok(trim.join());
    }
    validate(world);
    assert_int_equal(world.stats().host_used_bytes, page_bytes);
    world.check_read(neighbour, 600, 2);
    ok(weir_buffer_destroy(world.pool, neighbour));
    close_clean(world);
  }
}

/// An empty page is wanted by the next weir_malloc, but not when it is on its way out.
void memory_is_not_taken_from_an_empty_page_that_leaves(void **state) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = world_for(state);
    uint64_t address = 0, next = 0;
    ok(weir_malloc(world.pool, 0, nullptr, 600, &address));
    ok(weir_free(world.pool, nullptr, address));
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      ok(weir_malloc(world.pool, 0, nullptr, 600, &next));  // waits for nothing
      assert_int_equal(world.stats().device_held_bytes, page_bytes);
      std::memset(reinterpret_cast<void *>(next), 7, 600);
      validate(world);
      gate.open();
      ok(trim.join());
      validate(world);
    }
    const auto *bytes = reinterpret_cast<const uint8_t *>(next);
    assert_true(std::all_of(bytes, bytes + 600, [](uint8_t b) { return b == 7; }));
    assert_int_equal(world.stats().device_held_bytes, page_bytes);
    ok(weir_free(world.pool, nullptr, next));
    close_clean(world);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      BOTH(the_last_tenant_is_destroyed_while_its_page_leaves),
      BOTH(a_tenants_copies_end_with_it),
      BOTH(memory_is_not_taken_from_an_empty_page_that_leaves),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
