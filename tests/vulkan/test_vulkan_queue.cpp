// SPDX-License-Identifier: Apache-2.0
//
// What a program submits to the queue of a stream of Weir's, under its lock, is part of what the stream's end waits for: a submission
// that is held up keeps the stream from ending, and one without anything of Weir's before or after it too.
#include "tests/support/cmocka.hpp"

#include <dlfcn.h>
#include <vulkan/vulkan_core.h>
#include <weir/vulkan.h>
#include <weir/weir.h>

#include <cstdint>

namespace {

void ok(weir_result result) {
  if (result != WEIR_SUCCESS) fail_msg("%s: %s", weir_result_string(result), weir_last_error());
}

template <typename Function>
Function function_of(VkDevice device, const char *name) {
  void *loader = dlopen("libvulkan.so.1", RTLD_NOW);
  assert_non_null(loader);
  const auto find = reinterpret_cast<PFN_vkGetDeviceProcAddr>(dlsym(loader, "vkGetDeviceProcAddr"));
  assert_non_null(find);
  const auto found = reinterpret_cast<Function>(find(device, name));
  assert_non_null(found);
  dlclose(loader);  // the backend has it too
  return found;
}

/// The device that the backend has made: that of the buffer in which an address of a lease lies.
VkDevice device_of(weir_context context, weir_device device, weir_stream stream) {
  weir_pool_device where{};
  where.device = device;
  where.budget = uint64_t{8} << 20U;
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = &where;
  desc.device_count = 1;
  desc.host_budget = uint64_t{8} << 20U;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  weir_buffer_desc wanted = WEIR_BUFFER_DESC_INIT;
  wanted.size = uint64_t{1} << 20U;
  weir_buffer buffer = nullptr;
  ok(weir_buffer_create(pool, &wanted, &buffer));
  weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
  weir_lease lease = nullptr;
  ok(weir_acquire(pool, stream, &use, 1, nullptr, &lease));
  weir_vulkan_buffer told = WEIR_VULKAN_BUFFER_INIT;
  ok(weir_native_memory(context, device, use.address, WEIR_VULKAN_BUFFER, &told));
  assert_true(told.buffer != 0 && told.device != nullptr && told.bytes >= wanted.size);
  weir_vulkan_buffer later = WEIR_VULKAN_BUFFER_INIT;
  ok(weir_native_memory(context, device, use.address + 4096, WEIR_VULKAN_BUFFER, &later));
  assert_true(later.buffer == told.buffer && later.offset == told.offset + 4096);
  weir_vulkan_buffer none = WEIR_VULKAN_BUFFER_INIT;
  assert_int_equal(weir_native_memory(context, device, 4096, WEIR_VULKAN_BUFFER, &none),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_native_memory(context, device, use.address, 77, &none),
                   WEIR_ERROR_INVALID_ARGUMENT);
  ok(weir_release(lease, stream));
  ok(weir_buffer_destroy(pool, buffer));
  ok(weir_pool_destroy(pool));
  return static_cast<VkDevice>(told.device);
}

void program_holds_the_end_up(void ** /*state*/) {
  weir_context context = nullptr;
  weir_device device = 0;
  weir_stream stream = nullptr;
  void *told = nullptr;
  ok(weir_context_create(nullptr, &context));
  ok(weir_device_find(context, "vulkan", &device));
  ok(weir_stream_create(context, device, 0, &stream));
  ok(weir_stream_native(stream, &told));
  const auto *native = static_cast<const weir_vulkan_queue *>(told);
  const VkDevice owner = device_of(context, device, stream);

  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  VkSemaphore gate = VK_NULL_HANDLE;
  assert_int_equal(
      function_of<PFN_vkCreateSemaphore>(owner, "vkCreateSemaphore")(owner, &info, nullptr, &gate),
      VK_SUCCESS);

  for (uint64_t opened = 1; opened <= 2; ++opened) {
    ok(weir_stream_synchronize(stream));
    VkTimelineSemaphoreSubmitInfo values{};
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.waitSemaphoreValueCount = 1;
    values.pWaitSemaphoreValues = &opened;
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkSubmitInfo submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.pNext = &values;
    submit.waitSemaphoreCount = 1;
    submit.pWaitSemaphores = &gate;
    submit.pWaitDstStageMask = &stage;
    native->lock(native->user);
    const VkResult result = function_of<PFN_vkQueueSubmit>(owner, "vkQueueSubmit")(
        static_cast<VkQueue>(native->queue), 1, &submit, VK_NULL_HANDLE);
    native->unlock(native->user);
    assert_int_equal(result, VK_SUCCESS);
    assert_int_equal(weir_stream_query(stream), WEIR_NOT_READY);
    assert_int_equal(weir_stream_query(stream), WEIR_NOT_READY);

    VkSemaphoreSignalInfo signal{};
    signal.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
    signal.semaphore = gate;
    signal.value = opened;
    assert_int_equal(function_of<PFN_vkSignalSemaphore>(owner, "vkSignalSemaphore")(owner, &signal),
                     VK_SUCCESS);
    ok(weir_stream_synchronize(stream));
    // Nothing was submitted since: asking costs nothing, and the answer stays.
    ok(weir_stream_query(stream));
  }

  function_of<PFN_vkDestroySemaphore>(owner, "vkDestroySemaphore")(owner, gate, nullptr);
  ok(weir_stream_close(stream));
  ok(weir_context_destroy(context));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(program_holds_the_end_up)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
