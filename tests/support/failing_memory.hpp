// SPDX-License-Identifier: Apache-2.0
//
// Memory that refuses every allocation from when it is told to, to see that what fails leaves nothing half done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

namespace weir::test {

class Failing final : public std::pmr::memory_resource {
 public:
  size_t left = SIZE_MAX;  ///< allocations that are granted before

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (left == 0) throw std::bad_alloc();
    --left;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

}  // namespace weir::test
