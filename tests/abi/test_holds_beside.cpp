// SPDX-License-Identifier: Apache-2.0
//
// Holds beside what else goes on: leases that are out, graphs that have written, small buffers and weir_malloc's memory, holds that nest,
// copies elsewhere, and calls that are refused. test_holds.cpp walks the table of calls and modes.

#include "tests/abi/hold_case.hpp"

namespace {

using namespace weir::test;

// ---- holds against leases that are out ----

/// READ: as a lease that reads; shared: no lease may write; alone: as one that writes.
void leases_that_are_out(void **) {
  struct Out {
    uint32_t mode, device;
    weir_result wanted[modes];
  };
  constexpr uint32_t host = WEIR_DEVICE_HOST;
  constexpr Out outs[] = {
      {WEIR_READ, 0, {granted, granted, granted, refused}},
      {WEIR_READ, 1, {granted, granted, granted, refused}},
      {WEIR_READ, host, {granted, granted, granted, refused}},
      {WEIR_READ_WRITE, 0, {granted, refused, refused, refused}},
      {WEIR_READ_WRITE, 1, {granted, refused, refused, refused}},
      {WEIR_DISCARD_WRITE, host, {granted, refused, refused, refused}},
  };
  for (const Out &out : outs) {
    for (const uint64_t length : {uint64_t{WEIR_WHOLE}, uint64_t{1000}}) {
      for (uint32_t mode = reading; mode < modes; ++mode) {
        Case c(0);
        c.spread();
        weir_stream stream = out.device == host ? c.cpu : c.world.streams[out.device];
        weir_use use{c.buffer, 0, length, out.mode, 0, 0, {0, 0, 0}};
        weir_lease lease = nullptr;
        ok(weir_acquire(c.world.pool, stream, &use, 1, nullptr, &lease));
        const weir_result got = c.hold(static_cast<Mode>(mode), c.at, &c.address);
        assert_int_equal(got, out.wanted[mode]);
        if (got == WEIR_SUCCESS && mode == shared) {
          c.graph();
          // What the CPU looks at is an older version, and stays in place.
          if (out.device == host) {
            const auto *seen = reinterpret_cast<const volatile uint8_t *>(use.address);
            for (uint64_t i = 0; i < 1000; ++i) assert_int_equal(seen[i], pattern(c.seed - 1, i));
          }
          c.see_by_call();
        }
        if (out.mode != WEIR_DISCARD_WRITE || got == WEIR_SUCCESS) {
          ok(weir_release(lease, stream));
        } else {
          Kernel kernel{use.address, length == WEIR_WHOLE ? size : length, ++c.seed, 0};
          Kernel::write(&kernel);
          c.note(0, kernel.bytes);
          ok(weir_release(lease, stream));
        }
        if (got == WEIR_SUCCESS) ok(weir_unhold(c.world.pool, c.buffer));
        look_at_all(c, none, false);
        c.close();
      }
    }
  }
}

/// A lease of the CPU on a part stays readable while the rest of its page is written under a hold, and after it.
void what_the_cpu_looks_at_stays(void **) {
  Case c(0);
  c.spread();
  ok(c.hold(shared, 0, &c.address));
  weir_use use{c.buffer, 0, 1000, WEIR_READ, 0, 0, {0, 0, 0}};
  weir_lease lease = nullptr;
  ok(weir_acquire(c.world.pool, c.cpu, &use, 1, nullptr, &lease));
  const auto look = [&] {
    const auto *seen = reinterpret_cast<const volatile uint8_t *>(use.address);
    for (uint64_t i = 0; i < 1000; ++i) assert_int_equal(seen[i], c.contents[i]);
  };
  const uint8_t bytes[3] = {1, 2, 3};
  expect_result(refused, weir_buffer_write(c.world.pool, c.buffer, 999, 3, bytes));
  for (const uint64_t at : {uint64_t{1000}, page_bytes + 5}) {
    ok(weir_buffer_write(c.world.pool, c.buffer, at, 3, bytes));
    std::copy_n(bytes, 3, c.contents.begin() + static_cast<ptrdiff_t>(at));
    look();
    c.see_held();
    c.see_by_call();
  }
  ok(trim(c));
  look();
  ok(weir_unhold(c.world.pool, c.buffer));
  ok(weir_buffer_write(c.world.pool, c.buffer, 2000, 3, bytes));
  std::copy_n(bytes, 3, c.contents.begin() + 2000);
  look();
  ok(weir_release(lease, c.cpu));
  ok(trim(c));
  look_at_all(c, none, false);
  c.close();
}

// ---- what a graph writes ----

enum Before { in_host, in_compressed, on_both, on_the_neighbour, registered, unwritten };

/// Wherever the bytes were before, what is written to the held memory is what everybody reads after.
void what_a_graph_writes_is_kept(void **) {
  for (const Before before :
       {in_host, in_compressed, on_both, on_the_neighbour, registered, unwritten}) {
    for (const Mode mode : {shared, alone}) {
      Case c(0);
      uint8_t *memory = aligned_memory(4 * page_bytes);
      if (before == registered) ok(weir_host_register(c.world.pool, c.buffer, memory, 0));
      if (before != unwritten) c.spread();
      if (before == in_host || before == in_compressed) ok(evict(c));
      if (before == in_compressed)
        ok(weir_pool_trim(c.world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE,
                          nullptr));
      if (before == on_the_neighbour) ok(c.lease(WEIR_READ_WRITE, 1));
      ok(c.hold(mode, 0, &c.address));
      c.see_held();
      c.graph();
      ok(trim(c));
      ok(evict(c));
      ok(defragment(c));
      c.see_held();
      if (before == registered) {
        expect_result(mode == alone ? refused : granted,
                      weir_host_unregister(c.world.pool, c.buffer));
        if (mode == shared) assert_memory_equal(memory, c.contents.data(), size);
        c.graph();
      }
      ok(weir_unhold(c.world.pool, c.buffer));
      ok(trim(c));
      ok(evict(c));
      look_at_all(c, none, false);
      c.close();
      std::free(memory);
    }
  }
}

// ---- small buffers ----

/// A held tenant shares its page with others, who go on as they were; elsewhere it can't be used, for it can't leave its place.
void small_buffers(void **) {
  for (const Mode mode : {reading, shared, alone}) {
    Case c(0, 3000);
    weir_buffer others[2] = {c.world.buffer(5000), c.world.buffer(2000)};
    c.spread();
    c.world.fill(others[0], 5000, 91);
    c.world.fill(others[1], 2000, 92);
    ok(evict(c));
    c.world.check(others[0], 5000, 91);  // the page is in HOST too
    ok(c.hold(mode, 0, &c.address));
    if (mode != reading) c.graph();
    c.see_held();
    c.world.fill(others[0], 5000, 93);
    std::vector<uint8_t> bytes(2000);
    for (uint64_t i = 0; i < 2000; ++i) bytes[i] = pattern(94, i);
    ok(weir_buffer_write(c.world.pool, others[1], 0, 2000, bytes.data()));
    c.world.check_read(others[0], 5000, 93);
    c.world.check(others[1], 2000, 94);
    const bool may_read = mode != alone;
    const bool may_write = mode == shared;
    const auto answer = [](bool may) { return may ? granted : refused; };
    expect_result(answer(may_read), read_call(c));
    expect_result(answer(may_read), c.lease(WEIR_READ, 0));
    expect_result(answer(may_write), c.lease(WEIR_READ_WRITE, 0));
    expect_result(answer(may_write), c.lease(WEIR_DISCARD_WRITE, 0));
    expect_result(answer(may_write), write_call(c));
    c.see_held();
    for (const uint32_t use : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
      expect_result(refused, c.lease(use, 1));
      expect_result(refused, c.lease(use, WEIR_DEVICE_HOST));
    }
    expect_result(answer(may_write), weir_discard(c.world.pool, c.buffer, 0, WEIR_WHOLE));
    if (may_write) {
      std::fill(c.contents.begin(), c.contents.end(), uint8_t{0});
      c.see_held();
      c.see_by_call();
    }
    uint64_t again = 0;
    expect_result(refused, c.hold(mode, 1, &again));
    if (mode != reading) c.graph();
    ok(trim(c));
    c.see_held();
    ok(weir_unhold(c.world.pool, c.buffer));
    look_at_all(c, none, false);
    c.world.check(others[1], 2000, 94, 1);
    for (weir_buffer buffer : others) ok(weir_buffer_destroy(c.world.pool, buffer));
    c.close();
  }
}

/// What the user writes there is kept, whatever happens round it.
void memory_of_weir_malloc(void **) {
  Case c(0);
  for (const uint64_t bytes : {uint64_t{700}, page_bytes + 5, 2 * page_bytes}) {
    uint64_t address = 0;
    ok(weir_malloc(c.world.pool, 0, nullptr, bytes, &address));
    for (uint32_t seed = 1; seed < 4; ++seed) {
      Kernel kernel{address, bytes, seed, 0};
      ok(kernel.launch(c.world.streams[0], Kernel::write));
      ok(weir_stream_synchronize(c.world.streams[0]));
      ok(trim(c));
      ok(defragment(c));
      ok(evict(c));
      ok(kernel.launch(c.world.streams[0], Kernel::compare));
      ok(weir_stream_synchronize(c.world.streams[0]));
      assert_int_equal(kernel.wrong, 0);
    }
    ok(weir_free(c.world.pool, nullptr, address));
  }
  c.close();
}

// ---- the rest ----

void holds_nest(void **) {
  for (const Mode mode : {reading, shared}) {
    Case c(1);
    c.spread();
    uint64_t again = 0;
    ok(c.hold(mode, 1, &c.address));
    // What is granted under the hold does not keep it from nesting.
    weir_lease lease = nullptr;
    ok(c.world.acquire(c.buffer, mode == shared ? WEIR_READ_WRITE : WEIR_READ, &lease, nullptr, 1));
    ok(c.hold(mode, 1, &again));
    assert_int_equal(again, c.address);
    ok(weir_release(lease, c.world.streams[1]));
    ok(weir_unhold(c.world.pool, c.buffer));
    expect_result(refused, c.lease(WEIR_READ_WRITE, 0));
    if (mode == shared) c.graph();
    ok(trim(c));
    c.see_held();
    ok(weir_unhold(c.world.pool, c.buffer));
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_unhold(c.world.pool, c.buffer));
    look_at_all(c, none, false);
    ok(c.lease(WEIR_READ_WRITE, 0));
    c.close();
  }
}

