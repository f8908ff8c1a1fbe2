// SPDX-License-Identifier: Apache-2.0
//
// Pools and clients through the C ABI: budgets and quotas to the byte, what is refused with which numbers,
// trims, counters and the snapshot. Every number asserted here follows from the headers, not from the code.

#include <nlohmann/json.hpp>

#include <cstring>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

weir_pool_desc small_pool(const weir_pool_device *devices, uint32_t count) {
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = count;
  desc.devices = devices;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 4 * page_bytes;
  return desc;
}

void wrong_pools_are_refused(void **) {
  weir_context context =
      make_context("host.devices=2;host.memory=4M;host.granule=16K;host.granule_large=0");
  weir_pool_device devices[2] = {{0, 0, 4 * page_bytes, {0, 0}}, {0, 0, 4 * page_bytes, {0, 0}}};
  weir_pool pool = nullptr;
  const auto refused = [&](const weir_pool_desc &desc) {
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_create(context, &desc, &pool));
    assert_null(pool);
  };
  refused(small_pool(devices, 0));
  refused(small_pool(nullptr, 1));
  refused(small_pool(devices, 2));  // the same device twice
  devices[1].device = 9;
  refused(small_pool(devices, 2));
  assert_non_null(std::strstr(weir_last_error(), "9"));
  devices[0].reserved[1] = 1;
  refused(small_pool(devices, 1));
  devices[0].reserved[1] = 0;
  weir_pool_desc desc = small_pool(devices, 1);
  desc.page_size = page_bytes + 1;
  refused(desc);
  desc = small_pool(devices, 1);
  desc.watermark_low_permille = 40;
  desc.watermark_high_permille = 20;
  refused(desc);
  desc = small_pool(devices, 1);
  desc.segment_size = page_bytes - 1;
  refused(desc);
  desc = small_pool(devices, 1);
  desc.policy = "clairvoyant";
  refused(desc);
  assert_non_null(std::strstr(weir_last_error(), "clairvoyant"));
  desc = small_pool(devices, 1);
  desc.flags = UINT64_C(1) << 50U;
  refused(desc);
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_pool_create(nullptr, &desc, &pool));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_create(context, nullptr, &pool));
  ok(weir_context_destroy(context));
}

void budgets_are_rounded_down_to_granules(void **) {
  weir_context context = make_context(small_host);
  const weir_pool_device device{0, 0, 4 * page_bytes + 5000, {0, 0}};
  weir_pool_desc desc = small_pool(&device, 1);
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(pool, 0, &stats));
  assert_int_equal(stats.budget, 4 * page_bytes);
  assert_int_equal(stats.page_size, page_bytes);
  assert_int_equal(stats.bytes, 0);
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_device_stats_get(pool, 5, &stats));
  expect_result(WEIR_ERROR_BUSY, weir_context_destroy(context));
  ok(weir_pool_destroy(pool));
  ok(weir_context_destroy(context));
}

void over_budget_tells_the_exact_numbers(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer five = world.buffer(4 * page_bytes + 1);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(five, WEIR_READ_WRITE, &lease));
  weir_error_info info = last_error();
  assert_int_equal(info.result, WEIR_ERROR_OVER_BUDGET);
  assert_int_equal(info.tier, WEIR_TIER_DEVICE);
  assert_int_equal(info.device, 0);
  assert_int_equal(info.asked, 5 * page_bytes);
  assert_int_equal(info.available, 4 * page_bytes);
  assert_int_equal(info.short_by, page_bytes);
  // Held bytes are taken off what any later set can have.
  weir_buffer one = world.buffer(page_bytes);
  weir_buffer four = world.buffer(4 * page_bytes);
  uint64_t address = 0;
  ok(weir_hold(world.pool, one, 0, &address));
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(four, WEIR_READ_WRITE, &lease));
  info = last_error();
  assert_int_equal(info.asked, 4 * page_bytes);
  assert_int_equal(info.available, 3 * page_bytes);
  assert_int_equal(info.short_by, page_bytes);
  assert_int_equal(world.stats().over_budget, 2);
  ok(weir_unhold(world.pool, one));
  ok(world.acquire(four, WEIR_READ_WRITE, &lease));
  ok(weir_release(lease, world.streams[0]));
  world.close();
}

