// SPDX-License-Identifier: Apache-2.0
//
// The Vulkan backend in the program's own device: on Mesa's driver for the CPU, with one queue that both use. The program's lock counts,
// and sees whether it was taken twice or given back by another thread.

#include "tests/backends/vulkan_fixture.hpp"

#include <weir/vulkan.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace vulkan_test {
namespace {

/// An engine, as far as it matters here.
struct Engine {
  void *library = open_library("libvulkan.so.1");
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

  template <class Function>
  Function call(const char *name) const {
    return reinterpret_cast<Function>(get(instance, name));
  }
#define CALL(name) call<PFN_##name>(#name)

  Engine() {
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
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &features;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue_info;
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
    told.enabled = WEIR_VULKAN_BUFFER_DEVICE_ADDRESS | WEIR_VULKAN_TIMELINE_SEMAPHORE;
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
};

const weir_backend_table &plain_table() {
  static const weir_backend_table *found = function_of<const weir_backend_table *(uint32_t)>(
      open_library(in_build("weir/1/libweir_backend_vulkan.so")),
      WEIR_BACKEND_QUERY_SYMBOL)(WEIR_BACKEND_ABI_MAJOR);
  return *found;
}

weir_result start_in(const void *native, weir_be_state **state, std::string *why) {
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = "";
  desc.native = native;
  const char *reason = "";
  const weir_result result = plain_table().start(&desc, state, &reason);
  *why = reason;
  return result;
}

void refused(const weir_vulkan_device &told, const char *words) {
  weir_be_state *state = nullptr;
  std::string why;
  assert_int_equal(start_in(&told, &state, &why), WEIR_ERROR_INVALID_ARGUMENT);
  if (why.find(words) == std::string::npos)
    fail_msg("\"%s\" does not say \"%s\"", why.c_str(), words);
}

void what_a_device_lacks_is_named(void **) {
  Engine engine;
  weir_vulkan_device told = engine.natives();
  told.kind = 7;
  refused(told, "kind 7");
  told = engine.natives();
  told.struct_size = 8;
  refused(told, "struct_size is 8");
  told = engine.natives();
  told.enabled = WEIR_VULKAN_TIMELINE_SEMAPHORE;
  refused(told, "bufferDeviceAddress is not enabled");
  told = engine.natives();
  told.enabled = WEIR_VULKAN_BUFFER_DEVICE_ADDRESS;
  refused(told, "timelineSemaphore is not enabled");
  told = engine.natives();
  told.queue_count = 0;
  refused(told, "0 queues");
  told = engine.natives();
  told.queues[0].family = 9;
  refused(told, "family 9");
  told = engine.natives();
  told.queues[0].unlock = nullptr;
  refused(told, "one of lock and unlock");
  told = engine.natives();
  told.device = nullptr;
  refused(told, "NULL");
  assert_int_equal(engine.locks.load(), 0);
}

/// The program fills Weir's memory by buffer and offset, Weir copies it out on the program's queue; and the other way round.
void both_use_one_queue(void **) {
  Engine engine;
  const weir_backend_table &t = plain_table();
  weir_be_state *state = nullptr;
  std::string why;
  auto told = std::make_unique<weir_vulkan_device>(engine.natives());
  if (start_in(told.get(), &state, &why) != WEIR_SUCCESS) fail_msg("%s", why.c_str());
  told.reset();  // it was read during the call alone
  constexpr uint64_t bytes = 64 * KiB;
  uint64_t address = 0;
  void *host = nullptr;
  assert_int_equal(t.plain_allocate(state, 0, bytes, 4096, &address), WEIR_SUCCESS);
  assert_int_equal(t.host_allocate(state, bytes, &host), WEIR_SUCCESS);
  weir_vulkan_buffer at = WEIR_VULKAN_BUFFER_INIT;
  assert_int_equal(t.native_memory(state, 0, address + 4096, WEIR_VULKAN_BUFFER, &at),
                   WEIR_SUCCESS);
  assert_true(at.buffer != 0 && at.device == engine.device);
  assert_int_equal(at.bytes, bytes - 4096);
  assert_int_equal(t.native_memory(state, 0, address + bytes, WEIR_VULKAN_BUFFER, &at),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(t.native_memory(state, 0, address, WEIR_VULKAN_BUFFER, &at), WEIR_SUCCESS);
  weir_be_stream stream = nullptr;
  weir_vulkan_queue mine = engine.shared();
  mine.semaphore = reinterpret_cast<uintptr_t>(engine.semaphore);
  mine.value = reinterpret_cast<const uint64_t *>(&engine.value);
  assert_int_equal(t.stream_wrap(state, 0, &mine, &stream), WEIR_SUCCESS);
  weir_vulkan_queue other = mine;
  other.queue = &other;
  weir_be_stream none = nullptr;
  assert_int_equal(t.stream_wrap(state, 0, &other, &none), WEIR_ERROR_INVALID_ARGUMENT);
  auto *words = static_cast<uint32_t *>(host);
  for (uint32_t round = 1; round <= 50; ++round) {
    engine.fill(at, bytes, round);
    // The program's own value tells of the fill: no submission of Weir's.
    const int before = engine.locks.load();
    weir_be_fence filled = 0, copied = 0;
    assert_int_equal(t.fence_record(state, stream, &filled), WEIR_SUCCESS);
    assert_int_equal(engine.locks.load(), before);
    assert_int_equal(t.fence_wait(state, filled, UINT64_MAX), WEIR_SUCCESS);
    const weir_be_copy out{reinterpret_cast<uintptr_t>(host), address, bytes};
    assert_int_equal(t.copy_async(state, stream, &out), WEIR_SUCCESS);
    // Its last value was before the copy: this fence must not pass by it.
    assert_int_equal(t.fence_record(state, stream, &copied), WEIR_SUCCESS);
    assert_true(engine.locks.load() > before);
    engine.fill(at, bytes, ~round);  // comes after the copy
    assert_int_equal(t.fence_wait(state, copied, UINT64_MAX), WEIR_SUCCESS);
    assert_int_equal(words[0], round);
    assert_int_equal(words[bytes / 4 - 1], round);
    assert_int_equal(t.fence_destroy(state, filled), WEIR_SUCCESS);
    assert_int_equal(t.fence_destroy(state, copied), WEIR_SUCCESS);
  }
  // The last fill is the program's, and uses what is freed below.
  weir_be_fence last = 0;
  assert_int_equal(t.fence_record(state, stream, &last), WEIR_SUCCESS);
  assert_int_equal(t.fence_wait(state, last, UINT64_MAX), WEIR_SUCCESS);
  assert_int_equal(t.fence_destroy(state, last), WEIR_SUCCESS);
  assert_int_equal(t.stream_host_call(
                       state, stream, [](void *) {}, nullptr),
                   WEIR_ERROR_NOT_SUPPORTED);
  assert_int_equal(t.stream_destroy(state, stream), WEIR_SUCCESS);
  assert_int_equal(t.plain_free(state, 0, address, bytes), WEIR_SUCCESS);
  assert_int_equal(t.host_free(state, host, bytes), WEIR_SUCCESS);
  t.stop(state);
  assert_false(engine.misused.load());
  assert_false(engine.held.load());
}

/// The program's queue waits for a stream of Weir's before it goes on, also where several threads are at it.
void the_programs_work_waits_for_weirs(void **) {
  Engine engine;
  const weir_backend_table &t = plain_table();
  weir_be_state *state = nullptr;
  std::string why;
  const weir_vulkan_device told = engine.natives();
  if (start_in(&told, &state, &why) != WEIR_SUCCESS) fail_msg("%s", why.c_str());
  constexpr uint64_t bytes = 4 * KiB;
  std::atomic<int> wrong{0};
  const auto work = [&] {
    uint64_t address = 0;
    void *host = nullptr;
    weir_be_stream own = nullptr, wrapped = nullptr;
    weir_vulkan_queue mine = engine.shared();
    const bool made = t.plain_allocate(state, 0, bytes, 4096, &address) == WEIR_SUCCESS &&
                      t.host_allocate(state, bytes, &host) == WEIR_SUCCESS &&
                      t.stream_create(state, 0, 0, &own) == WEIR_SUCCESS &&
                      t.stream_wrap(state, 0, &mine, &wrapped) == WEIR_SUCCESS;
    if (!made) ++wrong;
    for (int round = 0; made && round < 30; ++round) {
      weir_be_fence filled = 0;
      const weir_be_copy out{reinterpret_cast<uintptr_t>(host), address, bytes};
      const bool done =
          t.fill_async(state, own, address, static_cast<uint8_t>(round), bytes) == WEIR_SUCCESS &&
          t.fence_record(state, own, &filled) == WEIR_SUCCESS &&
          t.stream_wait(state, wrapped, filled) == WEIR_SUCCESS &&
          t.copy_async(state, wrapped, &out) == WEIR_SUCCESS &&
          t.stream_synchronize(state, wrapped) == WEIR_SUCCESS &&
          t.fence_destroy(state, filled) == WEIR_SUCCESS;
      if (!done || static_cast<uint8_t *>(host)[bytes - 1] != static_cast<uint8_t>(round)) ++wrong;
    }
    if (!made) return;
    (void)t.stream_destroy(state, wrapped);
    (void)t.stream_destroy(state, own);
  };
  std::thread threads[] = {std::thread(work), std::thread(work), std::thread(work)};
  for (std::thread &thread : threads) thread.join();
  t.stop(state);
  assert_int_equal(wrong.load(), 0);
  assert_false(engine.misused.load());
}

}  // namespace
}  // namespace vulkan_test

int main() {
  using namespace vulkan_test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_a_device_lacks_is_named),
      cmocka_unit_test(both_use_one_queue),
      cmocka_unit_test(the_programs_work_waits_for_weirs),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
