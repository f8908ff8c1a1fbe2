// SPDX-License-Identifier: Apache-2.0
//
// What a physical device is and can, as its driver tells it. Read once when a state starts; nothing here changes it.
#pragma once

#include "backends/vulkan/api.hpp"

#include <array>
#include <string>
#include <vector>

namespace weir::vulkan {

struct Facts {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  std::string name;
  std::string driver;  ///< "llvmpipe, Mesa 22.3.6 (LLVM 15.0.6)"
  uint32_t version = 0;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  std::string unread;  ///< why nothing else could be read; "" where it could
  std::array<uint8_t, 16> uuid{};
  std::string pci_address;  ///< "" if the driver does not tell it
  VkPhysicalDeviceMemoryProperties memory{};
  uint32_t heap = 0;          ///< of the memory that is the device's
  uint64_t heap_bytes = 0;    ///< 0: it has none of its own
  uint64_t largest = 0;       ///< maxMemoryAllocationSize
  uint64_t sparse_space = 0;  ///< sparseAddressSpaceSize
  uint64_t import_alignment = 0;
  bool device_address = false, timeline = false;
  bool sparse = false;   ///< sparseBinding and sparseResidencyBuffer
  bool aliased = false;  ///< sparseResidencyAliased
  bool budget = false, host_import = false, external_fd = false;
  /// The driver takes exportable memory in a sparse buffer, says that all went well, and shows other bytes there.
  bool misbinds_exports = false;
  std::vector<VkQueueFamilyProperties> families;

  bool on_cpu() const noexcept { return type == VK_PHYSICAL_DEVICE_TYPE_CPU; }
  bool integrated() const noexcept {
    return on_cpu() || type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
  }
  /// The first type among `bits` with `wanted` and nothing of `unwanted`, of the heap if one is named; -1 if there is none.
  int memory_type(uint32_t bits, VkMemoryPropertyFlags wanted, VkMemoryPropertyFlags unwanted = 0,
                  int of_heap = -1) const noexcept;
  int device_type(uint32_t bits) const noexcept;
  int host_type(uint32_t bits) const noexcept;
};

Facts read_facts(const InstanceApi &api, VkPhysicalDevice handle);
/// Why the backend can't use the device, in words; "" if it can.
std::string unfit(const Facts &facts);

}  // namespace weir::vulkan
