// SPDX-License-Identifier: Apache-2.0
//
// weir_last_error_report on leases that are in the way: whose they are, and that its advice is good, as in test_report.cpp.

#include "tests/unit/report_text.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

namespace {

using namespace weir::test;

void leases_of_others(void **) {
  World world({.device_pages = 4});
  weir_buffer first = buffer(world, "first", 3), second = buffer(world, "second", 2);
  weir_lease lease = nullptr, other = nullptr;
  ok(world.acquire(first, WEIR_READ, &lease));
  expect_result(WEIR_ERROR_WOULD_BLOCK, world.acquire(second, WEIR_READ, &other));
  expect_report({"\"first\"", "leased (1)", "release other leases", "timeout_ns"});
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  options.timeout_ns = 1;
  weir_use use = WEIR_USE(second, WEIR_READ);
  expect_result(WEIR_ERROR_TIMEOUT,
                weir_acquire(world.pool, world.streams[0], &use, 1, &options, &other));
  expect_report({"\"first\"", "wait longer", "weir_acquire_options.timeout_ns"});
  assert_int_equal(last_error().tier, WEIR_TIER_DEVICE);
  assert_int_equal(last_error().asked, 2 * page_bytes);
  // As it says: it waits, and the lease is released meanwhile.
  options.timeout_ns = WEIR_INFINITE;
  options.flags = WEIR_ACQUIRE_SOLE_HOLDER;
  std::thread waiter(
      [&] { (void)weir_acquire(world.pool, world.streams[0], &use, 1, &options, &other); });
  ok(weir_release(lease, world.streams[0]));
  waiter.join();
  assert_non_null(other);
  ok(weir_release(other, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, first));
  ok(weir_buffer_destroy(world.pool, second));
  world.close();
}

void conflicts(void **) {
  World world;
  weir_buffer both = buffer(world, "both", 2);
  weir_use part = WEIR_USE(both, WEIR_READ_WRITE), rest = part;
  part.length = rest.offset = page_bytes;
  weir_lease lease = nullptr, other = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], &part, 1, nullptr, &lease));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(both, WEIR_READ, &other));
  expect_report({"unreleased leases 1", "release that lease first", "weir_use.offset"});
  ok(weir_acquire(world.pool, world.streams[0], &rest, 1, nullptr, &other));
  ok(weir_release(other, world.streams[0]));
  ok(weir_release(lease, world.streams[0]));
  uint64_t address = 0;
  ok(weir_hold_as(world.pool, both, 0, WEIR_READ, 0, &address));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(both, WEIR_READ_WRITE, &other));
  expect_report({"a hold on the buffer forbids writing", "holds 1", "weir_unhold"});
  ok(weir_unhold(world.pool, both));
  ok(world.acquire(both, WEIR_READ_WRITE, &other));
  ok(weir_release(other, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, both));
  world.close();
}

/// A conflict, and room that is leased: the report has the client, the stream and the threads of the leases, of the hit path and not.
void whose_leases_they_are(void **) {
  World world({.device_pages = 8});
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.name = "tenant";
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  weir_buffer shared = buffer(world, "shared", 2, client);
  weir_stream second = nullptr;
  ok(weir_stream_create(world.context, 0, 0, &second));
  world.fill(shared, 2 * page_bytes, 1);
  weir_use use = WEIR_USE(shared, WEIR_READ);
  weir_lease one = nullptr, other = nullptr, refused = nullptr;
  const auto on_stream = [](weir_stream stream) {
    char handle[32];
    std::snprintf(handle, sizeof handle, "(weir_stream %p)", static_cast<void *>(stream));
    return std::string(handle);
  };
  const std::string first_handle = on_stream(world.streams[0]), second_handle = on_stream(second);
  // The first is the slow way's, the next ones may be the hit path's.
  for (int i = 0; i < 3; ++i) {
    ok(weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &one));
    expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(shared, WEIR_READ_WRITE, &refused));
    expect_report({"client \"tenant\", unreleased leases 1", "  to read all of it: stream ",
                   " of device 0 ", first_handle.c_str(),
                   ("(TID " + std::to_string(gettid()) + ")").c_str()});
    assert_true(report().find(second_handle) == std::string::npos);
    ok(weir_release(one, world.streams[0]));
  }
  // Two streams, of which one belongs to another thread.
  pid_t thread = 0;
  std::thread([&] {
    thread = gettid();
    ok(weir_acquire(world.pool, second, &use, 1, nullptr, &other));
  }).join();
  weir_use part = WEIR_USE(shared, WEIR_READ);
  part.offset = 16;
  part.length = 32;
  ok(weir_acquire(world.pool, world.streams[0], &part, 1, nullptr, &one));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(shared, WEIR_READ_WRITE, &refused));
  expect_report({"unreleased leases 2", "  to read bytes 16..48: stream ",
                 "  to read all of it: ", first_handle.c_str(), second_handle.c_str(),
                 ("(TID " + std::to_string(thread) + ")").c_str()});
  // Among those that hold the room, too; alike ones together, and more than are listed.
  weir_lease many[6] = {};
  for (weir_lease &each : many) {
    weir_use which = use;
    which.offset = &each < many + 3 ? 0 : static_cast<uint64_t>(&each - many);
    ok(weir_acquire(world.pool, world.streams[0], &which, 1, nullptr, &each));
  }
  weir_buffer large = buffer(world, "large", 7);
  expect_result(WEIR_ERROR_WOULD_BLOCK, world.acquire(large, WEIR_READ, &refused));
  expect_report({"leased (8)\n    to read ", "    to read all of it, 3 times: stream ",
                 "    to read bytes 3..", "    and 2 more\n"});
  for (weir_lease each : many) ok(weir_release(each, world.streams[0]));
  ok(weir_release(one, world.streams[0]));
  ok(weir_release(other, second));
  // The CPU's.
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &other));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(shared, WEIR_READ_WRITE, &refused));
  expect_report({"to read all of it: stream ", " of the CPU ", on_stream(cpu).c_str()});
  ok(weir_release(other, cpu));
  ok(weir_stream_close(cpu));
  // Released since: no stream is named.
  expect_report({"unreleased leases 0"});
  assert_true(report().find("(weir_stream") == std::string::npos);
  ok(weir_stream_close(second));
  destroy_all(world, {shared, large});
  ok(weir_client_destroy(client));
  world.close();
}

