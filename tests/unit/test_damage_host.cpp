// SPDX-License-Identifier: Apache-2.0
//
// Damage in HOST where pages have copies below it too (WEIR_POOL_CHECKSUM_HOST): the good copy stands in, wherever the
// bytes are wanted; and damage that goes down from HOST unseen is seen when it comes back.

#include "tests/unit/damage.hpp"

namespace {

using namespace weir::test;

/// The pages come to HOST for a lease on the CPU, and one of them is changed behind the pool's back.
void damage_in_host(World &world, weir_buffer buffer, uint64_t at) {
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  reinterpret_cast<unsigned char *>(use.address)[at] ^= 1U;
  ok(weir_release(lease, cpu));
  ok(weir_stream_close(cpu));
}

void a_good_copy_below_host_stands_in(void **) {
  const uint64_t size = 2 * page_bytes;
  for (const Below &below :
       {Below{.compressed = 0, .flags = WEIR_POOL_CHECKSUM_HOST},
        Below{.compressed = 16, .storage = 0, .flags = WEIR_POOL_CHECKSUM_HOST}}) {
    for (const Way &way : ways) {
      print_message("%s, %s\n", way.name, below.storage != 0 ? "STORAGE" : "COMPRESSED");
      World world = world_with(below);
      weir_buffer buffer = world.buffer(size);
      world.fill(buffer, size, 1);
      sink(world);
      assert_int_equal(below_host(query(world, buffer)), size);
      damage_in_host(world, buffer, page_bytes + 9);
      assert_int_equal(query(world, buffer).host_bytes, size);
      ok(way.wants(world, buffer, size));
      world.check_read(buffer, size, 1);
      world.check(buffer, size, 1);
      if (way.wants != writes_a_part) assert_int_equal(world.stats().checksum_failures, 1);
      ok(weir_buffer_destroy(world.pool, buffer));
      close_clean(world);
    }
  }
}

void a_prefetch_past_damage_in_host(void **) {
  const uint64_t size = 2 * page_bytes;
  World world = world_with({.flags = WEIR_POOL_CHECKSUM_HOST});
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  sink(world);
  damage_in_host(world, buffer, 9);
  want(world, buffer);
  assert_int_equal(world.stats().checksum_failures, 1);
  want(world, buffer);
  assert_int_equal(query(world, buffer).device_bytes, size);
  world.check(buffer, size, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Registering moves the bytes of HOST to the caller's memory: the damaged ones are left behind.
void registering_past_damage_in_host(void **) {
  const uint64_t size = 2 * page_bytes;
  World world = world_with({.flags = WEIR_POOL_CHECKSUM_HOST});
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  sink(world);
  damage_in_host(world, buffer, 9);
  ok(registers(world, buffer, size));
  assert_int_equal(world.stats().checksum_failures, 1);
  world.check(buffer, size, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Damage that goes down from HOST unseen is seen when it comes back.
void damage_in_host_that_sinks(void **) {
  const uint64_t size = 2 * page_bytes;
  for (const Below &below :
       {Below{.flags = WEIR_POOL_CHECKSUM_HOST},
        Below{.compressed = 16, .storage = 0, .flags = WEIR_POOL_CHECKSUM_HOST}}) {
    World world = world_with(below);
    weir_buffer buffer = world.buffer(size);
    world.fill(buffer, size, 1);
    ok(trim_all(world));
    damage_in_host(world, buffer, 9);  // its only copy
    sink(world);
    const uint32_t tier = below.storage != 0 ? WEIR_TIER_STORAGE : WEIR_TIER_COMPRESSED;
    expect_corrupt(world, acquires(world, buffer, size), tier, 1);
    world.fill(buffer, size, 2);
    sink(world);
    world.check(buffer, size, 2);
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

}  // namespace

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_good_copy_below_host_stands_in),
      cmocka_unit_test(a_prefetch_past_damage_in_host),
      cmocka_unit_test(registering_past_damage_in_host),
      cmocka_unit_test(damage_in_host_that_sinks),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
