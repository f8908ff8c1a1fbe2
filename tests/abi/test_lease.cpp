// SPDX-License-Identifier: Apache-2.0
//
// Leases through the C ABI: sets, modes and ranges, what conflicts, waiting and its limits, asynchronous
// acquires, prefetch and announcements, stale handles, and contents that survive eviction through HOST on
// every kind of device. Threads meet at counters and results here, never at a point in time.

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

weir_result acquire_range(World &world, weir_buffer buffer, uint64_t begin, uint64_t length,
                          uint32_t mode, weir_lease *lease, uint32_t device = 0) {
  weir_use use{buffer, begin, length, mode, 0, 0, {0, 0, 0}};
  return weir_acquire(world.pool, world.streams[device], &use, 1, nullptr, lease);
}

weir_result acquire_waiting(World &world, weir_buffer buffer, uint64_t timeout, weir_lease *lease,
                            uint64_t flags = 0) {
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  options.timeout_ns = timeout;
  options.flags = flags;
  return weir_acquire(world.pool, world.streams[0], &use, 1, &options, lease);
}

/// A mistake in the second of two uses must be found, and named.
void wrong_uses_are_named(void **) {
  World world;
  weir_buffer buffer = world.buffer(page_bytes);
  weir_lease lease = nullptr;
  const auto refused = [&](auto change) {
    weir_use uses[2] = {WEIR_USE(buffer, WEIR_READ), WEIR_USE(buffer, WEIR_READ)};
    change(uses[1]);
    expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                  weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease));
    assert_int_equal(last_error().use_index, 1);
    assert_null(lease);
  };
  refused([](weir_use &use) { use.mode = 0; });
  refused([](weir_use &use) { use.mode = 4; });
  refused([](weir_use &use) { use.flags = 2; });
  refused([](weir_use &use) { use.reserved[2] = 1; });
  refused([](weir_use &use) { use.offset = page_bytes; });
  refused([](weir_use &use) { use.length = 0; });
  refused([](weir_use &use) { use.offset = 1, use.length = page_bytes; });
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_acquire(world.pool, world.streams[0], &use, 0, nullptr, &lease));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_acquire(world.pool, world.streams[0], nullptr, 1, nullptr, &lease));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, nullptr));
  expect_result(WEIR_ERROR_INVALID_HANDLE,
                weir_acquire(world.pool, nullptr, &use, 1, nullptr, &lease));
  expect_result(WEIR_ERROR_INVALID_HANDLE,
                weir_acquire(nullptr, world.streams[0], &use, 1, nullptr, &lease));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                acquire_waiting(world, buffer, 0, &lease, UINT64_C(1) << 40U));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, acquire_waiting(world, buffer, WEIR_INFINITE, &lease));
  ok(acquire_waiting(world, buffer, WEIR_INFINITE, &lease, WEIR_ACQUIRE_SOLE_HOLDER));
  ok(weir_release(lease, world.streams[0]));
  world.close();
}

void modes_conflict_as_said(void **) {
  World world;
  weir_buffer buffer = world.buffer(2 * page_bytes);
  const uint32_t modes[] = {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE};
  uint64_t conflicts = 0;
  for (const uint32_t first : modes) {
    for (const uint32_t second : modes) {
      weir_lease one = nullptr;
      weir_lease two = nullptr;
      ok(world.acquire(buffer, first, &one));
      if (first == WEIR_READ && second == WEIR_READ) {
        ok(world.acquire(buffer, second, &two));
        ok(weir_release(two, world.streams[0]));
      } else {
        expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(buffer, second, &two));
        assert_int_equal(last_error().use_index, 0);
        ++conflicts;
      }
      ok(weir_release(one, world.streams[0]));
    }
  }
  assert_int_equal(world.stats().lease_conflicts, conflicts);
  world.close();
}

