// SPDX-License-Identifier: Apache-2.0
//
// The queues of Workers: pieces are claimed one at a time under one lock. A piece is some hundred microseconds of work,
// so the lock is nothing beside it. Time is read only where a share below 100 percent has to be kept.

#include "core/base/workers.hpp"

#include "core/base/signals.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>

namespace weir {
namespace {

/// The longest sleep of a thread that waits for its share: an injected clock need not keep pace with the system's.
constexpr uint64_t longest_sleep_ns = 5'000'000;

}  // namespace

struct Workers::Job {
  Piece piece;
  void *context;
  uint32_t count;
  Urgency urgency;
  uint32_t next = 0;   ///< the first unclaimed piece
  uint32_t ended = 0;  ///< pieces that have run
  Job *after = nullptr;
  Signal done{};  ///< a demand caller's; background callers wait on changed_
};

void Workers::Queue::push(Job *job) noexcept {
  (last != nullptr ? last->after : first) = job;
  last = job;
}

/// As a rule it is the first; only a caller's own job can be elsewhere.
void Workers::Queue::remove(Job *job) noexcept {
  Job *before = nullptr;
  for (Job *at = first; at != job; at = at->after) before = at;
  (before != nullptr ? before->after : first) = job->after;
  if (last == job) last = before;
}

// ---- the share ----

/// 0: a piece may start. A thread that has to wait rests a while longer, so that it wakes for more than one piece.
uint64_t Workers::Share::wait_ns(uint64_t now) noexcept {
  if (!resting && ready_ns > now) resting = true;
  const uint64_t until = resting ? ready_ns + rest_ns : 0;
  if (until > now) return until - now;
  resting = false;
  return 0;
}

void Workers::Share::spend(uint64_t start, uint64_t cpu_ns, uint32_t percent) noexcept {
  const uint64_t oldest = start > burst_ns ? start - burst_ns : 0;
  ready_ns = std::max(ready_ns, oldest) + cpu_ns * 100 / percent;
}

// ---- threads ----

Workers::Workers(uint32_t threads, uint32_t share, const Clock &clock) noexcept
    : clock_(clock), wanted_(threads), percent_(std::clamp<uint32_t>(share, 1, 100)) {}

Status Workers::start() {
  const Guard one(change_);
  if (threads_ != nullptr || wanted_ == 0) return {};
  {
    const Lock lock(mutex_);
    stop_ = false;
  }
  threads_.reset(new (std::nothrow) std::thread[wanted_]);
  if (threads_ == nullptr)
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no memory for %u worker threads", wanted_);
  const SignalsBlocked blocked;
  try {
    for (; running_ < wanted_; ++running_) threads_[running_] = std::thread([this] { work(); });
  } catch (const std::exception &error) {
    const uint32_t made = running_;
    end();
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "worker thread %u of %u could not be started: %s",
                made + 1, wanted_, error.what());
  }
  return {};
}

void Workers::stop() noexcept {
  const Guard one(change_);
  end();
}

void Workers::end() noexcept {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (uint32_t i = 0; i < running_; ++i) threads_[i].join();
  running_ = 0;
  threads_.reset();
}

void Workers::work() noexcept {
  Share share;
  Lock lock(mutex_);
  while (!stop_) {
    if (demand_.first != nullptr) {
      run_piece(lock, demand_, *demand_.first);
    } else if (background_.first != nullptr) {
      try_background(lock, *background_.first, share);
    } else {
      ++waiting_;
      changed_.wait(lock);
      --waiting_;
    }
  }
}

// ---- jobs ----

void Workers::run(uint32_t count, Piece piece, void *context, Urgency urgency) noexcept {
  if (count == 0) return;
  if (count == 1 && urgency == Urgency::demand) {
    piece(context, 0);  // never unclaimed, so it need not be in a queue
    return;
  }
  Job job{piece, context, count, urgency};
  Lock lock(mutex_);
  urgency == Urgency::demand ? run_demand(lock, job) : run_background(lock, job);
}

void Workers::run_demand(Lock &lock, Job &job) noexcept {
  demand_.push(&job);
  for (uint32_t i = std::min(job.count - 1, waiting_); i > 0; --i) changed_.notify_one();
  while (job.next < job.count) run_piece(lock, demand_, job);
  while (job.ended < job.count) job.done.wait(lock);
}

void Workers::run_background(Lock &lock, Job &job) noexcept {
  background_.push(&job);
  // All, not as many as there are pieces: one woken might have spent its share.
  if (job.count > 1) changed_.notify_all();
  while (job.ended < job.count) {
    if (demand_.first != nullptr) {
      run_piece(lock, demand_, *demand_.first);
    } else if (job.next < job.count) {
      try_background(lock, job, callers_);
    } else {
      ++waiting_;
      changed_.wait(lock);
      --waiting_;
    }
  }
}

/// Runs the job's next piece, without the lock. The job may be gone afterwards, unless it is the caller's own.
void Workers::run_piece(Lock &lock, Queue &queue, Job &job) noexcept {
  const uint32_t index = job.next++;
  if (job.next == job.count) queue.remove(&job);
  lock.unlocked([&] { job.piece(job.context, index); });
  if (++job.ended < job.count) return;
  job.urgency == Urgency::demand ? job.done.notify_one() : changed_.notify_all();
}

/// Runs the job's next piece if the share allows, else waits a while, with the lock given up either way.
void Workers::try_background(Lock &lock, Job &job, Share &share) noexcept {
  if (percent_ == 100) {
    run_piece(lock, background_, job);
    return;
  }
  const uint64_t start = clock_.now_ns();
  if (const uint64_t wait = share.wait_ns(start); wait > 0) {
    ++waiting_;
    (void)changed_.wait_for(lock, std::chrono::nanoseconds(std::min(wait, longest_sleep_ns)));
    --waiting_;
    return;
  }
  const uint64_t before = clock_.thread_cpu_ns();
  run_piece(lock, background_, job);
  share.spend(start, clock_.thread_cpu_ns() - before, percent_);
}

}  // namespace weir
