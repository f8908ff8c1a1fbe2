// SPDX-License-Identifier: Apache-2.0
//
// Segments: the device memory of a pool on a device without VMM. Extents of any size are carved out of a list of
// segments, which are taken from the system as they are needed and given back when nothing is in them.
//
//  - An extent never spans segments. A new one goes where most is in use already, so that the others run empty.
//  - A claim that finds no place opens a segment: it is charged and can be carved up at once, but it has no memory yet. The
//    first make() of an extent in it takes the memory, outside of the pool's lock; other threads that need it meanwhile wait.
//  - If the runtime refuses the size, halves of it are asked for, and in the end exactly what has been claimed by then.
//  - - Empty segments that are in the way of a new one (the budget has no room beside them) are given back by the thread that
//    makes it, before. If the claim is undone first they are empty segments again.
//  - charged() never passes the limit, and what is held from the system never passes charged().
//  - Each segment knows whose bytes its free memory holds, by blocks; of what the runtime gave, that is not known.
//
// Locked by itself: make() and destroy() run without the pool's lock. With its lock held it calls nothing but the memory
// resource, so it is the last in any order of locks.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/budget.hpp"
#include "core/base/memory.hpp"
#include "core/base/mutex.hpp"
#include "core/physical/arena.hpp"
#include "core/physical/held_bytes.hpp"
#include "core/physical/owners.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace weir::physical {

/// How many looks at what is idle make a grace period (GranulePool::look_at_idle()).
inline constexpr uint32_t looks_a_grace = 4;

struct Segment {
  enum class State : uint8_t {
    open,      ///< charged, no memory yet; extents can be carved out of it
    making,    ///< a thread asks the runtime for its memory
    made,      ///< usable
    refused,   ///< there is no memory for it; it goes with its last extent
    replaced,  ///< empty; the thread that makes `replaced_by` gives it back before
    doomed     ///< empty, and on its way back to the system
  };

  using Blocks = Owners<(uint64_t{64} << 10U)>;

  Segment(uint64_t bytes_, std::pmr::memory_resource *memory)
      : arena(bytes_, quantum, memory), owners(bytes_, Blocks::several, memory), bytes(bytes_) {}

  static constexpr uint64_t quantum = 256;

  Arena arena;
  Blocks owners;  ///< of free memory; an extent's bytes are for its holder to know
  uint64_t address = 0;
  uint64_t bytes;
  uint64_t charge = 0;  ///< what it counts against the budget for
  uint32_t number = 0;  ///< its name for code that does not hold the lock
  Segment *replaced_by = nullptr;
  weir_result why = WEIR_SUCCESS;  ///< of a refused one
  State state = State::open;
  uint8_t idle_looks = 0;  ///< at how many looks in a row it was empty

  bool usable() const noexcept { return state == State::open || state == State::made; }
  bool empty() const noexcept { return state == State::made && arena.empty(); }
};

class Segments {
 public:
  struct Extent {
    uint32_t id = none;
    uint64_t address = 0;  ///< 0: its segment has no memory yet
  };
  static constexpr uint32_t none = UINT32_MAX;
  static constexpr uint32_t several = Segment::Blocks::several;
  /// What another client may have left in an extent: all of it, or not more than this at its two ends, where blocks are several's.
  struct Foreign {
    uint64_t front = 0, back = 0;
    bool all = false;
  };
  /// Where each extent lies, for code that looks for a better layout.
  struct Piece {
    uint32_t segment = 0;    ///< its number
    uint32_t extent = none;  ///< none: the segment itself; its extents follow in their order
    uint64_t offset = 0, size = 0;
  };

  /// `preferred`: the size segments are taken in; 0: by the budget and what is held already.
  Segments(const backend::Device &device, uint64_t page_size, uint64_t budget, uint64_t preferred,
           HeldBytes *held, std::pmr::memory_resource *memory);
  ~Segments();
  Segments(const Segments &) = delete;
  Segments &operator=(const Segments &) = delete;

  /// Room for `bytes`, or none. Throws std::bad_alloc with nothing changed.
  Extent claim(uint64_t bytes);
  /// Exactly there, if it is free: in the free range before the extent `before` (none: before the segment's end). Throws
  /// std::bad_alloc with nothing changed.
  Extent claim_at(uint32_t segment, uint64_t offset, uint64_t bytes, uint32_t before);
  /// All of its bytes are the client's or zero; `several`: it is not known whose they are.
  void release(uint32_t extent, uint32_t client) noexcept;
  /// Of an extent that the client has been given, and that has not been written to.
  Foreign foreign(uint32_t extent, uint32_t client) const noexcept;
  /// Every segment that has memory.
  void survey(std::pmr::vector<Piece> *pieces) const;
  /// The longest range that a claim could get without a new segment.
  uint64_t largest_free() const;
  /// Empty segments until `bytes` are covered, for the caller to destroy() and forget(): they stay charged until then.
  /// Throws std::bad_alloc with nothing changed.
  uint64_t take_empty(uint64_t bytes, std::pmr::vector<Segment *> *out);
  void forget(Segment *segment) noexcept;
  void lower_limit(uint64_t bytes) noexcept;
  void set_limit(uint64_t bytes) noexcept {
    const Lock lock(mutex_);
    budget_.set_limit(bytes);
  }

