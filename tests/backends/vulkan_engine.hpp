// SPDX-License-Identifier: Apache-2.0
//
// A program with a VkDevice of its own and one queue, which it shares with Weir under a lock. The lock counts, and sees whether it was taken
// twice or given back by another thread. It is made through the shim, which may pretend that the device binds sparse buffers.
#pragma once

#include "tests/backends/vulkan_fixture.hpp"

#include <weir/vulkan.h>

#include <atomic>
#include <mutex>

namespace vulkan_test {

/// An engine, as far as it matters here.
struct Engine {
  void *library = open_library(shim_path());
  PFN_vkGetInstanceProcAddr get = function_of<std::remove_pointer_t<PFN_vkGetInstanceProcAddr>>(
      library, "vkGetInstanceProcAddr");
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VkCommandPool pool = VK_NULL_HANDLE;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  std::atomic<uint64_t> value{0};
  std::mutex mutex;
  std::atomic<int> locks{0};
  std::atomic<bool> held{false}, misused{false};
  uint64_t enabled = WEIR_VULKAN_BUFFER_DEVICE_ADDRESS | WEIR_VULKAN_TIMELINE_SEMAPHORE;

  template <class Function>
  Function call(const char *name) const {
    return reinterpret_cast<Function>(get(instance, name));
  }
#define CALL(name) call<PFN_##name>(#name)

  /// With `sparse` everything that virtual memory and exports need is enabled; the device must have it.
  explicit Engine(bool sparse = false) {
    VkApplicationInfo program{};
    program.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    program.apiVersion = VK_API_VERSION_1_2;
    VkInstanceCreateInfo instance_info{};
    instance_info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    instance_info.pApplicationInfo = &program;
    assert_int_equal(CALL(vkCreateInstance)(&instance_info, nullptr, &instance), VK_SUCCESS);
    uint32_t count = 1;
    (void)CALL(vkEnumeratePhysicalDevices)(instance, &count, &physical);
    assert_int_equal(count, 1);
    const float priority = 1;
    VkDeviceQueueCreateInfo queue_info{};
    queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue_info.queueCount = 1;
    queue_info.pQueuePriorities = &priority;
    VkPhysicalDeviceVulkan12Features features{};
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    features.bufferDeviceAddress = features.timelineSemaphore = VK_TRUE;
    VkPhysicalDeviceFeatures binds{};
    const char *const extensions[] = {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME};
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &features;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue_info;
    if (sparse) {
      binds.sparseBinding = binds.sparseResidencyBuffer = binds.sparseResidencyAliased = VK_TRUE;
      info.pEnabledFeatures = &binds;
      info.enabledExtensionCount = 1;
      info.ppEnabledExtensionNames = extensions;
      enabled |= WEIR_VULKAN_SPARSE | WEIR_VULKAN_SPARSE_ALIASED | WEIR_VULKAN_EXTERNAL_MEMORY_FD;
    }
    assert_int_equal(CALL(vkCreateDevice)(physical, &info, nullptr, &device), VK_SUCCESS);
    CALL(vkGetDeviceQueue)(device, 0, 0, &queue);
    VkCommandPoolCreateInfo pool_info{};
    pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    assert_int_equal(CALL(vkCreateCommandPool)(device, &pool_info, nullptr, &pool), VK_SUCCESS);
    VkSemaphoreTypeCreateInfo type{};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo semaphore_info{};
    semaphore_info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    semaphore_info.pNext = &type;
    assert_int_equal(CALL(vkCreateSemaphore)(device, &semaphore_info, nullptr, &semaphore),
                     VK_SUCCESS);
  }
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;
  ~Engine() {
    CALL(vkDeviceWaitIdle)(device);
    CALL(vkDestroySemaphore)(device, semaphore, nullptr);
    CALL(vkDestroyCommandPool)(device, pool, nullptr);
    CALL(vkDestroyDevice)(device, nullptr);
    CALL(vkDestroyInstance)(instance, nullptr);
  }

  static void lock(void *self) {
    auto &engine = *static_cast<Engine *>(self);
    engine.mutex.lock();
    if (engine.held.exchange(true)) engine.misused = true;
    ++engine.locks;
  }
  static void unlock(void *self) {
    auto &engine = *static_cast<Engine *>(self);
    if (!engine.held.exchange(false)) engine.misused = true;
    engine.mutex.unlock();
  }

  weir_vulkan_queue shared() {
    weir_vulkan_queue told = WEIR_VULKAN_QUEUE_INIT;
    told.queue = queue;
    told.lock = lock;
    told.unlock = unlock;
    told.user = this;
    return told;
  }
  weir_vulkan_device natives() {
    weir_vulkan_device told{};
    told.struct_size = sizeof told;
    told.kind = WEIR_VULKAN_DEVICE;
    told.instance = instance;
    told.physical_device = physical;
    told.device = device;
    told.enabled = enabled;
    told.queue_count = 1;
    told.queues[0] = shared();
    return told;
  }

  /// A fill of the program's own, on its own queue, which raises its value.
  void fill(const weir_vulkan_buffer &at, uint64_t bytes, uint32_t word) {
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool;
    allocate.commandBufferCount = 1;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    assert_int_equal(CALL(vkAllocateCommandBuffers)(device, &allocate, &commands), VK_SUCCESS);
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    (void)CALL(vkBeginCommandBuffer)(commands, &begin);
    CALL(vkCmdFillBuffer)(commands, reinterpret_cast<VkBuffer>(at.buffer), at.offset, bytes, word);
    assert_int_equal(CALL(vkEndCommandBuffer)(commands), VK_SUCCESS);
    const uint64_t next = value.load() + 1;
    VkTimelineSemaphoreSubmitInfo signals{};
    signals.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    signals.signalSemaphoreValueCount = 1;
    signals.pSignalSemaphoreValues = &next;
    VkSubmitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.pNext = &signals;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &semaphore;
    lock(this);
    assert_int_equal(CALL(vkQueueSubmit)(queue, 1, &info, VK_NULL_HANDLE), VK_SUCCESS);
    value = next;
    unlock(this);
  }
  /// Waits for the last fill.
  void finish() {
    const uint64_t last = value.load();
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = &last;
    assert_int_equal(CALL(vkWaitSemaphores)(device, &info, UINT64_MAX), VK_SUCCESS);
  }
};
#undef CALL

}  // namespace vulkan_test
