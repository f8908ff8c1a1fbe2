// SPDX-License-Identifier: Apache-2.0
//
// Threads that share a pool: waiting in turn for room, asynchronous acquires and what their callbacks may do,
// announcements that steer who goes, and several threads on the same and on different buffers. Nothing here is right
// because of when it happens; deadlines are far off unless they are what is tested.

#include <atomic>
#include <thread>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

const uint64_t two_pages = 2 * page_bytes;
constexpr uint64_t minute = UINT64_C(60'000'000'000);

weir_result acquire_waiting(World &world, weir_stream stream, weir_buffer buffer, uint64_t timeout,
                            weir_lease *lease) {
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  options.timeout_ns = timeout;
  return weir_acquire(world.pool, stream, &use, 1, &options, lease);
}

weir_result acquire_and_release(World &world, weir_stream stream, weir_buffer buffer,
                                uint64_t timeout) {
  weir_lease lease = nullptr;
  const weir_result result = acquire_waiting(world, stream, buffer, timeout, &lease);
  return result == WEIR_SUCCESS ? weir_release(lease, stream) : result;
}

/// Until somebody is seen to wait for room: who comes then is told so, with no bytes of its own.
void await_waiter(World &world, weir_stream stream, weir_buffer wanted,
                  const std::atomic<bool> &ended) {
  while (!ended.load()) {
    const weir_result result = acquire_and_release(world, stream, wanted, 0);
    if (result == WEIR_ERROR_WOULD_BLOCK && last_error().asked == 0) return;
    std::this_thread::yield();
  }
}

uint64_t device_bytes(World &world, weir_buffer buffer) {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  ok(weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info));
  return info.device_bytes;
}

/// The first in the queue gives up; the one behind it must not be forgotten, whoever is woken by what.
void a_waiter_behind_one_that_gives_up(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_stream others[2];
  for (weir_stream &stream : others) ok(weir_stream_create(world.context, 0, 0, &stream));
  weir_buffer leased = world.buffer(3 * page_bytes);
  weir_buffer wanted = world.buffer(two_pages);
  world.fill(leased, 3 * page_bytes, 1);
  weir_lease lease = nullptr;
  ok(world.acquire(leased, WEIR_READ, &lease));
  std::atomic<bool> gave_up{false};
  weir_result first = WEIR_NOT_READY;
  weir_result second = WEIR_NOT_READY;
  std::thread impatient([&] {
    first = acquire_and_release(world, others[0], wanted, 20'000'000);
    gave_up.store(true);
  });
  await_waiter(world, world.streams[0], wanted, gave_up);
  std::thread patient([&] { second = acquire_and_release(world, others[1], wanted, minute); });
  impatient.join();
  ok(weir_release(lease, world.streams[0]));
  patient.join();
  assert_int_equal(first, WEIR_ERROR_TIMEOUT);
  ok(second);
  assert_true(world.stats().wait_ns > 0);
  for (weir_stream stream : others) ok(weir_stream_close(stream));
  world.check_read(leased, 3 * page_bytes, 1);
  world.close();
}

void several_waiters_all_get_in(void **) {
  World world({.device_pages = 4, .host_pages = 32});
  constexpr uint32_t count = 4;
  weir_stream streams[count];
  weir_buffer wanted[count];
  weir_buffer leased = world.buffer(3 * page_bytes);
  world.fill(leased, 3 * page_bytes, 9);
  weir_lease lease = nullptr;
  ok(world.acquire(leased, WEIR_READ, &lease));
  weir_result results[count];
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i) {
    ok(weir_stream_create(world.context, 0, 0, &streams[i]));
    wanted[i] = world.buffer((2 + i % 3) * page_bytes);
    threads.emplace_back(
        [&, i] { results[i] = acquire_and_release(world, streams[i], wanted[i], minute); });
  }
  ok(weir_release(lease, world.streams[0]));
  for (std::thread &thread : threads) thread.join();
  for (const weir_result result : results) ok(result);
  for (weir_stream stream : streams) ok(weir_stream_close(stream));
  world.check_read(leased, 3 * page_bytes, 9);
  world.close();
}

/// A callback may use the pool; a request's end is seen only after it has returned.
struct Chain {
  World *world = nullptr;
  weir_buffer next = nullptr;
  std::atomic<int> calls{0};
  weir_result result = WEIR_NOT_READY;
  weir_result inner = WEIR_NOT_READY;

  static void run(void *user, weir_result result, weir_lease lease) {
    auto *self = static_cast<Chain *>(user);
    self->result = result;
    if (result == WEIR_SUCCESS) {
      self->inner = weir_release(lease, self->world->streams[0]);
      weir_lease other = nullptr;
      if (self->inner == WEIR_SUCCESS)
        self->inner = self->world->acquire(self->next, WEIR_READ_WRITE, &other);
      if (self->inner == WEIR_SUCCESS) self->inner = weir_release(other, self->world->streams[0]);
    }
    ++self->calls;
  }
};

