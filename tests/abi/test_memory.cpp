// SPDX-License-Identifier: Apache-2.0
//
// What memory a buffer is given and what becomes of it: addresses, alignment, scrubbing, and what HOST is charged for.

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

const uint64_t two_pages = 2 * page_bytes;

weir_buffer_info query(World &world, weir_buffer buffer) {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  ok(weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info));
  return info;
}

void stable_addresses_and_alignment(void **) {
  World world({.device_pages = 4});
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = 100;
  desc.flags = WEIR_BUFFER_STABLE_ADDRESS;
  weir_buffer stable = nullptr;
  ok(weir_buffer_create(world.pool, &desc, &stable));
  world.fill(stable, 100, 1);
  const uint64_t address = query(world, stable).address;
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  weir_buffer other = world.buffer(3 * page_bytes);
  world.fill(other, 3 * page_bytes, 2);
  world.check(stable, 100, 1);
  assert_int_equal(query(world, stable).address, address);
  desc.flags = 0;
  desc.size = 10;
  for (const uint64_t alignment : {uint64_t{0}, uint64_t{512}, page_bytes / 2, page_bytes}) {
    desc.alignment = alignment;
    weir_buffer aligned = nullptr;
    ok(weir_buffer_create(world.pool, &desc, &aligned));
    world.fill(aligned, 10, 3);
    const uint64_t at = query(world, aligned).address;
    assert_int_equal(at % (alignment != 0 ? alignment : 256), 0);
  }
  world.close();
  World without({.options = std::string(small_host) + ";host.vmm=0"});
  desc.alignment = 0;
  desc.flags = WEIR_BUFFER_STABLE_ADDRESS;
  weir_buffer refused = nullptr;
  expect_result(WEIR_ERROR_NOT_SUPPORTED, weir_buffer_create(without.pool, &desc, &refused));
  assert_null(refused);
  assert_int_equal(without.stats().buffers, 0);
  without.close();
}

/// Whenever a scrubbed buffer leaves a device, and when it dies, nothing of it stays there. Without VMM the CPU can
/// look at the place afterwards.
void scrubbed_memory_is_zeroed(void **) {
  for (const bool dies : {false, true}) {
    World world({.options = std::string(small_host) + ";host.vmm=0"});
    // A neighbour that is held keeps the segment: what the buffer leaves there can still be looked at.
    weir_buffer neighbour = world.buffer(page_bytes);
    uint64_t held = 0;
    ok(weir_hold(world.pool, neighbour, 0, &held));
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = two_pages;
    desc.flags = WEIR_BUFFER_SCRUB;
    weir_buffer buffer = nullptr;
    ok(weir_buffer_create(world.pool, &desc, &buffer));
    world.fill(buffer, two_pages, 1);
    const uint64_t address = query(world, buffer).address;
    assert_int_equal(world.device_bytes(address, two_pages)[5], pattern(1, 5));
    if (dies) ok(weir_buffer_destroy(world.pool, buffer));
    ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    assert_true(all_zero(world.device_bytes(address, two_pages)));
    if (!dies) world.check(buffer, two_pages, 1);
    ok(weir_unhold(world.pool, neighbour));
    world.close();
  }
}

/// The next buffer of the same client, too, finds nothing of one that was to be scrubbed.
void scrubbed_memory_is_not_handed_on(void **) {
  World world({.device_pages = 2, .host_pages = 4});
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = two_pages;
  desc.flags = WEIR_BUFFER_SCRUB;
  weir_buffer secret = nullptr;
  ok(weir_buffer_create(world.pool, &desc, &secret));
  world.fill(secret, two_pages, 1);
  ok(weir_buffer_destroy(world.pool, secret));
  weir_buffer next = world.buffer(two_pages);
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(next, WEIR_DISCARD_WRITE, &lease, &address));
  assert_true(all_zero(world.device_bytes(address, two_pages)));
  ok(weir_release(lease, world.streams[0]));
  world.close();
}

/// A lease on the CPU that does not fit HOST is refused; it must not make room of its own first pages.
void a_host_lease_beyond_host_is_refused(void **) {
  World world({.device_pages = 4, .host_pages = 1});
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_buffer buffer = world.buffer(two_pages);
  world.fill(buffer, two_pages, 1);
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  assert_int_equal(last_error().tier, WEIR_TIER_HOST);
  assert_int_equal(query(world, buffer).leases, 0);
  world.check(buffer, two_pages, 1);
  ok(weir_stream_close(cpu));
  world.close();
}

/// HOST is charged for what it keeps, and no longer than it keeps it.
/// A lease on the CPU's view of one page keeps it, whatever becomes of another page's place in HOST.
void a_host_lease_outlives_its_neighbours_copy(void **) {
  World world;
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_buffer buffer = world.buffer(2 * page_bytes);
  world.fill(buffer, 2 * page_bytes, 1);
  weir_use read = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, cpu, &read, 1, nullptr, &lease));
  ok(weir_release(lease, cpu));  // both pages are in HOST, and in the view
  read.length = page_bytes;
  ok(weir_acquire(world.pool, cpu, &read, 1, nullptr, &lease));
  const auto *at = reinterpret_cast<const uint8_t *>(read.address);
  weir_use write = WEIR_USE(buffer, WEIR_READ_WRITE);
  write.offset = write.length = page_bytes;
  weir_lease other = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], &write, 1, nullptr, &other));
  for (uint64_t i = 0; i < page_bytes; ++i) assert_int_equal(at[i], pattern(1, i));
  ok(weir_release(other, world.streams[0]));
  ok(weir_release(lease, cpu));
  ok(weir_stream_close(cpu));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void rewritten_pages_leave_host(void **) {
  World world({.device_pages = 4, .host_pages = 8});
  weir_buffer buffer = world.buffer(two_pages);
  world.fill(buffer, two_pages, 1);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  assert_int_equal(world.stats().host_used_bytes, two_pages);
  world.check(buffer, two_pages, 1);
  world.fill(buffer, two_pages, 2);
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  assert_int_equal(world.stats().host_used_bytes, 0);
  world.check(buffer, two_pages, 2);
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(stable_addresses_and_alignment),
      cmocka_unit_test(scrubbed_memory_is_zeroed),
      cmocka_unit_test(scrubbed_memory_is_not_handed_on),
      cmocka_unit_test(a_host_lease_beyond_host_is_refused),
      cmocka_unit_test(a_host_lease_outlives_its_neighbours_copy),
      cmocka_unit_test(rewritten_pages_leave_host),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
