// SPDX-License-Identifier: Apache-2.0
//
// What the shim knows and was told, and the calls that it answers otherwise than the loader. State is the library's,
// guarded by one lock that is never held while the loader is called.
#pragma once

#include "backends/vulkan/api.hpp"
#include "tests/drivers/vulkan_shim/control.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weir::vulkan_shim {

/// Those of the loader and of instances first, then those of devices.
#define WEIR_SHIM_OF_INSTANCES(X) WEIR_VULKAN_GLOBAL(X) WEIR_VULKAN_INSTANCE(X)
#define WEIR_SHIM_OF_DEVICES(X) WEIR_VULKAN_DEVICE(X) WEIR_VULKAN_OPTIONAL(X)
#define WEIR_SHIM_CALLS(X) WEIR_SHIM_OF_INSTANCES(X) WEIR_SHIM_OF_DEVICES(X)

enum Call : unsigned {
#define WEIR_SHIM_ENUMERATOR(name) call_##name,
  WEIR_SHIM_OF_INSTANCES(WEIR_SHIM_ENUMERATOR) first_of_devices,
  before_devices = first_of_devices - 1,
  WEIR_SHIM_OF_DEVICES(WEIR_SHIM_ENUMERATOR) call_count
#undef WEIR_SHIM_ENUMERATOR
};

/// The loader's functions. Those of devices are found by the instance, so they serve every device.
struct Functions {
  PFN_vkGetInstanceProcAddr get = nullptr;
#define WEIR_SHIM_MEMBER(name) std::atomic<PFN_vk##name> name{nullptr};
  WEIR_SHIM_CALLS(WEIR_SHIM_MEMBER)
#undef WEIR_SHIM_MEMBER
};

/// Objects that are counted.
enum Object { instances, devices, buffers, memories, semaphores, pools, object_kinds };
constexpr Object no_object = object_kinds;

/// -1 and "": as the driver says.
struct Pretence {
  int64_t loader = -1, version = -1, devices = -1, gpu = -1, integrated = -1;
  int64_t timeline = -1, address = -1, local = -1, heap = -1, coherent = -1, budget = -1;
  int64_t compute = -1, queues = -1, transfer = -1, allocation = -1, allocations = -1;
  int64_t identity = -1, sparse = -1, aliased = -1, exports = -1;
  int64_t space = int64_t{1} << 40U, grain = int64_t{64} << 10U;
  std::string without, missing;
};

class Shim {
 public:
  static Shim &get();
  const Functions &real() const noexcept { return real_; }
  void find_functions(VkInstance instance) noexcept;

  /// Begins a call: counts it, blocks where told to. False: it answers *code. `code` is NULL for one that can't fail.
  bool enter(Call call, VkResult *code);
  /// Before something ends: who was told that a device is lost need wait for no work, which the driver still does.
  void finish(VkDevice device);
  void made(Object kind, uint64_t handle, uint64_t owner);
  void ended(Object kind, uint64_t handle);
  void begin_use(VkQueue queue);
  void end_use(VkQueue queue);
  void misused(const std::string &what);
  Pretence pretence() const;
  /// Blocks while timelines are held, for at most that long. False: they are not, or the device is lost.
  bool held(uint64_t timeout_ns);
  uint64_t count(Object kind) const;

  // ---- devices and queues by other handles, where more of them are pretended than there are
  std::vector<VkPhysicalDevice> list(const std::vector<VkPhysicalDevice> &there, int64_t wanted);
  VkPhysicalDevice real_of(VkPhysicalDevice device) const;
  unsigned number_of(VkPhysicalDevice device) const;
  VkQueue alias(VkQueue real, uint32_t family, uint32_t index);
  VkQueue real_of(VkQueue queue) const;

  void reset();
  int pretend(const char *options);
  void fail(const char *call, uint64_t nth, VkResult code);
  void deny(const char *call, VkResult code);
  uint64_t calls(const char *call) const;
  const char *failed() const;
  void lose(int kind, uint64_t nth);
  bool lost() const;
  void stall();
  void block(const char *call);
  void wait_blocked();
  void resume();
  uint64_t alive(const char **text);
  uint64_t misuse(const char **text);

 private:
  Shim();
  bool set(std::string_view key, std::string_view value);
  bool lost_for(Call call) const noexcept;

