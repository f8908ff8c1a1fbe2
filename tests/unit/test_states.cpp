// SPDX-License-Identifier: Apache-2.0
//
// States of a runtime that a healthy host backend does not get into: a stream that records a graph, a device that
// no longer answers, memory refused inside the budget, calls that fail with a code of their own. What each
// function of the C ABI then answers, with which numbers, and that nothing else has changed.

#include <atomic>
#include <cstring>

#include "tests/abi/pool_fixture.hpp"
#include "tests/unit/interposed_host.hpp"

namespace {

using namespace weir::test;

const uint64_t two_pages = 2 * page_bytes;

/// Healthy while it is being made.
World interposed_world(Setup setup = {}) {
  interposed.interpose.store(nullptr);
  setup.backend = InterposedHost::query;
  return World(setup);
}

bool is(const char *entry, const char *name) { return std::strcmp(entry, name) == 0; }

/// Everything that reaches the device. What concerns host memory goes on.
weir_result lost(const char *entry) {
  return is(entry, "host_allocate") || is(entry, "host_register") ? WEIR_SUCCESS
                                                                  : WEIR_ERROR_DEVICE_LOST;
}
/// A device that is found lost by a thread that waits for a fence. What stands still then ends with the stream.
weir_result lost_while_waiting(const char *entry) {
  if (is(entry, "stream_synchronize")) interposed.transfers.load()->open();
  return is(entry, "fence_poll") || is(entry, "fence_wait") ? WEIR_ERROR_DEVICE_LOST : WEIR_SUCCESS;
}
weir_result capturing(const char *entry) {
  return is(entry, "stream_check") ? WEIR_ERROR_STREAM_CAPTURING : WEIR_SUCCESS;
}
weir_result no_memory(const char *entry) {
  return is(entry, "granule_create") || is(entry, "plain_allocate") ? WEIR_ERROR_DEVICE_OOM
                                                                    : WEIR_SUCCESS;
}
weir_result no_fences(const char *entry) {
  return is(entry, "fence_record") ? WEIR_ERROR_BACKEND : WEIR_SUCCESS;
}
weir_result no_mapping(const char *entry) {
  return is(entry, "map") || is(entry, "map_run") ? WEIR_ERROR_BACKEND : WEIR_SUCCESS;
}
weir_result no_streams(const char *entry) {
  return is(entry, "stream_create") ? WEIR_ERROR_BACKEND : WEIR_SUCCESS;
}

weir_buffer_info query(World &world, weir_buffer buffer) {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  ok(weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info));
  return info;
}

void a_capturing_stream_gets_no_lease(void **) {
  World world = interposed_world();
  weir_buffer buffer = world.buffer(two_pages);
  world.fill(buffer, two_pages, 1);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  interposed.interpose.store(capturing);
  weir_lease lease = nullptr;
  for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
    expect_result(WEIR_ERROR_STREAM_CAPTURING, world.acquire(buffer, mode, &lease));
    assert_int_equal(last_error().result, WEIR_ERROR_STREAM_CAPTURING);
    assert_null(lease);
    assert_int_equal(query(world, buffer).leases, 0);
    assert_int_equal(query(world, buffer).host_bytes, two_pages);
  }
  // Nor where nothing would have to be moved, nor memory in its order.
  interposed.interpose.store(nullptr);
  world.check(buffer, two_pages, 1);
  world.check(buffer, two_pages, 1);
  uint64_t allocation = 0;
  ok(weir_malloc(world.pool, 0, world.streams[0], page_bytes, &allocation));
  interposed.interpose.store(capturing);
  expect_result(WEIR_ERROR_STREAM_CAPTURING, world.acquire(buffer, WEIR_READ, &lease));
  uint64_t none = 0;
  expect_result(WEIR_ERROR_STREAM_CAPTURING,
                weir_malloc(world.pool, 0, world.streams[0], page_bytes, &none));
  expect_result(WEIR_ERROR_STREAM_CAPTURING, weir_free(world.pool, world.streams[0], allocation));
  assert_int_equal(query(world, buffer).leases, 0);
  ok(weir_free(world.pool, nullptr, allocation));
  // A hold is what a captured graph stands on.
  uint64_t address = 0;
  ok(weir_hold(world.pool, buffer, 0, &address));
  Kernel kernel{address, two_pages, 1, 0};
  Kernel::compare(&kernel);
  assert_int_equal(kernel.wrong, 0);
  ok(weir_unhold(world.pool, buffer));
  interposed.interpose.store(nullptr);
  world.check(buffer, two_pages, 1);
  world.close();
}

