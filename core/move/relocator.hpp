// SPDX-License-Identifier: Apache-2.0
//
// Relocator: what lies on a device moves within it, so that what is free comes together: small buffers from slab to slab
// (compact.cpp), regions within and between segments (extents.cpp), parts of buffers from one shared granule to another (remap.cpp).
// It says what lies where (Survey; survey.cpp); the layer above plans, and orders (MoveOrder).
//
// What must hold: a survey is a picture of the past as soon as it has been taken, so an order names what it means by generations, and
// one whose tenant, place or hole is no more what it was is left undone. What fails leaves all where it was. Copies come after all
// older work on both places, and newer work after them. What a copy leaves is nobody's before it has passed.
#pragma once

#include "core/lease/layer.hpp"
#include "core/move/losses.hpp"
#include "core/page/env.hpp"

#include <array>
#include <span>
#include <thread>

namespace weir::move {

class Evictor;
class RegionLife;
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

/// A slab of a group as it was when it was looked at.
struct SlabSight {
  uint32_t id = 0;
  uint16_t generation = 0;
  uint64_t used = 0;
  bool room = false;  ///< for some more
};

struct Survey {
  explicit Survey(std::pmr::memory_resource *memory)
      : places(memory), occupants(memory), slabs(memory), chosen(memory) {}
  void clear() noexcept {
    places.clear();
    occupants.clear();
  }

  std::pmr::vector<SurveyedPlace> places;
  std::pmr::vector<Occupant> occupants;  ///< of each place in the order of their offsets
  /// Of the group's slabs those that were surveyed last, and those that were not, but for what is full: the emptiest first.
  std::pmr::vector<SlabSight> slabs, chosen;
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

/// What is asked when an extent finds no place although the bytes are there. Called without any lock.
class Compactor {
 public:
  /// Makes a range of so many bytes free on the device, if that can be done by moving what nobody uses; with VMM or `pages`, pages,
  /// as many as can be won, of what small buffers and parts of large ones do not fill. False: nothing that helps was done.
  virtual bool make_range(uint8_t place, uint64_t bytes, bool pages) = 0;

 protected:
  ~Compactor() = default;
};

class Relocator {
 public:
  struct Others {
    page::PageTable &pages;
    page::IdleMemory &idle;
    Losses &losses;
    Evictor &evictor;
    RegionLife &life;
  };

  Relocator(const Env &env, const PageLayer &page, const LeaseLayer &lease,
            const Others &others) noexcept
      : env_(env), page_(page), lease_(lease), others_(others) {}

  // ---- for the layer that plans ----
  /// Set before the pool is used by anybody else; outlives it, or is taken back.
  void set_compactor(Compactor *compactor) noexcept { compactor_ = compactor; }
  const page::DeviceMemory &memory_of(uint8_t at) const noexcept {
    return page_.devices[at]->memory;
  }
  /// Positions there are, of devices that have left too.
  uint8_t device_count() const noexcept { return others_.losses.device_count(); }
  Status place_of(uint32_t device_id, uint8_t *place) {
    const Locked lock(env_.sync.lock);
    return find_place(page_.devices, device_id, place);
  }
  uint64_t now_ns() const noexcept { return env_.now_ns(); }
  LayoutStats layout(uint8_t place);
  /// The groups of slabs on a device in which something may be won; *result counts what weir_malloc has there.
  void list_groups(uint8_t place, std::pmr::vector<uint64_t> *groups, MoveResult *result);
  /// The slabs of a group, the emptiest and the fullest if they are many. `anew`: else the list of the last survey is gone on with.
  void survey_group(uint8_t place, uint64_t group, Survey *survey, bool anew);
  void survey_segments(uint8_t place, Survey *survey);
  /// Parts of buffers that could do without a granule of theirs, the smallest first.
  void survey_fragments(uint8_t place, std::pmr::vector<LooseFragment> *loose);
  /// Executes the orders, all of small buffers or of `extents`, as one step. The copies come after all work so far on the bytes
  /// concerned; nobody waits for them here. Failure: none of them was done.
  Status execute(uint8_t place, std::span<const MoveOrder> orders, bool extents,
                 MoveResult *result);
  /// Evicts the regions of these tenants of segments; returns the bytes freed. *gone: how many have left.
  uint64_t evict_extents(uint8_t place, std::span<const Occupant> tenants, size_t *gone,
                         Status *why);
  /// Moves one of them, unless it is in use (with `wait`: unless it is leased). *won: device memory that is free now.
  Status remap_fragment(uint8_t place, const LooseFragment &loose, bool wait, MoveResult *result,
                        uint64_t *won);
  /// Frees what emptied slabs and moved extents have left behind, of dead regions too; without `wait` only what nothing
  /// can be at work on any more. Returns the bytes.
  uint64_t reclaim(uint8_t place, bool wait);
  /// Adds to the pool's counters.
  void count_defragmentation(uint64_t evicted_bytes, uint64_t won_bytes);

