// SPDX-License-Identifier: Apache-2.0
//
// Jobs: what an operation does when it runs in its stream: check what it reads, fill what it
// writes, hold the stream for the operation's modelled time. The submitting thread fills a job, the
// stream's thread runs it; a ring bounds how far the first may run ahead. A job never calls Weir.
#pragma once

#include "pattern.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace weir::tool {

struct VerifyError {
  uint64_t operation = 0;
  uint32_t block = 0;
  uint64_t offset = 0;
  uint64_t expected = 0;
  uint64_t got = 0;
};

/// What checking found: how many words were wrong, and the first few.
class VerifyLog {
 public:
  static constexpr size_t kept = 8;
  void add(uint64_t operation, uint32_t block, const Mismatch &mismatch);
  uint64_t words() const;
  std::vector<VerifyError> first() const;

 private:
  mutable std::mutex mutex_;
  uint64_t words_ = 0;
  std::vector<VerifyError> first_;
};

struct Task {
  enum class Action : uint8_t { check, fill, zero };
  std::byte *at = nullptr;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint32_t block = 0;
  uint32_t version = 0;
  Action action = Action::check;
};

class JobRing;

struct Job {
  JobRing *ring = nullptr;
  uint64_t operation = 0;
  uint64_t duration_ns =
      0;  ///< how long it holds the stream at least; 0 = as long as its tasks take
  std::vector<Task> tasks;
  /// Of an operation whose end is a job of its own: where the first writes down when the stream came to it, and where the second
  /// reads that: its duration counts from there. Both run in one stream.
  uint64_t *begin_ns = nullptr;
  const uint64_t *since_ns = nullptr;
};

/// Checks, fills and zeroes what the job says.
void run_tasks(const Job &job, const Pattern &pattern, VerifyLog &log);

class JobRing {
 public:
  /// A sleep ends when it is to, as in virtual time: none is cut short to spin up to its end.
  inline static bool sleeps_are_exact = false;

  JobRing(size_t slots, const Pattern &pattern, VerifyLog &log);
  JobRing(const JobRing &) = delete;
  JobRing &operator=(const JobRing &) = delete;

  /// The next job to fill, with no tasks; waits until its last run has ended.
  Job &next();
  /// The job of the last next() has been handed to a stream.
  void submitted() { ++submitted_; }

  /// Waits for all that was submitted.
  void drain();

  /// Jobs submitted that have not ended.
  uint64_t pending() const;

  /// How much longer than their duration jobs held the stream, all of them together, because what they check and fill takes longer.
  /// Once all have ended.
  uint64_t overrun_ns() const { return overrun_ns_; }

  /// What the stream calls, with the Job. Jobs of a ring run one at a time, in order.
  static void run(void *job);

 private:
  void execute(const Job &job);
  void hold_until(uint64_t end_ns) const;

  std::vector<Job> jobs_;
  const Pattern &pattern_;
  VerifyLog &log_;
  uint64_t submitted_ = 0;     ///< of the submitting thread
  uint64_t previous_end_ = 0;  ///< of the stream's thread
  uint64_t overrun_ns_ = 0;    ///< the same
  mutable std::mutex mutex_;
  std::condition_variable done_;
  uint64_t completed_ = 0;
  bool waiting_ = false;
};

/// CLOCK_MONOTONIC.
uint64_t now_ns();

}  // namespace weir::tool
