// SPDX-License-Identifier: Apache-2.0
//
// Buffers through the C ABI: creation, queries, reads and writes from the host, discards, advice, holds,
// registered host memory and stream-ordered allocation; the good path and each documented error of each.

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

weir_buffer_info query(World &world, weir_buffer buffer, uint64_t offset = 0,
                       uint64_t length = WEIR_WHOLE) {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  ok(weir_buffer_info_get(world.pool, buffer, offset, length, &info));
  return info;
}

void create_checks_its_descriptor(void **) {
  World world;
  weir_buffer buffer = nullptr;
  const auto refused = [&](auto change) {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = page_bytes;
    change(desc);
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_create(world.pool, &desc, &buffer));
    assert_null(buffer);
  };
  refused([](weir_buffer_desc &d) { d.size = 0; });
  refused([](weir_buffer_desc &d) { d.size = UINT64_MAX; });
  refused([](weir_buffer_desc &d) { d.alignment = 3; });
  refused([](weir_buffer_desc &d) { d.alignment = 2 * page_bytes; });
  refused([](weir_buffer_desc &d) { d.flags = UINT64_C(1) << 33U; });
  refused([](weir_buffer_desc &d) { d.priority = 3; });
  refused([](weir_buffer_desc &d) { d.home = 6; });
  refused([](weir_buffer_desc &d) { d.element = WEIR_ELEMENT_F64 + 1; });
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_create(world.pool, nullptr, &buffer));
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = 1;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_create(world.pool, &desc, nullptr));
  assert_int_equal(world.stats().buffers, 0);
  world.close();
}

void dead_and_foreign_buffers_are_recognised(void **) {
  World world;
  World other;
  weir_buffer buffer = world.buffer(page_bytes);
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  expect_result(WEIR_ERROR_INVALID_HANDLE,
                weir_buffer_info_get(other.pool, buffer, 0, WEIR_WHOLE, &info));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_buffer_destroy(other.pool, buffer));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_buffer_destroy(world.pool, nullptr));
  ok(weir_buffer_destroy(world.pool, buffer));
  weir_buffer reused = world.buffer(page_bytes);  // likely the same slot
  uint8_t byte = 0;
  alignas(4096) static uint8_t page[4096];
  uint64_t address = 0;
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_buffer_destroy(world.pool, buffer));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_buffer_read(world.pool, buffer, 0, 1, &byte));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_buffer_write(world.pool, buffer, 0, 1, &byte));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_discard(world.pool, buffer, 0, 1));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_advise(world.pool, buffer, 0, 1, WEIR_ADVISE_COLD));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_buffer_set_priority(world.pool, buffer, 0));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_hold(world.pool, buffer, 0, &address));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_unhold(world.pool, buffer));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_host_register(world.pool, buffer, page, 0));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_host_unregister(world.pool, buffer));
  expect_result(WEIR_ERROR_INVALID_HANDLE, world.acquire(buffer, WEIR_READ, &lease));
  assert_int_equal(last_error().use_index, 0);
  ok(weir_buffer_destroy(world.pool, reused));
  other.close();
  world.close();
}

void released_leases_are_stale(void **) {
  World world;
  weir_buffer buffer = world.buffer(page_bytes);
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ, &lease));
  weir_stream other = nullptr;
  ok(weir_stream_create(world.context, 0, 0, &other));
  ok(weir_release(lease, other));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_release(lease, world.streams[0]));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_release(nullptr, world.streams[0]));
  weir_lease again = nullptr;
  ok(world.acquire(buffer, WEIR_READ_WRITE, &again));  // reuses the record
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_release(lease, world.streams[0]));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_release(again, nullptr));
  ok(weir_release(again, world.streams[0]));
  ok(weir_stream_close(other));
  world.close();
}

void a_new_buffer_is_zero_and_takes_nothing(void **) {
  World world;
  for (const uint64_t size : {uint64_t{100}, 3 * page_bytes + 5}) {
    weir_buffer buffer = world.buffer(size);
    assert_int_equal(query(world, buffer).unwritten_bytes, size);
    std::vector<uint8_t> bytes(size, 0xee);
    ok(weir_buffer_read(world.pool, buffer, 0, WEIR_WHOLE, bytes.data()));
    assert_true(std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; }));
    assert_int_equal(world.stats().device_bytes, 0);
    ok(weir_buffer_destroy(world.pool, buffer));
  }
  world.close();
}

