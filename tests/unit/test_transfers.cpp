// SPDX-License-Identifier: Apache-2.0
//
// Transfers in flight: a copy or fill that Weir has enqueued stays unfinished until the test lets it go. What may
// not happen before its end is tried meanwhile, a number of times, on a thread or a stream of its own: it must not
// have ended, and what is seen afterwards must be right.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "tests/unit/gate.hpp"

#include "tests/abi/pool_fixture.hpp"
#include "tests/unit/interposed_host.hpp"

namespace {

using namespace weir::test;

const uint64_t two_pages = 2 * page_bytes;

World interposed_world(Setup setup = {}) {
  interposed.interpose.store(nullptr);
  interposed.transfers.store(nullptr);
  setup.backend = InterposedHost::query;
  return World(setup);
}

weir_result no_fences(const char *entry) {
  return std::strcmp(entry, "fence_record") == 0 ? WEIR_ERROR_BACKEND : WEIR_SUCCESS;
}

/// A buffer with its bytes in HOST only.
weir_buffer on_host(World &world, uint64_t size, uint32_t seed) {
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, seed);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  return buffer;
}

/// Brings the buffer's bytes to a device; they are under way when it returns.
void prefetch_stalled(World &world, weir_buffer buffer, Blocker *blocker, uint32_t device = 0) {
  const weir_use use = WEIR_USE(buffer, WEIR_READ);
  interposed.transfers.store(blocker);
  ok(weir_prefetch(world.pool, world.streams[device], &use, 1));
  interposed.transfers.store(nullptr);
}

/// Runs a call on a thread, sees that it does not end before the transfers do, and gives its result.
weir_result ends_after(Blocker &blocker, const std::function<weir_result()> &call) {
  bool after = false;
  Task task([&] {
    const weir_result result = call();
    after = blocker.is_open();
    return result;
  });
  (void)stays([&task] { return !task.ended(); });
  blocker.open();
  const weir_result result = task.join();
  assert_true(after);
  return result;
}

bool zeroes(const std::vector<uint8_t> &bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
}

void an_eviction_waits_for_the_copy_that_brings_the_page(void **) {
  World world = interposed_world({.device_pages = 2, .host_pages = 16});
  weir_buffer coming = on_host(world, two_pages, 1);
  weir_buffer next = world.buffer(two_pages);
  Blocker blocker;
  prefetch_stalled(world, coming, &blocker);
  weir_lease lease = nullptr;
  Kernel kernel{0, two_pages, 2, 0};
  ok(ends_after(blocker,
                [&] { return world.acquire(next, WEIR_DISCARD_WRITE, &lease, &kernel.address); }));
  ok(kernel.launch(world.streams[0], Kernel::write));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  world.check_read(next, two_pages, 2);
  world.check(coming, two_pages, 1);
  world.check(next, two_pages, 2);
  world.close();
}

void an_eviction_waits_for_its_copy_down(void **) {
  World world = interposed_world();
  weir_buffer buffer = world.buffer(two_pages);
  world.fill(buffer, two_pages, 1);
  Blocker blocker;
  interposed.transfers.store(&blocker);
  uint64_t freed = 0;
  ok(ends_after(blocker, [&] {
    return weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed);
  }));
  interposed.transfers.store(nullptr);
  assert_int_equal(freed, two_pages);
  world.check_read(buffer, two_pages, 1);
  world.close();
}

/// A page of a device that is itself still being filled is copied on to another device.
void a_copy_to_a_neighbour_comes_after_the_fill(void **) {
  World world =
      interposed_world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
  weir_buffer fresh = world.buffer(two_pages);
  Blocker blocker;
  prefetch_stalled(world, fresh, &blocker);  // zeroes, on the first device only
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(fresh, WEIR_READ, &lease, &address, 1));
  const bool waited = never_ready(world.streams[1]);
  blocker.open();
  ok(weir_stream_synchronize(world.streams[1]));
  assert_true(waited);
  std::vector<uint8_t> bytes(two_pages);
  std::memcpy(bytes.data(), reinterpret_cast<const void *>(address), two_pages);
  assert_true(zeroes(bytes));
  ok(weir_release(lease, world.streams[1]));
  world.close();
}

