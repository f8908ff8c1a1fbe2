// SPDX-License-Identifier: Apache-2.0
//
// weir_last_error_report: what it says of each kind of refusal, and that its advice is good: each test makes the situation, finds the
// sentence, does as it says, and sees the call succeed. And when it says no more than the sentence: without an error, without a pool.

#include "tests/unit/interleaving.hpp"

#include "tests/unit/interposed_host.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

namespace {

using namespace weir::test;

std::string report() {
  size_t needed = 0;
  ok(weir_last_error_report(nullptr, 0, &needed));
  std::string text(needed + 4096, '\0');
  ok(weir_last_error_report(text.data(), text.size(), &needed));
  text.resize(needed - 1);
  return text;
}

/// The report on the refusal that has just been answered has all of these words.
void expect_report(std::initializer_list<const char *> words) {
  const std::string before = weir_last_error(), text = report();
  for (const char *each : words)
    if (text.find(each) == std::string::npos) fail_msg("no \"%s\" in:\n%s", each, text.c_str());
  assert_true(text.starts_with(before));
  assert_string_equal(weir_last_error(), before.c_str());  // asking changes nothing
}

weir_buffer buffer(World &world, const char *name, uint64_t pages, weir_client client = nullptr) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = pages * page_bytes;
  desc.name = name;
  desc.client = client;
  weir_buffer made = nullptr;
  ok(weir_buffer_create(world.pool, &desc, &made));
  return made;
}

std::string amount(uint64_t pages) { return "(" + std::to_string(pages * page_bytes) + " bytes)"; }

void a_budget_that_is_too_small(void **) {
  {
    World world({.device_pages = 8});
    weir_buffer small = buffer(world, "small", 2), large = buffer(world, "large", 9);
    world.fill(small, 2 * page_bytes, 1);
    weir_lease lease = nullptr;
    expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(large, WEIR_READ, &lease));
    expect_report({"\"small\"", "not in use", "weir_pool_device.budget", amount(9).c_str(),
                   "Device 0 now: budget"});
    ok(weir_buffer_destroy(world.pool, small));
    ok(weir_buffer_destroy(world.pool, large));
    world.close();
  }
  World world({.device_pages = 9});  // as it says
  weir_buffer large = buffer(world, "large", 9);
  world.fill(large, 9 * page_bytes, 1);
  ok(weir_buffer_destroy(world.pool, large));
  world.close();
}

void held_memory(void **) {
  World world({.device_pages = 8});
  weir_buffer held = buffer(world, "held one", 4), other = buffer(world, "other", 6);
  uint64_t address = 0;
  ok(weir_hold(world.pool, held, 0, &address));
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(other, WEIR_READ, &lease));
  expect_report({"\"held one\", of ", ", held\n", "weir_unhold", amount(2).c_str()});
  ok(weir_unhold(world.pool, held));
  ok(world.acquire(other, WEIR_READ, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, held));
  ok(weir_buffer_destroy(world.pool, other));
  world.close();
}