void a_set_is_refused_as_a_whole(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_use uses[3];
  for (weir_use &use : uses) use = WEIR_USE(world.buffer(2 * page_bytes), WEIR_READ_WRITE);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET,
                weir_acquire(world.pool, world.streams[0], uses, 3, nullptr, &lease));
  assert_int_equal(last_error().asked, 6 * page_bytes);
  assert_int_equal(last_error().short_by, 2 * page_bytes);
  assert_int_equal(world.stats().device_bytes - world.stats().device_free_bytes, 0);
  ok(weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease));
  ok(weir_release(lease, world.streams[0]));
  world.close();
}

void nothing_is_demoted_without_room_in_host(void **) {
  World world({.device_pages = 2, .host_pages = 0});
  weir_buffer kept = world.buffer(2 * page_bytes);
  weir_buffer other = world.buffer(page_bytes);
  world.fill(kept, 2 * page_bytes, 5);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(other, WEIR_DISCARD_WRITE, &lease));
  assert_int_equal(last_error().tier, WEIR_TIER_HOST);
  world.check(kept, 2 * page_bytes, 5);
  ok(weir_buffer_destroy(world.pool, kept));
  world.fill(other, page_bytes, 6);
  world.check(other, page_bytes, 6);
  world.close();
}

weir_client make_client(World &world, uint64_t device_quota, uint64_t host_quota) {
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.device_quota = device_quota;
  desc.host_quota = host_quota;
  desc.name = "tenant \"1\"";
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  return client;
}

void clients_are_charged_and_limited(void **) {
  World world({.device_pages = 8, .host_pages = 16});
  weir_client client = make_client(world, 2 * page_bytes, 4 * page_bytes);
  weir_buffer first = world.buffer(2 * page_bytes, WEIR_DEVICE_DEFAULT, client);
  weir_buffer second = world.buffer(2 * page_bytes, WEIR_DEVICE_DEFAULT, client);
  weir_buffer third = world.buffer(3 * page_bytes, WEIR_DEVICE_DEFAULT, client);
  weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
  ok(weir_client_stats_get(client, &stats));
  assert_int_equal(stats.buffers, 3);
  assert_int_equal(stats.device_bytes, 0);
  world.fill(first, 2 * page_bytes, 1);
  ok(weir_client_stats_get(client, &stats));
  assert_int_equal(stats.device_bytes, 2 * page_bytes);
  world.fill(second, 2 * page_bytes, 2);  // its own first buffer must go
  ok(weir_client_stats_get(client, &stats));
  assert_int_equal(stats.device_bytes, 2 * page_bytes);
  assert_int_equal(stats.host_bytes, 2 * page_bytes);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(third, WEIR_READ, &lease));
  assert_int_equal(last_error().asked, 3 * page_bytes);
  assert_int_equal(last_error().available, 2 * page_bytes);
  world.check(first, 2 * page_bytes, 1);
  world.check(second, 2 * page_bytes, 2);
  expect_result(WEIR_ERROR_BUSY, weir_client_destroy(client));
  for (weir_buffer b : {first, second, third}) ok(weir_buffer_destroy(world.pool, b));
  ok(weir_client_destroy(client));
  world.close();
}

/// WEIR_NONE is a quota of no bytes, where 0 is none.
void a_client_may_be_given_nothing(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_client nowhere = make_client(world, WEIR_NONE, 0);
  weir_client no_host = make_client(world, 0, WEIR_NONE);
  weir_buffer outside = world.buffer(page_bytes, WEIR_DEVICE_DEFAULT, nowhere);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(outside, WEIR_READ, &lease));
  assert_int_equal(last_error().available, 0);
  weir_buffer stays = world.buffer(3 * page_bytes, WEIR_DEVICE_DEFAULT, no_host);
  world.fill(stays, 3 * page_bytes, 5);
  weir_buffer other = world.buffer(4 * page_bytes);
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(other, WEIR_READ, &lease));
  assert_int_equal(last_error().tier, WEIR_TIER_HOST);
  weir_buffer unwritten = world.buffer(page_bytes, WEIR_DEVICE_DEFAULT, no_host);
  const unsigned char byte = 1;
  expect_result(WEIR_ERROR_OVER_BUDGET, weir_buffer_write(world.pool, unwritten, 0, 1, &byte));
  assert_non_null(std::strstr(weir_last_error(), "that are written or must leave a device"));
  assert_non_null(std::strstr(weir_last_error(), "by this client"));
  assert_non_null(std::strstr(weir_last_error(), "; a larger host_quota"));
  weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
  ok(weir_client_stats_get(no_host, &stats));
  assert_int_equal(stats.host_bytes, 0);
  world.check(stays, 3 * page_bytes, 5);
  for (weir_buffer b : {outside, stays, other, unwritten}) ok(weir_buffer_destroy(world.pool, b));
  ok(weir_client_destroy(nowhere));
  ok(weir_client_destroy(no_host));
  world.close();
}