void ranges_conflict_byte_by_byte(void **) {
  World world;
  weir_buffer buffer = world.buffer(2 * page_bytes);
  weir_lease left = nullptr;
  weir_lease right = nullptr;
  weir_lease refused = nullptr;
  ok(acquire_range(world, buffer, 0, 1000, WEIR_READ_WRITE, &left));
  ok(acquire_range(world, buffer, 1000, 24, WEIR_READ_WRITE, &right));  // the same page
  expect_result(WEIR_ERROR_LEASE_CONFLICT,
                acquire_range(world, buffer, 999, 1, WEIR_READ, &refused));
  expect_result(WEIR_ERROR_LEASE_CONFLICT,
                acquire_range(world, buffer, 1023, 5000, WEIR_READ, &refused));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(buffer, WEIR_READ, &refused));
  weir_lease rest = nullptr;
  ok(acquire_range(world, buffer, 1024, WEIR_WHOLE, WEIR_READ, &rest));
  for (weir_lease lease : {left, right, rest}) ok(weir_release(lease, world.streams[0]));
  world.close();
}

void between_devices_ranges_are_whole_pages(void **) {
  World world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
  weir_buffer buffer = world.buffer(2 * page_bytes);
  weir_lease left = nullptr;
  weir_lease right = nullptr;
  ok(acquire_range(world, buffer, 0, 100, WEIR_READ_WRITE, &left, 0));
  expect_result(WEIR_ERROR_LEASE_CONFLICT,
                acquire_range(world, buffer, 200, 100, WEIR_READ_WRITE, &right, 1));
  ok(acquire_range(world, buffer, page_bytes, 100, WEIR_READ_WRITE, &right, 1));
  ok(weir_release(left, world.streams[0]));
  ok(weir_release(right, world.streams[1]));
  world.close();
}

void contents_follow_between_devices(void **) {
  for (const char *peer : {"0", "1"}) {
    World world(
        {.options = std::string(small_host) + ";host.devices=2;host.peer=" + peer, .devices = 2});
    const uint64_t size = 3 * page_bytes + 9;
    weir_buffer buffer = world.buffer(size, 1);
    for (uint32_t turn = 0; turn < 4; ++turn) {
      world.fill(buffer, size, turn, turn % 2);
      world.check(buffer, size, turn, (turn + 1) % 2);
      world.check_read(buffer, size, turn);
    }
    world.close();
  }
}

/// Devices that don't reach each other, and a set that HOST could not take a copy of.
void sets_follow_without_peers_past_a_small_host(void **) {
  for (const char *vmm : {"1", "0"}) {
    for (const uint64_t host_pages : {uint64_t{2}, uint64_t{0}}) {
      World world(
          {.options = std::string(small_host) + ";host.devices=2;host.peer=0;host.vmm=" + vmm,
           .host_pages = host_pages,
           .devices = 2});
      const uint64_t size = 5 * page_bytes + 9;
      weir_buffer buffer = world.buffer(size);
      for (uint32_t turn = 0; turn < 4; ++turn) {
        world.fill(buffer, size, turn, turn % 2);
        world.check(buffer, size, turn, (turn + 1) % 2);
        world.check_read(buffer, size, turn);
      }
      assert_int_equal(world.stats().peer_bytes, 4 * size);
      weir_use use = WEIR_USE(buffer, WEIR_READ);
      ok(weir_prefetch(world.pool, world.streams[1], &use, 1));
      world.check(buffer, size, 3, 0);
      world.check(buffer, size, 3, 1);
      world.close();
    }
  }
}

void would_block_and_timeout(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer leased = world.buffer(3 * page_bytes);
  weir_buffer wanted = world.buffer(2 * page_bytes);
  weir_lease lease = nullptr;
  weir_lease second = nullptr;
  ok(world.acquire(leased, WEIR_READ_WRITE, &lease));
  expect_result(WEIR_ERROR_WOULD_BLOCK, world.acquire(wanted, WEIR_READ, &second));
  assert_int_equal(last_error().tier, WEIR_TIER_DEVICE);
  assert_int_equal(last_error().asked, 2 * page_bytes);
  assert_int_equal(last_error().short_by, page_bytes);
  expect_result(WEIR_ERROR_TIMEOUT, acquire_waiting(world, wanted, 1000000, &second));
  assert_int_equal(world.stats().would_block, 2);
  assert_null(second);
  ok(weir_release(lease, world.streams[0]));
  ok(world.acquire(wanted, WEIR_READ, &second));
  ok(weir_release(second, world.streams[0]));
  world.close();
}

