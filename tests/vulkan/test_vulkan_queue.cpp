// SPDX-License-Identifier: Apache-2.0
//
// What a program submits to the queue of a stream of Weir's, under its lock, is part of what the stream's end waits for: a submission
// that is held up keeps the stream from ending, and one without anything of Weir's before or after it too.
#include "tests/support/cmocka.hpp"

#include <dlfcn.h>
#include <vulkan/vulkan_core.h>
#include <weir/weir.h>

#include <cstdint>

namespace {

/// What weir_stream_native gives.
struct Native {
  uint32_t struct_size, family;
  VkDevice device;
  VkQueue queue;
  VkSemaphore semaphore;
  void (*lock)(void *user);
  void (*unlock)(void *user);
  void *user;
};

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

void program_holds_the_end_up(void ** /*state*/) {
  weir_context context = nullptr;
  weir_device device = 0;
  weir_stream stream = nullptr;
  void *told = nullptr;
  ok(weir_context_create(nullptr, &context));
  ok(weir_device_find(context, "vulkan", &device));
  ok(weir_stream_create(context, device, 0, &stream));
  ok(weir_stream_native(stream, &told));
  const auto *native = static_cast<const Native *>(told);

  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  VkSemaphore gate = VK_NULL_HANDLE;
  assert_int_equal(function_of<PFN_vkCreateSemaphore>(native->device, "vkCreateSemaphore")(
                       native->device, &info, nullptr, &gate),
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
    const VkResult result = function_of<PFN_vkQueueSubmit>(native->device, "vkQueueSubmit")(
        native->queue, 1, &submit, VK_NULL_HANDLE);
    native->unlock(native->user);
    assert_int_equal(result, VK_SUCCESS);
    assert_int_equal(weir_stream_query(stream), WEIR_NOT_READY);
    assert_int_equal(weir_stream_query(stream), WEIR_NOT_READY);

    VkSemaphoreSignalInfo signal{};
    signal.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
    signal.semaphore = gate;
    signal.value = opened;
    assert_int_equal(function_of<PFN_vkSignalSemaphore>(native->device, "vkSignalSemaphore")(
                         native->device, &signal),
                     VK_SUCCESS);
    ok(weir_stream_synchronize(stream));
    // Nothing was submitted since: asking costs nothing, and the answer stays.
    ok(weir_stream_query(stream));
  }

  function_of<PFN_vkDestroySemaphore>(native->device, "vkDestroySemaphore")(native->device, gate,
                                                                            nullptr);
  ok(weir_stream_close(stream));
  ok(weir_context_destroy(context));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(program_holds_the_end_up)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
