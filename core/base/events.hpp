// SPDX-License-Identifier: Apache-2.0
//
// Events: what happened in a pool, told once by the code that did it, under the pool's lock. The pool's counters are made of events by the
// table `effects`; listeners get those that they ask for. No decision reads an event or a counter: what decides is state (Gauges).
//
// Telling allocates nothing. Without a listener it costs the counters and one load. Hits of the hit path are no
// events: they are counted by stream (lease/lease.hpp) and added when the counters are read.
#pragma once

#include "core/base/pool_lock.hpp"

#include <weir/pool.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir {

/// A counter of weir_pool_stats, by its place in the list of weir/pool.h.
enum class Counter : uint8_t {
#define WEIR_COUNTER(name, meaning) name,
  WEIR_POOL_STATS_FIELDS(WEIR_COUNTER)
#undef WEIR_COUNTER
      count
};

class Counters {
 public:
  uint64_t &operator[](Counter counter) noexcept { return values_[static_cast<size_t>(counter)]; }
  uint64_t operator[](Counter counter) const noexcept {
    return values_[static_cast<size_t>(counter)];
  }

 private:
  std::array<uint64_t, static_cast<size_t>(Counter::count)> values_{};
};

enum class What : uint8_t {
  // Uses of a slow acquire.
  hit,
  miss,
  remote_use,  ///< `amount` uses were granted on another device's memory
  conflict,
  over_budget,
  would_block,
  waited,  ///< an acquire has waited `amount` ns for leases of others
  device_oom,
  // Bytes of pages.
  filled,  ///< a page was brought to `place`, or its older version there was overwritten
  zeroed,
  raised,  ///< bytes were read from below HOST for the CPU or HOST
  evicted,
  demoted,  ///< copied from a device to HOST, below it, or to a neighbour
  dropped,  ///< evicted without a copy: another copy is the latest, too
  discarded,
  lent,
  evict_failed,
  sunk,     ///< moved below HOST
  recoded,  ///< `more`: what was won by it
  relayed,
  host_relayed,
  split,
  corrupt,
  moved,     ///< by defragmentation
  made_way,  ///< evicted for defragmentation
  won,       ///< device memory that is free by defragmentation
  // Plans (move/plan_executor.hpp).
  learned,     ///< an operation has come to the learner
  unlearned,   ///< `amount` uses, births or deaths have not
  foreseen,    ///< an operation came that the plan that is carried out knew
  plan_made,   ///< at operation `amount` of the device's, with `more` bytes to plan with
  plan_ended,  ///< `how`: a PlanEnd; after `amount` operations; `more`: the number that decided
  trust,  ///< `how` 1: granted, 0: lost; `amount` operations of a million were lost, `more` uses were not when foreseen
  device_lost,  ///< `place`, with `amount` bytes that were nowhere else
  count
};

/// Why a plan ended. What Event::more is then stands behind each.
enum class PlanEnd : uint8_t {
  untrusted = 1,  ///< what was foreseen did not come true: as What::trust, operations << 32 | uses
  moved,          ///< the program went on elsewhere: operations planned that did not come
  missed,         ///< too much had to be fetched that it had not: how much
  old,            ///< operations: as `amount`
  budget,         ///< the device's has changed: the new one
  device,         ///< it has left or is lost, or one has come and all begin to learn anew
  share,          ///< of the CPU, used up
  announced,      ///< that was taken back or used up; what was learned gives way to it
  memory,         ///< there was none
  closes,         ///< the pool
};

struct Event {
  /// Bits of `how`.
  enum : uint8_t {
    from_device = 1,  ///< filled: another device has the bytes ...
    from_host = 2,    ///< ... or HOST or what is below it ...
    from_below = 4,   ///< ... that is, below it
    ahead = 8,        ///< filled by a prefetch; demoted in the background
    refault = 16,     ///< filled, soon after it was evicted
    balance = 32,     ///< filled by the rebalancer
    cached = 64,      ///< "demoted" to HOST, though below it there is a copy already
    planned = 128,    ///< filled, or demoted and still there: a plan wants it so
  };
  static constexpr uint8_t nowhere = UINT8_MAX;