/// Threads acquire and release on streams of their own while reports are made of which stream has what.
void leases_come_and_go_meanwhile(void **) {
  World world({.device_pages = 8});
  const weir_buffer shared = buffer(world, "shared", 2), mine = buffer(world, "mine", 1);
  world.fill(shared, 2 * page_bytes, 1);
  weir_lease lease = nullptr, refused = nullptr;
  ok(world.acquire(shared, WEIR_READ, &lease));
  std::atomic<bool> ends{false};
  std::atomic<int> turns{0};
  const auto work = [&] {
    weir_stream stream = nullptr;
    ok(weir_stream_create(world.context, 0, 0, &stream));
    weir_use uses[] = {WEIR_USE(shared, WEIR_READ), WEIR_USE(mine, WEIR_READ)};
    while (!ends.load()) {
      for (const size_t count : {1, 1, 2}) {
        weir_lease own = nullptr;
        ok(weir_acquire(world.pool, stream, uses, count, nullptr, &own));
        ok(weir_release(own, stream));
      }
      ++turns;
    }
    ok(weir_stream_synchronize(stream));
    ok(weir_stream_close(stream));
  };
  std::thread threads[] = {std::thread(work), std::thread(work)};
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(shared, WEIR_READ_WRITE, &refused));
  for (int i = 0; i < 100 || turns < 100; ++i) {
    char handle[32];
    std::snprintf(handle, sizeof handle, "(weir_stream %p)", static_cast<void *>(world.streams[0]));
    const std::string text = report();
    const bool listed = text.find(handle) != std::string::npos;
    if (!listed && text.find(" more\n") == std::string::npos) fail_msg("%s", text.c_str());
  }
  ends = true;
  for (std::thread &each : threads) each.join();
  ok(weir_release(lease, world.streams[0]));
  destroy_all(world, {shared, mine});
  world.close();
}

/// An acquire that came first and waits for room goes first.
void others_in_the_queue(void **) {
  World world({.device_pages = 4});
  weir_buffer first = buffer(world, "first", 3), second = buffer(world, "second", 2);
  weir_buffer third = buffer(world, "third", 2);
  weir_lease lease = nullptr, other = nullptr, last = nullptr;
  ok(world.acquire(first, WEIR_READ, &lease));
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  options.timeout_ns = WEIR_INFINITE;
  options.flags = WEIR_ACQUIRE_SOLE_HOLDER;
  weir_use use = WEIR_USE(second, WEIR_READ);
  Task waiter(
      [&] { return weir_acquire(world.pool, world.streams[0], &use, 1, &options, &other); });
  // It waits as soon as what comes after it is told so.
  weir_result result = WEIR_SUCCESS;
  do {
    result = world.acquire(third, WEIR_READ, &last);
    assert_int_equal(result, WEIR_ERROR_WOULD_BLOCK);
  } while (std::strstr(weir_last_error(), "other acquires are waiting") == nullptr);
  expect_report({"others came first", "weir_acquire_options.timeout_ns", "\"first\""});
  ok(weir_release(lease, world.streams[0]));
  ok(waiter.join());
  ok(world.acquire(third, WEIR_READ, &last));
  for (weir_lease each : {other, last}) ok(weir_release(each, world.streams[0]));
  destroy_all(world, {first, second, third});
  world.close();
}

void a_small_buffer_leased_at_home(void **) {
  World world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = page_bytes / 8;
  weir_lease lease = nullptr, other = nullptr;
  for (const uint64_t flags : {uint64_t{0}, uint64_t{WEIR_BUFFER_STABLE_ADDRESS}}) {
    desc.flags = flags;
    weir_buffer small = nullptr;
    ok(weir_buffer_create(world.pool, &desc, &small));
    world.fill(small, desc.size, 1);
    ok(world.acquire(small, WEIR_READ, &lease));
    if (flags == 0) {
      expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(small, WEIR_READ, &other, nullptr, 1));
      expect_report({"below a page", "WEIR_BUFFER_STABLE_ADDRESS", "unreleased leases 1"});
      ok(weir_release(lease, world.streams[0]));
      ok(world.acquire(small, WEIR_READ, &lease, nullptr, 1));  // as it says
      ok(weir_release(lease, world.streams[1]));
    } else {
      ok(world.acquire(small, WEIR_READ, &other, nullptr, 1));
      ok(weir_release(other, world.streams[1]));
      ok(weir_release(lease, world.streams[0]));
    }
    ok(weir_buffer_destroy(world.pool, small));
  }
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(leases_of_others),      cmocka_unit_test(conflicts),
      cmocka_unit_test(whose_leases_they_are), cmocka_unit_test(leases_come_and_go_meanwhile),
      cmocka_unit_test(others_in_the_queue),   cmocka_unit_test(a_small_buffer_leased_at_home),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