/// Leases that were granted end, whatever the device does; what it answers is passed on.
void a_lease_ends_on_a_lost_device(void **) {
  for (const char *vmm : {"", ";host.vmm=0"}) {
    World world = interposed_world({.options = std::string(small_host) + vmm});
    weir_buffer buffers[6];
    weir_use uses[6];
    for (uint32_t i = 0; i < 6; ++i) {
      buffers[i] = world.buffer(i == 5 ? 300 : page_bytes);
      uses[i] = WEIR_USE(buffers[i], i % 2 == 0 ? WEIR_READ : WEIR_READ_WRITE);
    }
    weir_lease many = nullptr;
    weir_lease one = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], uses, 5, nullptr, &many));
    ok(world.acquire(buffers[5], WEIR_READ_WRITE, &one));
    interposed.interpose.store(lost);
    expect_result(WEIR_ERROR_DEVICE_LOST, weir_release(one, world.streams[0]));
    expect_result(WEIR_ERROR_DEVICE_LOST, weir_release(many, world.streams[0]));
    expect_result(WEIR_ERROR_INVALID_HANDLE, weir_release(many, world.streams[0]));
    for (weir_buffer buffer : buffers) {
      assert_int_equal(query(world, buffer).leases, 0);
      ok(weir_buffer_destroy(world.pool, buffer));
    }
    ok(weir_pool_destroy(world.pool));
    ok(weir_stream_close(world.streams[0]));
    ok(weir_context_destroy(world.context));
  }
}

/// From then on the pool knows: it names what is lost, on every way in, until it is made anew.
void what_is_lost_is_told(World &world, weir_buffer dirty) {
  assert_int_equal(query(world, dirty).lost_bytes, two_pages);
  uint8_t byte = 0;
  expect_result(WEIR_ERROR_DATA_LOST, weir_buffer_read(world.pool, dirty, 0, 1, &byte));
  expect_result(WEIR_ERROR_DATA_LOST, weir_buffer_write(world.pool, dirty, 0, 1, &byte));
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = WEIR_USE(dirty, WEIR_READ);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_DATA_LOST, weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  // Half of it is written anew as whole pages; the other half stays lost until it is discarded.
  use = WEIR_USE(dirty, WEIR_DISCARD_WRITE);
  use.length = page_bytes;
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  Kernel kernel{use.address, page_bytes, 4, 0};
  Kernel::write(&kernel);
  ok(weir_release(lease, cpu));
  assert_int_equal(query(world, dirty).lost_bytes, page_bytes);
  std::vector<uint8_t> bytes(page_bytes, 1);
  ok(weir_buffer_read(world.pool, dirty, 0, page_bytes, bytes.data()));
  for (uint64_t i = 0; i < page_bytes; ++i) assert_int_equal(bytes[i], pattern(4, i));
  expect_result(WEIR_ERROR_DATA_LOST, weir_buffer_read(world.pool, dirty, page_bytes, 1, &byte));
  ok(weir_discard(world.pool, dirty, page_bytes, page_bytes));
  assert_int_equal(query(world, dirty).lost_bytes, 0);
  ok(weir_buffer_read(world.pool, dirty, page_bytes, page_bytes, bytes.data()));
  for (uint64_t i = 0; i < page_bytes; ++i) assert_int_equal(bytes[i], 0);
  ok(weir_stream_close(cpu));
}