void another_clients_bytes_are_never_seen(void **) {
  World world({.device_pages = 2, .host_pages = 4});
  weir_client client = make_client(world, 0, 0);
  weir_buffer secret = world.buffer(2 * page_bytes, WEIR_DEVICE_DEFAULT, client);
  world.fill(secret, 2 * page_bytes, 77);
  ok(weir_buffer_destroy(world.pool, secret));
  weir_buffer fresh = world.buffer(2 * page_bytes);
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(fresh, WEIR_DISCARD_WRITE, &lease, &address));
  assert_true(all_zero(world.device_bytes(address, 2 * page_bytes)));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_client_destroy(client));
  world.close();
}

void wrong_clients_are_refused(void **) {
  World world;
  weir_client client = nullptr;
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.priority = 3;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_client_create(world.pool, &desc, &client));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_client_create(world.pool, &desc, nullptr));
  client = make_client(world, 0, 0);
  World other;
  weir_buffer_desc foreign = WEIR_BUFFER_DESC_INIT;
  foreign.size = 1;
  foreign.client = client;
  weir_buffer buffer = nullptr;
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_buffer_create(other.pool, &foreign, &buffer));
  other.close();
  ok(weir_client_destroy(client));
  weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_client_stats_get(nullptr, &stats));
  world.close();
}

void trim_gives_memory_back(void **) {
  World world({.device_pages = 8, .host_pages = 16});
  weir_buffer dirty = world.buffer(4 * page_bytes);
  weir_buffer gone = world.buffer(2 * page_bytes);
  world.fill(dirty, 4 * page_bytes, 3);
  world.fill(gone, 2 * page_bytes, 4);
  ok(weir_buffer_destroy(world.pool, gone));
  uint64_t freed = 0;
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_GRADUAL, WEIR_WHOLE, &freed));
  assert_int_equal(freed, 2 * page_bytes);  // idle granules only: nothing else is clean
  assert_int_equal(world.stats().device_bytes, 4 * page_bytes);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_SELECTIVE, page_bytes, &freed));
  assert_true(freed >= page_bytes && freed < 4 * page_bytes);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed));
  assert_int_equal(world.stats().device_bytes, 0);
  assert_int_equal(world.stats().device_peak_bytes, 6 * page_bytes);
  assert_int_equal(world.stats().device_segments, 0);
  assert_int_equal(world.stats().demoted_bytes, 4 * page_bytes);
  world.check(dirty, 4 * page_bytes, 3);
  weir_lease lease = nullptr;
  ok(world.acquire(dirty, WEIR_READ, &lease));
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed));
  assert_int_equal(freed, 0);  // leased pages stay
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_GRADUAL, WEIR_WHOLE, nullptr));
  assert_int_equal(world.stats().device_bytes, 0);  // clean after being read back
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_trim(world.pool, 0, 3, 1, &freed));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_pool_trim(world.pool, 4, WEIR_TRIM_GRADUAL, 1, &freed));
  ok(weir_buffer_destroy(world.pool, dirty));
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed));
  assert_int_equal(world.stats().host_used_bytes, 0);
  world.close();
}

