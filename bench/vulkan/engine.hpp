// SPDX-License-Identifier: Apache-2.0
//
// A program that uses Vulkan itself, as far as bench_vulkan needs one: a device on the card that the backend is on, one queue, and
// submissions that signal a timeline semaphore. Functions come from the loader that the backend opens; where that is
// libweir_watched_vulkan.so, calls are counted, the program's own as well. A call that fails ends the program.
#pragma once

#include "bench/device/device.hpp"

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>
#include <weir/vulkan.h>

#include <mutex>

namespace weir::bench {

/// Names libweir_watched_vulkan.so of the tree as the loader, unless the environment names one already. Before anything is loaded.
void watch_calls();

/// Calls since the process began, where somebody counts them.
class Calls {
 public:
  Calls();
  bool counted() const { return count_ != nullptr; }
  uint64_t of(const char *name) const { return counted() ? count_(name) : 0; }

 private:
  uint64_t (*count_)(const char *name) = nullptr;
};

#define WEIR_BENCH_OF_INSTANCE(X)           \
  X(DestroyInstance)                        \
  X(EnumeratePhysicalDevices)               \
  X(GetPhysicalDeviceProperties2)           \
  X(GetPhysicalDeviceFeatures)              \
  X(GetPhysicalDeviceMemoryProperties)      \
  X(GetPhysicalDeviceQueueFamilyProperties) \
  X(CreateDevice)                           \
  X(GetDeviceProcAddr)
#define WEIR_BENCH_OF_DEVICE(X)  \
  X(DestroyDevice)               \
  X(DeviceWaitIdle)              \
  X(GetDeviceQueue)              \
  X(QueueSubmit)                 \
  X(QueueBindSparse)             \
  X(CreateBuffer)                \
  X(DestroyBuffer)               \
  X(GetBufferMemoryRequirements) \
  X(AllocateMemory)              \
  X(FreeMemory)                  \
  X(BindBufferMemory)            \
  X(MapMemory)                   \
  X(CreateSemaphore)             \
  X(DestroySemaphore)            \
  X(WaitSemaphores)              \
  X(CreateCommandPool)           \
  X(DestroyCommandPool)          \
  X(AllocateCommandBuffers)      \
  X(BeginCommandBuffer)          \
  X(EndCommandBuffer)            \
  X(CmdPipelineBarrier)          \
  X(CmdCopyBuffer)

/// A buffer with memory of its own.
struct OwnBuffer {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
};

class Engine {
 public:
  enum class For {
    copies,  ///< the queue is of a family that only copies, where there is one
    sharing  ///< the queue computes, and has a lock
  };
  Engine(const Backend &backend, For what);
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  /// For weir_context_desc.natives.
  weir_vulkan_device natives();
  /// For weir_stream_wrap: with the semaphore that submissions signal, or without.
  weir_vulkan_queue queue(bool with_value);
  uint64_t locks() const { return locks_; }

  OwnBuffer make_buffer(uint64_t bytes, bool host);
  void end(const OwnBuffer &buffer);
  /// Whether the queue binds sparse buffers.
  bool binds() const { return (enabled_ & WEIR_VULKAN_SPARSE) != 0; }
  /// A sparse buffer with nothing bound, and memory of as many bytes for it.
  OwnBuffer make_sparse(uint64_t bytes);
  /// Binds a piece of its memory, or takes it away; what is submitted then comes after.
  void bind(const OwnBuffer &buffer, uint64_t at, uint64_t bytes, bool there);
  /// Records once what may be submitted again and again, each time after the last.
  template <class Record>
  VkCommandBuffer record(Record &&place) {
    const VkCommandBuffer commands = begin();
    place(api_, commands);
    must(api_.EndCommandBuffer(commands), "vkEndCommandBuffer");
    return commands;
  }
  /// Under the lock; what it signals is told before that is given back.
  void submit(VkCommandBuffer commands);
  void wait() const;

  struct Api {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
#define WEIR_BENCH_MEMBER(name) PFN_vk##name name = nullptr;
    WEIR_BENCH_OF_INSTANCE(WEIR_BENCH_MEMBER)
    WEIR_BENCH_OF_DEVICE(WEIR_BENCH_MEMBER)
#undef WEIR_BENCH_MEMBER
  };

 private:
  static void must(VkResult result, const char *call);
  static void lock(void *self);
  static void unlock(void *self);
  void make_instance();
  void choose_device(const Backend &backend);
  void choose_family(For what);
  void make_device();
  VkCommandBuffer begin();
  VkDeviceMemory memory_for(VkBuffer buffer, bool host) const;
  uint32_t memory_type(uint32_t bits, bool host) const;

  Api api_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  uint32_t family_ = 0;
  uint64_t enabled_ = 0;
  bool after_bind_ = false;  ///< a bind was the last that was handed over
  uint64_t value_ = 0;       ///< of the last submission; read by Weir, atomically
  uint64_t locks_ = 0;       ///< how often the lock was taken; guarded by it
  std::mutex mutex_;
};

}  // namespace weir::bench
