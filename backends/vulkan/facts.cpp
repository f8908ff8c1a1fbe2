// SPDX-License-Identifier: Apache-2.0
//
// Reading a physical device. A device before Vulkan 1.2 is asked for nothing that it may not know.

#include "backends/vulkan/facts.hpp"

#include "backends/vulkan/errors.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace weir::vulkan {
namespace {

constexpr VkMemoryPropertyFlags odd_memory =
    VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
    VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;

std::string version_words(uint32_t version) {
  return std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
         std::to_string(VK_API_VERSION_MINOR(version));
}

class Extensions {
 public:
  /// A list that grows between two calls is read again. Another code than VK_SUCCESS: it could not be read.
  VkResult read(const InstanceApi &api, VkPhysicalDevice handle) {
    VkResult result = VK_INCOMPLETE;
    for (int tries = 0; result == VK_INCOMPLETE && tries < 10; ++tries) {
      uint32_t count = 0;
      result = api.EnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr);
      if (result != VK_SUCCESS) continue;
      all_.resize(count);
      result = api.EnumerateDeviceExtensionProperties(handle, nullptr, &count, all_.data());
      all_.resize(std::min<size_t>(count, all_.size()));
    }
    return result;
  }
  bool have(const char *name) const {
    return std::any_of(all_.begin(), all_.end(), [&](const VkExtensionProperties &each) {
      return std::strcmp(each.extensionName, name) == 0;
    });
  }

 private:
  std::vector<VkExtensionProperties> all_;
};

template <class Struct>
void chain(void **tail, Struct *next, VkStructureType type) {
  next->sType = type;
  next->pNext = *tail;
  *tail = next;
}

