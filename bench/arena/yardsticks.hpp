// SPDX-License-Identifier: Apache-2.0
//
// The allocators that bench_arena is linked with on demand (yardsticks/), in the shape of allocators.hpp: a virtual block
// of AMD's VulkanMemoryAllocator, which is a TLSF, and the Rust port of OffsetAllocator. VMA's functions are called as a
// user calls them.
//
// Must declare what VMA's header does, in the version that yardsticks/Cargo.lock names: the header itself lies where cargo
// puts it.
#pragma once

#include "bench/arena/allocators.hpp"

extern "C" {
struct VmaVirtualBlock_T;
struct VmaVirtualAllocation_T;
struct VmaVirtualBlockCreateInfo {
  uint64_t size;
  uint32_t flags;
  const void *allocation_callbacks;
};
struct VmaVirtualAllocationCreateInfo {
  uint64_t size;
  uint64_t alignment;
  uint32_t flags;
  void *user_data;
};
int vmaCreateVirtualBlock(const VmaVirtualBlockCreateInfo *info, VmaVirtualBlock_T **block);
void vmaDestroyVirtualBlock(VmaVirtualBlock_T *block);
void vmaClearVirtualBlock(VmaVirtualBlock_T *block);
int vmaVirtualAllocate(VmaVirtualBlock_T *block, const VmaVirtualAllocationCreateInfo *info,
                       VmaVirtualAllocation_T **allocation, uint64_t *offset);
void vmaVirtualFree(VmaVirtualBlock_T *block, VmaVirtualAllocation_T *allocation);

void *yardstick_offset_create(uint32_t units);
void yardstick_offset_destroy(void *allocator);
uint64_t yardstick_offset_allocate(void *allocator, uint32_t units);
void yardstick_offset_free(void *allocator, uint64_t allocation);
}

namespace weir::bench {

class VmaBlock {
 public:
  explicit VmaBlock(uint64_t size) {
    const VmaVirtualBlockCreateInfo info{size, 0, nullptr};
    if (vmaCreateVirtualBlock(&info, &block_) != 0) die("vmaCreateVirtualBlock");
  }
  ~VmaBlock() {
    vmaClearVirtualBlock(block_);
    vmaDestroyVirtualBlock(block_);
  }
  VmaBlock(const VmaBlock &) = delete;
  VmaBlock &operator=(const VmaBlock &) = delete;

  /// Every size is rounded, so that every offset is aligned without being asked to.
  Range allocate(uint64_t size) {
    const VmaVirtualAllocationCreateInfo info{rounded(size), 1, 0, nullptr};
    VmaVirtualAllocation_T *allocation = nullptr;
    uint64_t offset = 0;
    if (vmaVirtualAllocate(block_, &info, &allocation, &offset) != 0) return {};
    return {reinterpret_cast<uintptr_t>(allocation), size};
  }
  void free(const Range &range) {
    vmaVirtualFree(block_, reinterpret_cast<VmaVirtualAllocation_T *>(range.name));
  }

 private:
  VmaVirtualBlock_T *block_ = nullptr;
};

/// In units of the quantum: it has 32 bits for them.
class OffsetAllocator {
 public:
  explicit OffsetAllocator(uint64_t size)
      : allocator_(yardstick_offset_create(static_cast<uint32_t>(size / quantum))) {}
  ~OffsetAllocator() { yardstick_offset_destroy(allocator_); }
  OffsetAllocator(const OffsetAllocator &) = delete;
  OffsetAllocator &operator=(const OffsetAllocator &) = delete;

  Range allocate(uint64_t size) {
    const auto units = static_cast<uint32_t>(rounded(size) / quantum);
    const uint64_t allocation = yardstick_offset_allocate(allocator_, units);
    return allocation != UINT64_MAX ? Range{allocation, size} : Range{};
  }
  void free(const Range &range) { yardstick_offset_free(allocator_, range.name); }

 private:
  void *allocator_;
};

}  // namespace weir::bench
