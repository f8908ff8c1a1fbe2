// SPDX-License-Identifier: Apache-2.0
//
// ColdStore: what COMPRESSED and STORAGE have in common: slots of 4 KiB units, a note with each, and how long bytes take to come
// and go. Code that moves, frees or counts the parts of pages need not know which of the two it works on.
//
// Guarded by the pool's lock, but for `pace`.
#pragma once

#include "core/base/place.hpp"
#include "core/tier/pace.hpp"
#include "core/tier/unit_slot.hpp"

namespace weir::tier {

class ColdStore {
 public:
  explicit ColdStore(Place place_) noexcept : place(place_) {}
  virtual ~ColdStore() = default;

  /// For `bytes`. No slot: nothing free is long enough. Throws std::bad_alloc with nothing changed.
  virtual UnitSlot allocate(uint64_t bytes) = 0;
  /// `client`: whose bytes lie there, where freed memory is poisoned.
  virtual void free(UnitSlot slot, uint32_t client) noexcept = 0;
  /// Bytes that are to be overwritten before the place is used again. True: that is still to be done, and the place stays
  /// taken until then.
  virtual bool free_secret(UnitSlot slot) noexcept = 0;

  UnitSlot slot(UnitName name) const noexcept { return arena_->slot(name); }
  uint64_t bytes(UnitName slot) const noexcept { return arena_->bytes(slot); }
  /// Of the blob that lies in the slot; 0: nothing was said, the bytes lie there as they are.
  uint32_t blob_bytes(UnitName slot) const noexcept { return arena_->note(slot) & ~note_mark; }
  // Before the store is started there is no room in it.
  uint64_t budget() const noexcept { return arena_ != nullptr ? arena_->budget() : 0; }
  uint64_t used() const noexcept { return arena_ != nullptr ? arena_->used() : 0; }
  uint64_t room() const noexcept { return budget() - used(); }

  const Place place;
  Pace pace;

 protected:
  /// In a slot's note, beside the length of its blob, which is less.
  static constexpr uint32_t note_mark = uint32_t{1} << 31U;
  void use(UnitArena *arena) noexcept { arena_ = arena; }

 private:
  UnitArena *arena_ = nullptr;
};

}  // namespace weir::tier
