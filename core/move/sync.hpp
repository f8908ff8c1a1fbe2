// SPDX-License-Identifier: Apache-2.0
//
// Sync: what the threads of a pool meet by: the lock, what they wait for under it, and the points at which tests hold them.
#pragma once

#include "core/base/pool_lock.hpp"
#include "core/base/seq_points.hpp"

namespace weir::move {

struct Sync {
  PoolLock &lock;
  PoolSignal &changed;  ///< whatever somebody may wait for
  PoolSignal &work;     ///< for the background threads
  const SeqPoints &points;
};

}  // namespace weir::move
