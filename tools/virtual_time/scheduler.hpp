// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: which thread has the turn, what each other one waits for and until when, and what time it is.
//
// What must hold: exactly one thread has the turn, and only that one touches the scheduler, so it needs no lock. The turn is handed
// on in the order in which threads became ready; moments at which several wait end in the order in which the waits began. Nothing
// else decides, so two runs of one program do the same.
//
// Two ways to hand it on, which decide nothing: one kernel thread runs them all (switch.hpp), or, where that can't be, each has its own,
// and the kernel wakes the next.
#pragma once

#include "tools/virtual_time/switch.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <tuple>
#include <unordered_map>

namespace weir::virtual_time {

class Scheduler {
 public:
  static constexpr uint64_t never = UINT64_MAX;

  struct Thread {
    std::atomic<uint32_t> turn{0};  ///< 1: it is its turn, which it has not taken yet
    Context context;                ///< where one kernel thread runs them all
    const void *key = nullptr;      ///< what it waits for
    uint64_t deadline = never, order = 0;
    bool timed_out = false;
    bool ended = false;
    uint32_t looks = 0;  ///< at the clock, since it last unlocked something
    uint32_t spins = 0;  ///< looks since it last waited; a yield counts for many
  };

  /// The caller becomes the thread with the turn. `carried`: its kernel thread runs them all.
  Thread *begin(bool carried);

  // ---- by the thread with the turn ----
  uint64_t now() const noexcept { return now_; }
  /// A thread that will be ready; its maker sees to it that it calls enter() first.
  Thread *add();
  /// It has not begun after all.
  void remove(Thread *thread);
  /// Waits until the key is woken, or for the deadline. False: it is the deadline. Without a key for the deadline alone.
  bool wait(const void *key, uint64_t deadline);
  /// Threads that wait for the key become ready, the first `most` of them.
  void wake(const void *key, size_t most = SIZE_MAX);
  /// The clock was read. A thread that reads it again and again, and does nothing else, waits for something: the others run first, and time
  /// goes by.
  void look();
  /// As look(), but a thread that yields has nothing else to do: it counts for many looks.
  void yield();
  /// A lock was unlocked: the looks so far were part of some work, a measurement for instance.
  void worked() noexcept { running_->looks = 0; }

  // ---- by threads of add() ----
  /// Waits for its first turn.
  void enter(Thread *thread);
  /// Has ended; hands its turn on and has no other.
  void leave();

 private:
  using Moment = std::tuple<uint64_t, uint64_t, Thread *>;

  Thread *next();
  void hand_on(bool looks = false);
  void give(Thread *thread);
  void take(Thread *thread);
  void go_over_to(Thread *thread);
  void arrive();
  void forget(Thread *thread);
  void expire();

  /// A thread that works reads the clock now and then, which takes no time; one that spins goes on reading it. It may spin over a lock, which
  /// looks like work, so the looks between two waits are bounded, too.
  static constexpr uint32_t free_looks = 100, free_yields = 100, free_spins = 100'000;
  static constexpr uint64_t look_ns = 1000;

  uint64_t now_ = uint64_t{1000} * 1'000'000'000;
  uint64_t orders_ = 0;
  bool carried_ = false;
  Thread *running_ = nullptr;
  Thread *left_ = nullptr;  ///< has ended, and is to be left to its own kernel thread
  std::deque<Thread *> ready_;
  std::deque<Thread *> looking_;  ///< go on when no thread is ready, some time later
  std::unordered_map<const void *, std::deque<Thread *>> waiting_;
  std::set<Moment> moments_;
};

}  // namespace weir::virtual_time