void a_second_stream_waits_for_a_fill_too(void **) {
  for (const uint64_t size : {two_pages, uint64_t{600}}) {
    World world = interposed_world();
    weir_stream second = nullptr;
    ok(weir_stream_create(world.context, 0, 0, &second));
    weir_buffer neighbour = world.buffer(600);  // the tenant's page is in place already
    world.fill(neighbour, 600, 1);
    weir_buffer fresh = world.buffer(size);
    weir_lease first_lease = nullptr;
    Blocker blocker;
    interposed.transfers.store(&blocker);
    ok(world.acquire(fresh, WEIR_READ, &first_lease));  // zeroes
    interposed.transfers.store(nullptr);
    weir_use use = WEIR_USE(fresh, WEIR_READ);
    weir_lease second_lease = nullptr;
    ok(weir_acquire(world.pool, second, &use, 1, nullptr, &second_lease));
    const bool waited = never_ready(second) && never_ready(world.streams[0]);
    blocker.open();
    ok(weir_stream_synchronize(second));
    assert_true(waited);
    std::vector<uint8_t> bytes(size);
    std::memcpy(bytes.data(), reinterpret_cast<const void *>(use.address), size);
    assert_true(zeroes(bytes));
    ok(weir_release(first_lease, world.streams[0]));
    ok(weir_release(second_lease, second));
    ok(weir_stream_close(second));
    world.close();
  }
}

void a_hold_returns_when_the_bytes_are_there(void **) {
  World world = interposed_world();
  weir_buffer buffer = on_host(world, two_pages, 1);
  Blocker blocker;
  Kernel kernel{0, two_pages, 1, 0};
  interposed.transfers.store(&blocker);
  ok(ends_after(blocker, [&] { return weir_hold(world.pool, buffer, 0, &kernel.address); }));
  interposed.transfers.store(nullptr);
  Kernel::compare(&kernel);
  assert_int_equal(kernel.wrong, 0);
  ok(weir_unhold(world.pool, buffer));
  world.close();
}

void the_host_reads_after_the_fill(void **) {
  World world = interposed_world();
  weir_buffer fresh = world.buffer(two_pages);
  Blocker blocker;
  prefetch_stalled(world, fresh, &blocker);
  std::vector<uint8_t> bytes(two_pages, 1);
  ok(ends_after(blocker,
                [&] { return weir_buffer_read(world.pool, fresh, 0, two_pages, bytes.data()); }));
  assert_true(zeroes(bytes));
  world.close();
}

/// The caller gets its memory back when nothing reads it any more.
void registered_memory_is_parted_from_after_its_copies(void **) {
  World world = interposed_world({.device_pages = 4, .host_pages = 4});
  auto *memory = static_cast<uint8_t *>(std::aligned_alloc(page_bytes, two_pages));
  for (uint64_t i = 0; i < two_pages; ++i) memory[i] = pattern(1, i);
  weir_buffer buffer = world.buffer(two_pages);
  ok(weir_host_register(world.pool, buffer, memory, WEIR_HOST_LOAD));
  Blocker blocker;
  prefetch_stalled(world, buffer, &blocker);
  ok(ends_after(blocker, [&] { return weir_host_unregister(world.pool, buffer); }));
  std::memset(memory, 0, two_pages);
  world.check(buffer, two_pages, 1);
  std::free(memory);
  world.close();
}

/// A HOST slot that a copy up still reads from is not free: a thread that needs it waits, and gets it.
void a_slot_is_reused_after_its_copy(void **) {
  World world = interposed_world({.device_pages = 4, .host_pages = 2});
  weir_buffer buffer = on_host(world, two_pages, 1);
  weir_buffer other = world.buffer(two_pages);
  Blocker blocker;
  prefetch_stalled(world, buffer, &blocker);
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ_WRITE, &lease));  // makes HOST's copy stale
  ok(weir_release(lease, world.streams[0]));
  std::vector<uint8_t> bytes(two_pages);
  for (uint64_t i = 0; i < two_pages; ++i) bytes[i] = pattern(2, i);
  ok(ends_after(blocker,
                [&] { return weir_buffer_write(world.pool, other, 0, two_pages, bytes.data()); }));
  ok(weir_stream_synchronize(world.streams[0]));
  world.check_read(buffer, two_pages, 1);
  world.check_read(other, two_pages, 2);
  world.close();
}