void query_tells_where_the_bytes_are(void **) {
  World world({.device_pages = 4, .host_pages = 8});
  const uint64_t size = 3 * page_bytes;
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  weir_buffer_info info = query(world, buffer);
  assert_int_equal(info.size, size);
  assert_int_equal(info.pages, 3);
  assert_int_equal(info.device_bytes, size);
  assert_int_equal(info.host_bytes + info.both_bytes + info.unwritten_bytes + info.lost_bytes, 0);
  const uint64_t address = info.address;
  assert_true(address != 0);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  info = query(world, buffer, page_bytes / 2, page_bytes);
  assert_int_equal(info.host_bytes, page_bytes);
  assert_int_equal(info.device_bytes, 0);
  world.check(buffer, size, 1);
  info = query(world, buffer);
  assert_int_equal(info.device_bytes, size);
  assert_int_equal(info.both_bytes, size);
  assert_int_equal(info.address, address);  // one address for life
  weir_buffer_info out = WEIR_BUFFER_INFO_INIT;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_buffer_info_get(world.pool, buffer, size + 1, 1, &out));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_buffer_info_get(world.pool, buffer, 1, size, &out));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_buffer_info_get(world.pool, buffer, 0, size, nullptr));
  world.close();
}

/// Writes odd ranges into a buffer and a copy of it, wherever its pages are, and compares.
void read_and_write_any_tier(void **) {
  World world({.device_pages = 4,
               .host_pages = 16,
               .flags = WEIR_POOL_NO_BACKGROUND | WEIR_POOL_CHECKSUM_HOST});
  for (const uint64_t size : {uint64_t{900}, 3 * page_bytes + 77}) {
    weir_buffer buffer = world.buffer(size);
    std::vector<uint8_t> expected(size, 0);
    std::vector<uint8_t> got(size);
    const auto write = [&](uint64_t offset, uint64_t length, uint8_t value) {
      std::fill_n(expected.begin() + static_cast<ptrdiff_t>(offset), length, value);
      ok(weir_buffer_write(world.pool, buffer, offset, length, expected.data() + offset));
      ok(weir_buffer_read(world.pool, buffer, 0, size, got.data()));
      assert_memory_equal(got.data(), expected.data(), size);
    };
    write(3, 500, 1);  // never written before: goes to HOST
    write(size - 60, 60, 2);
    weir_lease lease = nullptr;
    ok(world.acquire(buffer, WEIR_READ, &lease));
    ok(weir_release(lease, world.streams[0]));
    write(size / 2, 400, 3);  // resident
    ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    write(1, size - 2, 4);  // in HOST
    ok(weir_buffer_destroy(world.pool, buffer));
  }
  world.close();
}

void read_and_write_check_range_and_leases(void **) {
  World world;
  weir_buffer buffer = world.buffer(2 * page_bytes);
  uint8_t byte = 9;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_buffer_read(world.pool, buffer, 2 * page_bytes, 1, &byte));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_buffer_write(world.pool, buffer, UINT64_MAX, 2, &byte));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_read(world.pool, buffer, 0, 1, nullptr));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_write(world.pool, buffer, 0, 1, nullptr));
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ, &lease));
  ok(weir_buffer_read(world.pool, buffer, 0, 1, &byte));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_buffer_write(world.pool, buffer, 0, 1, &byte));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_discard(world.pool, buffer, 0, WEIR_WHOLE));
  expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(world.pool, buffer));
  ok(weir_release(lease, world.streams[0]));
  ok(world.acquire(buffer, WEIR_READ_WRITE, &lease));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_buffer_read(world.pool, buffer, 0, 1, &byte));
  uint64_t address = 0;
  expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_hold(world.pool, buffer, 0, &address));
  ok(weir_release(lease, world.streams[0]));
  world.close();
}

