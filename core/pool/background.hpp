// SPDX-License-Identifier: Apache-2.0
//
// Background: the threads of what runs by itself, one for each task, and their loop: a step, the next as long as there is something
// to do, then rest until woken or until the task wants to look again. What the tasks are is Upkeep's, and the Defragmenter's.
//
// One of the threads may give the pool's Pulse its beats: between steps, and while it rests, which the task does not see.
//
// What must hold: a task has one thread at most, which takes the pool's lock and never `change_`. Who gives a signal to a thread at
// rest ends that rest.
#pragma once

#include "core/base/mutex.hpp"
#include "core/base/numa.hpp"
#include "core/base/pulse.hpp"
#include "core/base/tap.hpp"
#include "core/base/task.hpp"

#include <list>
#include <memory_resource>
#include <thread>

namespace weir::pool {

class Background {
 public:
  Background(PoolLock &lock, const Tap &tap, const numa::Nodes &nodes,
             std::pmr::memory_resource *memory)
      : lock_(lock), tap_(tap), nodes_(nodes), quiet_(lock), lanes_(memory) {}
  ~Background() { stop(); }

  /// The task has a thread, near the node if that is known, until it is stopped or the pool is. `wake` ends its rests (nullptr:
  /// nobody does). `pulse`: what this thread gives its beats, if any. OUT_OF_HOST_MEMORY.
  Status start(Task &task, uint32_t node, PoolSignal *wake, Pulse *pulse = nullptr) WEIR_NOT_HELD;
  /// The task's thread, or all, has ended when this returns. A step under way is finished.
  void stop(const Task *only = nullptr) noexcept WEIR_NOT_HELD;

 private:
  struct Lane {
    Lane(Task &task_, PoolSignal &wake_, Pulse *pulse_) noexcept
        : task(task_), wake(wake_), pulse(pulse_) {}
    Task &task;
    PoolSignal &wake;
    Pulse *const pulse;
    bool ending WEIR_GUARDED = false;
    std::thread thread;
  };
  void run(Lane &lane) WEIR_NOT_HELD;
  /// Until it is woken, or so long.
  void rest(Lane &lane, Releasable &lock, uint64_t rest_ns) WEIR_HELD;

  PoolLock &lock_;
  const Tap &tap_;
  const numa::Nodes &nodes_;
  PoolSignal quiet_;  ///< of tasks that nobody wakes
  RankedMutex<Rank::upkeep> change_;
  std::pmr::list<Lane> lanes_ WEIR_GUARDED_BY(change_);  ///< of all tasks that ever had a thread
};

}  // namespace weir::pool