void a_waiter_gets_in_when_the_lease_ends(void **) {
  for (const uint64_t timeout : {uint64_t{60} * 1000000000U, WEIR_INFINITE - 1, WEIR_INFINITE}) {
    World world({.device_pages = 4, .host_pages = 16});
    weir_buffer leased = world.buffer(3 * page_bytes);
    weir_buffer wanted = world.buffer(2 * page_bytes);
    world.fill(leased, 3 * page_bytes, 1);
    weir_lease lease = nullptr;
    ok(world.acquire(leased, WEIR_READ, &lease));
    std::atomic<bool> ended{false};
    weir_result result = WEIR_NOT_READY;
    std::thread waiter([&] {
      weir_lease second = nullptr;
      result = acquire_waiting(world, wanted, timeout, &second, WEIR_ACQUIRE_SOLE_HOLDER);
      if (result == WEIR_SUCCESS) result = weir_release(second, world.streams[0]);
      ended.store(true);
    });
    // Until the waiter is seen to wait (a request behind it names no bytes of its own), for so many tries at most.
    for (uint32_t i = 0; i < 200000 && !ended.load(); ++i) {
      weir_lease third = nullptr;
      weir_error_info info = WEIR_ERROR_INFO_INIT;
      if (world.acquire(wanted, WEIR_READ, &third) == WEIR_SUCCESS)
        weir_release(third, world.streams[0]);
      weir_last_error_info(&info);
      if (info.result == WEIR_ERROR_WOULD_BLOCK && info.asked == 0) break;
      std::this_thread::yield();
    }
    const weir_result released = weir_release(lease, world.streams[0]);
    waiter.join();
    ok(released);
    if (result != WEIR_SUCCESS)
      fail_msg("timeout %llu: %d", static_cast<unsigned long long>(timeout), result);
    world.check_read(leased, 3 * page_bytes, 1);
    world.close();
  }
}

struct Answer {
  std::atomic<int> calls{0};
  weir_result result = WEIR_NOT_READY;
  weir_lease lease = nullptr;
  static void take(void *user, weir_result result, weir_lease lease) {
    auto *self = static_cast<Answer *>(user);
    self->result = result;
    self->lease = lease;
    ++self->calls;
  }
};

void asynchronous_acquires_run_in_order(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer buffers[3];
  weir_use uses[3];
  Answer answers[3];
  weir_request requests[3];
  for (uint32_t i = 0; i < 3; ++i) {
    buffers[i] = world.buffer(page_bytes);
    world.fill(buffers[i], page_bytes, i);
    uses[i] = WEIR_USE(buffers[i], WEIR_READ);
    ok(weir_acquire_async(world.pool, world.streams[0], &uses[i], 1, nullptr, Answer::take,
                          &answers[i], i == 1 ? nullptr : &requests[i]));
  }
  weir_result result = WEIR_NOT_READY;
  ok(weir_request_wait(requests[2], &result));
  assert_int_equal(result, WEIR_SUCCESS);
  for (uint32_t i = 0; i < 3; ++i) {
    assert_int_equal(answers[i].calls.load(), 1);
    assert_int_equal(answers[i].result, WEIR_SUCCESS);
    Kernel kernel{uses[i].address, page_bytes, i, 0};
    ok(kernel.launch(world.streams[0], Kernel::compare));
    ok(weir_release(answers[i].lease, world.streams[0]));
    ok(weir_stream_synchronize(world.streams[0]));
    assert_int_equal(kernel.wrong, 0);
  }
  ok(weir_request_wait(requests[0], nullptr));
  weir_request_close(requests[0]);
  weir_request_close(requests[2]);
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_acquire_async(world.pool, world.streams[0], uses, 1, nullptr, nullptr, nullptr,
                                   nullptr));
  world.close();
}