/// What HOST has is not lost with the device; what only the device has is answered with an error, never with
/// wrong bytes.
void what_host_has_outlives_the_device(void **) {
  World world = interposed_world();
  weir_buffer clean = world.buffer(two_pages);
  weir_buffer down = world.buffer(two_pages);
  weir_buffer dirty = world.buffer(two_pages);
  world.fill(clean, two_pages, 1);
  world.fill(down, two_pages, 2);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  world.check(clean, two_pages, 1);  // on the device and in HOST
  world.fill(dirty, two_pages, 3);
  for (const auto &[buffer, seed] : {std::pair(clean, 1U), std::pair(down, 2U)})
    world.check_read(buffer, two_pages, seed);  // its work is seen to have ended
  interposed.interpose.store(lost);
  world.check_read(clean, two_pages, 1);
  world.check_read(down, two_pages, 2);
  std::vector<uint8_t> bytes(two_pages, 0);
  const weir_result read = weir_buffer_read(world.pool, dirty, 0, two_pages, bytes.data());
  assert_int_equal(read, WEIR_ERROR_DEVICE_LOST);  // this call has found out
  what_is_lost_is_told(world, dirty);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_DEVICE_LOST, world.acquire(down, WEIR_READ, &lease));
  assert_null(lease);
  assert_int_equal(query(world, down).leases, 0);
  uint64_t address = 0;
  expect_result(WEIR_ERROR_DEVICE_LOST, weir_hold(world.pool, down, 0, &address));
  expect_result(WEIR_ERROR_DEVICE_LOST, weir_malloc(world.pool, 0, nullptr, page_bytes, &address));
  assert_int_equal(world.stats().device_held_bytes, 0);
  expect_result(WEIR_ERROR_DEVICE_LOST, weir_stream_synchronize(world.streams[0]));
  expect_result(WEIR_ERROR_DEVICE_LOST, weir_stream_query(world.streams[0]));
  uint64_t freed = 0;
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed));
  world.check_read(clean, two_pages, 1);
  world.check_read(down, two_pages, 2);
  ok(weir_pool_destroy(world.pool));  // with its buffers
  ok(weir_stream_close(world.streams[0]));
  ok(weir_context_destroy(world.context));
}

/// A copy down may be over because the device is: then there is no copy, in HOST or past it.
void a_copy_that_ends_with_its_device_is_none(void **) {
  for (const bool host : {true, false}) {
    World world = interposed_world({.host_pages = host ? 16U : 0U, .storage_pages = 16});
    weir_buffer dirty = world.buffer(two_pages);
    world.fill(dirty, two_pages, 1);
    Blocker blocker;
    interposed.transfers.store(&blocker);
    interposed.interpose.store(lost_while_waiting);
    ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    interposed.interpose.store(nullptr);
    interposed.transfers.store(nullptr);
    assert_int_equal(query(world, dirty).lost_bytes, two_pages);
    uint8_t byte = 0;
    expect_result(WEIR_ERROR_DATA_LOST, weir_buffer_read(world.pool, dirty, 0, 1, &byte));
    ok(weir_pool_destroy(world.pool));
    ok(weir_stream_close(world.streams[0]));
    ok(weir_context_destroy(world.context));
  }
}

