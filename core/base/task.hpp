// SPDX-License-Identifier: Apache-2.0
//
// Task: background work of a pool, in steps, which no call asks for. It has no thread of its own: Background (in pool/) runs the steps, one at a
// time for each task.
//
// What must hold: a step is bounded, and ends early when the pool stops; it drops the lock for whatever takes long, and demand never
// waits for its end but for the pages that it is at.
#pragma once

#include "core/base/pool_lock.hpp"

namespace weir {

class Task {
 public:
  /// Does some of what is due. False: there is nothing to do by now. Where it throws std::bad_alloc, too.
  virtual bool step(Releasable &lock) WEIR_HELD = 0;
  /// Asked after such a step: when to look again if nothing wakes it, in nanoseconds from now; UINT64_MAX: not before.
  virtual uint64_t rest_ns() noexcept WEIR_HELD = 0;
  /// What an error text calls its thread.
  virtual const char *name() const noexcept = 0;

 protected:
  ~Task() = default;
};

}  // namespace weir
