// SPDX-License-Identifier: Apache-2.0
//
// Destinations: which place is next for the bytes of a page that leaves where it is. The two tables here are the only ones that say so;
// whoever moves the page tries the places in order, and the first that takes it is where it goes. Whether a place has room, or can make
// some, is its owner's affair.
//
// Two tables, because a page that goes below HOST is asked twice: that it goes there is decided when it is claimed, which cold tier
// takes it when its bytes have been looked at.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::policy {

enum class Destination : uint8_t {
  peer,        ///< a neighbour that has memory to spare
  peer_last,   ///< the same where nothing else is left: memory that the neighbour would rather keep
  host,        ///< a slot in HOST, for which room is made
  cold,        ///< below HOST, as the other table says
  compressed,  ///< COMPRESSED, if the bytes compress as much as is worth it
  compressed_must,  ///< COMPRESSED, whatever comes of it
  storage,
};

/// Places in the order in which they are tried.
class Destinations {
 public:
  constexpr const Destination *begin() const noexcept { return places_.data(); }
  constexpr const Destination *end() const noexcept { return places_.data() + count_; }
  constexpr size_t size() const noexcept { return count_; }
  constexpr void add(Destination place) noexcept { places_[count_++] = place; }

 private:
  std::array<Destination, 4> places_{};
  size_t count_ = 0;
};

/// A dirty page that is to leave a device, and what there is for it.
struct Leaving {
  bool stays = false;      ///< it is only copied down, to the memory that can be read from at once
  bool cold = false;       ///< it is not expected back soon
  bool any_cold = false;   ///< the pool has tiers below HOST ...
  bool cold_room = false;  ///< ... which have room for the page as they are
  bool integrated =
      false;  ///< the device's memory is the host's: in HOST a page takes as much of it, and nothing is won
};

constexpr Destinations destinations(const Leaving &page) noexcept {
  Destinations next;
  if (page.stays) {
    next.add(Destination::host);
    return next;
  }
  next.add(Destination::peer);
  if (page.any_cold && (page.cold || (page.integrated && page.cold_room))) {
    next.add(Destination::cold);
    return next;
  }
  if (page.integrated) next.add(Destination::peer_last);
  next.add(Destination::host);
  next.add(page.any_cold ? Destination::cold : Destination::peer_last);
  return next;
}

/// The tiers below HOST.
struct ColdPlaces {
  bool compressed = false;
  bool storage = false;
  bool storage_is_quicker =
      false;  ///< by what was measured: to write the page is less work than to compress it
};

constexpr Destinations destinations(const ColdPlaces &there) noexcept {
  Destinations next;
  if (there.compressed && there.storage && !there.storage_is_quicker)
    next.add(Destination::compressed);
  if (there.storage) next.add(Destination::storage);
  if (there.compressed) next.add(Destination::compressed_must);
  return next;
}

}  // namespace weir::policy