  What what = What::count;
  uint8_t how = 0;
  uint8_t place = nowhere;  ///< position of the device in the pool
  uint32_t region = UINT32_MAX;
  uint32_t page = 0;
  uint64_t amount = 0;  ///< bytes, or as What says
  uint64_t more = 0;
};

/// What an event adds to which counter.
struct Effect {
  enum class Adds : uint8_t { one, amount, more };
  What what;
  uint8_t with, without;  ///< bits of Event::how that must be there, and that must not
  Counter counter;
  Adds adds;

  static constexpr Effect ended(PlanEnd why, Counter counter) noexcept {
    const auto how = static_cast<uint8_t>(why);
    return {What::plan_ended, how, static_cast<uint8_t>(~how), counter, Adds::one};
  }
};

inline constexpr std::array effects{
    Effect{What::hit, 0, 0, Counter::hits, Effect::Adds::one},
    Effect{What::miss, 0, 0, Counter::misses, Effect::Adds::one},
    Effect{What::remote_use, 0, 0, Counter::remote_uses, Effect::Adds::amount},
    Effect{What::conflict, 0, 0, Counter::lease_conflicts, Effect::Adds::one},
    Effect{What::over_budget, 0, 0, Counter::over_budget, Effect::Adds::one},
    Effect{What::would_block, 0, 0, Counter::would_block, Effect::Adds::one},
    Effect{What::waited, 0, 0, Counter::wait_ns, Effect::Adds::amount},
    Effect{What::device_oom, 0, 0, Counter::device_oom, Effect::Adds::one},
    Effect{What::filled, Event::from_device, 0, Counter::peer_bytes, Effect::Adds::amount},
    Effect{What::filled, Event::from_host, 0, Counter::promoted_bytes, Effect::Adds::amount},
    Effect{What::filled, Event::from_below, 0, Counter::lifted_bytes, Effect::Adds::amount},
    Effect{What::filled, Event::ahead, 0, Counter::prefetched_bytes, Effect::Adds::amount},
    Effect{What::filled, Event::refault, 0, Counter::refaulted_bytes, Effect::Adds::amount},
    Effect{What::filled, Event::balance, 0, Counter::rebalanced_bytes, Effect::Adds::amount},
    Effect{What::filled, Event::ahead | Event::planned, 0, Counter::plan_fetched_bytes,
           Effect::Adds::amount},
    Effect{What::zeroed, 0, 0, Counter::zero_filled_bytes, Effect::Adds::amount},
    Effect{What::raised, 0, 0, Counter::lifted_bytes, Effect::Adds::amount},
    Effect{What::evicted, 0, 0, Counter::evictions, Effect::Adds::one},
    Effect{What::demoted, 0, Event::cached, Counter::demoted_bytes, Effect::Adds::amount},
    Effect{What::demoted, Event::ahead, Event::cached, Counter::background_demoted_bytes,
           Effect::Adds::amount},
    Effect{What::demoted, Event::planned, Event::cached, Counter::plan_cleaned_bytes,
           Effect::Adds::amount},
    Effect{What::demoted, Event::cached, 0, Counter::cached_bytes, Effect::Adds::amount},
    Effect{What::dropped, 0, 0, Counter::dropped_clean_bytes, Effect::Adds::amount},
    Effect{What::discarded, 0, 0, Counter::discarded_bytes, Effect::Adds::amount},
    Effect{What::lent, 0, 0, Counter::lent_bytes, Effect::Adds::amount},
    Effect{What::evict_failed, 0, 0, Counter::eviction_failures, Effect::Adds::one},
    Effect{What::sunk, 0, 0, Counter::sunk_bytes, Effect::Adds::amount},
    Effect{What::recoded, 0, 0, Counter::recompressed_bytes, Effect::Adds::amount},
    Effect{What::recoded, 0, 0, Counter::recompressed_won_bytes, Effect::Adds::more},
    Effect{What::relayed, 0, 0, Counter::relayed_bytes, Effect::Adds::amount},
    Effect{What::host_relayed, 0, 0, Counter::host_relayed_bytes, Effect::Adds::amount},
    Effect{What::split, 0, 0, Counter::split_bytes, Effect::Adds::amount},
    Effect{What::corrupt, 0, 0, Counter::checksum_failures, Effect::Adds::one},
    Effect{What::moved, 0, 0, Counter::defragment_moves, Effect::Adds::one},
    Effect{What::moved, 0, 0, Counter::defragment_moved_bytes, Effect::Adds::amount},
    Effect{What::made_way, 0, 0, Counter::defragment_evicted_bytes, Effect::Adds::amount},
    Effect{What::won, 0, 0, Counter::defragment_won_bytes, Effect::Adds::amount},
    Effect{What::learned, 0, 0, Counter::learned_operations, Effect::Adds::one},
    Effect{What::unlearned, 0, 0, Counter::lost_uses, Effect::Adds::amount},
    Effect{What::foreseen, 0, 0, Counter::planned_operations, Effect::Adds::one},
    Effect{What::plan_made, 0, 0, Counter::plans_made, Effect::Adds::one},
    Effect::ended(PlanEnd::untrusted, Counter::plans_ended_untrusted),
    Effect::ended(PlanEnd::moved, Counter::plans_ended_moved),
    Effect::ended(PlanEnd::missed, Counter::plans_ended_missed),
    Effect::ended(PlanEnd::old, Counter::plans_ended_old),
    Effect::ended(PlanEnd::budget, Counter::plans_ended_budget),
    Effect::ended(PlanEnd::device, Counter::plans_ended_device),
    Effect::ended(PlanEnd::share, Counter::plans_ended_share),
    Effect::ended(PlanEnd::announced, Counter::plans_ended_announced),
    Effect::ended(PlanEnd::memory, Counter::plans_ended_memory),
};

