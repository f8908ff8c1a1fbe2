// SPDX-License-Identifier: Apache-2.0
//
// ResidencyPlan: what is to be in one device's memory at each of the next thousands of operations. It walks a forecast over a virtual
// copy of the memory and takes Belady's choice there: whenever that overflows, what is used farthest in the future goes, weighed by
// what its bytes cost the link. From the walk come two queues: fetches, each due at an operation and to be begun as soon as there is
// memory for it; and evictions, each right after the last use of what goes. Whoever carries them out (the executor) tells what has
// really happened.
//
// It knows parts (policy/cast.hpp), bytes and counts of operations: no pages, no regions, no durations. Pure: no lock, no clock. One
// for each device, guarded by its owner.
//
// What must hold: an eviction that the plan does not have is never needed for a fetch that may_fetch() allows. Of a use of bytes
// [begin, end) what is resident counts first, whichever bytes it is. Where memory runs out the plan is empty until rebuild(); a plan
// that is empty, or wrong, costs time and nothing else.
#pragma once

#include "core/base/events.hpp"
#include "core/policy/forecast.hpp"
#include "core/policy/memory_profile.hpp"
#include "core/policy/plan_queues.hpp"
#include "core/policy/prices.hpp"
#include "core/policy/victims.hpp"

#include <optional>

namespace weir::policy {

class ResidencyPlan {
 public:
  /// A planned eviction whose part is used again within so many operations of when it could begin stays; later it is cancelled.
  static constexpr uint64_t drop_grace = 4;

  struct Terms {
    uint64_t capacity = 0;          ///< bytes of the device that may be planned with
    uint64_t page_bytes = 2 << 20;  ///< evictions are rounded up to pages
    uint32_t horizon = 8192;  ///< operations planned ahead, at most; rounded up to a power of two
    uint32_t free_permille = 5;      ///< of the capacity stays free, for what nobody has foreseen
    uint32_t queued_permille = 500;  ///< of the capacity: no more fetches are queued
    uint32_t most_items = 65536;     ///< in each queue: bounds the plan's own memory
  };

  /// What a part has on this device as the plan is made.
  struct Resident {
    uint32_t part = 0;
    uint64_t bytes = 0;     ///< in its memory
    uint64_t content = 0;   ///< bytes with content, here or where they are fetched from
    bool dirty = false;     ///< some of them are nowhere else
    Outlook outlook;        ///< after its last use
    uint64_t last_use = 0;  ///< operation
  };

  /// Throws std::bad_alloc. The cast stays where it is as long as the plan.
  ResidencyPlan(const Cast &cast, const Terms &terms, std::pmr::memory_resource *memory);

  /// From the next step on.
  void set_capacity(uint64_t bytes) noexcept { terms_.capacity = bytes; }

  // Making the plan.

  /// Whether to make it anew; `moved`: operations are not those that were foreseen.
  bool wants_rebuild(bool moved) const noexcept;
  /// Why, of one that there is.
  PlanEnd why_rebuild(bool moved) const noexcept;
  /// Operation `now` has begun and nothing is planned; the forecast has been rewound. `residents`: all parts that have content.
  /// Throws std::bad_alloc; the plan is empty then.
  void rebuild(uint64_t now, std::span<const Resident> residents);
  /// Plans one more operation. False: it is planned far enough for now, or the forecast knows no more, or nothing has been built.
  /// Throws std::bad_alloc; the plan is empty then, or unchanged if it was the forecast that had no memory.
  bool step(Forecast &forecast);
  /// Empties it.
  void clear() noexcept;

  // What has happened.

  /// Operation `now` has begun, those before it have been handed to their streams. Only grows.
  void advance(uint64_t now) noexcept;
  /// The operation that has begun uses the part.
  void used(uint32_t part) noexcept;
  /// The part is a real buffer now; its size may differ from what was expected.
  void born(uint32_t part) noexcept;
  /// The part's buffer has been destroyed. Before its number is given to another.
  void died(uint32_t part) noexcept;
  /// The operation that has begun had to fetch the part. Counts against the plan unless that was to have done it.
  void missed(uint32_t part) noexcept;

  // What is to be done.

