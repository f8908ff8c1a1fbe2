// SPDX-License-Identifier: Apache-2.0
//
// OpenCL devices that are lost: by what a call answers, by a command that failed, by a driver that can't tell any more. Waits end, host
// functions that have not run never do, and everything is given back.

#include "tests/backends/opencl_fixture.hpp"
#include "tests/support/watchdog.hpp"

#include <atomic>
#include <thread>

namespace {

using namespace opencl_test;

/// Whatever code a driver has for it: everything about the device says that it is lost, and nothing hangs.
void a_lost_device(void **) {
  weir::test::Watchdog watchdog;
  for (const cl_int code : {CL_OUT_OF_RESOURCES, CL_DEVICE_NOT_AVAILABLE, CL_INVALID_COMMAND_QUEUE,
                            CL_INVALID_CONTEXT, -9999}) {
    watchdog.at("a lost device");
    shim().weir_shim_reset();
    Backend backend;
    OK(backend.result);
    const weir_backend_table &t = table();
    weir_be_state *s = backend.state;
    uint64_t device = 0;
    void *pinned = nullptr;
    weir_be_stream stream = nullptr, other = nullptr;
    weir_be_fence fence = 0;
    OK(t.plain_allocate(s, 0, size, 4096, &device));
    OK(t.host_allocate(s, size, &pinned));
    OK(t.stream_create(s, 0, 0, &stream));
    OK(t.stream_create(s, 0, 0, &other));
    Gate gate;
    std::atomic<int> ran{0};
    OK(t.stream_host_call(s, stream, Gate::run, &gate));
    OK(t.stream_host_call(
        s, stream, [](void *user) { ++*static_cast<std::atomic<int> *>(user); }, &ran));
    OK(t.fence_record(s, stream, &fence));
    gate.reached.wait(false);
    weir_result waited = WEIR_SUCCESS;
    std::thread waiter([&] { waited = t.fence_wait(s, fence, UINT64_MAX); });
    shim().weir_shim_lose(code);
    waiter.join();
    assert_int_equal(waited, WEIR_ERROR_DEVICE_LOST);
    const weir_be_copy copy{device, reinterpret_cast<uintptr_t>(pinned), size};
    weir_be_fence more = 0;
    weir_be_stream third = nullptr;
    uint64_t address = 0;
    WANT(WEIR_ERROR_DEVICE_LOST, t.copy_async(s, other, &copy));
    WANT(WEIR_ERROR_DEVICE_LOST, t.fill_async(s, other, device, 1, 16));
    WANT(WEIR_ERROR_DEVICE_LOST, t.fence_record(s, other, &more));
    WANT(WEIR_ERROR_DEVICE_LOST, t.stream_wait(s, other, fence));
    WANT(WEIR_ERROR_DEVICE_LOST, t.stream_synchronize(s, other));
    WANT(WEIR_ERROR_DEVICE_LOST, t.stream_query(s, stream));
    WANT(WEIR_ERROR_DEVICE_LOST, t.stream_host_call(s, other, Gate::run, &gate));
    WANT(WEIR_ERROR_DEVICE_LOST, t.fence_poll(s, fence));
    WANT(WEIR_ERROR_DEVICE_LOST, t.stream_create(s, 0, 0, &third));
    WANT(WEIR_ERROR_DEVICE_LOST, t.plain_allocate(s, 0, size, 4096, &address));
    // The driver is well again; the device is not.
    shim().weir_shim_lose(0);
    WANT(WEIR_ERROR_DEVICE_LOST, t.fence_record(s, other, &more));
    gate.release();
    OK(t.fence_destroy(s, fence));
    OK(t.stream_destroy(s, stream));
    OK(t.stream_destroy(s, other));
    OK(t.plain_free(s, 0, device, size));
    OK(t.host_free(s, pinned, size));
    backend.stop();
    assert_int_equal(ran.load(), 0);
    nothing_is_left();
  }
  watchdog.stop();
}

/// The same, with everything left to stop().
void a_lost_device_is_left_to_stop(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("stop");
  Backend backend;
  OK(backend.result);
  weir_be_stream stream = nullptr;
  weir_be_fence fence = 0;
  uint64_t device = 0;
  OK(table().plain_allocate(backend.state, 0, size, 4096, &device));
  OK(table().stream_create(backend.state, 0, 0, &stream));
  Gate gate;
  OK(table().stream_host_call(backend.state, stream, Gate::run, &gate));
  OK(table().fence_record(backend.state, stream, &fence));
  gate.reached.wait(false);
  shim().weir_shim_stall();
  shim().weir_shim_lose(CL_OUT_OF_RESOURCES);
  WANT(WEIR_ERROR_DEVICE_LOST, table().fence_poll(backend.state, fence));
  gate.release();
  backend.stop();
  nothing_is_left();
  watchdog.stop();
}

/// A command that ended with an error: what it should have written is not there, so the device counts as lost.
void a_broken_command(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("a broken command");
  Backend backend;
  OK(backend.result);
  weir_be_stream stream = nullptr;
  weir_be_fence before = 0, fence = 0;
  OK(table().stream_create(backend.state, 0, 0, &stream));
  OK(table().fence_record(backend.state, stream, &before));
  OK(table().fence_wait(backend.state, before, UINT64_MAX));
  Gate gate;
  OK(table().stream_host_call(backend.state, stream, Gate::run, &gate));
  OK(table().fence_record(backend.state, stream, &fence));
  gate.reached.wait(false);
  shim().weir_shim_break(CL_OUT_OF_RESOURCES);
  WANT(WEIR_ERROR_DEVICE_LOST, table().fence_wait(backend.state, fence, UINT64_MAX));
  OK(table().fence_poll(backend.state, before));
  WANT(WEIR_ERROR_DEVICE_LOST, table().fence_record(backend.state, stream, &before));
  gate.release();
  backend.stop();
  nothing_is_left();
  watchdog.stop();
}

/// A driver whose commands never end: whoever waits learns of the loss from another call's answer.
void a_stalled_device_that_is_lost(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("a stalled device");
  Backend backend;
  OK(backend.result);
  weir_be_stream stream = nullptr, other = nullptr;
  weir_be_fence fence = 0, more = 0;
  OK(table().stream_create(backend.state, 0, 0, &stream));
  OK(table().stream_create(backend.state, 0, 0, &other));
  shim().weir_shim_stall();
  OK(table().fence_record(backend.state, stream, &fence));
  WANT(WEIR_ERROR_TIMEOUT, table().fence_wait(backend.state, fence, 2'000'000));
  weir_result waited = WEIR_SUCCESS;
  std::thread waiter([&] { waited = table().fence_wait(backend.state, fence, UINT64_MAX); });
  shim().weir_shim_fail("clEnqueueMarkerWithWaitList", 1, CL_DEVICE_NOT_AVAILABLE);
  WANT(WEIR_ERROR_DEVICE_LOST, table().fence_record(backend.state, other, &more));
  waiter.join();
  assert_int_equal(waited, WEIR_ERROR_DEVICE_LOST);
  backend.stop();
  nothing_is_left();
  watchdog.stop();
}

/// CL_OUT_OF_RESOURCES for once is a shortage: the call fails, and the device goes on.
void a_shortage_is_no_loss(void **) {
  Backend backend;
  OK(backend.result);
  weir_be_stream stream = nullptr;
  weir_be_fence fence = 0;
  OK(table().stream_create(backend.state, 0, 0, &stream));
  shim().weir_shim_fail("clEnqueueMarkerWithWaitList", 1, CL_OUT_OF_RESOURCES);
  WANT(WEIR_ERROR_BACKEND, table().fence_record(backend.state, stream, &fence));
  assert_int_equal(table().last_error_code(backend.state), CL_OUT_OF_RESOURCES);
  assert_true(backend.error().find("CL_OUT_OF_RESOURCES") != std::string::npos);
  OK(table().fence_record(backend.state, stream, &fence));
  OK(table().fence_wait(backend.state, fence, UINT64_MAX));
  uint64_t address = 0;
  // In a call for memory it is memory that is short.
  assert_int_equal(shim().weir_shim_pretend("usm=1"), 0);
  Backend second;
  shim().weir_shim_fail("clDeviceMemAllocINTEL", 1, CL_OUT_OF_RESOURCES);
  check(second, table().plain_allocate(second.state, 0, size, 4096, &address),
        WEIR_ERROR_DEVICE_OOM, "plain_allocate", __LINE__);
  shim().weir_shim_fail(nullptr, 0, 0);
  backend.stop();
  second.stop();
  nothing_is_left();
}

/// A driver that can't say any more whether work has ended: a function that stands behind such work never runs, and that is no secret: the
/// device is lost.
void a_driver_that_can_not_tell(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("a driver that can not tell");
  Backend backend;
  OK(backend.result);
  weir_be_stream stream = nullptr, other = nullptr;
  weir_be_fence fence = 0;
  OK(table().stream_create(backend.state, 0, 0, &stream));
  OK(table().stream_create(backend.state, 0, 0, &other));
  Gate gate;
  std::atomic<int> ran{0};
  OK(table().stream_host_call(backend.state, stream, Gate::run, &gate));
  OK(table().stream_host_call(
      backend.state, stream, [](void *user) { ++*static_cast<std::atomic<int> *>(user); }, &ran));
  gate.reached.wait(false);
  shim().weir_shim_lose(CL_OUT_OF_HOST_MEMORY);
  gate.release();
  while (table().fence_record(backend.state, other, &fence) != WEIR_ERROR_DEVICE_LOST)
    std::this_thread::yield();
  shim().weir_shim_lose(0);
  WANT(WEIR_ERROR_DEVICE_LOST, table().fence_record(backend.state, other, &fence));
  backend.stop();
  assert_int_equal(ran.load(), 0);
  nothing_is_left();
  watchdog.stop();
}

/// What a command waited for ended with an error: no second call goes on as if nothing had been.
void what_was_waited_for_has_failed(void **) {
  Backend backend;
  OK(backend.result);
  weir_be_stream stream = nullptr;
  weir_be_fence fence = 0;
  OK(table().stream_create(backend.state, 0, 0, &stream));
  shim().weir_shim_fail("clEnqueueMarkerWithWaitList", 1,
                        CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  WANT(WEIR_ERROR_DEVICE_LOST, table().fence_record(backend.state, stream, &fence));
  WANT(WEIR_ERROR_DEVICE_LOST, table().fence_record(backend.state, stream, &fence));
  backend.stop();
  nothing_is_left();
}

/// A fault that nobody has noticed looks like a shortage in a call for memory; a device that is asked again tells.
void a_fault_that_looks_like_a_shortage(void **) {
  assert_int_equal(shim().weir_shim_pretend("usm=1"), 0);
  Backend backend;
  OK(backend.result);
  uint64_t address = 0;
  shim().weir_shim_lose(CL_OUT_OF_RESOURCES);
  WANT(WEIR_ERROR_DEVICE_LOST, table().plain_allocate(backend.state, 0, size, 4096, &address));
  shim().weir_shim_lose(0);
  WANT(WEIR_ERROR_DEVICE_LOST, table().plain_allocate(backend.state, 0, size, 4096, &address));
  backend.stop();
  nothing_is_left();
}

}  // namespace

int main(int argc, char **) {
  const int cannot = prepare(argc);
  if (cannot != 0) return cannot;
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_lost_device, fresh),
      cmocka_unit_test_setup(a_lost_device_is_left_to_stop, fresh),
      cmocka_unit_test_setup(a_broken_command, fresh),
      cmocka_unit_test_setup(a_stalled_device_that_is_lost, fresh),
      cmocka_unit_test_setup(a_shortage_is_no_loss, fresh),
      cmocka_unit_test_setup(a_driver_that_can_not_tell, fresh),
      cmocka_unit_test_setup(what_was_waited_for_has_failed, fresh),
      cmocka_unit_test_setup(a_fault_that_looks_like_a_shortage, fresh),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
