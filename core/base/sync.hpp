// SPDX-License-Identifier: Apache-2.0
//
// Sync: what the threads of a pool meet by: the lock, what they wait for under it, and the points at which tests hold them.
#pragma once

#include "core/base/clock.hpp"
#include "core/base/pool_lock.hpp"
#include "core/base/seq_points.hpp"
#include "core/base/status.hpp"

#include <atomic>

namespace weir {

struct Sync {
  /// Until something has changed, or the clock says so much (UINT64_MAX: never). TIMEOUT without a text; CANCELLED.
  Status await_change(Releasable &held, const std::atomic<bool> *cancelled, const Clock &clock,
                      uint64_t deadline_ns) const WEIR_HELD;

  PoolLock &lock;
  PoolSignal &changed;  ///< whatever somebody may wait for
  PoolSignal &work;     ///< for the background threads
  const SeqPoints &points;
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
  changed.wait_for(held, std::chrono::nanoseconds(std::min(deadline_ns - now, most_ns)));
  return {};
}

}  // namespace weir
