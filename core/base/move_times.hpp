// SPDX-License-Identifier: Apache-2.0
//
// MoveTimes: how long moves of pages take, by the tiers that they lead from and to. A move counts here if the host sees it end. A copy
// up to a device ends on the device, where no thread waits for it. Of what comes from a cold tier only the part counts that the host does, reading
// and decoding a page; of what comes from HOST, a few (core/base/copy_samples.hpp).
//
// Nothing here decides anything, allocates or takes a lock.
#pragma once

#include "core/base/place.hpp"
#include "core/base/waits.hpp"

#include <bit>

namespace weir {

class MoveTimes {
 public:
  static constexpr size_t tiers = 4;  ///< the devices, HOST, COMPRESSED, STORAGE

  /// Which tier a copy is in, by the bit of its place.
  static constexpr size_t tier_of(uint32_t bit) noexcept {
    const auto place = Place::of_bit(bit);
    return place.is_device() ? 0 : size_t{3} - place.tier();
  }
  void add(uint32_t from_bit, uint32_t to_bit, uint64_t ns) noexcept {
    times_[tier_of(from_bit)][tier_of(to_bit)].add(ns);
  }
  const Durations &of(size_t from, size_t to) const noexcept { return times_[from][to]; }

 private:
  std::array<std::array<Durations, tiers>, tiers> times_;
};

}  // namespace weir