/// Two pools, whose budgets are more than the device has together: the second finds less than its own.
void a_device_that_others_have(void **) {
  World world({.options = "host.memory=128K;host.granule=16K;host.granule_large=0;topology.cache=0",
               .device_pages = 8});
  weir_pool_device device{};
  device.budget = 8 * page_bytes;
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = &device;
  desc.device_count = 1;
  desc.host_budget = 16 * page_bytes;
  weir_pool other = nullptr;
  ok(weir_pool_create(world.context, &desc, &other));
  weir_buffer mine = buffer(world, "mine", 6);
  world.fill(mine, 6 * page_bytes, 1);
  weir_buffer_desc large = WEIR_BUFFER_DESC_INIT;
  large.size = 6 * page_bytes;
  weir_buffer wanted = nullptr;
  ok(weir_buffer_create(other, &large, &wanted));
  weir_use use = WEIR_USE(wanted, WEIR_READ);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_DEVICE_OOM,
                weir_acquire(other, world.streams[0], &use, 1, nullptr, &lease));
  expect_report({"the set needs", amount(6).c_str(), "had less memory than weir_pool_device.budget",
                 "make a new pool"});
  ok(weir_buffer_destroy(other, wanted));
  ok(weir_pool_destroy(other));
  // As it says: what others had is given back, and a new pool made.
  ok(weir_buffer_destroy(world.pool, mine));
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  ok(weir_pool_create(world.context, &desc, &other));
  ok(weir_buffer_create(other, &large, &wanted));
  use = WEIR_USE(wanted, WEIR_READ);
  ok(weir_acquire(other, world.streams[0], &use, 1, nullptr, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  ok(weir_buffer_destroy(other, wanted));
  ok(weir_pool_destroy(other));
  world.close();
}

void a_clients_quota(void **) {
  for (const uint64_t quota : {2, 3}) {
    World world({.device_pages = 8});
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    desc.name = "tenant";
    desc.device_quota = quota * page_bytes;
    weir_client client = nullptr;
    ok(weir_client_create(world.pool, &desc, &client));
    weir_buffer large = buffer(world, "large", 3, client);
    weir_lease lease = nullptr;
    if (quota == 2) {
      expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(large, WEIR_READ, &lease));
      expect_report({"client \"tenant\"", "weir_client_desc.device_quota", amount(3).c_str()});
    } else {
      ok(world.acquire(large, WEIR_READ, &lease));
      ok(weir_release(lease, world.streams[0]));
    }
    ok(weir_buffer_destroy(world.pool, large));
    ok(weir_client_destroy(client));
    world.close();
  }
}

/// Fills buffers of a page until one is refused; how many were not.
uint64_t fill_until_refused(World &world, std::vector<weir_buffer> *made, uint64_t most,
                            weir_client client = nullptr) {
  for (uint64_t i = 0; i < most; ++i) {
    made->push_back(buffer(world, ("page " + std::to_string(i)).c_str(), 1, client));
    weir_lease lease = nullptr;
    Kernel kernel{0, page_bytes, 7, 0};
    const weir_result result =
        world.acquire(made->back(), WEIR_DISCARD_WRITE, &lease, &kernel.address);
    if (result != WEIR_SUCCESS) {
      assert_int_equal(result, WEIR_ERROR_OVER_BUDGET);
      return i;
    }
    ok(kernel.launch(world.streams[0], Kernel::write));
    ok(weir_release(lease, world.streams[0]));
    ok(weir_stream_synchronize(world.streams[0]));
  }
  return most;
}
void destroy_all(World &world, const std::vector<weir_buffer> &made) {
  for (weir_buffer each : made) ok(weir_buffer_destroy(world.pool, each));
}

void host_is_full(void **) {
  uint64_t before = 0;
  for (const uint64_t host_pages : {4, 5}) {
    World world({.device_pages = 4, .host_pages = host_pages});
    std::vector<weir_buffer> made;
    const uint64_t fit = fill_until_refused(world, &made, 64);
    if (host_pages == 4) {
      expect_report(
          {"host_budget by", amount(1).c_str(), "storage_budget", "HOST now: budget", "\"page "});
      before = fit;
    }
    assert_int_equal(fit, before + (host_pages - 4));  // a page more of budget, a page more fits
    destroy_all(world, made);
    world.close();
  }
  // Or with a tier below it.
  World world({.device_pages = 4, .host_pages = 4, .storage_pages = 64});
  std::vector<weir_buffer> made;
  assert_int_equal(fill_until_refused(world, &made, before + 8), before + 8);
  destroy_all(world, made);
  world.close();
}

void a_clients_quota_of_host(void **) {
  uint64_t before = 0;
  for (const uint64_t quota : {4, 5}) {
    World world({.device_pages = 4, .host_pages = 64});
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    desc.name = "tenant";
    desc.host_quota = quota * page_bytes;
    weir_client client = nullptr;
    ok(weir_client_create(world.pool, &desc, &client));
    std::vector<weir_buffer> made;
    const uint64_t fit = fill_until_refused(world, &made, 64, client);
    if (quota == 4) {
      expect_report({"weir_client_desc.host_quota of client \"tenant\" by", amount(1).c_str()});
      before = fit;
    }
    assert_int_equal(fit, before + (quota - 4));
    destroy_all(world, made);
    ok(weir_client_destroy(client));
    world.close();
  }
}