/// Why an acquire failed is told in its callback, and to who waits for it: on another thread.
void the_reason_reaches_who_waits(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_use use = WEIR_USE(world.buffer(5 * page_bytes), WEIR_READ);
  struct Told {
    std::string text;
    uint64_t asked = 0;
  } told;
  weir_request request = nullptr;
  ok(weir_acquire_async(
      world.pool, world.streams[0], &use, 1, nullptr,
      [](void *user, weir_result, weir_lease) {
        auto *out = static_cast<Told *>(user);
        out->text = weir_last_error();
        out->asked = last_error().asked;
      },
      &told, &request));
  weir_result result = WEIR_SUCCESS;
  ok(weir_request_wait(request, &result));
  expect_result(WEIR_ERROR_OVER_BUDGET, result);
  assert_int_equal(last_error().result, WEIR_ERROR_OVER_BUDGET);
  assert_int_equal(last_error().asked, 5 * page_bytes);
  assert_int_equal(told.asked, 5 * page_bytes);
  assert_string_equal(weir_last_error(), told.text.c_str());
  weir_request_close(request);
  world.close();
}

void a_callback_may_use_the_pool(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  Chain chain;
  chain.world = &world;
  chain.next = world.buffer(3 * page_bytes);
  weir_use use = WEIR_USE(world.buffer(3 * page_bytes), WEIR_READ_WRITE);
  weir_request request = nullptr;
  ok(weir_acquire_async(world.pool, world.streams[0], &use, 1, nullptr, Chain::run, &chain,
                        &request));
  weir_result result = WEIR_NOT_READY;
  ok(weir_request_wait(request, &result));
  assert_int_equal(chain.calls.load(), 1);
  ok(result);
  ok(chain.inner);
  ok(weir_request_wait(request, &result));  // again, as often as wanted
  ok(result);
  ok(weir_request_cancel(request));  // too late: it stays granted
  ok(weir_request_wait(request, &result));
  ok(result);
  weir_request_close(request);
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_request_wait(nullptr, &result));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_request_cancel(nullptr));
  world.close();
}

/// Whatever an acquire can answer comes through the callback and the request alike.
void asynchronous_refusals(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer leased = world.buffer(3 * page_bytes);
  weir_buffer wanted = world.buffer(two_pages);
  weir_buffer huge = world.buffer(5 * page_bytes);
  weir_lease lease = nullptr;
  ok(world.acquire(leased, WEIR_READ, &lease));
  const auto answer = [&](weir_buffer buffer, uint32_t mode, uint64_t timeout) {
    Chain chain;
    weir_use use = WEIR_USE(buffer, mode);
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    options.timeout_ns = timeout;
    weir_request request = nullptr;
    ok(weir_acquire_async(world.pool, world.streams[0], &use, 1, &options, Chain::run, &chain,
                          &request));
    weir_result result = WEIR_NOT_READY;
    ok(weir_request_wait(request, &result));
    weir_request_close(request);
    assert_int_equal(result, chain.result);
    assert_int_equal(chain.calls.load(), 1);
    return result;
  };
  assert_int_equal(answer(leased, WEIR_READ_WRITE, 0), WEIR_ERROR_LEASE_CONFLICT);
  assert_int_equal(answer(wanted, WEIR_READ, 0), WEIR_ERROR_WOULD_BLOCK);
  assert_int_equal(answer(wanted, WEIR_READ, 1'000'000), WEIR_ERROR_TIMEOUT);
  assert_int_equal(answer(huge, WEIR_READ, 0), WEIR_ERROR_OVER_BUDGET);
  assert_int_equal(answer(nullptr, WEIR_READ, 0), WEIR_ERROR_INVALID_HANDLE);
  assert_int_equal(answer(wanted, 7, 0), WEIR_ERROR_INVALID_ARGUMENT);
  ok(weir_release(lease, world.streams[0]));
  world.close();
}

/// Each announced operation is consumed by one acquire; what is announced stays longer than what is not.
void announcements_steer_eviction(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer a = world.buffer(two_pages);
  weir_buffer b = world.buffer(two_pages);
  weir_buffer c = world.buffer(two_pages);
  const weir_use use_a = WEIR_USE(a, WEIR_READ);
  const weir_use use_c = WEIR_USE(c, WEIR_READ);
  const weir_operation operations[2] = {{nullptr, &use_c, 1, 0, {0, 0}},
                                        {nullptr, &use_a, 1, 0, {0, 0}}};
  world.fill(a, two_pages, 1);
  world.fill(b, two_pages, 2);
  ok(weir_announce(world.pool, world.streams[0], operations, 2, 0));
  world.fill(c, two_pages, 3);  // the first operation: b goes, although a was used longer ago
  assert_int_equal(device_bytes(world, a), two_pages);
  assert_int_equal(device_bytes(world, b), 0);
  world.check(a, two_pages, 1);  // the second: from here on nothing is announced
  world.check(c, two_pages, 3);
  world.check(b, two_pages, 2);  // a goes, the oldest
  assert_int_equal(device_bytes(world, a), 0);
  assert_int_equal(device_bytes(world, c), two_pages);
  world.close();
}