/// Without VMM memory comes in segments, and goes back by whole ones that are empty.
void segments_come_and_go(void **) {
  World world({.options = std::string(small_host) + ";host.vmm=0",
               .device_pages = 8,
               .host_pages = 16,
               .segment_pages = 2});
  const auto device = [&world] {
    weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    ok(weir_pool_device_stats_get(world.pool, 0, &stats));
    return stats;
  };
  assert_int_equal(device().bytes, 0);
  assert_int_equal(device().segments, 0);
  weir_buffer buffers[3] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    buffers[i] = world.buffer(2 * page_bytes);
    world.fill(buffers[i], 2 * page_bytes, i + 1);
  }
  assert_int_equal(device().bytes, 6 * page_bytes);
  assert_int_equal(device().free_bytes, 0);
  assert_int_equal(device().segments, 3);
  uint64_t held = 0;
  ok(weir_hold(world.pool, buffers[1], 0, &held));
  ok(weir_buffer_destroy(world.pool, buffers[2]));
  uint64_t freed = 0;
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_GRADUAL, WEIR_WHOLE, &freed));
  assert_int_equal(freed, 2 * page_bytes);  // the first is dirty
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_SELECTIVE, 1, &freed));
  assert_int_equal(freed, 2 * page_bytes);
  assert_int_equal(device().bytes, 2 * page_bytes);  // what is held stays
  assert_int_equal(device().peak_bytes, 6 * page_bytes);
  assert_int_equal(world.stats().device_peak_bytes, 6 * page_bytes);
  assert_int_equal(world.stats().device_segments, 1);
  ok(weir_pool_reset_peak(world.pool, 0));
  assert_int_equal(device().peak_bytes, 2 * page_bytes);
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_reset_peak(world.pool, 5));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_pool_reset_peak(nullptr, 0));
  world.check(buffers[0], 2 * page_bytes, 1);
  world.check(buffers[1], 2 * page_bytes, 2);
  ok(weir_unhold(world.pool, buffers[1]));
  world.close();
}

/// Room that lies in several segments is room all the same: what is in them goes, and they make place for one.
void a_request_finds_room_that_is_split(void **) {
  World world({.options = std::string(small_host) + ";host.vmm=0",
               .device_pages = 8,
               .host_pages = 32,
               .segment_pages = 2});
  weir_buffer small[8] = {};
  for (uint32_t i = 0; i < 8; ++i) {
    small[i] = world.buffer(page_bytes);
    world.fill(small[i], page_bytes, i + 1);
  }
  assert_int_equal(world.stats().device_segments, 4);
  for (uint32_t i = 0; i < 8; i += 2) ok(weir_buffer_destroy(world.pool, small[i]));
  weir_buffer large = world.buffer(4 * page_bytes);  // as many as are free, in four pieces
  world.fill(large, 4 * page_bytes, 20);
  weir_buffer whole = world.buffer(8 * page_bytes);
  world.fill(whole, 8 * page_bytes, 21);
  assert_int_equal(world.stats().device_segments, 1);
  assert_true(world.stats().device_bytes <= 8 * page_bytes);
  for (uint32_t i = 1; i < 8; i += 2) world.check(small[i], page_bytes, i + 1);
  world.check(large, 4 * page_bytes, 20);
  world.check(whole, 8 * page_bytes, 21);
  world.close();
}

void counters_tell_what_happened(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer a = world.buffer(3 * page_bytes);
  weir_buffer b = world.buffer(3 * page_bytes);
  (void)world.buffer(3 * page_bytes - 100);  // never used: it only counts
  world.fill(a, 3 * page_bytes, 1);
  world.fill(b, 3 * page_bytes, 2);
  world.check(b, 3 * page_bytes, 2);
  world.check(a, 3 * page_bytes, 1);
  const weir_pool_stats s = world.stats();
  assert_int_equal(s.buffers, 3);
  assert_int_equal(s.pages, 9);
  assert_int_equal(s.buffer_bytes, 9 * page_bytes - 100);
  assert_int_equal(s.device_budget, 4 * page_bytes);
  assert_int_equal(s.host_budget, 16 * page_bytes);
  assert_true(s.device_bytes <= s.device_budget);
  assert_true(s.host_used_bytes <= s.host_budget);
  assert_int_equal(s.hits, 1);
  assert_int_equal(s.misses, 3);
  assert_true(s.demoted_bytes >= 2 * page_bytes);
  assert_true(s.promoted_bytes >= 2 * page_bytes);
  assert_int_equal(s.promoted_bytes, s.refaulted_bytes);
  assert_int_equal(s.evictions * page_bytes,
                   s.demoted_bytes + s.dropped_clean_bytes + s.discarded_bytes);
  assert_int_equal(
      s.over_budget + s.would_block + s.lease_conflicts + s.device_oom + s.eviction_failures, 0);
  world.close();
}

