// SPDX-License-Identifier: Apache-2.0
//
// What the headers promise beside the good path and is not looked at elsewhere: handles of other contexts, reserved
// words, limits, what a device without a capability answers, and that a refusal changes nothing.

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

const uint64_t two_pages = 2 * page_bytes;

struct Free {
  void operator()(uint8_t *memory) const { std::free(memory); }
};
using HostMemory = std::unique_ptr<uint8_t, Free>;
HostMemory host_memory(uint64_t bytes) {
  return HostMemory(static_cast<uint8_t *>(std::aligned_alloc(page_bytes, bytes)));
}

weir_buffer_info query(World &world, weir_buffer buffer) {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  ok(weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info));
  return info;
}

void streams_of_other_contexts_are_foreign(void **) {
  World world;
  World other;
  weir_buffer buffer = world.buffer(page_bytes);
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  uint64_t address = 0;
  const weir_stream foreign = other.streams[0];
  expect_result(WEIR_ERROR_INVALID_HANDLE,
                weir_acquire(world.pool, foreign, &use, 1, nullptr, &lease));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_prefetch(world.pool, foreign, &use, 1));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_announce(world.pool, foreign, nullptr, 0, 0));
  expect_result(WEIR_ERROR_INVALID_HANDLE,
                weir_malloc(world.pool, 0, foreign, page_bytes, &address));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_free(world.pool, foreign, 16));
  ok(world.acquire(buffer, WEIR_READ, &lease));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_release(lease, foreign));
  ok(weir_release(lease, world.streams[0]));
  assert_int_equal(world.stats().device_held_bytes, 0);
  other.close();
  world.close();
}

void closed_streams_are_recognised(void **) {
  World world;
  weir_stream stream = nullptr;
  void *native = nullptr;
  ok(weir_stream_create(world.context, 0, 0, &stream));
  ok(weir_stream_close(stream));
  weir_use use = WEIR_USE(world.buffer(page_bytes), WEIR_READ);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_stream_close(stream));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_stream_query(stream));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_stream_native(stream, &native));
  expect_result(WEIR_ERROR_INVALID_HANDLE,
                weir_acquire(world.pool, stream, &use, 1, nullptr, &lease));
  world.close();
}

void the_cpu_has_no_queue(void **) {
  World world;
  weir_stream cpu = nullptr;
  void *native = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  ok(weir_stream_synchronize(cpu));
  ok(weir_stream_query(cpu));
  expect_result(WEIR_ERROR_NOT_SUPPORTED, weir_stream_native(cpu, &native));
  expect_result(WEIR_ERROR_NOT_SUPPORTED, weir_stream_host_call(cpu, std::free, nullptr));
  const weir_use use = WEIR_USE(world.buffer(page_bytes), WEIR_READ);
  expect_result(WEIR_ERROR_NOT_SUPPORTED, weir_prefetch(world.pool, cpu, &use, 1));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_stream_host_call(world.streams[0], nullptr, nullptr));
  ok(weir_stream_close(cpu));
  world.close();
}

/// A stream of another device can't stand for the lease's work: the lease is as it was.
void a_release_on_another_device_is_refused(void **) {
  World world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
  weir_buffer buffer = world.buffer(page_bytes);
  for (const uint64_t length : {WEIR_WHOLE, uint64_t{100}}) {
    weir_use use{buffer, 0, length, WEIR_READ_WRITE, 0, 0, {0, 0, 0}};
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &lease));
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_release(lease, world.streams[1]));
    expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(world.pool, buffer));
    ok(weir_release(lease, world.streams[0]));
  }
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// Reserved words must be zero in every array element, also where only hints are given.
void reserved_words_are_checked_in_hints(void **) {
  World world;
  weir_buffer buffer = world.buffer(page_bytes);
  for (uint32_t word = 0; word < 3; ++word) {
    weir_use use = WEIR_USE(buffer, WEIR_READ);
    weir_operation operation = {nullptr, &use, 1, 0, {0, 0}};
    uint64_t &odd = word < 2 ? operation.reserved[word] : operation.operation_id;
    odd = 1;
    expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                  weir_announce(world.pool, world.streams[0], &operation, 1, 0));
    odd = 0;
    use.reserved[word] = 1;
    expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                  weir_announce(world.pool, world.streams[0], &operation, 1, 0));
    expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                  weir_prefetch(world.pool, world.streams[0], &use, 1));
  }
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  use.flags = 2;
  const weir_operation operation = {nullptr, &use, 1, 0, {0, 0}};
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_announce(world.pool, world.streams[0], &operation, 1, 0));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_prefetch(world.pool, world.streams[0], &use, 1));
  const weir_operation empty = {nullptr, nullptr, 1, 0, {0, 0}};
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_announce(world.pool, world.streams[0], &empty, 1, 0));
  world.close();
}