void storage_is_full(void **) {
  std::set<uint64_t> fits;
  for (const uint64_t storage_pages : {64, 128}) {
    World world({.device_pages = 4, .host_pages = 8, .storage_pages = storage_pages});
    std::vector<weir_buffer> made;
    fits.insert(fill_until_refused(world, &made, 400));
    expect_report({"weir_pool_desc.storage_budget by", "STORAGE: budget", "weir_discard"});
    destroy_all(world, made);
    world.close();
  }
  assert_int_equal(fits.size(), 2);
}

void a_clients_quota_of_storage(void **) {
  World world({.device_pages = 4, .host_pages = 8, .storage_pages = 256});
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.name = "tenant";
  desc.storage_quota = 16 * page_bytes;
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  std::vector<weir_buffer> made;
  assert_true(fill_until_refused(world, &made, 200, client) < 200);
  expect_report({"weir_client_desc.storage_quota of client \"tenant\" by"});
  desc.storage_quota = 0;  // as much as the pool has
  weir_client larger = nullptr;
  destroy_all(world, made);
  made.clear();
  ok(weir_client_create(world.pool, &desc, &larger));
  assert_int_equal(fill_until_refused(world, &made, 200, larger), 200);
  destroy_all(world, made);
  ok(weir_client_destroy(client));
  ok(weir_client_destroy(larger));
  world.close();
}

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
  // Released since: nobody is named.
  expect_report({"unreleased leases 0"});
  assert_true(report().find("(weir_stream") == std::string::npos);
  ok(weir_stream_close(second));
  destroy_all(world, {shared, large});
  ok(weir_client_destroy(client));
  world.close();
}

/// Threads acquire and release on streams of their own while reports are made of who has what.
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

/// Who came first and waits for room goes first.
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

void bytes_that_were_lost(void **) {
  World world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
  weir_buffer one = buffer(world, "one", 2);
  world.fill(one, 2 * page_bytes, 1, 1);
  engine_of(world).lose_device(1);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_DATA_LOST, world.acquire(one, WEIR_READ, &lease));
  expect_report({"\"one\"", "WEIR_DISCARD_WRITE", "weir_pool_lost_ranges", ", lost 32 KiB"});
  ok(weir_discard(world.pool, one, 0, WEIR_WHOLE));
  ok(world.acquire(one, WEIR_READ, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, one));
  world.close();
}

void a_device_that_does_not_leave(void **) {
  World world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
  weir_buffer one = buffer(world, "one", 1);
  weir_lease lease = nullptr;
  ok(world.acquire(one, WEIR_READ_WRITE, &lease, nullptr, 1));
  expect_result(WEIR_ERROR_TIMEOUT, weir_pool_remove_device(world.pool, 1, 1));
  expect_report(
      {"\"one\"", "leased (1)", "release the leases on device 1", "weir_pool_remove_device"});
  ok(weir_release(lease, world.streams[1]));
  ok(weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
  ok(weir_buffer_destroy(world.pool, one));
  world.close();
}

void allocations_have_no_names(void **) {
  World world({.device_pages = 8});
  uint64_t small = 0, large = 0;
  ok(weir_malloc(world.pool, 0, world.streams[0], page_bytes / 4, &small));
  ok(weir_malloc(world.pool, 0, world.streams[0], 3 * page_bytes, &large));
  weir_buffer most = buffer(world, "most", 8);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(most, WEIR_READ, &lease));
  const std::string text = report();
  const size_t first = text.find("memory of weir_malloc");
  assert_true(first != std::string::npos);
  assert_true(text.find("memory of weir_malloc", first + 1) != std::string::npos);
  expect_report({"weir_free"});
  ok(weir_free(world.pool, world.streams[0], small));
  ok(weir_free(world.pool, world.streams[0], large));
  ok(weir_stream_synchronize(world.streams[0]));
  ok(world.acquire(most, WEIR_READ, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, most));
  world.close();
}