  /// Outside of any lock: the address of an extent, whose segment gets its memory if it has none.
  Status make(uint32_t extent, uint64_t *address);
  Status destroy(Segment &segment);

  /// Another look at what is idle: counts the looks at which each segment was empty.
  void look_at_idle() noexcept;
  /// As take_empty(), but only what was empty for a grace period, and only while `reserve` bytes stay free. At most `most`
  /// bytes, but one segment at least.
  uint64_t take_idle(uint64_t reserve, uint64_t most, std::pmr::vector<Segment *> *out);

  uint64_t limit() const {
    const Lock lock(mutex_);
    return budget_.limit();
  }
  uint64_t charged() const {
    const Lock lock(mutex_);
    return budget_.used();
  }
  uint64_t free_bytes() const {
    const Lock lock(mutex_);
    return free_locked();
  }
  /// An upper bound of what could be claimed.
  uint64_t room() const {
    const Lock lock(mutex_);
    return budget_.room() + free_locked();
  }
  /// Whether take_idle() has or will have something, if nothing changes.
  bool any_spare(uint64_t reserve) const;
  uint32_t count() const;
  /// All of them, whatever their state: no more than that are ever taken at once.
  size_t records() const {
    const Lock lock(mutex_);
    return segments_.size();
  }
  /// visit(address, bytes) of those that have memory; under the lock, so it must call nothing of this class.
  template <class Visit>
  void for_each(Visit visit) const {
    const Lock lock(mutex_);
    for (const auto &segment : segments_)
      if (segment->address != 0) visit(segment->address, segment->bytes);
  }
  /// "" or the first invariant that does not hold.
  std::string validate() const;

 private:
  struct Slot {
    Segment *segment = nullptr;   ///< nullptr: unused
    uint32_t node = Arena::none;  ///< in its segment; of an unused one the next such
  };
  using Lock = Guard<RankedMutex<Rank::leaf>>;

  uint64_t preferred() const noexcept WEIR_REQUIRES(mutex_);
  uint32_t take_slot() WEIR_REQUIRES(mutex_);
  void drop_slot(uint32_t slot) noexcept WEIR_REQUIRES(mutex_);
  Extent settle(Segment &segment, uint32_t slot, const Arena::Allocation &found) noexcept
      WEIR_REQUIRES(mutex_);
  /// The first one for which `is` holds, or nullptr.
  template <class Predicate>
  Segment *find(Predicate is) const noexcept WEIR_REQUIRES(mutex_) {
    for (const auto &segment : segments_) {
      if (is(*segment)) return segment.get();
    }
    return nullptr;
  }
  Segment *open_for(uint64_t bytes) WEIR_REQUIRES(mutex_);
  void replace_empties(Segment &by, uint64_t needed) noexcept WEIR_REQUIRES(mutex_);
  void abandon(Segment &segment) noexcept WEIR_REQUIRES(mutex_);
  auto position(const Segment *segment) noexcept WEIR_REQUIRES(mutex_) {
    return std::find_if(segments_.begin(), segments_.end(),
                        [segment](const auto &own) { return own.get() == segment; });
  }
  void erase(Segment *segment) noexcept WEIR_REQUIRES(mutex_) {
    segments_.erase(position(segment));
  }
  void reorder(Segment *segment) noexcept WEIR_REQUIRES(mutex_);
  Status obtain(Lock &lock, Segment &segment) WEIR_REQUIRES(mutex_);
  static bool spare(const Segment &segment, uint64_t free, uint64_t reserve) noexcept;
  uint64_t free_locked() const noexcept WEIR_REQUIRES(mutex_);

  const backend::Device &device_;
  const uint64_t page_size_, fixed_;
  HeldBytes &held_;
  std::pmr::memory_resource *memory_;
  mutable RankedMutex<Rank::leaf> mutex_;
  Signal changed_;
  Budget budget_ WEIR_GUARDED_BY(mutex_);
  /// The fullest first: those with the most bytes in use.
  std::pmr::vector<Owned<Segment>> segments_ WEIR_GUARDED_BY(mutex_);
  std::pmr::vector<Slot> slots_ WEIR_GUARDED_BY(mutex_);
  uint32_t unused_slot_ WEIR_GUARDED_BY(mutex_) = none;
  /// After a refusal no more is asked for than what was granted, until memory has been given back.
  uint64_t granted_ WEIR_GUARDED_BY(mutex_) = UINT64_MAX;
  uint32_t refusals_ WEIR_GUARDED_BY(mutex_) = 0;  ///< in a row
  uint32_t numbers_ WEIR_GUARDED_BY(mutex_) = 0;   ///< given to segments so far
};

}  // namespace weir::physical