/// Threads with buffers of their own and one that all read, in a pool that holds a third of it all.
void threads_share_a_pool(void **) {
  for (const uint64_t flags : {uint64_t{WEIR_POOL_NO_BACKGROUND}, uint64_t{0}}) {
    World world({.device_pages = 8, .host_pages = 64, .flags = flags});
    constexpr uint32_t count = 4;
    weir_buffer shared = world.buffer(two_pages);
    world.fill(shared, two_pages, 100);
    weir_stream streams[count];
    weir_buffer own[count][2];
    std::atomic<uint32_t> wrong{0};
    for (uint32_t i = 0; i < count; ++i) {
      ok(weir_stream_create(world.context, 0, 0, &streams[i]));
      for (weir_buffer &buffer : own[i]) buffer = world.buffer(two_pages);
    }
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        for (uint32_t turn = 0; turn < 60; ++turn) {
          weir_use uses[2] = {WEIR_USE(own[i][turn % 2], WEIR_READ_WRITE),
                              WEIR_USE(shared, WEIR_READ)};
          weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
          options.timeout_ns = minute;
          weir_lease lease = nullptr;
          if (weir_acquire(world.pool, streams[i], uses, 2, &options, &lease) != WEIR_SUCCESS) {
            ++wrong;
            return;
          }
          Kernel before{uses[0].address, two_pages, i * 10 + (turn - 2) % 7, 0};
          Kernel common{uses[1].address, two_pages, 100, 0};
          Kernel after{uses[0].address, two_pages, i * 10 + turn % 7, 0};
          if (turn >= 2) (void)before.launch(streams[i], Kernel::compare);
          (void)common.launch(streams[i], Kernel::compare);
          (void)after.launch(streams[i], Kernel::write);
          if (weir_release(lease, streams[i]) != WEIR_SUCCESS) ++wrong;
          (void)weir_stream_synchronize(streams[i]);
          if (before.wrong + common.wrong != 0) ++wrong;
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    assert_int_equal(wrong.load(), 0);
    for (uint32_t i = 0; i < count; ++i) {
      world.check_read(own[i][0], two_pages, i * 10 + 58 % 7);
      world.check_read(own[i][1], two_pages, i * 10 + 59 % 7);
      ok(weir_stream_close(streams[i]));
    }
    world.check_read(shared, two_pages, 100);
    const weir_pool_stats stats = world.stats();
    assert_true(stats.device_bytes <= stats.device_budget);
    assert_true(stats.host_used_bytes <= stats.host_budget);
    world.close();
  }
}

/// One buffer, two threads that both want to write: one at a time, and the other is told.
void two_threads_write_one_buffer(void **) {
  World world;
  weir_buffer buffer = world.buffer(two_pages);
  weir_stream streams[2] = {world.streams[0], nullptr};
  ok(weir_stream_create(world.context, 0, 0, &streams[1]));
  std::atomic<uint32_t> inside{0};
  std::atomic<uint32_t> wrong{0};
  const auto write = [&](uint32_t me) {
    for (uint32_t granted = 0; granted < 100;) {
      weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
      weir_lease lease = nullptr;
      const weir_result result = weir_acquire(world.pool, streams[me], &use, 1, nullptr, &lease);
      if (result == WEIR_ERROR_LEASE_CONFLICT) {
        std::this_thread::yield();
        continue;
      }
      if (result != WEIR_SUCCESS || inside.fetch_add(1) != 0) ++wrong;
      inside.fetch_sub(1);
      if (weir_release(lease, streams[me]) != WEIR_SUCCESS) ++wrong;
      ++granted;
    }
  };
  std::thread other([&] { write(1); });
  write(0);
  other.join();
  assert_int_equal(wrong.load(), 0);
  ok(weir_stream_close(streams[1]));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_waiter_behind_one_that_gives_up),
      cmocka_unit_test(several_waiters_all_get_in),
      cmocka_unit_test(the_reason_reaches_who_waits),
      cmocka_unit_test(a_callback_may_use_the_pool),
      cmocka_unit_test(asynchronous_refusals),
      cmocka_unit_test(announcements_steer_eviction),
      cmocka_unit_test(threads_share_a_pool),
      cmocka_unit_test(two_threads_write_one_buffer),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