/// Adds what the event's effects say.
void count(const Event &event, Counters *counters) noexcept;

/// A listener, told of the events whose bits are in its mask (bit_of), under the pool's lock: it takes no other lock and waits for nothing.
class EventListener {
 public:
  explicit EventListener(uint64_t mask) noexcept : mask_(mask) {}

  static constexpr uint64_t bit_of(What what) noexcept {
    return uint64_t{1} << static_cast<uint32_t>(what);
  }
  static constexpr uint64_t all = UINT64_MAX;

  uint64_t mask() const noexcept { return mask_; }
  virtual void put(const Event &event) noexcept = 0;

 protected:
  ~EventListener() = default;

 private:
  const uint64_t mask_;
};
static_assert(static_cast<size_t>(What::count) <= 64);

class Events {
 public:
  void tell(const Event &event) noexcept WEIR_HELD {
    count(event, &counters_);
    if ((listening_ & EventListener::bit_of(event.what)) != 0) pass_on(event);
  }
  void tell(PlanEnd why, uint8_t place, uint64_t lasted, uint64_t decided) noexcept WEIR_HELD {
    tell(Event{What::plan_ended, static_cast<uint8_t>(why), place, UINT32_MAX, 0, lasted, decided});
  }
  void tell(What what, uint64_t amount = 0, uint64_t more = 0) noexcept WEIR_HELD {
    tell(Event{what, 0, Event::nowhere, UINT32_MAX, 0, amount, more});
  }

  const Counters &counters() const noexcept WEIR_HELD { return counters_; }

  /// The listener is told of events from now on, until ignore(). False: as many as can be listen already.
  bool listen(EventListener *listener) noexcept WEIR_HELD;
  void ignore(const EventListener *listener) noexcept WEIR_HELD;

 private:
  void pass_on(const Event &event) noexcept;

  Counters counters_;
  uint64_t listening_ = 0;  ///< the masks of all listeners together
  std::array<EventListener *, 4> listeners_{};
};

/// Sums that decisions are made by; they would be kept if nothing was counted.
struct Gauges {
  uint64_t granted = 0;         ///< uses of slow acquires
  uint64_t promoted = 0;        ///< bytes brought up from HOST and below
  uint64_t rebalanced = 0;      ///< bytes of pages that the rebalancer brought
  uint64_t compressed_raw = 0;  ///< bytes of the pages in COMPRESSED ...
  uint64_t storage_raw = 0;     ///< ... and in STORAGE, as they were
};

}  // namespace weir