void dead_buffers_are_not_counted(void **) {
  for (const char *vmm : {";host.vmm=1", ";host.vmm=0"}) {
    World world({.options = std::string(small_host) + vmm});
    weir_buffer buffer = world.buffer(3 * page_bytes);
    world.fill(buffer, 3 * page_bytes, 1);
    ok(weir_buffer_destroy(world.pool, buffer));
    assert_int_equal(world.stats().buffers, 0);
    assert_int_equal(world.stats().buffer_bytes, 0);
    ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    const weir_pool_stats stats = world.stats();
    assert_int_equal(stats.device_bytes, stats.device_free_bytes);  // nobody uses any
    assert_int_equal(stats.pages, 0);
    world.close();
  }
}

void the_snapshot_is_json(void **) {
  World world;
  weir_client client = make_client(world, 0, 0);
  weir_buffer buffer = world.buffer(3 * page_bytes, WEIR_DEVICE_DEFAULT, client);
  world.fill(buffer, 3 * page_bytes, 1);
  size_t needed = 0;
  ok(weir_pool_snapshot(world.pool, nullptr, 0, &needed));  // asks for the size only
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_snapshot(world.pool, nullptr, 0, nullptr));
  assert_true(needed > 100);
  std::vector<char> text(needed + 1, 'x');
  ok(weir_pool_snapshot(world.pool, text.data(), needed, nullptr));
  assert_int_equal(text[needed - 1], '\0');
  assert_int_equal(text[needed], 'x');
  const auto document = nlohmann::json::parse(text.data(), nullptr, false);
  assert_false(document.is_discarded());
  assert_true(document["pool"] == "pool");
  assert_int_equal(document["buffers"].size(), 1);
  assert_int_equal(document["buffers"][0]["device_bytes"].get<uint64_t>(), 3 * page_bytes);
  bool found = false;
  for (const auto &entry : document["clients"]) found = found || entry["name"] == "tenant \"1\"";
  assert_true(found);
  const size_t all = needed;
  for (size_t *told : {&needed, static_cast<size_t *>(nullptr)}) {
    text[9] = 'x';
    expect_result(WEIR_INCOMPLETE, weir_pool_snapshot(world.pool, text.data(), 10, told));
    assert_int_equal(text[9], '\0');
  }
  assert_int_equal(needed, all);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_client_destroy(client));
  world.close();
}

void a_pool_with_leases_is_busy(void **) {
  World world;
  weir_buffer buffer = world.buffer(page_bytes);
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ, &lease));
  expect_result(WEIR_ERROR_BUSY, weir_pool_destroy(world.pool));
  expect_result(WEIR_ERROR_BUSY, weir_stream_close(world.streams[0]));
  ok(weir_release(lease, world.streams[0]));
  uint64_t address = 0;
  ok(weir_malloc(world.pool, 0, nullptr, 100, &address));
  expect_result(WEIR_ERROR_BUSY, weir_pool_destroy(world.pool));
  ok(weir_free(world.pool, nullptr, address));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(wrong_pools_are_refused),
      cmocka_unit_test(budgets_are_rounded_down_to_granules),
      cmocka_unit_test(over_budget_tells_the_exact_numbers),
      cmocka_unit_test(a_set_is_refused_as_a_whole),
      cmocka_unit_test(nothing_is_demoted_without_room_in_host),
      cmocka_unit_test(clients_are_charged_and_limited),
      cmocka_unit_test(a_client_may_be_given_nothing),
      cmocka_unit_test(another_clients_bytes_are_never_seen),
      cmocka_unit_test(wrong_clients_are_refused),
      cmocka_unit_test(trim_gives_memory_back),
      cmocka_unit_test(segments_come_and_go),
      cmocka_unit_test(a_request_finds_room_that_is_split),
      cmocka_unit_test(counters_tell_what_happened),
      cmocka_unit_test(dead_buffers_are_not_counted),
      cmocka_unit_test(the_snapshot_is_json),
      cmocka_unit_test(a_pool_with_leases_is_busy),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
