// SPDX-License-Identifier: Apache-2.0
//
// Victims: the parts that may be evicted from a plan's virtual memory, in one heap a cost class. On top is the one of the lowest
// priority that is used farthest in the future. No lock; guarded by its owner.
//
// A part is in at most one heap. Room for a part is made once; after that nothing here allocates.
#pragma once

#include "core/policy/prices.hpp"

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::policy {

class Victims {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  explicit Victims(std::pmr::memory_resource *memory)
      : heaps_{std::pmr::vector<Entry>(memory), std::pmr::vector<Entry>(memory),
               std::pmr::vector<Entry>(memory)},
        places_(memory) {}

  /// Parts below this may be put. Throws std::bad_alloc with nothing changed but room.
  void make_room(uint32_t parts);
  struct Entry {
    uint64_t key = 0;  ///< the operation that uses it next
    uint32_t part = none;
    int8_t priority = 0;
  };

  /// A part that is there already is moved.
  void put(const Entry &entry, Cost cost) noexcept;
  /// Passed over if it is not there.
  void remove(uint32_t part) noexcept;
  void clear() noexcept;

  /// The first of a cost class to go; its part is none where there is none.
  Entry first(Cost cost) const noexcept {
    const std::pmr::vector<Entry> &heap = heaps_[static_cast<uint32_t>(cost)];
    return heap.empty() ? Entry{} : heap.front();
  }
  uint64_t bytes() const noexcept;

 private:
  struct Place {
    uint32_t heap = none, index = 0;
  };
  /// Of two with one key the one with the smaller number: plans do not depend on the order of calls.
  static bool before(const Entry &a, const Entry &b) noexcept {
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.key != b.key ? a.key > b.key : a.part < b.part;
  }
  void up(uint32_t heap, uint32_t index, const Entry &entry) noexcept;
  void down(uint32_t heap, uint32_t index, const Entry &entry) noexcept;
  void settle(uint32_t heap, uint32_t index, const Entry &entry) noexcept;
  void at(uint32_t heap, uint32_t index, const Entry &entry) noexcept {
    heaps_[heap][index] = entry;
    places_[entry.part] = {heap, index};
  }

  std::pmr::vector<Entry> heaps_[costs];
  std::pmr::vector<Place> places_;  ///< by part
};

}  // namespace weir::policy