void a_waiting_request_can_be_cancelled(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer leased = world.buffer(3 * page_bytes);
  weir_buffer wanted = world.buffer(2 * page_bytes);
  weir_lease lease = nullptr;
  ok(world.acquire(leased, WEIR_READ, &lease));
  weir_use use = WEIR_USE(wanted, WEIR_READ);
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  options.flags = WEIR_ACQUIRE_SOLE_HOLDER;
  options.timeout_ns = WEIR_INFINITE;
  Answer first;
  Answer second;
  weir_request one = nullptr;
  weir_request two = nullptr;
  ok(weir_acquire_async(world.pool, world.streams[0], &use, 1, &options, Answer::take, &first,
                        &one));
  ok(weir_acquire_async(world.pool, world.streams[0], &use, 1, &options, Answer::take, &second,
                        &two));
  expect_result(WEIR_ERROR_BUSY, weir_pool_destroy(world.pool));
  ok(weir_request_cancel(two));  // not begun yet
  ok(weir_request_cancel(one));
  weir_result result = WEIR_SUCCESS;
  ok(weir_request_wait(two, &result));
  assert_int_equal(result, WEIR_ERROR_CANCELLED);
  assert_int_equal(first.result, WEIR_ERROR_CANCELLED);
  assert_null(first.lease);
  weir_request_close(one);
  weir_request_close(two);
  ok(weir_release(lease, world.streams[0]));
  world.close();
}

void prefetch_and_announcements_bring_bytes_in(void **) {
  World world({.device_pages = 6, .host_pages = 16});
  weir_buffer a = world.buffer(2 * page_bytes);
  weir_buffer b = world.buffer(2 * page_bytes);
  world.fill(a, 2 * page_bytes, 1);
  world.fill(b, 2 * page_bytes, 2);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  const weir_use use_a = WEIR_USE(a, WEIR_READ);
  weir_use use_b = WEIR_USE(b, WEIR_READ);
  ok(weir_prefetch(world.pool, world.streams[0], &use_a, 1));
  world.check(a, 2 * page_bytes, 1);
  const weir_operation operations[2] = {{"first", &use_a, 1, 0, {0, 0}},
                                        {nullptr, &use_b, 1, 0, {0, 0}}};
  ok(weir_announce(world.pool, world.streams[0], operations, 2, WEIR_ANNOUNCE_REPLACE));
  world.check(a, 2 * page_bytes, 1);
  world.check(b, 2 * page_bytes, 2);
  ok(weir_announce(world.pool, world.streams[0], operations, 2, 0));
  ok(weir_buffer_destroy(world.pool, b));  // announced ones may go: they are skipped
  world.check(a, 2 * page_bytes, 1);
  ok(weir_announce(world.pool, world.streams[0], nullptr, 0, WEIR_ANNOUNCE_REPLACE));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_announce(world.pool, world.streams[0], operations, 1, 2));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_prefetch(world.pool, world.streams[0], nullptr, 1));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_prefetch(world.pool, world.streams[0], &use_b, 1));
  use_b = WEIR_USE(a, 9);
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_prefetch(world.pool, world.streams[0], &use_b, 1));
  world.close();
}

void host_leases_give_cpu_addresses(void **) {
  World world;
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  const uint64_t size = 2 * page_bytes + 10;
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 3);
  weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  Kernel kernel{use.address, size, 3, 0};
  Kernel::compare(&kernel);
  assert_int_equal(kernel.wrong, 0);
  kernel.seed = 4;
  Kernel::write(&kernel);
  ok(weir_release(lease, cpu));
  world.check(buffer, size, 4);
  ok(weir_stream_close(cpu));
  world.close();
}

