// SPDX-License-Identifier: Apache-2.0
//
// CompressedStore: the COMPRESSED tier's memory. One reservation of pageable memory as long as the budget, whose
// pages come into being as they are touched; slots of 4 KiB units are placed in it by the offset allocator. It knows
// nothing of what is in them. allocate() and free() are bookkeeping under the pool's lock.
#pragma once

#include "core/base/memory.hpp"
#include "core/base/status.hpp"
#include "core/tier/unit_slot.hpp"

namespace weir::tier {

class CompressedStore {
 public:
  CompressedStore(uint64_t budget, std::pmr::memory_resource *memory);
  ~CompressedStore();
  CompressedStore(const CompressedStore &) = delete;
  CompressedStore &operator=(const CompressedStore &) = delete;

  /// Reserves the address space. OUT_OF_HOST_MEMORY with the reason.
  Status start();

  // ---- under the pool's lock ----
  UnitSlot allocate(uint64_t bytes) { return arena_.allocate(bytes); }
  void free(UnitSlot slot) noexcept;
  uint64_t bytes(UnitSlot slot) const noexcept { return arena_.bytes(slot); }
  uint64_t budget() const noexcept { return arena_.budget(); }
  uint64_t used() const noexcept { return arena_.used(); }
  uint64_t room() const noexcept { return arena_.room(); }
  /// Gives memory of free ranges back to the system, so that what is resident is what is used; returns an upper bound
  /// of the bytes given back. The store also does so by itself when much has been freed.
  uint64_t trim() noexcept;

  // ---- any thread, while the slot is the caller's ----
  unsigned char *address(UnitSlot slot) const noexcept { return base_ + UnitArena::offset(slot); }

 private:
  UnitArena arena_;
  unsigned char *base_ = nullptr;
  uint64_t reserved_ = 0;
};

}  // namespace weir::tier
