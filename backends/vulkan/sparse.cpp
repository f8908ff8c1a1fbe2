// SPDX-License-Identifier: Apache-2.0
//
// What a device's sparse buffers need, and memory for them.

#include "backends/vulkan/device.hpp"

#include <algorithm>
#include <bit>

namespace weir::vulkan {

/// Asks the driver with a buffer of one granule. Without sparse binding, or with answers that are of no use, there is no VMM.
weir_result Device::probe_sparse() {
  if (binder_ == nullptr) return WEIR_SUCCESS;
  constexpr VkBufferCreateFlags plain =
      VK_BUFFER_CREATE_SPARSE_BINDING_BIT | VK_BUFFER_CREATE_SPARSE_RESIDENCY_BIT;
  aliased_ = facts_.aliased && options_.multi_map;
  const VkBufferCreateFlags flags = plain | (aliased_ ? aliased_buffer : 0);
  exports_ = facts_.external_fd && !facts_.misbinds_exports && options_.export_fd &&
             api_.GetMemoryFdKHR != nullptr && can_export(flags);
  const uint32_t external = exports_ ? opaque_fd : 0;
  VkBuffer probe = VK_NULL_HANDLE;
  const VkResult result = create_buffer(options_.granule, flags, external, &probe);
  if (result != VK_SUCCESS)
    return failed(result, "vkCreateBuffer, sparse, of %llu bytes", number(options_.granule));
  VkMemoryRequirements needs{};
  api_.GetBufferMemoryRequirements(handle_, probe, &needs);
  const uint64_t start = address_of(probe);
  api_.DestroyBuffer(handle_, probe, nullptr);
  sparse_type_ = facts_.device_type(needs.memoryTypeBits);
  sparse_alignment_ = std::max<uint64_t>(needs.alignment, 1);
  if (sparse_type_ < 0 || !std::has_single_bit(sparse_alignment_) || start % sparse_alignment_ != 0)
    return WEIR_SUCCESS;
  granule_ = std::max(options_.granule, sparse_alignment_);
  granule_large_ = options_.granule_large > granule_ ? options_.granule_large : 0;
  return Timeline::make(*this, &binds_);
}

bool Device::can_export(VkBufferCreateFlags flags) const noexcept {
  VkPhysicalDeviceExternalBufferInfo asked{};
  asked.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO;
  asked.flags = flags;
  asked.usage = buffer_usage();
  asked.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkExternalBufferProperties told{};
  told.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES;
  instance_.GetPhysicalDeviceExternalBufferProperties(facts_.handle, &asked, &told);
  constexpr VkExternalMemoryFeatureFlags both =
      VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
  const VkExternalMemoryFeatureFlags features =
      told.externalMemoryProperties.externalMemoryFeatures;
  return (features & both) == both &&
         (features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) == 0;
}

weir_result Device::allocate(uint64_t bytes, bool exported, int fd,
                             VkDeviceMemory *memory) noexcept {
  if (lost()) return gone();
  if (bytes > facts_.largest) {
    return refuse(WEIR_ERROR_DEVICE_OOM,
                  "device %u: %llu bytes asked, its driver gives %llu at a time", index_,
                  number(bytes), number(facts_.largest));
  }
  VkExportMemoryAllocateInfo leaves{};
  leaves.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO;
  leaves.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkImportMemoryFdInfoKHR comes{};
  comes.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR;
  comes.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  comes.fd = fd;
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  if (exported) flags.pNext = &leaves;
  if (fd >= 0) flags.pNext = &comes;
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.pNext = &flags;
  info.allocationSize = bytes;
  info.memoryTypeIndex = static_cast<uint32_t>(sparse_type_);
  const VkResult result = api_.AllocateMemory(handle_, &info, nullptr, memory);
  if (result == VK_SUCCESS) return WEIR_SUCCESS;
  *memory = VK_NULL_HANDLE;
  return failed(result, "vkAllocateMemory of %llu bytes%s", number(bytes),
                fd >= 0 ? " of a descriptor" : "");
}

}  // namespace weir::vulkan