void the_five_largest_are_listed(void **) {
  World world({.device_pages = 32});
  std::vector<weir_buffer> made;
  for (const uint64_t pages : {1, 5, 2, 6, 3, 4, 1}) {
    made.push_back(buffer(world, (std::to_string(pages) + " pages").c_str(), pages));
    world.fill(made.back(), pages * page_bytes, 1);
  }
  made.push_back(buffer(world, "too large", 33));
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(made.back(), WEIR_READ, &lease));
  const std::string text = report();
  size_t at = text.find("Of 7 buffers");
  assert_true(at != std::string::npos);
  for (const char *each :
       {"\"6 pages\"", "\"5 pages\"", "\"4 pages\"", "\"3 pages\"", "\"2 pages\""}) {
    const size_t next = text.find(each);
    assert_true(next != std::string::npos && next > at);
    at = next;
  }
  assert_true(text.find("\"1 pages\"") == std::string::npos);
  destroy_all(world, made);
  world.close();
}

/// No pool, one that is gone, no error: the sentence alone, and no mistake.
void without_a_pool(void **) {
  static uint8_t *const no_pool = aligned_memory(page_bytes);
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_pool_destroy(reinterpret_cast<weir_pool>(no_pool)));
  const std::string sentence = weir_last_error();
  assert_string_equal(report().c_str(), (sentence + "\n").c_str());
  char text[8];
  std::memset(text, '#', sizeof text);
  size_t needed = 0;
  expect_result(WEIR_INCOMPLETE, weir_last_error_report(text, 4, &needed));
  assert_int_equal(needed, sentence.size() + 2);
  assert_int_equal(text[3], 0);
  assert_int_equal(text[4], '#');
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_last_error_report(nullptr, 4, &needed));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_last_error_report(nullptr, 0, nullptr));
  assert_string_equal(weir_last_error(), sentence.c_str());
  std::string nothing = "x";
  std::thread other([&] { nothing = report(); });  // a thread without an error
  other.join();
  assert_string_equal(nothing.c_str(), "");
  // The pool has gone, and another may have its place.
  std::string before;
  {
    World world({.device_pages = 1});
    weir_buffer large = buffer(world, "large", 2);
    weir_lease lease = nullptr;
    expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(large, WEIR_READ, &lease));
    before = weir_last_error();
    ok(weir_buffer_destroy(world.pool, large));
    world.close();
  }
  World world;
  assert_string_equal(weir_last_error(), before.c_str());
  assert_string_equal(report().c_str(), (before + "\n").c_str());
  world.close();
}

/// The error of an asynchronous acquire comes to who waits for it, with all that the report needs.
void of_an_asynchronous_acquire(void **) {
  World world({.device_pages = 4});
  weir_buffer large = buffer(world, "large", 5);
  weir_use use = WEIR_USE(large, WEIR_READ);
  weir_request request = nullptr;
  ok(weir_acquire_async(
      world.pool, world.streams[0], &use, 1, nullptr, [](void *, weir_result, weir_lease) {},
      nullptr, &request));
  weir_result result = WEIR_SUCCESS;
  ok(weir_request_wait(request, &result));
  expect_result(WEIR_ERROR_OVER_BUDGET, result);
  expect_report({"Device 0 now", "weir_pool_device.budget"});
  weir_request_close(request);
  ok(weir_buffer_destroy(world.pool, large));
  world.close();
}

std::vector<std::string> files_in(const std::string &folder) {
  std::vector<std::string> found;
  DIR *dir = opendir(folder.c_str());
  assert_non_null(dir);
  while (const dirent *entry = readdir(dir))
    if (entry->d_name[0] != '.') found.push_back(folder + "/" + entry->d_name);
  closedir(dir);
  return found;
}

