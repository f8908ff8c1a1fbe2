// SPDX-License-Identifier: Apache-2.0
//
// What acquires wait for: scopes within scopes, threads without a call, listeners; and that a pool's acquires say so.

#include "tests/unit/neighbours.hpp"

#include "core/base/waits.hpp"

#include <thread>

namespace {

using namespace weir;
using namespace weir::test;

/// Time goes on, for certain.
void pass_time(uint64_t ns) {
  for (const uint64_t end = steady_ns() + ns; steady_ns() < end;) {
  }
}

void a_thread_without_a_call_counts_nothing(void **) {
  Waits waits;
  {
    const WaitScope scope(Wait::io);
    assert_int_equal(waits.now(Wait::io), 0);
  }
  assert_int_equal(waits.ns(Wait::io), 0);
}

void each_scope_counts_what_none_within_it_does(void **) {
  Waits waits;
  WaitLog log;
  const ListenToWaits listen(&log);
  const uint64_t before = steady_ns();
  uint64_t inner = 0;
  {
    const WaitCall call(waits);
    const WaitScope outer(Wait::eviction);
    assert_int_equal(waits.now(Wait::eviction), 1);
    pass_time(1000);
    {
      const uint64_t begin = steady_ns();
      const WaitScope scope(Wait::io);
      assert_int_equal(waits.now(Wait::eviction), 0);
      assert_int_equal(waits.now(Wait::io), 1);
      pass_time(200'000);
      inner = steady_ns() - begin;
    }
    assert_int_equal(waits.now(Wait::eviction), 1);
    WaitScope::because_of(7);
  }
  const uint64_t all = steady_ns() - before;
  assert_int_equal(waits.now(Wait::eviction), 0);
  assert_true(waits.ns(Wait::io) >= 200'000);
  assert_true(waits.ns(Wait::eviction) >= 1000);
  assert_true(waits.ns(Wait::eviction) + waits.ns(Wait::io) <= all);
  assert_true(waits.ns(Wait::eviction) <= all - 200'000);
  assert_true(inner >= 200'000);
  assert_int_equal(log.count, 2);
  assert_true(log.spans[0].why == Wait::io && log.spans[1].why == Wait::eviction);
  assert_int_equal(log.spans[1].cause, 7);
  assert_true(log.spans[1].begin_ns <= log.spans[0].begin_ns);
  assert_true(log.spans[0].end_ns <= log.spans[1].end_ns);
}

void a_call_within_a_call_counts_by_itself(void **) {
  Waits waits, others;
  const WaitCall call(waits);
  const WaitScope scope(Wait::room);
  {
    const WaitCall inner(others);
    const WaitScope within(Wait::copy);
    assert_int_equal(others.now(Wait::copy), 1);
    assert_int_equal(waits.now(Wait::room), 1);
  }
  assert_int_equal(waits.ns(Wait::copy), 0);
  assert_int_equal(waits.now(Wait::room), 1);
}

void a_full_log_counts_the_rest(void **) {
  Waits waits;
  WaitLog log;
  const ListenToWaits listen(&log);
  const WaitCall call(waits);
  for (int i = 0; i < 40; ++i) const WaitScope scope(Wait::room);
  assert_int_equal(log.count, 32);
  assert_int_equal(log.lost, 8);
}

void durations_go_by_their_buckets(void **) {
  Durations durations;
  assert_int_equal(Durations::bound_ns(0), 1000);
  assert_int_equal(Durations::bound_ns(1), 4000);
  assert_int_equal(Durations::bound_ns(Durations::buckets - 1), UINT64_MAX);
  durations.add(1000);
  durations.add(1001);
  durations.add(UINT64_MAX - 5000);
  assert_int_equal(durations.count(0), 1);
  assert_int_equal(durations.count(1), 1);
  assert_int_equal(durations.count(Durations::buckets - 1), 1);
}

uint64_t slow_acquires(World &world) {
  uint64_t all = 0;
  const Durations &acquires = engine_of(world).tap.waits().acquires();
  for (size_t i = 0; i < Durations::buckets; ++i) all += acquires.count(i);
  return all;
}

void a_miss_waits_for_mapping_and_eviction(void **) {
  World world({.device_pages = 4, .host_pages = 64});
  const Waits &waits = engine_of(world).tap.waits();
  const weir_buffer a = world.buffer(4 * page_bytes), b = world.buffer(4 * page_bytes);
  world.fill(a, 4 * page_bytes, 1);
  assert_true(waits.ns(Wait::mapping) > 0);
  assert_int_equal(waits.ns(Wait::eviction), 0);
  const uint64_t before = slow_acquires(world);
  world.fill(b, 4 * page_bytes, 2);
  assert_true(waits.ns(Wait::eviction) > 0);
  assert_true(slow_acquires(world) > before);
  for (size_t why = 0; why < wait_reasons; ++why)
    assert_int_equal(waits.now(static_cast<Wait>(why)), 0);
  ok(weir_buffer_destroy(world.pool, a));
  ok(weir_buffer_destroy(world.pool, b));
  close_clean(world);
}

void pages_from_below_host_wait_for_decoding_or_io(void **) {
  World world({.device_pages = 8, .host_pages = 4, .compressed_pages = 6, .storage_pages = 64});
  const Waits &waits = engine_of(world).tap.waits();
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 8; ++i) {
    buffers.push_back(world.buffer(2 * page_bytes));
    world.fill(buffers[i], 2 * page_bytes, 1 + i);
  }
  for (uint32_t i = 0; i < 8; ++i) world.check(buffers[i], 2 * page_bytes, 1 + i);
  assert_true(waits.ns(Wait::decode) + waits.ns(Wait::io) > 0);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_thread_without_a_call_counts_nothing),
      cmocka_unit_test(each_scope_counts_what_none_within_it_does),
      cmocka_unit_test(a_call_within_a_call_counts_by_itself),
      cmocka_unit_test(a_full_log_counts_the_rest),
      cmocka_unit_test(durations_go_by_their_buckets),
      cmocka_unit_test(a_miss_waits_for_mapping_and_eviction),
      cmocka_unit_test(pages_from_below_host_wait_for_decoding_or_io),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
