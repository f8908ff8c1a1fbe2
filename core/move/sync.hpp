// SPDX-License-Identifier: Apache-2.0
//
// Sync: what the threads of a pool meet by: the lock, what they wait for under it, and the points at which tests hold them.
#pragma once

#include "core/base/pool_lock.hpp"
#include "core/base/seq_points.hpp"

namespace weir::move {

struct Sync {
  /// Until there is work, or so long (UINT64_MAX: for ever). It rests in any case: who only ever holds the lock leaves none for
  /// those whose work it waits for.
  void await_work(Releasable &held, uint64_t most_ns) const WEIR_HELD {
    constexpr uint64_t least_ns = 100'000;
    if (most_ns == UINT64_MAX) return work.wait(held);
    work.wait_for(held, std::chrono::nanoseconds(std::max(most_ns, least_ns)));
  }

  PoolLock &lock;
  PoolSignal &changed;  ///< whatever somebody may wait for
  PoolSignal &work;     ///< for the background threads
  const SeqPoints &points;
};

}  // namespace weir::move