/// WEIR_OOM_DUMP: the first shortage of each pool, and nothing else, in a file of the owner's.
void the_first_shortage_is_dumped(void **) {
  char folder[] = "/tmp/weir-test-XXXXXX";
  assert_non_null(mkdtemp(folder));
  assert_int_equal(setenv("WEIR_OOM_DUMP", folder, 1), 0);
  World world({.device_pages = 4});
  weir_buffer first = buffer(world, "first", 4), large = buffer(world, "large", 5);
  world.fill(first, 4 * page_bytes, 1);
  weir_lease lease = nullptr, other = nullptr;
  ok(world.acquire(first, WEIR_READ, &lease));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(first, WEIR_READ_WRITE, &other));
  assert_int_equal(files_in(folder).size(), 0);  // no shortage
  for (int i = 0; i < 3; ++i) {
    expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(large, WEIR_READ, &other));
    assert_true(std::strstr(weir_last_error(), "the set needs") != nullptr);
    assert_int_equal(files_in(folder).size(), 1);
  }
  const std::string path = files_in(folder)[0];
  struct stat info {};
  assert_int_equal(stat(path.c_str(), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0600);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  assert_true(text.str().find("\"first\"") != std::string::npos);
  ok(weir_release(lease, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, first));
  ok(weir_buffer_destroy(world.pool, large));
  world.close();
  assert_int_equal(unlink(path.c_str()), 0);
  // One that is there already is left alone, and the process's number may be in the folder's name. An asynchronous acquire's counts.
  const std::string with_number = std::string(folder) + "/" + std::to_string(getpid());
  assert_int_equal(mkdir(with_number.c_str(), 0700), 0);
  assert_int_equal(setenv("WEIR_OOM_DUMP", (std::string(folder) + "/%p").c_str(), 1), 0);
  World third({.device_pages = 1});
  const std::string taken =
      with_number + "/weir-oom-" + std::to_string(getpid()) + "-" +
      std::to_string(reinterpret_cast<weir::pool::Pool *>(third.pool)->serial()) + ".json";
  std::ofstream(taken) << "mine";
  weir_buffer wide = buffer(third, "wide", 2);
  weir_use use = WEIR_USE(wide, WEIR_READ);
  weir_request request = nullptr;
  ok(weir_acquire_async(
      third.pool, third.streams[0], &use, 1, nullptr, [](void *, weir_result, weir_lease) {},
      nullptr, &request));
  weir_result result = WEIR_SUCCESS;
  ok(weir_request_wait(request, &result));
  expect_result(WEIR_ERROR_OVER_BUDGET, result);
  weir_request_close(request);
  assert_int_equal(files_in(with_number).size(), 2);
  std::stringstream mine;
  mine << std::ifstream(taken).rdbuf();
  assert_string_equal(mine.str().c_str(), "mine");
  for (const std::string &each : files_in(with_number)) assert_int_equal(unlink(each.c_str()), 0);
  assert_int_equal(rmdir(with_number.c_str()), 0);
  ok(weir_buffer_destroy(third.pool, wide));
  third.close();
  // A folder that is not there: the call says what it would have said.
  assert_int_equal(setenv("WEIR_OOM_DUMP", (std::string(folder) + "/none").c_str(), 1), 0);
  World another({.device_pages = 1});
  weir_buffer two = buffer(another, "two", 2);
  expect_result(WEIR_ERROR_OVER_BUDGET, another.acquire(two, WEIR_READ, &lease));
  assert_true(std::strstr(weir_last_error(), "the set needs") != nullptr);
  ok(weir_buffer_destroy(another.pool, two));
  another.close();
  assert_int_equal(unsetenv("WEIR_OOM_DUMP"), 0);
  assert_int_equal(rmdir(folder), 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_budget_that_is_too_small),
      cmocka_unit_test(held_memory),
      cmocka_unit_test(a_device_that_others_have),
      cmocka_unit_test(a_clients_quota),
      cmocka_unit_test(host_is_full),
      cmocka_unit_test(a_clients_quota_of_host),
      cmocka_unit_test(storage_is_full),
      cmocka_unit_test(a_clients_quota_of_storage),
      cmocka_unit_test(leases_of_others),
      cmocka_unit_test(conflicts),
      cmocka_unit_test(whose_leases_they_are),
      cmocka_unit_test(leases_come_and_go_meanwhile),
      cmocka_unit_test(others_in_the_queue),
      cmocka_unit_test(a_small_buffer_leased_at_home),
      cmocka_unit_test(bytes_that_were_lost),
      cmocka_unit_test(a_device_that_does_not_leave),
      cmocka_unit_test(allocations_have_no_names),
      cmocka_unit_test(the_five_largest_are_listed),
      cmocka_unit_test(without_a_pool),
      cmocka_unit_test(of_an_asynchronous_acquire),
      cmocka_unit_test(the_first_shortage_is_dumped),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
