// SPDX-License-Identifier: Apache-2.0
//
// Vulkan's functions, found when a state is started: the loader's own, those of an instance, and those of a device, which
// skip the loader's dispatch. Nothing here links the loader.
#pragma once

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include "backends/common/library.hpp"

#include <vulkan/vulkan_core.h>

#include <string>

namespace weir::vulkan {

#define WEIR_VULKAN_GLOBAL(X) \
  X(CreateInstance)           \
  X(EnumerateInstanceVersion)

#define WEIR_VULKAN_INSTANCE(X)                \
  X(DestroyInstance)                           \
  X(EnumeratePhysicalDevices)                  \
  X(GetPhysicalDeviceProperties)               \
  X(GetPhysicalDeviceProperties2)              \
  X(GetPhysicalDeviceFeatures2)                \
  X(GetPhysicalDeviceMemoryProperties2)        \
  X(GetPhysicalDeviceQueueFamilyProperties)    \
  X(GetPhysicalDeviceExternalBufferProperties) \
  X(EnumerateDeviceExtensionProperties)        \
  X(GetDeviceProcAddr)                         \
  X(CreateDevice)

#define WEIR_VULKAN_DEVICE(X)    \
  X(DestroyDevice)               \
  X(DeviceWaitIdle)              \
  X(GetDeviceQueue)              \
  X(QueueSubmit)                 \
  X(QueueWaitIdle)               \
  X(QueueBindSparse)             \
  X(CreateBuffer)                \
  X(DestroyBuffer)               \
  X(GetBufferMemoryRequirements) \
  X(GetBufferDeviceAddress)      \
  X(AllocateMemory)              \
  X(FreeMemory)                  \
  X(BindBufferMemory)            \
  X(MapMemory)                   \
  X(CreateSemaphore)             \
  X(DestroySemaphore)            \
  X(GetSemaphoreCounterValue)    \
  X(WaitSemaphores)              \
  X(SignalSemaphore)             \
  X(CreateCommandPool)           \
  X(DestroyCommandPool)          \
  X(AllocateCommandBuffers)      \
  X(BeginCommandBuffer)          \
  X(EndCommandBuffer)            \
  X(CmdPipelineBarrier)          \
  X(CmdCopyBuffer)               \
  X(CmdFillBuffer)

/// Of extensions: NULL where the device has not the extension.
#define WEIR_VULKAN_OPTIONAL(X)        \
  X(GetMemoryHostPointerPropertiesEXT) \
  X(GetMemoryFdKHR)                    \
  X(GetMemoryFdPropertiesKHR)

#define WEIR_VULKAN_DECLARE(name) PFN_vk##name name = nullptr;

struct Loader {
  /// Opens the loader (WEIR_VULKAN_LIBRARY, else `path` if it is not empty, else libvulkan.so.1). False: *reason says in words why not.
  bool open(const std::string &path, std::string *reason);

  common::Library library;
  PFN_vkGetInstanceProcAddr get = nullptr;
  WEIR_VULKAN_GLOBAL(WEIR_VULKAN_DECLARE)
};

struct InstanceApi {
  /// False: *missing is the first function that is not there.
  bool find(PFN_vkGetInstanceProcAddr get, VkInstance instance, const char **missing);
  WEIR_VULKAN_INSTANCE(WEIR_VULKAN_DECLARE)
};

struct DeviceApi {
  bool find(PFN_vkGetDeviceProcAddr get, VkDevice device, const char **missing);
  WEIR_VULKAN_DEVICE(WEIR_VULKAN_DECLARE)
  WEIR_VULKAN_OPTIONAL(WEIR_VULKAN_DECLARE)
};
#undef WEIR_VULKAN_DECLARE

}  // namespace weir::vulkan