/// Without a fence there is nothing to wait for later: the transfers end before the failure is told.
void transfers_without_a_mark_are_ended(void **) {
  for (const bool down : {false, true}) {
    World world = interposed_world();
    weir_buffer buffer = world.buffer(two_pages);
    world.fill(buffer, two_pages, 1);
    if (!down) ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    Blocker blocker;
    interposed.transfers.store(&blocker);
    interposed.interpose.store(no_fences);
    weir_lease lease = nullptr;
    uint64_t freed = 0;
    const weir_result result = ends_after(blocker, [&] {
      return down ? weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed)
                  : world.acquire(buffer, WEIR_READ, &lease);
    });
    interposed.interpose.store(nullptr);
    interposed.transfers.store(nullptr);
    assert_int_equal(result, down ? WEIR_SUCCESS : WEIR_ERROR_BACKEND);
    assert_int_equal(freed, 0);
    world.check_read(buffer, two_pages, 1);
    world.check(buffer, two_pages, 1);
    world.close();
  }
}

void work_without_a_fence_is_ended_by_the_release(void **) {
  for (const bool slow : {false, true}) {
    World world = interposed_world();
    weir_buffer buffer = world.buffer(two_pages);
    world.fill(buffer, two_pages, 1);
    weir_use use{buffer, 0, slow ? page_bytes : WEIR_WHOLE, WEIR_READ_WRITE, 0, 0, {0, 0, 0}};
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &lease));
    Blocker blocker;
    Kernel kernel{use.address, page_bytes, 2, 0};
    ok(weir_stream_host_call(world.streams[0], Blocker::stand, &blocker));
    ok(kernel.launch(world.streams[0], Kernel::write));
    interposed.interpose.store(no_fences);
    expect_result(WEIR_ERROR_BACKEND,
                  ends_after(blocker, [&] { return weir_release(lease, world.streams[0]); }));
    interposed.interpose.store(nullptr);
    std::vector<uint8_t> bytes(page_bytes);
    ok(weir_buffer_read(world.pool, buffer, 0, page_bytes, bytes.data()));
    for (uint64_t i = 0; i < page_bytes; ++i) assert_int_equal(bytes[i], pattern(2, i));
    world.close();
  }
}

std::atomic<uint32_t> copies{0};

weir_result count_copies(const char *entry) {
  if (std::strncmp(entry, "copy", 4) == 0) ++copies;
  return WEIR_SUCCESS;
}

uint8_t noise(uint64_t i) {
  const uint64_t x = (i + 1) * 0x9e3779b97f4a7c15U;
  return static_cast<uint8_t>(((x ^ (x >> 31U)) * 0xbf58476d1ce4e5b9U) >> 56U);
}

/// Past HOST, to STORAGE, as they do not compress: what was tried for COMPRESSED is written.
void pages_that_do_not_compress_leave_a_device_by_one_copy(void **) {
  World world = interposed_world({.host_pages = 0, .compressed_pages = 16, .storage_pages = 16});
  weir_buffer buffer = world.buffer(two_pages);
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(buffer, WEIR_DISCARD_WRITE, &lease, &address));
  const auto write = [](void *to) {
    for (uint64_t i = 0; i < two_pages; ++i) static_cast<uint8_t *>(to)[i] = noise(i);
  };
  ok(weir_stream_host_call(world.streams[0], write, reinterpret_cast<void *>(address)));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  copies = 0;
  interposed.interpose.store(count_copies);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  interposed.interpose.store(nullptr);
  assert_int_equal(world.stats().storage_bytes, two_pages);
  assert_int_equal(copies, 2);
  std::vector<uint8_t> got(two_pages);
  ok(weir_buffer_read(world.pool, buffer, 0, two_pages, got.data()));
  for (uint64_t i = 0; i < two_pages; ++i) assert_int_equal(got[i], noise(i));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_eviction_waits_for_the_copy_that_brings_the_page),
      cmocka_unit_test(an_eviction_waits_for_its_copy_down),
      cmocka_unit_test(a_copy_to_a_neighbour_comes_after_the_fill),
      cmocka_unit_test(a_second_stream_waits_for_a_fill_too),
      cmocka_unit_test(a_hold_returns_when_the_bytes_are_there),
      cmocka_unit_test(the_host_reads_after_the_fill),
      cmocka_unit_test(registered_memory_is_parted_from_after_its_copies),
      cmocka_unit_test(a_slot_is_reused_after_its_copy),
      cmocka_unit_test(transfers_without_a_mark_are_ended),
      cmocka_unit_test(work_without_a_fence_is_ended_by_the_release),
      cmocka_unit_test(pages_that_do_not_compress_leave_a_device_by_one_copy),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
