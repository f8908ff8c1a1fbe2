// SPDX-License-Identifier: Apache-2.0
//
// Objects behind 64-bit handles. A handle names a place and the place's generation, so a dead one is recognised
// for as long as 2^32 others have not followed it there. Removing never allocates. Not thread-safe: the owner locks.
#pragma once

#include "backends/common/grow.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace weir::common {

template <class Object>
class HandleTable {
 public:
  /// Never 0. Throws std::bad_alloc and then has changed nothing.
  uint64_t add(Object object) {
    if (free_.empty()) {
      grow_to(free_, places_.size() + 1);
      places_.emplace_back();
      free_.push_back(static_cast<uint32_t>(places_.size() - 1));
    }
    const uint32_t index = free_.back();
    Place &place = places_[index];
    place.object.emplace(std::move(object));
    free_.pop_back();
    ++place.generation;
    return uint64_t{place.generation} << 32U | (uint64_t{index} + 1);
  }

  /// nullptr if the handle is dead or was never given out. Stays valid until the object is removed.
  Object *find(uint64_t handle) noexcept {
    const uint64_t index = (handle & UINT32_MAX) - 1;
    if (index >= places_.size()) return nullptr;
    Place &place = places_[index];
    return place.object && place.generation == handle >> 32U ? &*place.object : nullptr;
  }

  /// The handle is one that find() knows.
  Object remove(uint64_t handle) noexcept {
    const uint32_t index = static_cast<uint32_t>(handle & UINT32_MAX) - 1;
    Object last = std::move(*places_[index].object);
    places_[index].object.reset();
    free_.push_back(index);
    return last;
  }

  /// Calls `take` with every object.
  template <class Take>
  void each(Take take) {
    for (Place &place : places_) {
      if (place.object) take(*place.object);
    }
  }

 private:
  struct Place {
    std::optional<Object> object;
    uint32_t generation = 0;
  };
  std::deque<Place> places_;
  std::vector<uint32_t> free_;  // room for every place is kept
};

}  // namespace weir::common
