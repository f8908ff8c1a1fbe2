// SPDX-License-Identifier: Apache-2.0
//
// AddressSpace: addresses of one device. Reservations are made large, each as large as all before it together, and handed out
// through the offset allocator, because a reservation is a runtime call and some runtimes have few of them. Under the
// pool's lock; the rare reservation itself is made under it too (tens of microseconds, once per many gigabytes).
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/memory.hpp"
#include "core/physical/arena.hpp"

#include <vector>

namespace weir::page {

struct AddressRange {
  uint32_t reservation = UINT32_MAX;
  uint32_t node = UINT32_MAX;
  uint64_t address = 0;
  explicit operator bool() const noexcept { return reservation != UINT32_MAX; }
};

class AddressSpace {
 public:
  AddressSpace(const backend::Device &device, uint64_t page_size, uint64_t expected_bytes,
               std::pmr::memory_resource *memory);
  ~AddressSpace();
  AddressSpace(const AddressSpace &) = delete;
  AddressSpace &operator=(const AddressSpace &) = delete;

  Status allocate(uint64_t bytes, uint64_t alignment, AddressRange *range);
  /// Nothing is mapped in it.
  void free(const AddressRange &range) noexcept {
    reservations_[range.reservation]->arena.free(range.node);
  }

 private:
  struct Reservation {
    Reservation(uint64_t address_, uint64_t bytes, uint64_t quantum,
                std::pmr::memory_resource *memory)
        : address(address_), arena(bytes, quantum, memory) {}
    uint64_t address;
    physical::Arena arena;
  };

  Status reserve(uint64_t bytes, uint64_t *address, uint64_t *size);

  const backend::Device &device_;
  const uint64_t page_size_;
  const uint64_t step_;    ///< size of the first reservation
  uint64_t reserved_ = 0;  ///< of all
  std::pmr::memory_resource *memory_;
  std::pmr::vector<Owned<Reservation>> reservations_;
};

}  // namespace weir::page
