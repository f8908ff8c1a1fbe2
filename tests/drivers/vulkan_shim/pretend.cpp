// SPDX-License-Identifier: Apache-2.0
//
// Answers that differ from the loader's: what a device says of itself, and devices and queues that there are not.

#include "tests/drivers/vulkan_shim/shim.hpp"

#include <algorithm>
#include <cstring>

namespace weir::vulkan_shim {
namespace {

const Functions &real() { return Shim::get().real(); }
Pretence told() { return Shim::get().pretence(); }

/// The struct of that type in what a call fills in; nullptr if it is not asked for.
template <class Struct>
Struct *in_chain(void *next, VkStructureType type) {
  for (auto *each = static_cast<VkBaseOutStructure *>(next); each != nullptr; each = each->pNext)
    if (each->sType == type) return reinterpret_cast<Struct *>(each);
  return nullptr;
}

/// Vulkan's way to hand out a list.
template <class Item>
VkResult give_list(const std::vector<Item> &all, uint32_t *count, Item *out) {
  const auto size = static_cast<uint32_t>(all.size());
  if (out == nullptr) {
    *count = size;
    return VK_SUCCESS;
  }
  const uint32_t given = std::min(*count, size);
  std::copy_n(all.begin(), given, out);
  *count = given;
  return given < size ? VK_INCOMPLETE : VK_SUCCESS;
}

void edit(const Pretence &pretence, unsigned number, VkPhysicalDeviceProperties *properties) {
  if (pretence.version >= 0) properties->apiVersion = static_cast<uint32_t>(pretence.version);
  if (pretence.gpu >= 0)
    properties->deviceType =
        pretence.gpu == number ? VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU : VK_PHYSICAL_DEVICE_TYPE_CPU;
  if (pretence.integrated == 1) properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
  if (pretence.allocations >= 0)
    properties->limits.maxMemoryAllocationCount = static_cast<uint32_t>(pretence.allocations);
  if (pretence.sparse == 1)
    properties->limits.sparseAddressSpaceSize = static_cast<uint64_t>(pretence.space);
}

}  // namespace

VkResult Pretended::CreateInstance(const VkInstanceCreateInfo *info,
                                   const VkAllocationCallbacks *allocator, VkInstance *instance) {
  const VkResult result = real().CreateInstance.load()(info, allocator, instance);
  if (result == VK_SUCCESS) Shim::get().find_functions(*instance);
  return result;
}

VkResult Pretended::EnumerateInstanceVersion(uint32_t *version) {
  const VkResult result = real().EnumerateInstanceVersion.load()(version);
  if (told().loader >= 0) *version = static_cast<uint32_t>(told().loader);
  return result;
}

VkResult Pretended::EnumeratePhysicalDevices(VkInstance instance, uint32_t *count,
                                             VkPhysicalDevice *devices) {
  uint32_t there = 0;
  VkResult result = real().EnumeratePhysicalDevices.load()(instance, &there, nullptr);
  std::vector<VkPhysicalDevice> all(there);
  if (result == VK_SUCCESS && there != 0)
    result = real().EnumeratePhysicalDevices.load()(instance, &there, all.data());
  if (result != VK_SUCCESS) return result;
  return give_list(Shim::get().list(all, told().devices), count, devices);
}

// ---- what a device says

void Pretended::GetPhysicalDeviceProperties(VkPhysicalDevice device,
                                            VkPhysicalDeviceProperties *properties) {
  Through::GetPhysicalDeviceProperties(device, properties);
  edit(told(), Shim::get().number_of(device), properties);
}

void Pretended::GetPhysicalDeviceProperties2(VkPhysicalDevice device,
                                             VkPhysicalDeviceProperties2 *all) {
  Through::GetPhysicalDeviceProperties2(device, all);
  const Pretence pretence = told();
  const unsigned number = Shim::get().number_of(device);
  edit(pretence, number, &all->properties);
  auto *id = in_chain<VkPhysicalDeviceIDProperties>(
      all->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
  if (id != nullptr && pretence.identity == 1)
    std::memset(id->deviceUUID, static_cast<int>(number) + 1, sizeof id->deviceUUID);
  // By its name the backend knows a driver that does not bind what is exported.
  auto *driver = in_chain<VkPhysicalDeviceDriverProperties>(
      all->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  if (driver != nullptr && pretence.exports == 1) driver->driverID = VkDriverId{};
  auto *pci = in_chain<VkPhysicalDevicePCIBusInfoPropertiesEXT>(
      all->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT);
  if (pci != nullptr && pretence.identity == 1) {
    pci->pciDomain = 0xab;
    pci->pciBus = 0x10 + number;
    pci->pciDevice = 2;
    pci->pciFunction = 3;
  }
  auto *limits = in_chain<VkPhysicalDeviceMaintenance3Properties>(
      all->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  if (limits != nullptr && pretence.allocation >= 0)
    limits->maxMemoryAllocationSize = static_cast<uint64_t>(pretence.allocation);
}

void Pretended::GetPhysicalDeviceFeatures2(VkPhysicalDevice device,
                                           VkPhysicalDeviceFeatures2 *all) {
  Through::GetPhysicalDeviceFeatures2(device, all);
  const Pretence pretence = told();
  auto *newer = in_chain<VkPhysicalDeviceVulkan12Features>(
      all->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  if (newer != nullptr && pretence.timeline == 0) newer->timelineSemaphore = VK_FALSE;
  if (newer != nullptr && pretence.address == 0) newer->bufferDeviceAddress = VK_FALSE;
  if (pretence.sparse < 0) return;
  const VkBool32 sparse = pretence.sparse == 1 ? VK_TRUE : VK_FALSE;
  all->features.sparseBinding = all->features.sparseResidencyBuffer = sparse;
  all->features.sparseResidencyAliased = pretence.aliased == 0 ? VK_FALSE : sparse;
}

void Pretended::GetPhysicalDeviceMemoryProperties2(VkPhysicalDevice device,
                                                   VkPhysicalDeviceMemoryProperties2 *all) {
  Through::GetPhysicalDeviceMemoryProperties2(device, all);
  const Pretence pretence = told();
  VkPhysicalDeviceMemoryProperties &memory = all->memoryProperties;
  auto *budget = in_chain<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(
      all->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    VkMemoryHeap &heap = memory.memoryHeaps[i];
    if (pretence.heap >= 0) heap.size = static_cast<uint64_t>(pretence.heap);
    if (pretence.local == 0) heap.flags &= ~VkMemoryHeapFlags{VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
    if (budget == nullptr || pretence.budget < 0) continue;
    budget->heapBudget[i] = heap.size;
    budget->heapUsage[i] = heap.size - static_cast<uint64_t>(pretence.budget);
  }
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    VkMemoryPropertyFlags &flags = memory.memoryTypes[i].propertyFlags;
    if (pretence.local == 0) flags &= ~VkMemoryPropertyFlags{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT};
    if (pretence.coherent == 0)
      flags &= ~VkMemoryPropertyFlags{VK_MEMORY_PROPERTY_HOST_COHERENT_BIT};
  }
}

namespace {

std::vector<VkQueueFamilyProperties> families_of(VkPhysicalDevice device) {
  uint32_t count = 0;
  Through::GetPhysicalDeviceQueueFamilyProperties(device, &count,
                                                  static_cast<VkQueueFamilyProperties *>(nullptr));
  std::vector<VkQueueFamilyProperties> all(count);
  Through::GetPhysicalDeviceQueueFamilyProperties(device, &count, all.data());
  const Pretence pretence = told();
  if (pretence.queues >= 0) all[0].queueCount = static_cast<uint32_t>(pretence.queues);
  for (VkQueueFamilyProperties &each : all) {
    if (pretence.compute == 0) each.queueFlags &= ~VkQueueFlags{VK_QUEUE_COMPUTE_BIT};
    if (pretence.sparse == 1) each.queueFlags |= VK_QUEUE_SPARSE_BINDING_BIT;
    if (pretence.sparse == 0) each.queueFlags &= ~VkQueueFlags{VK_QUEUE_SPARSE_BINDING_BIT};
  }
  if (pretence.transfer > 0) {
    VkQueueFamilyProperties more = all[0];
    more.queueFlags = VK_QUEUE_TRANSFER_BIT;
    more.queueCount = static_cast<uint32_t>(pretence.transfer);
    all.push_back(more);
  }
  return all;
}

}  // namespace

void Pretended::GetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice device, uint32_t *count,
                                                       VkQueueFamilyProperties *families) {
  (void)give_list(families_of(device), count, families);
}

void Pretended::GetPhysicalDeviceExternalBufferProperties(
    VkPhysicalDevice device, const VkPhysicalDeviceExternalBufferInfo *info,
    VkExternalBufferProperties *properties) {
  VkPhysicalDeviceExternalBufferInfo own = *info;
  if (told().sparse == 1) own.flags = 0;
  const VkPhysicalDeviceExternalBufferInfo *asked = &own;
  Through::GetPhysicalDeviceExternalBufferProperties(device, asked, properties);
}

VkResult Pretended::EnumerateDeviceExtensionProperties(VkPhysicalDevice device, const char *layer,
                                                       uint32_t *count,
                                                       VkExtensionProperties *extensions) {
  uint32_t there = 0;
  VkResult result = Through::EnumerateDeviceExtensionProperties(
      device, layer, &there, static_cast<VkExtensionProperties *>(nullptr));
  std::vector<VkExtensionProperties> all(there);
  if (result == VK_SUCCESS)
    result = Through::EnumerateDeviceExtensionProperties(device, layer, &there, all.data());
  if (result != VK_SUCCESS) return result;
  const Pretence pretence = told();
  const auto named = [](const std::string &name) {
    return [name](const VkExtensionProperties &each) { return each.extensionName == name; };
  };
  all.erase(std::remove_if(all.begin(), all.end(), named(pretence.without)), all.end());
  const auto add = [&](bool wanted, const char *name) {
    if (!wanted || std::any_of(all.begin(), all.end(), named(name))) return;
    VkExtensionProperties more{};
    std::strncpy(more.extensionName, name, sizeof more.extensionName - 1);
    all.push_back(more);
  };
  add(pretence.identity == 1, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
  add(pretence.budget >= 0, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  return give_list(all, count, extensions);
}

// ---- queues: those that are pretended are the device's first

namespace {

bool pretends_queues() {
  const Pretence pretence = told();
  return pretence.transfer > 0 || pretence.queues >= 0;
}

}  // namespace

VkResult Pretended::CreateDevice(VkPhysicalDevice device, const VkDeviceCreateInfo *info,
                                 const VkAllocationCallbacks *allocator, VkDevice *made) {
  VkDeviceCreateInfo own = *info;
  VkPhysicalDeviceFeatures features{};
  if (info->pEnabledFeatures != nullptr && told().sparse == 1) {
    features = *info->pEnabledFeatures;
    features.sparseBinding = features.sparseResidencyBuffer = features.sparseResidencyAliased =
        VK_FALSE;
    own.pEnabledFeatures = &features;
  }
  VkDeviceQueueCreateInfo first = info->pQueueCreateInfos[0];
  if (pretends_queues()) {
    first.queueFamilyIndex = 0;
    first.queueCount = 1;
    own.queueCreateInfoCount = 1;
    own.pQueueCreateInfos = &first;
  }
  std::vector<const char *> extensions(info->ppEnabledExtensionNames,
                                       info->ppEnabledExtensionNames + info->enabledExtensionCount);
  if (told().budget >= 0) {
    const auto pretended = [](const char *name) {
      return std::strcmp(name, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) == 0;
    };
    extensions.erase(std::remove_if(extensions.begin(), extensions.end(), pretended),
                     extensions.end());
  }
  own.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  own.ppEnabledExtensionNames = extensions.data();
  const VkDeviceCreateInfo *asked = &own;
  return Through::CreateDevice(device, asked, allocator, made);
}

void Pretended::GetDeviceQueue(VkDevice device, uint32_t family, uint32_t index, VkQueue *queue) {
  if (!pretends_queues()) return Through::GetDeviceQueue(device, family, index, queue);
  VkQueue first = VK_NULL_HANDLE;
  Through::GetDeviceQueue(device, uint32_t{0}, uint32_t{0}, &first);
  *queue = Shim::get().alias(first, family, index);
}

VkResult Pretended::CreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                      const VkAllocationCallbacks *allocator, VkCommandPool *pool) {
  VkCommandPoolCreateInfo own = *info;
  if (pretends_queues()) own.queueFamilyIndex = 0;
  const VkCommandPoolCreateInfo *asked = &own;
  return Through::CreateCommandPool(device, asked, allocator, pool);
}

VkResult Pretended::QueueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits,
                                VkFence fence) {
  // Several that are pretended are one of the driver's, which one thread may use at a time.
  static std::mutex one;
  const std::lock_guard hold(one);
  return Through::QueueSubmit(queue, count, submits, fence);
}

// ---- timelines

VkResult Pretended::GetSemaphoreCounterValue(VkDevice device, VkSemaphore semaphore,
                                             uint64_t *value) {
  if (Shim::get().held(0)) {
    *value = 0;
    return VK_SUCCESS;
  }
  return Through::GetSemaphoreCounterValue(device, semaphore, value);
}

VkResult Pretended::WaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info,
                                   uint64_t timeout_ns) {
  if (Shim::get().held(timeout_ns)) return Shim::get().lost() ? VK_ERROR_DEVICE_LOST : VK_TIMEOUT;
  return Through::WaitSemaphores(device, info, timeout_ns);
}

}  // namespace weir::vulkan_shim
