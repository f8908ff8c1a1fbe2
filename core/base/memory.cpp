// SPDX-License-Identifier: Apache-2.0
//
// The allocator callbacks, or the C library where there are none.

#include "core/base/memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace weir {

void *HostMemory::do_allocate(size_t bytes, size_t alignment) {
  void *memory = nullptr;
  if (callbacks_.allocate != nullptr) {
    memory = callbacks_.allocate(callbacks_.user, bytes, alignment);
  } else if (alignment <= alignof(std::max_align_t)) {
    memory = std::malloc(bytes);
  } else {
    memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void HostMemory::do_deallocate(void *memory, size_t bytes, size_t alignment) noexcept {
  if (callbacks_.allocate != nullptr) {
    callbacks_.deallocate(callbacks_.user, memory, bytes, alignment);
  } else {
    std::free(memory);
  }
}

void advise_huge_pages(void *memory, size_t bytes) noexcept {
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
}

}  // namespace weir