  Functions real_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Pretence pretence_;
  std::array<uint64_t, call_count> calls_{};
  uint64_t all_calls_ = 0, fail_in_ = 0, lose_in_ = 0, blocked_ = 0, misuses_ = 0;
  std::string fail_call_, denied_call_, blocked_call_, failed_, alive_text_, misuse_text_;
  VkResult fail_code_ = VK_SUCCESS, denied_code_ = VK_SUCCESS;
  int lost_kind_ = 0;
  bool lost_ = false, told_of_loss_ = false, stalled_ = false;
  std::array<std::map<uint64_t, uint64_t>, object_kinds> alive_;  ///< handles, with their device's
  std::set<VkQueue> used_;
  std::vector<VkPhysicalDevice> there_;
  static constexpr size_t most_devices = 16, most_queues = 64;
  std::array<char, most_devices> device_tokens_{};
  struct Alias {
    VkQueue real = VK_NULL_HANDLE;
    uint32_t family = 0, index = 0;
  };
  std::array<Alias, most_queues> queue_tokens_{};
  size_t aliases_ = 0;
};

// ---- the driver's own handles

template <class Other>
Other real_of(Other other) {
  return other;
}
inline VkPhysicalDevice real_of(VkPhysicalDevice device) { return Shim::get().real_of(device); }
inline VkQueue real_of(VkQueue queue) { return Shim::get().real_of(queue); }

/// What a function does when it is let through: what the loader does.
struct Through {
#define WEIR_SHIM_THROUGH(name)                                                \
  template <class... Arguments>                                                \
  static auto name(Arguments... arguments) {                                   \
    return Shim::get().real().name.load()(vulkan_shim::real_of(arguments)...); \
  }
  WEIR_SHIM_CALLS(WEIR_SHIM_THROUGH)
#undef WEIR_SHIM_THROUGH
};

/// Those that pretend. By name, so that the lists decide what there is: a function that is not named here goes through.
struct Pretended : Through {
  static VkResult CreateInstance(const VkInstanceCreateInfo *info,
                                 const VkAllocationCallbacks *allocator, VkInstance *instance);
  static VkResult EnumerateInstanceVersion(uint32_t *version);
  static VkResult EnumeratePhysicalDevices(VkInstance instance, uint32_t *count,
                                           VkPhysicalDevice *devices);
  static void GetPhysicalDeviceProperties(VkPhysicalDevice device,
                                          VkPhysicalDeviceProperties *told);
  static void GetPhysicalDeviceProperties2(VkPhysicalDevice device,
                                           VkPhysicalDeviceProperties2 *told);
  static void GetPhysicalDeviceFeatures2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *told);
  static void GetPhysicalDeviceMemoryProperties2(VkPhysicalDevice device,
                                                 VkPhysicalDeviceMemoryProperties2 *told);
  static void GetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice device, uint32_t *count,
                                                     VkQueueFamilyProperties *told);
  static void GetPhysicalDeviceExternalBufferProperties(
      VkPhysicalDevice device, const VkPhysicalDeviceExternalBufferInfo *info,
      VkExternalBufferProperties *told);
  static VkResult EnumerateDeviceExtensionProperties(VkPhysicalDevice device, const char *layer,
                                                     uint32_t *count, VkExtensionProperties *told);
  static PFN_vkVoidFunction GetDeviceProcAddr(VkDevice device, const char *name);
  static VkResult CreateDevice(VkPhysicalDevice device, const VkDeviceCreateInfo *info,
                               const VkAllocationCallbacks *allocator, VkDevice *made);
  static void GetDeviceQueue(VkDevice device, uint32_t family, uint32_t index, VkQueue *queue);
  static VkResult CreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                    const VkAllocationCallbacks *allocator, VkCommandPool *pool);
  static VkResult QueueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits,
                              VkFence fence);
  static VkResult GetSemaphoreCounterValue(VkDevice device, VkSemaphore semaphore, uint64_t *value);
  static VkResult WaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info,
                                 uint64_t timeout_ns);
  // Sparse buffers.
  static VkResult CreateBuffer(VkDevice device, const VkBufferCreateInfo *info,
                               const VkAllocationCallbacks *allocator, VkBuffer *buffer);
  static void DestroyBuffer(VkDevice device, VkBuffer buffer,
                            const VkAllocationCallbacks *allocator);
  static void GetBufferMemoryRequirements(VkDevice device, VkBuffer buffer,
                                          VkMemoryRequirements *needs);
  static VkResult AllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info,
                                 const VkAllocationCallbacks *allocator, VkDeviceMemory *memory);
  static void FreeMemory(VkDevice device, VkDeviceMemory memory,
                         const VkAllocationCallbacks *allocator);
  static VkResult QueueBindSparse(VkQueue queue, uint32_t count, const VkBindSparseInfo *binds,
                                  VkFence fence);
};

/// The shim's function of that name; nullptr for one that is not in the lists.
PFN_vkVoidFunction wrapper_of(const char *name);

}  // namespace weir::vulkan_shim