void discard_drops_whole_pages_only(void **) {
  World world({.device_pages = 4, .host_pages = 0});
  const uint64_t size = 4 * page_bytes;
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 8);
  ok(weir_discard(world.pool, buffer, page_bytes / 2, 2 * page_bytes));  // wholly inside: page 1
  assert_int_equal(query(world, buffer).unwritten_bytes, page_bytes);
  std::vector<uint8_t> bytes(size);
  ok(weir_buffer_read(world.pool, buffer, 0, size, bytes.data()));
  for (uint64_t i = 0; i < size; ++i) {
    const bool dropped = i / page_bytes == 1;
    assert_int_equal(bytes[i], dropped ? 0 : pattern(8, i));
  }
  ok(weir_discard(world.pool, buffer, 0, WEIR_WHOLE));
  assert_int_equal(query(world, buffer).unwritten_bytes, size);
  weir_buffer other = world.buffer(size);
  world.fill(other, size, 9);  // HOST has no room: this works only because nothing had to be kept
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_discard(world.pool, buffer, size, 1));
  world.close();
}

void advice_and_priority_choose_the_victim(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer old = world.buffer(2 * page_bytes);
  weir_buffer recent = world.buffer(2 * page_bytes);
  weir_buffer next = world.buffer(2 * page_bytes);
  world.fill(old, 2 * page_bytes, 1);
  world.fill(recent, 2 * page_bytes, 2);
  ok(weir_buffer_set_priority(world.pool, old, WEIR_PRIORITY_HIGH));
  assert_int_equal(query(world, old).priority, WEIR_PRIORITY_HIGH);
  world.fill(next, 2 * page_bytes, 3);
  assert_int_equal(query(world, old).device_bytes, 2 * page_bytes);
  assert_int_equal(query(world, recent).device_bytes, 0);
  ok(weir_buffer_set_priority(world.pool, old, WEIR_PRIORITY_NORMAL));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_set_priority(world.pool, old, 3));
  world.check(old, 2 * page_bytes, 1);
  ok(weir_advise(world.pool, old, 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
  world.check(recent, 2 * page_bytes, 2);
  assert_int_equal(query(world, old).device_bytes, 0);  // although used last
  assert_int_equal(query(world, next).device_bytes, 2 * page_bytes);
  ok(weir_advise(world.pool, old, 0, page_bytes, WEIR_ADVISE_WILL_NEED));
  ok(weir_advise(world.pool, old, 0, page_bytes, WEIR_ADVISE_STREAMING));
  ok(weir_advise(world.pool, old, 0, page_bytes, WEIR_ADVISE_NORMAL));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_advise(world.pool, old, 0, page_bytes, 4));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_advise(world.pool, old, 2 * page_bytes, 1, WEIR_ADVISE_COLD));
  world.check_read(old, 2 * page_bytes, 1);
  world.close();
}

void held_buffers_stay(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer held = world.buffer(2 * page_bytes);
  weir_buffer other = world.buffer(2 * page_bytes);
  world.fill(held, 2 * page_bytes, 1);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  uint64_t address = 0;
  uint64_t again = 0;
  ok(weir_hold(world.pool, held, 0, &address));
  ok(weir_hold(world.pool, held, WEIR_DEVICE_DEFAULT, &again));
  assert_int_equal(address, again);
  assert_int_equal(world.device_bytes(address, 2 * page_bytes)[5], pattern(1, 5));
  assert_int_equal(query(world, held).held, 2);
  assert_int_equal(world.stats().device_held_bytes, 2 * page_bytes);
  expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(world.pool, held));
  world.fill(other, 2 * page_bytes, 2);
  uint64_t freed = 0;
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed));
  assert_int_equal(freed, 2 * page_bytes);
  assert_int_equal(query(world, held).device_bytes, 2 * page_bytes);
  ok(weir_unhold(world.pool, held));
  ok(weir_unhold(world.pool, held));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_unhold(world.pool, held));
  assert_int_equal(world.stats().device_held_bytes, 0);
  weir_buffer big = world.buffer(5 * page_bytes);
  expect_result(WEIR_ERROR_OVER_BUDGET, weir_hold(world.pool, big, 0, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_hold(world.pool, held, 7, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_hold(world.pool, held, 0, nullptr));
  world.close();
}

struct Free {
  void operator()(uint8_t *memory) const { std::free(memory); }
};
using HostMemory = std::unique_ptr<uint8_t, Free>;
HostMemory host_memory(uint64_t bytes) {
  return HostMemory(static_cast<uint8_t *>(std::aligned_alloc(page_bytes, bytes)));
}

void registered_memory_is_the_host_copys_home(void **) {
  World world(
      {.device_pages = 4, .host_pages = 0});  // only registered memory can take what is demoted
  const uint64_t size = 3 * page_bytes;
  HostMemory memory = host_memory(size);
  for (uint64_t i = 0; i < size; ++i) memory.get()[i] = pattern(4, i);
  weir_buffer buffer = world.buffer(size);
  weir_buffer small = world.buffer(64);
  expect_result(WEIR_ERROR_NOT_SUPPORTED, weir_host_register(world.pool, small, memory.get(), 0));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_host_register(world.pool, buffer, nullptr, 0));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_host_register(world.pool, buffer, memory.get(), 2));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_host_unregister(world.pool, buffer));
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ, &lease));
  expect_result(WEIR_ERROR_BUSY,
                weir_host_register(world.pool, buffer, memory.get(), WEIR_HOST_LOAD));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_host_register(world.pool, buffer, memory.get(), WEIR_HOST_LOAD));
  world.check(buffer, size, 4);
  world.fill(buffer, size, 5);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  assert_int_equal(world.stats().host_used_bytes, 0);
  world.check(buffer, size, 5);
  ok(weir_host_unregister(world.pool, buffer));
  for (uint64_t i = 0; i < size; ++i) assert_int_equal(memory.get()[i], pattern(5, i));
  std::memset(memory.get(), 0, size);  // the caller's again: the buffer must not see this
  world.check(buffer, size, 5);
  world.close();
}

