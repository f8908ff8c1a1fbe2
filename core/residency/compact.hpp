// SPDX-License-Identifier: Apache-2.0
//
// Compaction, as the layer above sees it: what lies where on a device (Survey), what is to be moved (MoveOrder), and what
// came of it (MoveResult). A survey is a picture of the past as soon as it has been taken; an order names what it means by
// generations, and one whose tenant, place or hole is no more what it was is left undone.
#pragma once

#include <array>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::residency {

/// Why something stays where it is.
enum class Blocker : uint8_t {
  none,
  leased,   ///< an unreleased lease, or a call at work on its bytes
  held,     ///< weir_hold
  pinned,   ///< weir_malloc
  stable,   ///< STABLE_ADDRESS
  busy,     ///< being brought in, taken out, or not on the device as a whole
  no_room,  ///< nothing has room for it
  count
};

/// A small buffer in a slab, or a region's extent in a segment.
struct Occupant {
  uint64_t offset = 0, size = 0;
  uint64_t generation = 0;       ///< of the buffer, as in its word, or of the region
  uint32_t owner = UINT32_MAX;   ///< the buffer, or the region
  uint32_t node = UINT32_MAX;    ///< in the slab's arena; without VMM the extent
  uint32_t node_generation = 0;  ///< slabs
  uint8_t alignment_log2 = 8;
  Blocker blocker = Blocker::none;
  bool filler = false;  ///< nothing lies here, but nothing can be put here either
};

/// A slab, or a segment.
struct SurveyedPlace {
  uint32_t id = 0;  ///< of the slab's region; of the segment
  uint16_t generation = 0;
  uint64_t size = 0;
  uint64_t worth = 0;  ///< bytes of device memory that are free once it is empty
  size_t first = 0, count = 0;
};

struct Survey {
  explicit Survey(std::pmr::memory_resource *memory) : places(memory), occupants(memory) {}
  void clear() noexcept {
    places.clear();
    occupants.clear();
  }

  std::pmr::vector<SurveyedPlace> places;
  std::pmr::vector<Occupant> occupants;  ///< of each place in the order of their offsets
};

struct MoveOrder {
  Occupant tenant;
  uint32_t from = 0, to = 0;  ///< SurveyedPlace::id
  uint16_t from_generation = 0, to_generation = 0;
  uint64_t offset = 0;           ///< in `to`, in the free range ...
  uint32_t before = UINT32_MAX;  ///< ... that ends at this node; none: at the place's end
  uint32_t before_generation = 0;
};

struct MoveResult {
  uint64_t moves = 0;
  uint64_t bytes = 0;                                                   ///< copied
  std::array<uint64_t, static_cast<size_t>(Blocker::count)> blocked{};  ///< bytes, by reason

  void block(Blocker why, uint64_t bytes_of_it) noexcept {
    blocked[static_cast<size_t>(why)] += bytes_of_it;
  }
};

/// A part of a buffer that has a shared granule to itself.
struct LooseFragment {
  uint32_t region = 0;
  uint16_t generation = 0;
  uint32_t page = 0;
  uint64_t bytes = 0;
  uint64_t granule_bytes = 0;  ///< what is won if it goes
};

/// How a device's memory lies.
struct LayoutStats {
  uint64_t free_bytes = 0;    ///< without VMM: free in segments ...
  uint64_t largest_free = 0;  ///< ... and the longest range of them
  uint64_t slab_bytes = 0;    ///< on the device, in slabs that may be compacted
  uint64_t slab_used = 0;     ///< of those, in use
};

/// What the engine asks when an extent finds no place although the bytes are there. Called without any lock.
class Compactor {
 public:
  /// Makes a range of so many bytes free on the device (with VMM: pages, as many as can be won), if that can be done by moving
  /// what nobody uses. False: nothing that helps was done.
  virtual bool make_range(uint8_t place, uint64_t bytes) = 0;
  /// The same with what small buffers leave of their slabs alone.
  virtual bool make_pages(uint8_t place, uint64_t bytes) = 0;

 protected:
  ~Compactor() = default;
};

}  // namespace weir::residency