/// More bytes than the device holds, written, read and rewritten in turns by kernels: every one must come back.
void contents_survive_eviction(const Setup &setup) {
  World world(setup);
  const uint64_t sizes[6] = {3 * page_bytes, 2 * page_bytes + 100, 700, 4 * page_bytes, 5000,
                             page_bytes};
  weir_buffer buffers[6];
  uint32_t seeds[6] = {};
  for (uint32_t i = 0; i < 6; ++i) buffers[i] = world.buffer(sizes[i]);
  for (uint32_t turn = 0; turn < 36; ++turn) {
    const uint32_t i = turn * 5 % 6;
    if (turn >= 6) world.check(buffers[i], sizes[i], seeds[i]);
    if (turn < 6 || turn % 3 == 0) world.fill(buffers[i], sizes[i], seeds[i] = turn);
  }
  for (uint32_t i = 0; i < 6; ++i) world.check_read(buffers[i], sizes[i], seeds[i]);
  const weir_pool_stats stats = world.stats();
  assert_true(stats.demoted_bytes > 0 && stats.promoted_bytes > 0);
  assert_true(stats.device_bytes <= stats.device_budget);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void survive_with_vmm(void **) { contents_survive_eviction({}); }
void survive_with_checksums(void **) {
  contents_survive_eviction({.flags = WEIR_POOL_NO_BACKGROUND | WEIR_POOL_CHECKSUM_HOST});
}
void survive_without_vmm(void **) {
  contents_survive_eviction({.options = std::string(small_host) + ";host.vmm=0"});
}
void survive_without_multi_map(void **) {
  contents_survive_eviction(
      {.options = std::string(small_host) + ";host.multi_map=0;host.map_any_thread=0"});
}
void survive_with_background(void **) { contents_survive_eviction({.flags = 0}); }
void survive_with_nothing_optional(void **) {
  contents_survive_eviction(
      {.options = std::string(small_host) +
                  ";host.peer=0;host.batch_copy=0;host.any_thread=0;host.register=0;"
                  "host.map_any_thread=0;host.map_may_block=1;host.link_latency_ns=1000"});
}

/// A stream ends and its slot is another's while Weir's own thread looks for announcements: it must not look into streams.
void announcements_while_streams_come_and_go(void **) {
  World world({.flags = 0});
  weir_buffer buffer = world.buffer(page_bytes);
  world.fill(buffer, page_bytes, 1);
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  const auto used_and_closed = [&] {
    weir_stream stream = nullptr;
    ok(weir_stream_create(world.context, 0, 0, &stream));
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, stream, &use, 1, nullptr, &lease));
    ok(weir_release(lease, stream));
    ok(weir_stream_close(stream));
  };
  used_and_closed();
  std::atomic<bool> ended{false};
  std::thread announcer([&] {
    weir_use announced = WEIR_USE(buffer, WEIR_READ);
    weir_operation operation{};
    operation.uses = &announced;
    operation.use_count = 1;
    while (!ended.load())
      ok(weir_announce(world.pool, world.streams[0], &operation, 1, WEIR_ANNOUNCE_REPLACE));
  });
  for (int i = 0; i < 200; ++i) used_and_closed();
  ended.store(true);
  announcer.join();
  world.check(buffer, page_bytes, 1);
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(wrong_uses_are_named),
      cmocka_unit_test(modes_conflict_as_said),
      cmocka_unit_test(ranges_conflict_byte_by_byte),
      cmocka_unit_test(between_devices_ranges_are_whole_pages),
      cmocka_unit_test(contents_follow_between_devices),
      cmocka_unit_test(sets_follow_without_peers_past_a_small_host),
      cmocka_unit_test(would_block_and_timeout),
      cmocka_unit_test(a_waiter_gets_in_when_the_lease_ends),
      cmocka_unit_test(asynchronous_acquires_run_in_order),
      cmocka_unit_test(a_waiting_request_can_be_cancelled),
      cmocka_unit_test(prefetch_and_announcements_bring_bytes_in),
      cmocka_unit_test(host_leases_give_cpu_addresses),
      cmocka_unit_test(survive_with_vmm),
      cmocka_unit_test(survive_with_checksums),
      cmocka_unit_test(survive_without_vmm),
      cmocka_unit_test(survive_without_multi_map),
      cmocka_unit_test(survive_with_background),
      cmocka_unit_test(survive_with_nothing_optional),
      cmocka_unit_test(announcements_while_streams_come_and_go),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