void malloc_memory_is_resident_and_charged(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  uint64_t a = 0;
  uint64_t b = 0;
  ok(weir_malloc(world.pool, 0, world.streams[0], 3 * page_bytes, &a));
  assert_true(a != 0);
  Kernel kernel{a, 3 * page_bytes, 1, 0};
  ok(kernel.launch(world.streams[0], Kernel::write));
  assert_int_equal(world.stats().device_held_bytes, 3 * page_bytes);
  expect_result(WEIR_ERROR_OVER_BUDGET, weir_malloc(world.pool, 0, nullptr, 2 * page_bytes, &b));
  weir_buffer buffer = world.buffer(2 * page_bytes);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(buffer, WEIR_READ, &lease));
  ok(kernel.launch(world.streams[0], Kernel::compare));
  ok(weir_free(world.pool, world.streams[0], a));
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(kernel.wrong, 0);
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_free(world.pool, nullptr, a));
  ok(weir_free(world.pool, nullptr, 0));
  ok(world.acquire(buffer, WEIR_READ, &lease));
  expect_result(WEIR_ERROR_WOULD_BLOCK, weir_malloc(world.pool, 0, nullptr, 3 * page_bytes, &b));
  ok(weir_release(lease, world.streams[0]));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_malloc(world.pool, 0, nullptr, 0, &b));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_malloc(world.pool, 8, nullptr, 1, &b));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_malloc(world.pool, 0, nullptr, 1, nullptr));
  assert_int_equal(world.stats().device_held_bytes, 0);
  world.close();
}

/// The fixture's own: what is made by runs of bytes is what the rule says of each.
void the_pattern_is_made_by_its_rule(void **) {
  uint8_t made[1500];
  for (const uint32_t seed : {0U, 1U, 77U, 0x9f3a5511U}) {
    for (const uint64_t from :
         {uint64_t{0}, uint64_t{130}, uint64_t{511}, uint64_t{4096} * 1000 + 300}) {
      make_block(made, from, sizeof made, PatternOf{seed});
      for (uint64_t i = 0; i < sizeof made; ++i) assert_int_equal(made[i], pattern(seed, from + i));
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(create_checks_its_descriptor),
      cmocka_unit_test(dead_and_foreign_buffers_are_recognised),
      cmocka_unit_test(released_leases_are_stale),
      cmocka_unit_test(a_new_buffer_is_zero_and_takes_nothing),
      cmocka_unit_test(query_tells_where_the_bytes_are),
      cmocka_unit_test(read_and_write_any_tier),
      cmocka_unit_test(read_and_write_check_range_and_leases),
      cmocka_unit_test(discard_drops_whole_pages_only),
      cmocka_unit_test(advice_and_priority_choose_the_victim),
      cmocka_unit_test(held_buffers_stay),
      cmocka_unit_test(registered_memory_is_the_host_copys_home),
      cmocka_unit_test(malloc_memory_is_resident_and_charged),
      cmocka_unit_test(the_pattern_is_made_by_its_rule),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
