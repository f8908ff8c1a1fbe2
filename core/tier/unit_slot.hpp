// SPDX-License-Identifier: Apache-2.0
//
// UnitSlot: a place in a store that counts in units of 4 KiB (COMPRESSED, STORAGE). UnitArena hands them out: the
// offset allocator with a count of what is used. Bookkeeping only; under the pool's lock.
#pragma once

#include "core/physical/arena.hpp"

#include <memory_resource>

namespace weir::tier {

struct UnitSlot {
  uint32_t node = UINT32_MAX;
  uint32_t first = 0;  ///< its first unit
  explicit operator bool() const noexcept { return node != UINT32_MAX; }
};

/// A slot by its name alone, for records that there are millions of: the arena knows where it lies.
struct UnitName {
  uint32_t node = UINT32_MAX;
  UnitName() = default;
  UnitName(UnitSlot slot) noexcept : node(slot.node) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const noexcept { return node != UINT32_MAX; }
};

class UnitArena {
 public:
  static constexpr uint64_t unit = 4096;
  /// A slot names its first unit in 32 bits.
  static constexpr uint64_t max_bytes = (uint64_t{1} << 31U) * unit;

  UnitArena(uint64_t bytes, std::pmr::memory_resource *memory) : arena_(bytes / unit, 1, memory) {}

  static uint64_t rounded(uint64_t bytes) noexcept { return (bytes + unit - 1) / unit * unit; }

  /// No slot: nothing free is long enough. Throws std::bad_alloc with nothing changed.
  UnitSlot allocate(uint64_t bytes) {
    const auto extent = arena_.allocate(rounded(bytes) / unit);
    if (!extent) return {};
    return UnitSlot{extent.node, static_cast<uint32_t>(extent.offset)};
  }
  void free(UnitSlot slot) noexcept { arena_.free(slot.node); }
  uint64_t bytes(UnitName slot) const noexcept { return arena_.size(slot.node) * unit; }
  /// A word of the caller's for as long as the slot is allocated, 0 at first; and where a slot lies.
  void set_note(UnitName slot, uint32_t note) noexcept { arena_.set_owner(slot.node, note); }
  uint32_t note(UnitName slot) const noexcept { return arena_.owner(slot.node); }
  UnitSlot slot(UnitName name) const noexcept {
    return UnitSlot{name.node, static_cast<uint32_t>(arena_.offset(name.node))};
  }
  static uint64_t offset(UnitSlot slot) noexcept { return uint64_t{slot.first} * unit; }
  uint64_t budget() const noexcept { return arena_.size() * unit; }
  uint64_t used() const noexcept { return arena_.used() * unit; }

 private:
  physical::SmallArena arena_;
};

}  // namespace weir::tier
