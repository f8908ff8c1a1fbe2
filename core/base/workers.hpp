// SPDX-License-Identifier: Apache-2.0
//
// Workers: a few threads that help with work that splits into pieces (compression, checksums). The caller of run()
// works too and returns when every piece is done, so it makes progress even with no threads at all. Nothing here
// throws or allocates once started; a piece must not throw, nor call run().
//
// What must hold:
//  - No background piece starts while a demand piece is unclaimed; a background caller helps with those instead.
//  - A thread's background pieces take no more CPU time than `share` percent of any stretch of time, plus one burst
//    (Share::burst_ns) and one piece. The callers of background run() together count as one such thread.
//  - A job lies on its caller's stack; it is in a queue exactly while it has unclaimed pieces, and no thread touches it
//    after the lock under which its last piece was counted as ended.
#pragma once

#include "core/base/clock.hpp"
#include "core/base/mutex.hpp"
#include "core/base/status.hpp"

#include <cstdint>
#include <memory>
#include <thread>

namespace weir {

class Workers {
 public:
  enum class Urgency : uint8_t { demand, background };
  /// One piece of a job: `context` is run()'s, `index` counts from 0.
  using Piece = void (*)(void *context, uint32_t index) noexcept;

  /// `share`: percent of a CPU, 1 to 100, that a thread (and the background callers of run()) spends on background
  /// pieces.
  Workers(uint32_t threads, uint32_t share, const Clock &clock) noexcept;
  ~Workers() { stop(); }  ///< no run() may be under way

  /// Starts the threads. start() and stop() take turns. OUT_OF_HOST_MEMORY if the system refuses one: then there are none, and run() still works.
  Status start();
  /// Ends them; what they have begun they finish. run() then does everything itself. The destructor does so too.
  void stop() noexcept;

  /// Runs pieces 0 .. count-1, on this thread and on idle workers; returns when all have run. Any thread.
  void run(uint32_t count, Piece piece, void *context, Urgency urgency) noexcept;
  /// How many threads there are besides the callers. Not to be asked during start() or stop().
  uint32_t threads() const noexcept { return running_; }

 private:
  struct Job;
  /// Jobs with unclaimed pieces, the oldest first.
  struct Queue {
    Job *first = nullptr;
    Job *last = nullptr;
    void push(Job *job) noexcept;
    void remove(Job *job) noexcept;
  };
  /// A token bucket over time: `ready_ns` is when what has been spent will have been earned.
  struct Share {
    static constexpr uint64_t burst_ns = 4'000'000;  ///< of idle time that is remembered as earned
    static constexpr uint64_t rest_ns =
        1'000'000;  ///< a thread that must wait earns that much more

    uint64_t ready_ns = 0;
    bool resting = false;

    uint64_t wait_ns(uint64_t now) noexcept;
    void spend(uint64_t start, uint64_t cpu_ns, uint32_t percent) noexcept;
  };

  using Lock = Guard<RankedMutex<Rank::leaf>>;
  void work() noexcept;
  void run_demand(Lock &lock, Job &job) noexcept WEIR_REQUIRES(mutex_);
  void run_background(Lock &lock, Job &job) noexcept WEIR_REQUIRES(mutex_);
  void run_piece(Lock &lock, Queue &queue, Job &job) noexcept WEIR_REQUIRES(mutex_);
  void try_background(Lock &lock, Job &job, Share &share) noexcept WEIR_REQUIRES(mutex_);

  void end() noexcept WEIR_REQUIRES(change_);

  const Clock &clock_;
  const uint32_t wanted_;
  const uint32_t percent_;
  RankedMutex<Rank::upkeep> change_;  ///< never taken by a worker
  std::unique_ptr<std::thread[]> threads_ WEIR_GUARDED_BY(change_);
  uint32_t running_ = 0;  ///< changed with change_ held; read without it by threads()

  RankedMutex<Rank::leaf> mutex_;
  /// Waited on by idle workers, by those whose share is spent, and by background callers. A thread that wakes takes demand pieces.
  Signal changed_;
  Queue demand_ WEIR_GUARDED_BY(mutex_), background_ WEIR_GUARDED_BY(mutex_);
  Share callers_ WEIR_GUARDED_BY(mutex_);
  uint32_t waiting_ WEIR_GUARDED_BY(mutex_) = 0;  ///< on changed_
  bool stop_ WEIR_GUARDED_BY(mutex_) = false;
};

}  // namespace weir