/// A copy elsewhere, made for a lease under the hold, is no reason to be short of memory there.
void copies_elsewhere_are_not_held(void **) {
  Case c(0);
  c.spread();
  ok(c.hold(shared, 0, &c.address));
  c.graph();
  c.see_on(1);
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(c.world.pool, 1, &stats));
  assert_int_equal(stats.held_bytes, 0);
  weir_buffer greedy = c.world.buffer(8 * page_bytes, 1);
  c.world.fill(greedy, 8 * page_bytes, 5, 1);
  c.see_on(1);
  ok(weir_pool_remove_device(c.world.pool, 1, WEIR_INFINITE));
  c.see_held();
  ok(weir_unhold(c.world.pool, c.buffer));
  c.see_by_call();
  ok(weir_buffer_destroy(c.world.pool, greedy));
  c.close();
}

void refusals(void **) {
  Case c(0);
  uint64_t address = 17;
  weir_pool pool = c.world.pool;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_hold_as(pool, c.buffer, 0, 0, 0, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_hold_as(pool, c.buffer, 0, WEIR_DISCARD_WRITE, 0, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_hold_as(pool, c.buffer, 0, WEIR_READ, WEIR_HOLD_ALONE, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_hold_as(pool, c.buffer, 0, WEIR_READ_WRITE, 2, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_hold_as(pool, c.buffer, 9, WEIR_READ, 0, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_hold_as(pool, c.buffer, 0, WEIR_READ, 0, nullptr));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_hold_as(pool, nullptr, 0, WEIR_READ, 0, &address));
  expect_result(WEIR_ERROR_INVALID_HANDLE,
                weir_hold_as(nullptr, c.buffer, 0, WEIR_READ, 0, &address));
  assert_int_equal(address, 17);
  ok(weir_hold_as(pool, c.buffer, WEIR_DEVICE_DEFAULT, WEIR_READ, 0, &address));
  // A set is refused as one, and the use that is to blame is named.
  weir_buffer free_one = c.world.buffer(page_bytes);
  weir_use uses[2] = {WEIR_USE(free_one, WEIR_READ_WRITE), WEIR_USE(c.buffer, WEIR_READ_WRITE)};
  weir_lease lease = nullptr;
  expect_result(refused, weir_acquire(pool, c.world.streams[0], uses, 2, nullptr, &lease));
  assert_int_equal(last_error().use_index, 1);
  c.world.fill(free_one, page_bytes, 1);
  ok(weir_unhold(pool, c.buffer));
  ok(weir_buffer_destroy(pool, free_one));
  c.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(leases_that_are_out),
      cmocka_unit_test(what_the_cpu_looks_at_stays),
      cmocka_unit_test(what_a_graph_writes_is_kept),
      cmocka_unit_test(small_buffers),
      cmocka_unit_test(memory_of_weir_malloc),
      cmocka_unit_test(holds_nest),
      cmocka_unit_test(copies_elsewhere_are_not_held),
      cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
