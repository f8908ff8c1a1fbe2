// SPDX-License-Identifier: Apache-2.0
//
// Vulkan devices that are lost, at each call of a scenario, and drivers that hang: every call says so, nothing waits for ever,
// host functions of a lost device do not run, stop() returns, and nothing is left in the driver.

#include "tests/backends/vulkan_scenario.hpp"
#include "tests/support/stride.hpp"
#include "tests/support/watchdog.hpp"

#include <initializer_list>
#include <thread>

namespace {

using namespace vulkan_test;

constexpr int kinds_of_loss[] = {WEIR_SHIM_LOST_BY_THE_BOOK, WEIR_SHIM_LOST_EVERYWHERE};

void count(void *user) { ++*static_cast<std::atomic<int> *>(user); }

/// False: the scenario had no such call any more.
bool run(const char *machine, int kind, uint64_t nth) {
  shim().reset();
  pretend(machine);
  const std::string when = std::string(machine) + ": lost at call " + std::to_string(nth) +
                           ", kind " + std::to_string(kind);
  shim().lose(kind, nth);
  {
    Backend backend;
    if (backend.result == WEIR_SUCCESS) {
      Scenario(backend, Scenario::Fault::loss, when).all();
    } else if (backend.reason.empty() || shim().lost() == 0) {
      fail_msg("%s: no start: \"%s\"", when.c_str(), backend.reason.c_str());
    }
  }
  nothing_is_left(when);
  return shim().lost() != 0;
}

void lost_at_any_call(void **) {
  weir::test::Watchdog watchdog;
  const auto step = static_cast<uint64_t>(weir::test::stride());
  for (const char *machine : {"", "sparse=1", "sparse=1;transfer=2;queues=3", "devices=2"}) {
    for (const int kind : kinds_of_loss) {
      uint64_t nth = 1;
      for (; run(machine, kind, nth); nth += step) watchdog.at(machine);
      assert_true(nth > 30);
    }
  }
  watchdog.stop();
}

/// Work under way, a waiter, host functions that wait their turn; then the device goes.
void lost_under_way(void **) {
  weir::test::Watchdog watchdog;
  for (const int kind : kinds_of_loss) {
    watchdog.at("a lost device");
    shim().reset();
    Backend backend;
    OK(backend.result);
    const weir_backend_table &t = table();
    weir_be_state *s = backend.state;
    uint64_t device = 0;
    void *pinned = nullptr;
    weir_be_stream stream = nullptr, other = nullptr, third = nullptr;
    weir_be_fence before = 0, fence = 0, more = 0;
    OK(t.plain_allocate(s, 0, MiB, 4096, &device));
    OK(t.host_allocate(s, MiB, &pinned));
    OK(t.stream_create(s, 0, 0, &stream));
    OK(t.stream_create(s, 0, 0, &other));
    OK(t.fence_record(s, stream, &before));
    OK(t.fence_wait(s, before, UINT64_MAX));
    Gate gate;
    std::atomic<int> ran{0};
    OK(t.stream_host_call(s, stream, Gate::run, &gate));
    OK(t.stream_host_call(s, stream, count, &ran));
    OK(t.fence_record(s, stream, &fence));
    OK(t.stream_wait(s, other, fence));
    OK(t.fill_async(s, other, device, 1, 16));
    gate.reached.wait(false);
    weir_result waited = WEIR_SUCCESS;
    std::thread waiter([&] { waited = t.fence_wait(s, fence, UINT64_MAX); });
    shim().lose(kind, 1);
    waiter.join();
    assert_int_equal(waited, WEIR_ERROR_DEVICE_LOST);
    const weir_be_copy copy{device, address_of(pinned), MiB};
    uint64_t address = 0;
    void *memory = nullptr;
    WANT(WEIR_ERROR_DEVICE_LOST, t.copy_async(s, other, &copy));
    WANT(WEIR_ERROR_DEVICE_LOST, t.copy_batch_async(s, other, &copy, 1));
    WANT(WEIR_ERROR_DEVICE_LOST, t.fill_async(s, other, device, 1, 16));
    WANT(WEIR_ERROR_DEVICE_LOST, t.fence_record(s, other, &more));
    WANT(WEIR_ERROR_DEVICE_LOST, t.stream_wait(s, other, fence));
    WANT(WEIR_ERROR_DEVICE_LOST, t.stream_synchronize(s, other));
    WANT(WEIR_ERROR_DEVICE_LOST, t.stream_query(s, stream));
    WANT(WEIR_ERROR_DEVICE_LOST, t.stream_host_call(s, other, count, &ran));
    WANT(WEIR_ERROR_DEVICE_LOST, t.fence_poll(s, fence));
    WANT(WEIR_ERROR_DEVICE_LOST, t.fence_wait(s, fence, 0));
    WANT(WEIR_ERROR_DEVICE_LOST, t.stream_create(s, 0, 0, &third));
    WANT(WEIR_ERROR_DEVICE_LOST, t.plain_allocate(s, 0, MiB, 4096, &address));
    WANT(WEIR_ERROR_DEVICE_LOST, t.host_allocate(s, MiB, &memory));
    assert_non_null(std::strstr(backend.error().c_str(), "device 0"));
    assert_non_null(std::strstr(backend.error().c_str(), "VK_ERROR_DEVICE_LOST"));
    // What was seen done stays done.
    OK(t.fence_poll(s, before));
    // The driver is well again; the device is not.
    shim().lose(0, 0);
    WANT(WEIR_ERROR_DEVICE_LOST, t.fence_record(s, other, &more));
    gate.release();
    OK(t.fence_destroy(s, fence));
    OK(t.fence_destroy(s, before));
    OK(t.stream_destroy(s, stream));
    OK(t.stream_destroy(s, other));
    OK(t.plain_free(s, 0, device, MiB));
    OK(t.host_free(s, pinned, MiB));
    backend.stop();
    assert_int_equal(ran.load(), 0);
    nothing_is_left();
  }
  watchdog.stop();
}

/// With everything left to stop(): mappings, work that waits for host functions, streams that were destroyed before.
void lost_and_left_to_stop(void **) {
  weir::test::Watchdog watchdog;
  for (const int kind : kinds_of_loss) {
    watchdog.at("stop after a loss");
    shim().reset();
    pretend("sparse=1");
    Backend backend;
    OK(backend.result);
    const weir_backend_table &t = table();
    weir_be_state *s = backend.state;
    weir_be_stream stream = nullptr, other = nullptr;
    weir_be_fence fence = 0;
    uint64_t plain = 0, range = 0;
    void *pinned = nullptr;
    weir_be_granule granule = 0;
    OK(t.plain_allocate(s, 0, MiB, 4096, &plain));
    OK(t.host_allocate(s, MiB, &pinned));
    OK(t.granule_create(s, 0, 64 * KiB, 0, &granule));
    OK(t.range_reserve(s, 0, MiB, 64 * KiB, &range));
    OK(t.map(s, 0, range, 64 * KiB, granule, 0, nullptr, 0));
    OK(t.stream_create(s, 0, 0, &stream));
    OK(t.stream_create(s, 0, 0, &other));
    Gate gate;
    std::atomic<int> ran{0};
    OK(t.stream_host_call(s, stream, Gate::run, &gate));
    OK(t.fill_async(s, stream, range, 1, 64 * KiB));
    OK(t.stream_host_call(s, stream, count, &ran));
    OK(t.fence_record(s, stream, &fence));
    OK(t.stream_wait(s, other, fence));
    OK(t.fill_async(s, other, plain, 1, MiB));
    OK(t.stream_destroy(s, other));
    gate.reached.wait(false);
    shim().lose(kind, 1);
    // Nobody has asked anything since: stop() finds out by itself.
    if (kind == WEIR_SHIM_LOST_EVERYWHERE) WANT(WEIR_ERROR_DEVICE_LOST, t.fence_poll(s, fence));
    gate.release();
    backend.stop();
    nothing_is_left();
  }
  watchdog.stop();
}

/// A driver whose work never ends: whoever waits learns of the loss from another call's answer.
void a_stalled_device_that_is_lost(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("a stalled device");
  Backend backend;
  OK(backend.result);
  const weir_backend_table &t = table();
  weir_be_state *s = backend.state;
  weir_be_stream stream = nullptr, other = nullptr;
  weir_be_fence fence = 0, more = 0;
  uint64_t device = 0;
  OK(t.plain_allocate(s, 0, MiB, 4096, &device));
  OK(t.stream_create(s, 0, 0, &stream));
  OK(t.stream_create(s, 0, 0, &other));
  shim().stall();
  OK(t.fill_async(s, stream, device, 1, MiB));
  OK(t.fence_record(s, stream, &fence));
  WANT(WEIR_NOT_READY, t.fence_poll(s, fence));
  WANT(WEIR_ERROR_TIMEOUT, t.fence_wait(s, fence, 2'000'000));
  WANT(WEIR_ERROR_TIMEOUT, t.fence_wait(s, fence, 0));
  weir_result waited = WEIR_SUCCESS;
  std::thread waiter([&] { waited = t.fence_wait(s, fence, UINT64_MAX); });
  shim().fail("vkQueueSubmit", 1, VK_ERROR_DEVICE_LOST);
  OK(t.fill_async(s, other, device, 1, 16));
  WANT(WEIR_ERROR_DEVICE_LOST, t.fence_record(s, other, &more));
  waiter.join();
  assert_int_equal(waited, WEIR_ERROR_DEVICE_LOST);
  backend.stop();
  nothing_is_left();
  watchdog.stop();
}

/// Work that was held up goes on once the driver does.
void a_stalled_device_that_goes_on(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("a device that goes on");
  Backend backend;
  OK(backend.result);
  const weir_backend_table &t = table();
  weir_be_stream stream = nullptr;
  weir_be_fence fence = 0;
  std::atomic<int> ran{0};
  OK(t.stream_create(backend.state, 0, 0, &stream));
  shim().stall();
  OK(t.stream_host_call(backend.state, stream, count, &ran));
  OK(t.fence_record(backend.state, stream, &fence));
  WANT(WEIR_NOT_READY, t.fence_poll(backend.state, fence));
  shim().resume();
  OK(t.fence_wait(backend.state, fence, UINT64_MAX));
  assert_int_equal(ran.load(), 1);
  backend.stop();
  nothing_is_left();
  watchdog.stop();
}

/// One of two devices is lost: the other goes on, and what it was told to wait for on the lost one holds it up no longer.
void one_of_two_is_lost(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("two devices");
  pretend("devices=2");
  Backend backend;
  OK(backend.result);
  const weir_backend_table &t = table();
  weir_be_state *s = backend.state;
  uint32_t devices = 0;
  OK(t.device_count(s, &devices));
  assert_int_equal(devices, 2);
  weir_be_stream bad = nullptr, good = nullptr;
  weir_be_fence fence = 0, end = 0, more = 0;
  uint64_t device = 0;
  void *pinned = nullptr;
  OK(t.plain_allocate(s, 1, MiB, 4096, &device));
  OK(t.host_allocate(s, MiB, &pinned));
  OK(t.stream_create(s, 0, 0, &bad));
  OK(t.stream_create(s, 1, 0, &good));
  Gate gate;
  OK(t.stream_host_call(s, bad, Gate::run, &gate));
  OK(t.fence_record(s, bad, &fence));
  gate.reached.wait(false);
  OK(t.stream_wait(s, good, fence));
  OK(t.fill_async(s, good, device, 3, MiB));
  const weir_be_copy out{address_of(pinned), device, MiB};
  OK(t.copy_async(s, good, &out));
  OK(t.fence_record(s, good, &end));
  WANT(WEIR_NOT_READY, t.fence_poll(s, end));
  // The next submission is the first device's.
  weir_be_stream third = nullptr;
  OK(t.stream_create(s, 0, 0, &third));
  shim().fail("vkCreateSemaphore", 1, VK_ERROR_DEVICE_LOST);
  weir_be_stream fourth = nullptr;
  WANT(WEIR_ERROR_DEVICE_LOST, t.stream_create(s, 0, 0, &fourth));
  WANT(WEIR_ERROR_DEVICE_LOST, t.fence_record(s, third, &more));
  OK(t.fence_wait(s, end, UINT64_MAX));
  for (uint64_t i = 0; i < MiB; ++i)
    if (static_cast<unsigned char *>(pinned)[i] != 3) fail_msg("a byte is wrong");
  gate.release();
  backend.stop();
  nothing_is_left();
  watchdog.stop();
}

/// A driver that can't tell any more when work ends: nobody waits for ever, not even stop().
void a_driver_that_can_not_tell(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("a driver that can't tell");
  Backend backend;
  OK(backend.result);
  const weir_backend_table &t = table();
  weir_be_stream stream = nullptr;
  weir_be_fence fence = 0;
  std::atomic<int> ran{0};
  OK(t.stream_create(backend.state, 0, 0, &stream));
  shim().deny("vkGetSemaphoreCounterValue", VK_ERROR_OUT_OF_HOST_MEMORY);
  OK(t.stream_host_call(backend.state, stream, count, &ran));
  OK(t.stream_host_call(backend.state, stream, count, &ran));
  OK(t.fence_record(backend.state, stream, &fence));
  assert_int_not_equal(t.fence_wait(backend.state, fence, UINT64_MAX), WEIR_SUCCESS);
  backend.stop();
  nothing_is_left();
  watchdog.stop();
}

/// A driver that takes no work any more, and has not lost its device either: stop() gives up.
void a_driver_that_takes_no_work(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("a driver that takes no work");
  Backend backend;
  OK(backend.result);
  const weir_backend_table &t = table();
  weir_be_stream stream = nullptr;
  weir_be_fence fence = 0;
  uint64_t device = 0;
  std::atomic<int> ran{0};
  OK(t.plain_allocate(backend.state, 0, MiB, 4096, &device));
  OK(t.stream_create(backend.state, 0, 0, &stream));
  shim().deny("vkQueueSubmit", VK_ERROR_OUT_OF_DEVICE_MEMORY);
  OK(t.fill_async(backend.state, stream, device, 1, MiB));
  OK(t.stream_host_call(backend.state, stream, count, &ran));
  WANT(WEIR_ERROR_DEVICE_OOM, t.fence_record(backend.state, stream, &fence));
  backend.stop();
  // What stands before it was not done.
  assert_int_equal(ran.load(), 0);
  nothing_is_left();
  watchdog.stop();
}

}  // namespace

int main() {
  const int cannot = prepare();
  if (cannot != 0) return cannot;
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup(lost_under_way, fresh),
      cmocka_unit_test_setup(lost_and_left_to_stop, fresh),
      cmocka_unit_test_setup(lost_at_any_call, fresh),
      cmocka_unit_test_setup(a_stalled_device_that_is_lost, fresh),
      cmocka_unit_test_setup(a_stalled_device_that_goes_on, fresh),
      cmocka_unit_test_setup(one_of_two_is_lost, fresh),
      cmocka_unit_test_setup(a_driver_that_can_not_tell, fresh),
      cmocka_unit_test_setup(a_driver_that_takes_no_work, fresh),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