  // ---- for whoever needs device memory ----
  /// The bytes are there, but in pieces, or (`slabs`) may be, in slabs and in shared granules. Drops the lock. False: no help.
  bool compact_for(Releasable &lock, PoolDevice &device, uint64_t bytes, bool slabs) WEIR_HELD;
  /// Frees the extents in limbo whose copies have passed. True: there were any.
  bool sweep_limbo(PoolDevice &device) noexcept WEIR_HELD;
  /// Has what is to be scrubbed among them overwritten. False: some is left.
  bool scrub_limbo(Releasable &lock, bool wait) noexcept WEIR_HELD;
  /// Waits for one of them. False: there is none, or it takes too long.
  bool await_limbo(Releasable &lock, PoolDevice &device) WEIR_HELD;

 private:
  /// A small buffer, or a region with its extent, on its way.
  struct Move {
    const MoveOrder *order = nullptr;
    Region *from = nullptr;
    Region *to = nullptr;                        ///< the other slab; none: an extent moves
    uint32_t node = physical::SmallArena::none;  ///< in `to`
    GranuleId granule = physical::no_granule;    ///< the new one of an extent
    uint64_t bytes = 0;                          ///< in use, to be copied
    std::array<page::RegionPin, 2> pins{};  ///< of both slabs, until the whole batch is settled
  };
  struct FragmentMove;  // remap.cpp
  /// How far a slab has been surveyed.
  struct SlabCursor {
    uint32_t node = physical::SmallArena::none;  ///< looked at last ...
    uint32_t generation = 0;
    uint64_t end = 0;      ///< ... where it ended
    bool whole = false;    ///< to its end
    bool changed = false;  ///< the node is gone: what was seen may not fit to what is there
  };
  /// So many buffers' records are fetched together.
  static constexpr uint32_t records_ahead = 16;

  /// piece() under the lock, again and again, until it says that it was the last.
  template <class Piece>
  void in_parts(Piece &&piece) WEIR_NOT_HELD {
    for (bool ended = false; !ended;) {
      {
        const Locked lock(env_.sync.lock);
        ended = piece();
      }
      if (ended) break;
      env_.sync.points.at("defrag.part");
      std::this_thread::yield();  // to who waits for it
    }
  }

  PoolDevice &device_at(uint8_t place) noexcept { return *page_.devices[place]; }
  Blocker blocker_of(Region &region, uint32_t buffer, uint64_t begin,
                     uint64_t end) noexcept WEIR_HELD;
  void list_slabs(uint8_t place, uint64_t group, std::pmr::vector<SlabSight> *slabs);
  bool look_again(SlabSight *sight) noexcept WEIR_HELD;
  void put_back(Survey *survey);
  void choose_slabs(Survey *survey);
  void survey_slab(uint8_t place, const SlabSight &sight, Survey *survey);
  bool survey_part(uint8_t place, SurveyedPlace *slab, SlabCursor *from, Survey *survey) WEIR_HELD;
  Occupant look_at(Region &slab, uint32_t node) noexcept WEIR_HELD;
  Status enqueue_moves(PoolDevice &device, std::pmr::vector<Stamp> *waits,
                       std::span<const weir_be_copy> copies, Stamp *done);
  static void list_copies(PoolDevice &device, const Move &move,
                          std::pmr::vector<weir_be_copy> *copies) noexcept;
  void mark(PoolDevice &device, Move &move, bool ours) noexcept WEIR_HELD;

  Blocker claim_tenant(PoolDevice &device, const MoveOrder &order, Move *move,
                       std::pmr::vector<Stamp> *waits) WEIR_HELD;
  bool settle_tenant(PoolDevice &device, const Move &move, Stamp done) noexcept WEIR_HELD;

  Blocker claim_fragment(PoolDevice &device, const LooseFragment &loose, bool wait,
                         FragmentMove *move) WEIR_HELD;
  Status carry_fragment(FragmentMove &move);
  uint64_t settle_fragment(FragmentMove &move, bool moved) noexcept WEIR_HELD;

  Blocker blocker_of_extent(PoolDevice &device, Region &region) noexcept WEIR_HELD;
  Blocker claim_extent(PoolDevice &device, const MoveOrder &order, Move *move,
                       std::pmr::vector<Stamp> *waits) WEIR_HELD;
  bool settle_extent(PoolDevice &device, const Move &move, Stamp done) noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  Compactor *compactor_ = nullptr;
};

}  // namespace weir::move
