// SPDX-License-Identifier: Apache-2.0
//
// Place: where a copy of a page can be. A device of the pool, by its position there, or one of the tiers below the devices. As bits
// they make the masks of Page::latest(). What a lease conflict counts for is no place, but a ClaimScope (page/claim_scope.hpp).
//
// With LOST the masks of 32 bits are full. One place more (a tier on another node, a device beyond 28) takes masks of 64 bits, and
// with them eight bytes more for each page. That bytes can be made anew is no place: a region would say so, not a page.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>

namespace weir {

class Place {
 public:
  static constexpr uint8_t devices = 28;  ///< that a pool has at most, in all its life
  static const Place storage, compressed, host;

  constexpr explicit Place(uint8_t device) noexcept : at_(device) { assert(device < devices); }
  constexpr bool is_device() const noexcept { return at_ < devices; }
  /// A device's position.
  constexpr uint8_t device() const noexcept {
    assert(is_device());
    return at_;
  }
  /// Among the tiers, from the slowest.
  constexpr uint8_t tier() const noexcept {
    assert(!is_device());
    return static_cast<uint8_t>(at_ - devices);
  }
  static constexpr Place of_tier(uint8_t tier) noexcept {
    return of_bit(uint32_t{1} << (devices + tier));
  }
  static constexpr Place of_bit(uint32_t bit) noexcept {
    Place place;
    place.at_ = static_cast<uint8_t>(std::countr_zero(bit));
    return place;
  }
  constexpr uint32_t bit() const noexcept { return uint32_t{1} << at_; }
  constexpr bool operator==(const Place &) const noexcept = default;

 private:
  constexpr Place() noexcept = default;
  uint8_t at_ = 0;
};

inline constexpr Place Place::storage = Place::of_tier(0);
inline constexpr Place Place::compressed = Place::of_tier(1);
inline constexpr Place Place::host = Place::of_tier(2);

}  // namespace weir
