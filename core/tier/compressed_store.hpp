// SPDX-License-Identifier: Apache-2.0
//
// CompressedStore: the COMPRESSED tier's memory. One reservation of pageable memory as long as the budget, whose
// pages come into being as they are touched; slots of 4 KiB units are placed in it by the offset allocator. Of what is in
// them it knows how long it is and one mark of the caller's, which cost nothing beside the slot. allocate() and free() are
// bookkeeping under the pool's lock.
//
// What must hold: a unit of memory that is resident belongs to a slot, or has its bit in `stale_map_`, and `stale_`
// counts the bits. So resident memory is never more than used() + stale(), and stale() is held below a threshold: a
// free() that finds more gives back what lies together, a bounded piece of work at a time, and later ones go on.
// A child of fork() has none of the memory.
#pragma once

#include "core/base/memory.hpp"
#include "core/base/poison.hpp"
#include "core/base/status.hpp"
#include "core/tier/cold_store.hpp"

namespace weir::tier {

class CompressedStore : public ColdStore {
 public:
  CompressedStore(uint64_t budget, std::pmr::memory_resource *memory);
  ~CompressedStore() override;

  /// Reserves the address space. OUT_OF_HOST_MEMORY with the reason; INVALID_ARGUMENT for a budget beyond
  /// UnitArena::max_bytes. Before it there is nothing to allocate.
  Status start();

  // ---- under the pool's lock ----
  /// For a blob of `bytes`, less than 2 GiB. Its memory holds anything.
  UnitSlot allocate(uint64_t bytes) override;
  void free(UnitSlot slot, uint32_t client = poison::nobody) noexcept override;
  bool free_secret(UnitSlot slot) noexcept override;
  /// The blob has been coded again already, or that was tried.
  bool dense(UnitName slot) const noexcept { return (arena_.note(slot) & note_mark) != 0; }
  void set_dense(UnitName slot) noexcept { arena_.set_note(slot, arena_.note(slot) | note_mark); }
  /// Bytes of free ranges that may be resident.
  uint64_t stale() const noexcept { return stale_ * UnitArena::unit; }
  /// Gives memory of free ranges back to the system, so that what is resident is what is used; returns an upper bound
  /// of the bytes given back. The store also does so by itself when much has been freed.
  uint64_t trim() noexcept;

  // ---- any thread, while the slot is the caller's ----
  unsigned char *address(UnitSlot slot) const noexcept { return base_ + UnitArena::offset(slot); }
  /// Outside the lock: a blob into a slot of its own. It may go to storage from there, in whole units, so the rest of the last
  /// one is zeroed.
  void put(UnitSlot slot, const unsigned char *blob, uint64_t bytes) noexcept;

 private:
  uint64_t words() const noexcept { return (budget() / UnitArena::unit + 63) / 64; }
  template <bool set>
  uint64_t find(uint64_t from) const noexcept;
  template <bool set>
  void mark(uint64_t first, uint64_t count) noexcept;
  uint64_t give_back(uint64_t units, uint64_t runs) noexcept;

  const uint64_t asked_;
  UnitArena arena_;
  unsigned char *base_ = nullptr;
  uint64_t *stale_map_ = nullptr;  ///< a bit a unit; pageable, touched only where the store is
  uint64_t stale_ = 0;             ///< units
  uint64_t top_ = 0;               ///< no bit is set at or above
  uint64_t cursor_ = 0;            ///< where giving back goes on
};

}  // namespace weir::tier