void a_set_has_at_most_65535_uses(void **) {
  World world;
  std::vector<weir_use> uses(65536, WEIR_USE(world.buffer(page_bytes), WEIR_READ));
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_acquire(world.pool, world.streams[0], uses.data(), 65536, nullptr, &lease));
  ok(weir_acquire(world.pool, world.streams[0], uses.data(), 65535, nullptr, &lease));
  ok(weir_release(lease, world.streams[0]));
  world.close();
}

/// Uses of one buffer may overlap: together they are what the strongest of them is.
void overlapping_uses_are_one(void **) {
  World world;
  weir_buffer buffer = world.buffer(two_pages);
  world.fill(buffer, two_pages, 1);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  weir_use uses[3] = {WEIR_USE(buffer, WEIR_READ), WEIR_USE(buffer, WEIR_READ_WRITE),
                      WEIR_USE(buffer, WEIR_DISCARD_WRITE)};
  uses[1].offset = 100;
  uses[2].offset = page_bytes + 5;
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], uses, 3, nullptr, &lease));
  assert_int_equal(uses[1].address, uses[0].address + 100);
  assert_int_equal(uses[2].address, uses[0].address + page_bytes + 5);
  Kernel reader{uses[0].address, two_pages, 1,
                0};  // the discard covers what others read: it is kept
  Kernel writer{uses[0].address, two_pages, 2, 0};
  ok(reader.launch(world.streams[0], Kernel::compare));
  ok(writer.launch(world.streams[0], Kernel::write));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(reader.wrong, 0);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  world.check(buffer, two_pages, 2);
  world.close();
}

/// Ranges do not wait for the whole: a lease on a part is seen by who wants all, also where everything is in place.
void a_lease_on_a_part_forbids_the_whole(void **) {
  World world;
  for (const uint64_t size : {two_pages, uint64_t{600}}) {
    weir_buffer buffer = world.buffer(size);
    world.fill(buffer, size, 1);
    world.check(buffer, size, 1);
    weir_use part{buffer, 10, 20, WEIR_READ_WRITE, 0, 0, {0, 0, 0}};
    weir_lease lease = nullptr;
    weir_lease refused = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], &part, 1, nullptr, &lease));
    expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(buffer, WEIR_READ, &refused));
    expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(world.pool, buffer));
    // Byte by byte: what the lease does not cover can be had, on the CPU too.
    uint8_t bytes[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    ok(weir_buffer_write(world.pool, buffer, 2, 8, bytes));
    ok(weir_buffer_read(world.pool, buffer, 30, 8, bytes));
    assert_int_equal(bytes[0], pattern(1, 30));
    expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_buffer_write(world.pool, buffer, 3, 8, bytes));
    expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_buffer_read(world.pool, buffer, 29, 8, bytes));
    ok(weir_release(lease, world.streams[0]));
    ok(weir_buffer_read(world.pool, buffer, 2, 8, bytes));
    assert_int_equal(bytes[7], 9);
    ok(weir_buffer_destroy(world.pool, buffer));
  }
  world.close();
}

/// The second of two uses conflicts: it is named, and the first is not left leased.
void a_conflict_names_its_use(void **) {
  World world;
  weir_buffer buffers[2] = {world.buffer(page_bytes), world.buffer(page_bytes)};
  weir_use uses[2] = {WEIR_USE(buffers[0], WEIR_READ_WRITE), WEIR_USE(buffers[1], WEIR_READ_WRITE)};
  weir_lease held = nullptr;
  weir_lease refused = nullptr;
  ok(world.acquire(buffers[1], WEIR_READ, &held));
  expect_result(WEIR_ERROR_LEASE_CONFLICT,
                weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &refused));
  assert_int_equal(last_error().use_index, 1);
  assert_int_equal(query(world, buffers[0]).leases, 0);
  ok(weir_release(held, world.streams[0]));
  world.close();
}