  /// The first fetch from `number` on that is to be made and its number, in due order; begin at 0. nullptr: there is none. Valid until
  /// the plan is changed; numbers longer, until rebuild() or clear().
  const PlannedFetch *next_fetch(uint64_t *number) const noexcept;
  /// A planned eviction of the same part comes first.
  bool waits(const PlannedFetch &fetch) const noexcept;
  /// Whether so many bytes of a fetch may take memory from the next operation on.
  bool may_fetch(uint64_t number, uint64_t bytes) const noexcept;
  /// They have, or have stayed although they could have been evicted. What is not to be fetched any more is taken with memory 0.
  void taken(uint64_t number, uint64_t bytes, uint64_t memory) noexcept;
  /// An eviction that can begin, each once. Its bytes may go as soon as somebody wants their memory.
  std::optional<PlannedDrop> next_drop() noexcept {
    return next_drop([](uint32_t) { return false; });
  }
  /// One of a part that the newest operation uses waits while that `is_in_use`: a use that ends later counts as one that came later.
  template <class IsInUse>
  std::optional<PlannedDrop> next_drop(const IsInUse &is_in_use) noexcept {
    while (const PlannedDrop *first = due_drop()) {
      if (first->after == now_ && is_in_use(first->part)) return std::nullopt;
      if (const std::optional<PlannedDrop> drop = take_drop()) return drop;
    }
    return std::nullopt;
  }

  /// Nothing of it is waited for: no fetch, and no eviction.
  bool idle() const noexcept { return fetches_.count() == 0 && drops_.count() == 0; }
  uint32_t misses() const noexcept { return misses_; }       ///< since it was made
  uint64_t planned() const noexcept { return planned_; }     ///< the last operation that is planned
  uint64_t virtual_bytes() const noexcept { return used_; }  ///< in memory after it
  /// The most bytes in memory at one of the operations [from, to), as planned; all of them are still to come, and planned.
  int64_t most_planned(uint64_t from, uint64_t to) const noexcept {
    return profile_.largest(from, to);
  }
  uint64_t bytes() const noexcept;  ///< of its own memory

 private:
  /// A part in the virtual memory.
  struct State {
    uint32_t life = 0;  ///< of Cast; another one's: nothing of this counts
    bool there = false, dirty = false, over = false;
    Fate fate = Fate::unknown;
    uint32_t drops_planned = 0, drops_begun = 0;
    uint64_t resident = 0, content = 0;  ///< bytes
    uint64_t key = 0;                    ///< when its fate comes
    uint64_t planned_use = 0;            ///< its last use in the virtual memory
    uint64_t claimed = 0;                ///< of its resident bytes, by the uses of that operation
    uint64_t real_use = 0;               ///< its last use
    uint64_t late = 0;  ///< operation for which it had not been fetched all in time
  };

  void make_room(const ForecastOperation &operation);
  void walk(const ForecastOperation &operation);
  bool far_enough() const noexcept;
  State &state(uint32_t part) noexcept;
  const State *state_of(uint32_t part, uint32_t life) const noexcept;
  void leave(uint32_t part) noexcept;
  void offer(uint32_t part) noexcept;
  void use(const ForecastUse &use, uint64_t operation) noexcept;
  void want(const ForecastUse &use, uint64_t operation, uint64_t missing) noexcept;
  void forget_overdue(uint64_t operation) noexcept;
  void shrink(uint64_t operation);
  uint32_t choose(uint64_t operation) const noexcept;
  void evict(uint32_t part, uint64_t bytes, uint64_t operation);
  const PlannedDrop *due_drop() const noexcept;
  std::optional<PlannedDrop> take_drop() noexcept;

  const Cast &cast_;
  Terms terms_;
  MemoryProfile profile_;
  Victims victims_;
  FetchQueue fetches_;
  DropQueue drops_;
  std::pmr::vector<State> states_;  ///< by part
  uint64_t used_ = 0;               ///< bytes of the virtual memory
  uint64_t now_ = 0, planned_ = 0;
  uint64_t built_at_ = 0, planned_when_cleared_ = 0, looked_at_ = 0;
  uint32_t misses_ = 0;  ///< since it was built
  bool built_ = false, ever_built_ = false;
};

}  // namespace weir::policy
