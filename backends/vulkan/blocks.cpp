// SPDX-License-Identifier: Apache-2.0
//
// Buffers of a device with memory of their own. Buffers are used by all queues that the backend has, so those of several
// families share them, and no ownership is handed over.

#include "backends/vulkan/device.hpp"

namespace weir::vulkan {
namespace {

/// Whatever an engine may bind a buffer as.
constexpr VkBufferUsageFlags every_usage =
    VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
    VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT | VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT |
    VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
    VK_BUFFER_USAGE_INDEX_BUFFER_BIT | VK_BUFFER_USAGE_VERTEX_BUFFER_BIT |
    VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;

}  // namespace

VkBufferUsageFlags Device::buffer_usage() noexcept { return every_usage; }

VkResult Device::create_buffer(uint64_t bytes, VkBufferCreateFlags flags, uint32_t external,
                               VkBuffer *buffer) const noexcept {
  VkExternalMemoryBufferCreateInfo outside{};
  outside.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
  outside.handleTypes = external;
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.pNext = external != 0 ? &outside : nullptr;
  info.flags = flags;
  info.size = bytes;
  info.usage = every_usage;
  info.sharingMode = families_.size() > 1 ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE;
  if (families_.size() > 1) {
    info.queueFamilyIndexCount = static_cast<uint32_t>(families_.size());
    info.pQueueFamilyIndices = families_.data();
  }
  return api_.CreateBuffer(handle_, &info, nullptr, buffer);
}

uint64_t Device::address_of(VkBuffer buffer) const noexcept {
  VkBufferDeviceAddressInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  info.buffer = buffer;
  return api_.GetBufferDeviceAddress(handle_, &info);
}

void Device::end(Block *block) const noexcept {
  if (block->buffer != VK_NULL_HANDLE) api_.DestroyBuffer(handle_, block->buffer, nullptr);
  if (block->memory != VK_NULL_HANDLE) api_.FreeMemory(handle_, block->memory, nullptr);
  *block = {};
}

/// Memory for a block's buffer, of a type that is one of `bits`. What was made ends on failure.
weir_result Device::fill_block(Block *block, int type, uint32_t bits, const void *chained,
                               uint64_t bytes) noexcept {
  if (type < 0 || (bits >> static_cast<uint32_t>(type) & 1U) == 0) {
    end(block);
    return refuse(WEIR_ERROR_NOT_SUPPORTED,
                  "device %u: no type of memory fits a buffer of %llu bytes", index_,
                  number(bytes));
  }
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.pNext = chained;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.pNext = &flags;
  info.allocationSize = bytes;
  info.memoryTypeIndex = static_cast<uint32_t>(type);
  VkResult result = api_.AllocateMemory(handle_, &info, nullptr, &block->memory);
  const char *call = "vkAllocateMemory";
  if (result == VK_SUCCESS) {
    call = "vkBindBufferMemory";
    result = api_.BindBufferMemory(handle_, block->buffer, block->memory, 0);
  } else {
    block->memory = VK_NULL_HANDLE;
  }
  if (result == VK_SUCCESS) {
    block->address = address_of(block->buffer);
    return WEIR_SUCCESS;
  }
  end(block);
  return failed(result, "%s of %llu bytes", call, number(bytes));
}

weir_result Device::make_plain(uint64_t bytes, Block *block) noexcept {
  if (lost()) return gone();
  // What is beyond the driver's largest allocation can't be had in one piece, however much there is.
  if (bytes > facts_.largest) {
    return refuse(WEIR_ERROR_DEVICE_OOM,
                  "device %u: %llu bytes asked, its driver gives %llu at a time", index_,
                  number(bytes), number(facts_.largest));
  }
  const VkResult result = create_buffer(bytes, 0, 0, &block->buffer);
  if (result != VK_SUCCESS) {
    block->buffer = VK_NULL_HANDLE;
    return failed(result, "vkCreateBuffer of %llu bytes", number(bytes));
  }
  VkMemoryRequirements needs{};
  api_.GetBufferMemoryRequirements(handle_, block->buffer, &needs);
  return fill_block(block, facts_.device_type(needs.memoryTypeBits), needs.memoryTypeBits, nullptr,
                    needs.size);
}

weir_result Device::make_host(uint64_t bytes, Block *block) noexcept {
  if (lost()) return gone();
  if (bytes > facts_.largest) {
    return refuse(WEIR_ERROR_OUT_OF_HOST_MEMORY,
                  "device %u: %llu bytes asked, its driver gives %llu at a time", index_,
                  number(bytes), number(facts_.largest));
  }
  VkResult result = create_buffer(bytes, 0, 0, &block->buffer);
  if (result != VK_SUCCESS) {
    block->buffer = VK_NULL_HANDLE;
    return failed(result, "vkCreateBuffer of %llu bytes of the host's", number(bytes));
  }
  VkMemoryRequirements needs{};
  api_.GetBufferMemoryRequirements(handle_, block->buffer, &needs);
  WEIR_BACKEND_TRY(fill_block(block, facts_.host_type(needs.memoryTypeBits), needs.memoryTypeBits,
                              nullptr, needs.size));
  void *mapped = nullptr;
  result = api_.MapMemory(handle_, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
  if (result == VK_SUCCESS) {
    block->mapped = static_cast<uint8_t *>(mapped);
    return WEIR_SUCCESS;
  }
  end(block);
  return failed(result, "vkMapMemory of %llu bytes", number(bytes));
}

weir_result Device::import_host(void *memory, uint64_t bytes, Block *block) noexcept {
  if (lost()) return gone();
  constexpr auto handle_type = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  VkMemoryHostPointerPropertiesEXT where{};
  where.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT;
  VkResult result = api_.GetMemoryHostPointerPropertiesEXT(handle_, handle_type, memory, &where);
  if (result != VK_SUCCESS)
    return failed(result, "vkGetMemoryHostPointerPropertiesEXT of %p", memory);
  result = create_buffer(bytes, 0, handle_type, &block->buffer);
  if (result != VK_SUCCESS) {
    block->buffer = VK_NULL_HANDLE;
    return failed(result, "vkCreateBuffer over %llu bytes at %p", number(bytes), memory);
  }
  VkMemoryRequirements needs{};
  api_.GetBufferMemoryRequirements(handle_, block->buffer, &needs);
  VkImportMemoryHostPointerInfoEXT import{};
  import.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT;
  import.handleType = handle_type;
  import.pHostPointer = memory;
  const uint32_t bits = needs.memoryTypeBits & where.memoryTypeBits;
  WEIR_BACKEND_TRY(fill_block(block, facts_.host_type(bits), bits, &import, bytes));
  block->mapped = static_cast<uint8_t *>(memory);
  return WEIR_SUCCESS;
}

}  // namespace weir::vulkan