/// A buffer in place on its home device is used on another one: it gets that device's address.
void addresses_are_of_the_streams_device(void **) {
  World world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
  weir_buffer buffer = world.buffer(two_pages, 0);
  std::vector<uint8_t> bytes(two_pages);
  for (uint64_t i = 0; i < two_pages; ++i) bytes[i] = pattern(1, i);
  ok(weir_buffer_write(world.pool, buffer, 0, two_pages, bytes.data()));
  uint64_t home = 0;
  ok(weir_hold(world.pool, buffer, 0, &home));
  ok(weir_unhold(world.pool, buffer));
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(buffer, WEIR_READ, &lease, &address, 1));
  assert_int_equal(query(world, buffer).address, home);
  assert_int_not_equal(address, home);
  ok(weir_release(lease, world.streams[1]));
  world.fill(buffer, two_pages, 2, 1);
  assert_int_equal(query(world, buffer).peer_bytes, two_pages);
  world.check(buffer, two_pages, 2, 0);
  world.close();
}

/// A prefetch is a hint: beside a writer on another device it must not make a copy of what is being changed.
void a_prefetch_beside_a_writer_copies_nothing(void **) {
  for (const uint64_t length : {WEIR_WHOLE, two_pages - 1}) {
    World world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
    weir_buffer buffer = world.buffer(two_pages, 0);
    world.fill(buffer, two_pages, 1);
    weir_use use{buffer, 0, length, WEIR_READ_WRITE, 0, 0, {0, 0, 0}};
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &lease));
    const weir_use wanted = WEIR_USE(buffer, WEIR_READ);
    ok(weir_prefetch(world.pool, world.streams[1], &wanted, 1));
    Kernel kernel{use.address, two_pages - 1, 2, 0};
    ok(kernel.launch(world.streams[0], Kernel::write));
    ok(weir_release(lease, world.streams[0]));
    world.check(buffer, two_pages - 1, 2, 1);
    world.check(buffer, two_pages - 1, 2, 0);
    world.close();
  }
}

void held_bytes_of_the_set_do_not_count_against_it(void **) {
  World world({.device_pages = 4, .host_pages = 8});
  weir_buffer held = world.buffer(3 * page_bytes);
  weir_buffer one = world.buffer(page_bytes);
  uint64_t address = 0;
  ok(weir_hold(world.pool, held, 0, &address));
  weir_use uses[2] = {WEIR_USE(held, WEIR_READ), WEIR_USE(one, WEIR_READ)};
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease));
  assert_int_equal(uses[0].address, address);
  ok(weir_release(lease, world.streams[0]));
  ok(weir_unhold(world.pool, held));
  world.close();
}

/// What must leave the device is charged to its client's quota in HOST, page by page.
void host_quotas_are_hard(void **) {
  World world({.device_pages = 2, .host_pages = 16});
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.host_quota = page_bytes;
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  weir_buffer buffer = world.buffer(two_pages, WEIR_DEVICE_DEFAULT, client);
  weir_buffer other = world.buffer(two_pages);
  world.fill(buffer, two_pages, 1);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(other, WEIR_READ, &lease));
  const weir_error_info info = last_error();
  assert_int_equal(info.tier, WEIR_TIER_HOST);
  assert_int_equal(info.asked, page_bytes);
  assert_int_equal(info.available, 0);
  assert_int_equal(info.short_by, page_bytes);
  weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
  ok(weir_client_stats_get(client, &stats));
  assert_int_equal(stats.host_bytes, page_bytes);
  assert_int_equal(stats.device_bytes, page_bytes);
  world.check_read(buffer, two_pages, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_client_stats_get(client, &stats));
  assert_int_equal(stats.host_bytes, 0);
  ok(world.acquire(other, WEIR_READ, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_client_destroy(client));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_client_destroy(client));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_client_stats_get(client, &stats));
  world.close();
}

void a_clients_priority_is_added(void **) {
  World world;
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.priority = WEIR_PRIORITY_HIGH;
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  const int32_t own[] = {WEIR_PRIORITY_LOWEST, WEIR_PRIORITY_NORMAL, WEIR_PRIORITY_HIGHEST};
  const int32_t sum[] = {WEIR_PRIORITY_LOW, WEIR_PRIORITY_HIGH, WEIR_PRIORITY_HIGHEST};
  for (uint32_t i = 0; i < 3; ++i) {
    for (const uint64_t size : {page_bytes, uint64_t{100}}) {
      weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
      buffer_desc.size = size;
      buffer_desc.client = client;
      buffer_desc.priority = own[i];
      buffer_desc.tag = 40 + i;
      weir_buffer buffer = nullptr;
      ok(weir_buffer_create(world.pool, &buffer_desc, &buffer));
      assert_int_equal(query(world, buffer).priority, sum[i]);
      assert_int_equal(query(world, buffer).tag, 40 + i);
      // Set anew it is added again; a small buffer stays in its slab's class.
      for (uint32_t again = 0; again < 3; ++again) {
        ok(weir_buffer_set_priority(world.pool, buffer, own[again]));
        assert_int_equal(query(world, buffer).priority, sum[size == 100 ? i : again]);
      }
      ok(weir_buffer_destroy(world.pool, buffer));
    }
  }
  ok(weir_client_destroy(client));
  world.close();
}