void read_properties(const InstanceApi &api, const Extensions &extensions, Facts *facts) {
  VkPhysicalDeviceProperties2 all{};
  all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  VkPhysicalDeviceIDProperties id{};
  VkPhysicalDeviceDriverProperties driver{};
  VkPhysicalDeviceMaintenance3Properties limits{};
  VkPhysicalDevicePCIBusInfoPropertiesEXT pci{};
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT import{};
  chain(&all.pNext, &id, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
  chain(&all.pNext, &driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  chain(&all.pNext, &limits, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  const bool has_pci = extensions.have(VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
  if (has_pci)
    chain(&all.pNext, &pci, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT);
  if (facts->host_import)
    chain(&all.pNext, &import,
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT);
  api.GetPhysicalDeviceProperties2(facts->handle, &all);
  std::copy(std::begin(id.deviceUUID), std::end(id.deviceUUID), facts->uuid.begin());
  // Seen with Mesa 25.0.7: llvmpipe_resource_bind_backing maps `fd` of the allocation, which only memory that stays has; of exportable and
  // imported memory it is 0, the program's standard input. No trial can tell whether a driver was mended: it could write to that file.
  facts->misbinds_exports = driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE;
  facts->driver = std::string(driver.driverName) + ", " + driver.driverInfo;
  facts->largest = limits.maxMemoryAllocationSize;
  facts->sparse_space = all.properties.limits.sparseAddressSpaceSize;
  facts->import_alignment = import.minImportedHostPointerAlignment;
  if (has_pci) {
    char text[32];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", pci.pciDomain, pci.pciBus, pci.pciDevice,
                  pci.pciFunction);
    facts->pci_address = text;
  }
}

void read_features(const InstanceApi &api, Facts *facts) {
  VkPhysicalDeviceFeatures2 all{};
  all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  VkPhysicalDeviceVulkan12Features newer{};
  chain(&all.pNext, &newer, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  api.GetPhysicalDeviceFeatures2(facts->handle, &all);
  facts->device_address = newer.bufferDeviceAddress == VK_TRUE;
  facts->timeline = newer.timelineSemaphore == VK_TRUE;
  facts->sparse =
      all.features.sparseBinding == VK_TRUE && all.features.sparseResidencyBuffer == VK_TRUE;
  facts->aliased = facts->sparse && all.features.sparseResidencyAliased == VK_TRUE;
}

void read_memory(const InstanceApi &api, Facts *facts) {
  VkPhysicalDeviceMemoryProperties2 all{};
  all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  api.GetPhysicalDeviceMemoryProperties2(facts->handle, &all);
  facts->memory = all.memoryProperties;
  for (uint32_t i = 0; i < facts->memory.memoryHeapCount; ++i) {
    const VkMemoryHeap &heap = facts->memory.memoryHeaps[i];
    const bool own = (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
    if (!own || heap.size <= facts->heap_bytes) continue;
    facts->heap = i;
    facts->heap_bytes = heap.size;
  }
}

/// Extensions of devices can only be enabled by an instance that was made by us; an external buffer needs nothing else.
void read_extensions(const Extensions &extensions, Facts *facts) {
  facts->budget = extensions.have(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  facts->host_import = extensions.have(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  facts->external_fd = extensions.have(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
}

}  // namespace

int Facts::memory_type(uint32_t bits, VkMemoryPropertyFlags wanted, VkMemoryPropertyFlags unwanted,
                       int of_heap) const noexcept {
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    const VkMemoryType &each = memory.memoryTypes[i];
    const bool fits = (bits >> i & 1U) != 0 && (each.propertyFlags & wanted) == wanted &&
                      (each.propertyFlags & (unwanted | odd_memory)) == 0;
    if (fits && (of_heap < 0 || each.heapIndex == static_cast<uint32_t>(of_heap)))
      return static_cast<int>(i);
  }
  return -1;
}

int Facts::device_type(uint32_t bits) const noexcept {
  const int own = static_cast<int>(heap);
  const int hidden = memory_type(bits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                 VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, own);
  return hidden >= 0 ? hidden : memory_type(bits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, own);
}

int Facts::host_type(uint32_t bits) const noexcept {
  constexpr VkMemoryPropertyFlags coherent =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const int cached = memory_type(bits, coherent | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  return cached >= 0 ? cached : memory_type(bits, coherent);
}

Facts read_facts(const InstanceApi &api, VkPhysicalDevice handle) {
  Facts facts;
  facts.handle = handle;
  VkPhysicalDeviceProperties first{};
  api.GetPhysicalDeviceProperties(handle, &first);
  facts.name = first.deviceName;
  facts.version = first.apiVersion;
  facts.type = first.deviceType;
  if (facts.version < VK_API_VERSION_1_2) return facts;
  Extensions extensions;
  const VkResult read = extensions.read(api, handle);
  if (read != VK_SUCCESS) {
    facts.unread = std::string("vkEnumerateDeviceExtensionProperties failed with ") + name_of(read);
    return facts;
  }
  read_extensions(extensions, &facts);
  read_properties(api, extensions, &facts);
  read_features(api, &facts);
  read_memory(api, &facts);
  uint32_t count = 0;
  api.GetPhysicalDeviceQueueFamilyProperties(handle, &count, nullptr);
  facts.families.resize(count);
  api.GetPhysicalDeviceQueueFamilyProperties(handle, &count, facts.families.data());
  facts.families.resize(count);
  return facts;
}

std::string unfit(const Facts &facts) {
  if (facts.version < VK_API_VERSION_1_2)
    return "its driver knows Vulkan " + version_words(facts.version) + ", 1.2 is needed";
  if (!facts.unread.empty()) return facts.unread;
  if (!facts.device_address) return "it has not the feature bufferDeviceAddress";
  if (!facts.timeline) return "it has not the feature timelineSemaphore";
  if (facts.heap_bytes == 0) return "it has no heap of device-local memory";
  const bool computes =
      std::any_of(facts.families.begin(), facts.families.end(), [](const auto &family) {
        return family.queueCount != 0 && (family.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0;
      });
  if (!computes) return "it has no queue family for compute";
  if (facts.host_type(UINT32_MAX) < 0) return "it has no memory that the host sees coherently";
  return "";
}

}  // namespace weir::vulkan
