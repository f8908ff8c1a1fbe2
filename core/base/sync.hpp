// SPDX-License-Identifier: Apache-2.0
//
// Sync: what the threads of a pool meet by: the lock, what they wait for under it, and the points at which tests hold them.
#pragma once

#include "core/base/clock.hpp"
#include "core/base/pool_lock.hpp"
#include "core/base/seq_points.hpp"
#include "core/base/status.hpp"
#include "core/base/tap.hpp"

#include <atomic>

namespace weir {

/// What ends the rests of a pool's own threads, by what they do. Each is told alone: to wake and to find nothing to do takes two
/// switches of a CPU, and calls that move bytes come thousands of times a second.
struct Wakes {
  explicit Wakes(PoolLock &lock) noexcept
      : evictor(lock), prefetcher(lock), planner(lock), cleaner(lock), host_room(lock) {}
  void all() noexcept WEIR_HELD {
    for (PoolSignal *each : {&evictor, &prefetcher, &planner, &cleaner, &host_room})
      each->notify_all();
  }

  PoolSignal evictor;  ///< a device is short of room, memory lies idle, HOST grows, a scrub is due
  PoolSignal prefetcher;  ///< there is something to bring, or room for it
  PoolSignal planner;     ///< something was acquired the slow way, or announced
  PoolSignal cleaner;     ///< dirty pages were given up
  PoolSignal host_room;   ///< HOST or COMPRESSED is short of room
};

struct Sync {
  /// Until something has changed, or the clock says so much (UINT64_MAX: never). TIMEOUT without a text; CANCELLED.
  Status await_change(Releasable &held, const std::atomic<bool> *cancelled, const Clock &clock,
                      uint64_t deadline_ns) const WEIR_HELD;

  PoolLock &lock;
  PoolSignal &changed;  ///< given when something changes that a thread may wait for
  Wakes &wakes;
  const SeqPoints &points;
  Tap &tap;  ///< where traces and profilers listen
};

inline Status Sync::await_change(Releasable &held, const std::atomic<bool> *cancelled,
                                 const Clock &clock, uint64_t deadline_ns) const {
  if (lock.stopping() || (cancelled != nullptr && cancelled->load()))
    return fail(WEIR_ERROR_CANCELLED, "the acquire was cancelled");
  if (deadline_ns == UINT64_MAX) {
    changed.wait(held);
    return {};
  }
  const uint64_t now = clock.now_ns();
  if (now >= deadline_ns) return Status(WEIR_ERROR_TIMEOUT);
  // Some libraries add it to a time of their own.
  constexpr uint64_t most_ns = uint64_t{1} << 60U;
  (void)changed.wait_for(held, std::chrono::nanoseconds(std::min(deadline_ns - now, most_ns)));
  return {};
}

}  // namespace weir