void registration_has_its_own_refusals(void **) {
  World world({.device_pages = 4, .host_pages = 0});
  HostMemory memory = host_memory(two_pages);
  weir_buffer buffer = world.buffer(two_pages);
  for (uint64_t i = 0; i < two_pages; ++i) memory.get()[i] = pattern(1, i);
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_host_register(world.pool, buffer, memory.get() + 8, 0));
  ok(weir_host_register(world.pool, buffer, memory.get(), WEIR_HOST_LOAD));
  expect_result(WEIR_ERROR_BUSY, weir_host_register(world.pool, buffer, memory.get(), 0));
  // Its bytes lie there alone, and HOST has no room: nothing may change.
  expect_result(WEIR_ERROR_OVER_BUDGET, weir_host_unregister(world.pool, buffer));
  assert_int_equal(last_error().tier, WEIR_TIER_HOST);
  world.check_read(buffer, two_pages, 1);
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ, &lease));
  expect_result(WEIR_ERROR_BUSY, weir_host_unregister(world.pool, buffer));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_host_unregister(world.pool, buffer));  // now the device has them too
  std::memset(memory.get(), 0, two_pages);
  world.check(buffer, two_pages, 1);
  ok(weir_host_register(world.pool, buffer, memory.get(), 0));
  uint64_t address = 0;
  ok(weir_hold(world.pool, buffer, 0, &address));
  ok(weir_unhold(world.pool, buffer));
  ok(weir_buffer_destroy(world.pool, buffer));  // parts from it
  world.close();
  World without({.options = std::string(small_host) + ";host.register=0"});
  buffer = without.buffer(two_pages);
  expect_result(WEIR_ERROR_NOT_SUPPORTED,
                weir_host_register(without.pool, buffer, memory.get(), 0));
  weir_stream cpu = nullptr;
  ok(weir_stream_create(without.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  expect_result(WEIR_ERROR_NOT_SUPPORTED,
                weir_acquire(without.pool, cpu, &use, 1, nullptr, &lease));
  without.fill(buffer, two_pages, 3);  // not leased by the one that was refused
  ok(weir_stream_close(cpu));
  without.close();
}

/// Handles of two contexts, each with its first pool and buffer: a foreign one is recognised, by buffer and by lease.
void other_contexts_handles_are_foreign(void **) {
  World mine;
  World other;
  weir_buffer own = mine.buffer(page_bytes);
  weir_buffer foreign = other.buffer(page_bytes);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_INVALID_HANDLE, mine.acquire(foreign, WEIR_DISCARD_WRITE, &lease));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_buffer_destroy(mine.pool, foreign));
  ok(other.acquire(foreign, WEIR_READ, &lease));
  weir_lease out = nullptr;
  ok(mine.acquire(own, WEIR_READ, &out));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_release(lease, mine.streams[0]));
  ok(weir_release(out, mine.streams[0]));
  ok(weir_release(lease, other.streams[0]));
  ok(weir_buffer_destroy(other.pool, foreign));
  ok(weir_buffer_destroy(mine.pool, own));
  other.close();
  mine.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(streams_of_other_contexts_are_foreign),
      cmocka_unit_test(closed_streams_are_recognised),
      cmocka_unit_test(the_cpu_has_no_queue),
      cmocka_unit_test(a_release_on_another_device_is_refused),
      cmocka_unit_test(reserved_words_are_checked_in_hints),
      cmocka_unit_test(a_set_has_at_most_65535_uses),
      cmocka_unit_test(overlapping_uses_are_one),
      cmocka_unit_test(a_lease_on_a_part_forbids_the_whole),
      cmocka_unit_test(a_conflict_names_its_use),
      cmocka_unit_test(addresses_are_of_the_streams_device),
      cmocka_unit_test(a_prefetch_beside_a_writer_copies_nothing),
      cmocka_unit_test(held_bytes_of_the_set_do_not_count_against_it),
      cmocka_unit_test(host_quotas_are_hard),
      cmocka_unit_test(a_clients_priority_is_added),
      cmocka_unit_test(other_contexts_handles_are_foreign),
      cmocka_unit_test(registration_has_its_own_refusals),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
