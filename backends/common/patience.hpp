// SPDX-License-Identifier: Apache-2.0
//
// Waiting with a limit for what can only be asked about. It asks at once, and again and again for as long as a short copy takes;
// then ever more seldom: the pause is an eighth of the time waited so far, within bounds, so that a long wait costs next
// to no processor time and is late by little. The kernel lets a sleep last longer than asked, by the thread's timer slack
// (50 us as a rule) and what waking up takes. The slack is put aside meanwhile; what is left is measured, and no pause is
// shorter than that: it would last twice as long and more, and cost as much as a longer one.
#pragma once

#include <weir/backend.h>

#include <sys/prctl.h>

#include <ctime>

namespace weir::common {

inline uint64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
}

/// The calling thread's timers are as exact as the kernel can make them, as long as this lives. The thread may be the program's.
class PromptTimers {
 public:
  PromptTimers() noexcept : before_(prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL)) {
    if (before_ > 1) (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  }
  ~PromptTimers() {
    if (before_ > 1)
      (void)prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(before_), 0UL, 0UL, 0UL);
  }
  PromptTimers(const PromptTimers &) = delete;
  PromptTimers &operator=(const PromptTimers &) = delete;

 private:
  const int before_;
};

/// How much longer than asked a thread's sleeps last, on average. A machine that was busy for once counts for little.
class Oversleep {
 public:
  uint64_t ns() const noexcept { return ns_; }
  void note(uint64_t asked, uint64_t slept) noexcept {
    const uint64_t more = slept > asked ? slept - asked : 0;
    ns_ = (7 * ns_ + (more < most ? more : most)) / 8;
  }

 private:
  static constexpr uint64_t most = 60'000;
  uint64_t ns_ = 5'000;
};

/// How long to pause after having waited so long, with so much left to wait at most.
inline uint64_t pause_after(uint64_t waited, uint64_t oversleep, uint64_t left) noexcept {
  constexpr uint64_t longest_ns = 1'000'000;
  const uint64_t eighth = waited / 8 < longest_ns ? waited / 8 : longest_ns;
  const uint64_t pause = eighth > oversleep ? eighth : oversleep;
  return pause < left ? pause : left;
}

/// Calls `poll` until it answers something else than WEIR_NOT_READY, and returns that; or TIMEOUT after
/// `timeout_ns` (0 = one look, UINT64_MAX = no limit).
template <class Poll>
weir_result poll_until(uint64_t timeout_ns, Poll poll) {
  // A copy of 2 MiB takes about 40 us: to sleep before it has ended costs more than to ask.
  constexpr uint64_t busy_ns = 60'000;
  weir_result result = poll();
  if (result != WEIR_NOT_READY) return result;
  if (timeout_ns == 0) return WEIR_ERROR_TIMEOUT;
  const uint64_t start = monotonic_ns();
  uint64_t waited = 0;
  while (waited < busy_ns) {
    result = poll();
    if (result != WEIR_NOT_READY) return result;
    waited = monotonic_ns() - start;
    if (waited >= timeout_ns) return WEIR_ERROR_TIMEOUT;
  }
  thread_local Oversleep oversleep;
  const PromptTimers prompt;
  while (true) {
    const uint64_t pause = pause_after(waited, oversleep.ns(), timeout_ns - waited);
    const timespec nap{0, static_cast<long>(pause)};
    if (clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr) == 0)
      oversleep.note(pause, monotonic_ns() - start - waited);
    result = poll();
    if (result != WEIR_NOT_READY) return result;
    waited = monotonic_ns() - start;
    if (waited >= timeout_ns) return WEIR_ERROR_TIMEOUT;
  }
}

}  // namespace weir::common
