// SPDX-License-Identifier: Apache-2.0
//
// RegionPin: keeps a region's record while a thread works on it with the pool's lock dropped.
//
// What must hold: it is taken and given back under the lock. A destructor may run without the lock (an exception on its way out of
// Releasable::unlocked), so it gives nothing back; checked builds stop where that was left to it. The caller that gives the last pin back
// has to see whether the region is to be retired: no other code did while there was a pin.
#pragma once

#include "core/base/pool_lock.hpp"
#include "core/page/region.hpp"

#include <cassert>
#include <utility>

namespace weir::page {

class PinCount::Pin {
 public:
  Pin() noexcept = default;
  explicit Pin(Region &region) noexcept WEIR_HELD : region_(&region) { ++region.pin_count.count_; }
  Pin(Pin &&other) noexcept : region_(std::exchange(other.region_, nullptr)) {}
  Pin &operator=(Pin &&other) noexcept {
    assert(region_ == nullptr);
    region_ = std::exchange(other.region_, nullptr);
    return *this;
  }
  ~Pin() { assert(region_ == nullptr); }

  /// The region, if no pin and no busy page is left: it is to be retired now, should it have no owner. Else nullptr.
  [[nodiscard]] Region *give_back() noexcept WEIR_HELD {
    Region *const region = std::exchange(region_, nullptr);
    assert(region != nullptr && region->pin_count.any());
    return --region->pin_count.count_ == 0 ? region : nullptr;
  }

 private:
  Region *region_ = nullptr;
};

using RegionPin = PinCount::Pin;

}  // namespace weir::page
