// SPDX-License-Identifier: Apache-2.0
//
// A fault sweep over the Vulkan backend: in one scenario that uses every entry, each call of the driver that can fail does so
// once, at every position, with several codes, without and with sparse buffers. Whatever failed: it is told, nothing has changed, it works
// again, the bytes arrive, and nothing is left in the driver.

#include "tests/backends/vulkan_scenario.hpp"
#include "tests/support/stride.hpp"
#include "tests/support/watchdog.hpp"

namespace {

using namespace vulkan_test;

/// A scenario whose nth call from the start of the backend on fails. False: there was no such call any more.
bool run(const char *kind, const char *call, uint64_t nth, VkResult code) {
  shim().reset();
  pretend(kind);
  const std::string when = std::string(kind) + ": " + (call != nullptr ? call : "call") + " " +
                           std::to_string(nth) + " answers " + std::to_string(code);
  shim().fail(call, nth, code);
  {
    Backend backend;
    if (backend.result == WEIR_SUCCESS) {
      Scenario(backend, Scenario::Fault::once, when).all();
    } else if (backend.reason.empty() || shim().failed()[0] == '\0') {
      fail_msg("%s: no start: \"%s\"", when.c_str(), backend.reason.c_str());
    }
  }
  nothing_is_left(when + ", in " + shim().failed());
  return shim().failed()[0] != '\0';
}

void sweep(const char *kind, VkResult code) {
  weir::test::Watchdog watchdog;
  const auto step = static_cast<uint64_t>(weir::test::stride());
  uint64_t nth = 1;
  for (; run(kind, nullptr, nth, code); nth += step) watchdog.at(kind);
  assert_true(nth > 30);
  watchdog.stop();
}

void without_sparse_buffers(void **) {
  sweep("", VK_ERROR_OUT_OF_HOST_MEMORY);
  sweep("", VK_ERROR_OUT_OF_DEVICE_MEMORY);
}
void with_sparse_buffers(void **) {
  sweep("sparse=1", VK_ERROR_OUT_OF_HOST_MEMORY);
  sweep("sparse=1;exports=1", VK_ERROR_OUT_OF_DEVICE_MEMORY);
}
void with_queues_for_copies(void **) {
  sweep("transfer=2;queues=3;sparse=1", VK_ERROR_OUT_OF_DEVICE_MEMORY);
}
void with_two_devices(void **) { sweep("devices=2", VK_ERROR_OUT_OF_DEVICE_MEMORY); }
/// What a driver answers that is not in any header.
void with_codes_of_other_versions(void **) {
  sweep("sparse=1", static_cast<VkResult>(-1000999000));
  sweep("", VK_ERROR_UNKNOWN);
}

/// Each function alone, named: there is none in the scenario that is never called.
void every_function_is_called(void **) {
  for (const char *call :
       {"vkCreateInstance", "vkEnumeratePhysicalDevices", "vkEnumerateDeviceExtensionProperties",
        "vkCreateDevice", "vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory", "vkMapMemory",
        "vkCreateSemaphore", "vkGetSemaphoreCounterValue", "vkWaitSemaphores", "vkSignalSemaphore",
        "vkCreateCommandPool", "vkAllocateCommandBuffers", "vkBeginCommandBuffer",
        "vkEndCommandBuffer", "vkQueueSubmit", "vkQueueBindSparse", "vkGetMemoryFdKHR"}) {
    if (!run("sparse=1;exports=1", call, 1, VK_ERROR_OUT_OF_HOST_MEMORY))
      fail_msg("%s is not called", call);
  }
}

/// A device that has no memory left says so, and goes on with what it has; memory that was freed can be had again.
void no_memory_is_left(void **) {
  for (const char *kind : {"allocations=4", "allocations=5;sparse=1"}) {
    shim().reset();
    pretend(kind);
    Backend backend;
    OK(backend.result);
    std::vector<uint64_t> all;
    uint64_t address = 0;
    weir_result result = WEIR_SUCCESS;
    while (all.size() < 10) {
      result = table().plain_allocate(backend.state, 0, MiB, 256, &address);
      if (result != WEIR_SUCCESS) break;
      all.push_back(address);
    }
    assert_int_equal(result, WEIR_ERROR_DEVICE_OOM);
    assert_true(!all.empty() && all.size() < 5);
    assert_non_null(std::strstr(backend.error().c_str(), "VK_ERROR_TOO_MANY_OBJECTS"));
    OK(table().plain_free(backend.state, 0, all.back(), MiB));
    OK(table().plain_allocate(backend.state, 0, MiB, 256, &all.back()));
    for (const uint64_t each : all) OK(table().plain_free(backend.state, 0, each, MiB));
    backend.stop();
    nothing_is_left(kind);
  }
}

/// A driver gives at most so much at a time, and a heap has an end: both are told, with the numbers.
void more_than_there_is(void **) {
  pretend("allocation=4M;heap=32M");
  Backend backend("");
  OK(backend.result);
  assert_int_equal(backend.device().memory_total, 32 * MiB);
  uint64_t address = 0;
  WANT(WEIR_ERROR_DEVICE_OOM, table().plain_allocate(backend.state, 0, 8 * MiB, 256, &address));
  assert_non_null(std::strstr(backend.error().c_str(), "4194304 at a time"));
  WANT(WEIR_ERROR_DEVICE_OOM, table().plain_allocate(backend.state, 0, 64 * MiB, 256, &address));
  assert_non_null(std::strstr(backend.error().c_str(), "33554432"));
  void *pinned = nullptr;
  WANT(WEIR_ERROR_OUT_OF_HOST_MEMORY, table().host_allocate(backend.state, 8 * MiB, &pinned));
  OK(table().plain_allocate(backend.state, 0, MiB, 256, &address));
  backend.stop();
  nothing_is_left();
}

/// Granules share the driver's allocations: a driver with few of them has room for many.
void few_allocations(void **) {
  pretend("sparse=1;allocations=4");
  Backend backend;
  OK(backend.result);
  std::vector<weir_be_granule> granules(500);
  for (weir_be_granule &each : granules)
    OK(table().granule_create(backend.state, 0, 64 * KiB, 0, &each));
  for (const weir_be_granule each : granules) OK(table().granule_destroy(backend.state, 0, each));
  backend.stop();
  nothing_is_left();
}

/// A driver that refuses submissions for a while: nothing is lost, and everything is done in order afterwards.
void submissions_are_refused_for_a_while(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("refused submissions");
  Backend backend;
  OK(backend.result);
  const weir_backend_table &t = table();
  uint64_t device = 0;
  void *pinned = nullptr;
  weir_be_stream one = nullptr, two = nullptr;
  weir_be_fence fence = 0, end = 0;
  OK(t.plain_allocate(backend.state, 0, MiB, 256, &device));
  OK(t.host_allocate(backend.state, MiB, &pinned));
  OK(t.stream_create(backend.state, 0, 0, &one));
  OK(t.stream_create(backend.state, 0, 0, &two));
  shim().deny("vkQueueSubmit", VK_ERROR_OUT_OF_HOST_MEMORY);
  OK(t.fill_async(backend.state, one, device, 5, MiB));
  WANT(WEIR_ERROR_OUT_OF_HOST_MEMORY, t.fence_record(backend.state, one, &fence));
  WANT(WEIR_ERROR_OUT_OF_HOST_MEMORY, t.stream_query(backend.state, one));
  shim().deny("vkQueueSubmit", VK_SUCCESS);
  OK(t.fence_record(backend.state, one, &fence));
  OK(t.stream_wait(backend.state, two, fence));
  const weir_be_copy out{address_of(pinned), device, MiB};
  OK(t.copy_async(backend.state, two, &out));
  OK(t.fence_record(backend.state, two, &end));
  OK(t.fence_wait(backend.state, end, UINT64_MAX));
  for (uint64_t i = 0; i < MiB; ++i)
    if (static_cast<unsigned char *>(pinned)[i] != 5) fail_msg("a byte is wrong");
  backend.stop();
  nothing_is_left();
  watchdog.stop();
}

}  // namespace

int main() {
  const int cannot = prepare();
  if (cannot != 0) return cannot;
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup(every_function_is_called, fresh),
      cmocka_unit_test_setup(without_sparse_buffers, fresh),
      cmocka_unit_test_setup(with_sparse_buffers, fresh),
      cmocka_unit_test_setup(with_queues_for_copies, fresh),
      cmocka_unit_test_setup(with_two_devices, fresh),
      cmocka_unit_test_setup(with_codes_of_other_versions, fresh),
      cmocka_unit_test_setup(no_memory_is_left, fresh),
      cmocka_unit_test_setup(more_than_there_is, fresh),
      cmocka_unit_test_setup(few_allocations, fresh),
      cmocka_unit_test_setup(submissions_are_refused_for_a_while, fresh),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
