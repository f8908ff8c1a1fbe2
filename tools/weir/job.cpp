// SPDX-License-Identifier: Apache-2.0
//
// Jobs: the ring's hand-over and the kernel. A job's slot may be refilled as soon as completed()
// counts it, so the kernel touches the job no more after that.
#include "job.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace weir::tool {
namespace {

constexpr uint64_t spin_ns = 60'000;  // what a sleep may overshoot

}  // namespace

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void VerifyLog::add(uint64_t operation, uint32_t block, const Mismatch &mismatch) {
  const std::lock_guard lock(mutex_);
  words_ += mismatch.words;
  if (first_.size() < kept)
    first_.push_back({operation, block, mismatch.offset, mismatch.expected, mismatch.got});
}

uint64_t VerifyLog::words() const {
  const std::lock_guard lock(mutex_);
  return words_;
}

std::vector<VerifyError> VerifyLog::first() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

JobRing::JobRing(size_t slots, const Pattern &pattern, VerifyLog &log)
    : jobs_(slots), pattern_(pattern), log_(log) {}

Job &JobRing::next() {
  Job &job = jobs_[submitted_ % jobs_.size()];
  {
    std::unique_lock lock(mutex_);
    waiting_ = true;
    done_.wait(lock, [this] { return submitted_ - completed_ < jobs_.size(); });
    waiting_ = false;
  }
  job.ring = this;
  job.duration_ns = 0;
  job.tasks.clear();
  job.begin_ns = nullptr;
  job.since_ns = nullptr;
  return job;
}

void JobRing::drain() {
  std::unique_lock lock(mutex_);
  waiting_ = true;
  done_.wait(lock, [this] { return submitted_ == completed_; });
  waiting_ = false;
}

uint64_t JobRing::pending() const {
  const std::lock_guard lock(mutex_);
  return submitted_ - completed_;
}

void JobRing::run(void *job) {
  Job &work = *static_cast<Job *>(job);
  JobRing &ring = *work.ring;
  ring.execute(work);
  const std::lock_guard lock(ring.mutex_);
  ++ring.completed_;
  if (ring.waiting_) ring.done_.notify_one();
}

void run_tasks(const Job &job, const Pattern &pattern, VerifyLog &log) {
  for (const Task &task : job.tasks) {
    switch (task.action) {
      case Task::Action::check: {
        const Mismatch found =
            pattern.check(task.at, task.block, task.version, task.offset, task.length);
        if (found.words != 0) log.add(job.operation, task.block, found);
        break;
      }
      case Task::Action::fill:
        pattern.fill(task.at, task.block, task.version, task.offset, task.length);
        break;
      case Task::Action::zero:
        std::memset(task.at, 0, task.length);
        break;
    }
  }
}

void JobRing::execute(const Job &job) {
  const uint64_t start = job.duration_ns != 0 || job.begin_ns != nullptr ? now_ns() : 0;
  if (job.begin_ns != nullptr) *job.begin_ns = std::max(previous_end_, start);
  run_tasks(job, pattern_, log_);
  if (job.since_ns != nullptr) {
    previous_end_ = std::max(previous_end_, *job.since_ns + job.duration_ns);
  } else if (job.duration_ns != 0) {
    previous_end_ = std::max(previous_end_, start) + job.duration_ns;
  } else {
    return;
  }
  const uint64_t done = now_ns();
  overrun_ns_ += done - std::min(done, previous_end_);
  hold_until(previous_end_);
}

void JobRing::hold_until(uint64_t end_ns) const {
  const uint64_t spin = sleeps_are_exact ? 0 : spin_ns;
  if (end_ns > now_ns() + spin) {
    const uint64_t wake = end_ns - spin;
    const timespec until{static_cast<time_t>(wake / 1'000'000'000),
                         static_cast<long>(wake % 1'000'000'000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
    }
  }
  while (now_ns() < end_ns) {
  }
}

}  // namespace weir::tool
