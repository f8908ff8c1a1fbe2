// SPDX-License-Identifier: Apache-2.0
//
// Shards: how the pages of one buffer are dealt out to several devices, at one range of addresses on all of them. Each page
// has one device at a time; which, is a matter of the layout alone, and changes only when a device leaves the pool. The
// range is reserved by one of the devices and outlives its leaving. Under the pool's lock.
#pragma once

#include "core/page/address_space.hpp"
#include "core/page/geometry.hpp"

#include <array>
#include <memory_resource>
#include <vector>

namespace weir::page {

class Shards {
 public:
  static constexpr uint32_t most_places = 28;
  static constexpr uint32_t most_weight = 65535;
  static constexpr uint8_t nowhere = UINT8_MAX;

  explicit Shards(std::pmr::memory_resource *memory) : place_of_(memory) {}

  /// Of equal devices a buffer of so many bytes has pages of the large class only where each device gets several of them.
  static constexpr uint64_t least_large_pages = 4;
  /// The shape of such a buffer: with a stripe that large pages do not fit into, or too few of them, small pages only.
  static Geometry shape_of(uint64_t size, uint64_t page, uint64_t large_page, uint64_t stripe,
                           uint32_t places) noexcept;

  /// One more device, in the order that the caller named them in; before deal_*.
  void add(uint8_t place, uint32_t weight) noexcept {
    places_[count_++] = Place{place, weight};
    bits_ |= uint32_t{1} << place;
  }
  /// Stripes of so many bytes in turn. Throws std::bad_alloc with nothing dealt out.
  void deal_stripes(const Geometry &shape, uint64_t stripe);
  /// One run of pages for each.
  void deal_blocks(const Geometry &shape);
  /// A device's pages go to the others, which are not in `leave_out`. False: there is none, and nothing has changed.
  bool deal_again(uint8_t place, uint32_t leave_out) noexcept;

  std::pmr::memory_resource *memory() const noexcept {
    return place_of_.get_allocator().resource();
  }
  uint8_t place_of(uint32_t page) const noexcept { return place_of_[page]; }
  bool has(uint8_t place) const noexcept { return (bits_ >> place & 1U) != 0; }
  uint32_t count() const noexcept { return count_; }
  uint8_t place(uint32_t i) const noexcept { return places_[i].place; }
  uint64_t bytes_on(const Geometry &shape, uint8_t place) const noexcept;

  AddressRange range;             ///< of all devices ...
  uint8_t range_place = nowhere;  ///< ... reserved by this one
  /// Something of a lost device is still mapped in the range: nothing else can be mapped there any more.
  bool stranded = false;

 private:
  struct Place {
    uint8_t place = 0;
    uint32_t weight = 0;
    int64_t credit = 0;
  };
  Place &next(uint32_t leave_out) noexcept;

  std::array<Place, most_places> places_{};
  uint32_t count_ = 0;
  uint32_t bits_ = 0;
  std::pmr::vector<uint8_t> place_of_;
};

}  // namespace weir::page