void memory_refused_inside_the_budget(void **) {
  // The device has four pages, the budget says eight.
  World world = interposed_world({.options = "host.memory=64K;host.granule=16K"});
  weir_buffer six = world.buffer(6 * page_bytes);
  weir_buffer four = world.buffer(4 * page_bytes);
  weir_buffer more = world.buffer(two_pages);
  assert_int_equal(world.stats().device_budget, 8 * page_bytes);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_DEVICE_OOM, world.acquire(six, WEIR_READ, &lease));
  const weir_error_info info = last_error();
  assert_int_equal(info.tier, WEIR_TIER_DEVICE);
  assert_int_equal(info.device, 0);
  assert_int_equal(info.asked, 6 * page_bytes);
  assert_int_equal(info.short_by, info.asked - info.available);
  assert_true(info.available >= 4 * page_bytes && info.available < 6 * page_bytes);
  assert_true(world.stats().device_oom > 0);
  uint64_t address = 0;
  expect_result(WEIR_ERROR_DEVICE_OOM,
                weir_malloc(world.pool, 0, nullptr, 6 * page_bytes, &address));
  expect_result(WEIR_ERROR_DEVICE_OOM, weir_hold(world.pool, six, 0, &address));
  world.fill(four, 4 * page_bytes, 1);  // what there is can be had
  world.fill(more, two_pages, 2);       // and shared in turns
  world.check(four, 4 * page_bytes, 1);
  world.check(more, two_pages, 2);
  const weir_pool_stats stats = world.stats();
  assert_true(stats.device_budget >= 4 * page_bytes && stats.device_budget < 6 * page_bytes);
  assert_true(stats.device_bytes <= 4 * page_bytes);
  ok(world.acquire(more, WEIR_READ, &lease));
  weir_lease second = nullptr;
  expect_result(WEIR_ERROR_WOULD_BLOCK, world.acquire(four, WEIR_READ, &second));
  ok(weir_release(lease, world.streams[0]));
  world.close();
}

void no_device_memory_at_all(void **) {
  World world = interposed_world();
  weir_buffer buffer = world.buffer(page_bytes);
  interposed.interpose.store(no_memory);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_DEVICE_OOM, world.acquire(buffer, WEIR_READ, &lease));
  assert_int_equal(last_error().available, 0);
  assert_null(lease);
  assert_int_equal(world.stats().device_bytes, 0);
  std::vector<uint8_t> bytes(page_bytes);
  for (uint64_t i = 0; i < page_bytes; ++i) bytes[i] = pattern(1, i);
  ok(weir_buffer_write(world.pool, buffer, 0, page_bytes, bytes.data()));  // HOST still takes it
  world.check_read(buffer, page_bytes, 1);
  world.close();
  interposed.interpose.store(no_memory);
  weir_context context =
      make_context((std::string(small_host) + ";host.vmm=0").c_str(), InterposedHost::query);
  const weir_pool_device device{0, 0, 4 * page_bytes, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.page_size = desc.large_page_size = page_bytes;
  // Without VMM, too, memory is taken when it is needed.
  World plain(context, nullptr);
  ok(weir_pool_create(context, &desc, &plain.pool));
  ok(weir_stream_create(context, 0, 0, &plain.streams[0]));
  weir_buffer whole = plain.buffer(page_bytes);
  expect_result(WEIR_ERROR_DEVICE_OOM, plain.acquire(whole, WEIR_READ, &lease));
  assert_int_equal(plain.stats().device_bytes, 0);
  assert_int_equal(plain.stats().device_peak_bytes, 0);
  interposed.interpose.store(nullptr);
  plain.close();
}

/// A fence that can't be recorded: the stream was synchronised instead, the lease is over, the bytes are right.
void a_release_without_a_fence(void **) {
  World world = interposed_world({.device_pages = 2});
  weir_buffer buffer = world.buffer(two_pages);
  weir_buffer other = world.buffer(two_pages);
  Kernel kernel{0, two_pages, 4, 0};
  for (const bool fast : {false, true}) {  // first through the slow path, then through the fast one
    weir_lease lease = nullptr;
    ok(world.acquire(buffer, WEIR_READ_WRITE, &lease, &kernel.address));
    ok(kernel.launch(world.streams[0], Kernel::write));
    interposed.interpose.store(no_fences);
    expect_result(WEIR_ERROR_BACKEND, weir_release(lease, world.streams[0]));
    interposed.interpose.store(nullptr);
    ok(weir_stream_query(world.streams[0]));  // nothing is left running
    if (!fast) world.check(buffer, two_pages, 4);
  }
  world.fill(other, two_pages, 5);  // evicts it at once
  world.check_read(buffer, two_pages, 4);
  world.close();
}

/// A failed call of the runtime reaches the caller with the runtime's words, and changes nothing.
void a_failed_call_is_told(void **) {
  World world = interposed_world();
  weir_buffer buffer = world.buffer(two_pages);
  weir_lease lease = nullptr;
  interposed.interpose.store(no_mapping);
  expect_result(WEIR_ERROR_BACKEND, world.acquire(buffer, WEIR_READ, &lease));
  assert_non_null(std::strstr(weir_last_error(), "map"));
  assert_non_null(std::strstr(weir_last_error(), "host"));
  assert_null(lease);
  assert_int_equal(query(world, buffer).leases, 0);
  assert_int_equal(query(world, buffer).unwritten_bytes, two_pages);
  interposed.interpose.store(no_streams);
  weir_stream stream = nullptr;
  expect_result(WEIR_ERROR_BACKEND, weir_stream_create(world.context, 0, 0, &stream));
  assert_null(stream);
  interposed.interpose.store(nullptr);
  ok(weir_stream_create(world.context, 0, 0, &stream));
  ok(weir_stream_close(stream));
  world.fill(buffer, two_pages, 1);
  world.check(buffer, two_pages, 1);
  world.close();
}

std::atomic<int> fences_left{0};
weir_result second_fence_fails(const char *entry) {
  return is(entry, "fence_record") && --fences_left == 0 ? WEIR_ERROR_BACKEND : WEIR_SUCCESS;
}

/// Its bytes are in HOST, its place is zeroed, and then it can't leave: what is on the device is not read again.
void a_scrubbed_page_that_stays_is_no_version(void **) {
  for (const char *vmm : {"", ";host.vmm=0"}) {
    World world = interposed_world({.options = std::string(small_host) + vmm});
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = page_bytes;
    desc.flags = WEIR_BUFFER_SCRUB;
    weir_buffer buffer = nullptr;
    ok(weir_buffer_create(world.pool, &desc, &buffer));
    world.fill(buffer, page_bytes, 1);
    fences_left.store(2);  // the first marks the copy down, the second the scrubbing
    interposed.interpose.store(second_fence_fails);
    ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, 1, nullptr));
    assert_true(fences_left.load() <= 0);
    interposed.interpose.store(nullptr);
    world.check(buffer, page_bytes, 1);
    world.check_read(buffer, page_bytes, 1);
    world.close();
  }
}

/// Devices of two backends are devices of one context, but a pool has them from one backend.
void a_pool_keeps_to_one_backend(void **) {
  interposed.interpose.store(nullptr);
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  const weir_backend_query_fn backends[] = {InterposedHost::query};
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.backend_count = 1;
  desc.backends = backends;
  desc.options = small_host;
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  uint32_t count = 0;
  ok(weir_device_count(context, &count));
  assert_int_equal(count, 2);
  const weir_pool_device devices[2] = {{0, 0, 4 * page_bytes, {0, 0}},
                                       {1, 0, 4 * page_bytes, {0, 0}}};
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.device_count = 2;
  pool_desc.devices = devices;
  weir_pool pool = nullptr;
  expect_result(WEIR_ERROR_NOT_SUPPORTED, weir_pool_create(context, &pool_desc, &pool));
  assert_null(pool);
  ok(weir_context_destroy(context));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_capturing_stream_gets_no_lease),
      cmocka_unit_test(a_lease_ends_on_a_lost_device),
      cmocka_unit_test(what_host_has_outlives_the_device),
      cmocka_unit_test(a_copy_that_ends_with_its_device_is_none),
      cmocka_unit_test(memory_refused_inside_the_budget),
      cmocka_unit_test(no_device_memory_at_all),
      cmocka_unit_test(a_release_without_a_fence),
      cmocka_unit_test(a_failed_call_is_told),
      cmocka_unit_test(a_scrubbed_page_that_stays_is_no_version),
      cmocka_unit_test(a_pool_keeps_to_one_backend),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
