// SPDX-License-Identifier: Apache-2.0
//
// Waiting with a limit for what can only be asked about. It asks at once, then often, then ever more seldom:
// the pause is an eighth of the time waited so far, within bounds, so that a short wait ends promptly, and a
// long one costs next to no processor time and is late by little.
#pragma once

#include <weir/backend.h>

#include <ctime>

namespace weir::common {

inline uint64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
}

/// Calls `poll` until it answers something else than WEIR_NOT_READY, and returns that; or TIMEOUT after
/// `timeout_ns` (0 = one look, UINT64_MAX = no limit).
template <class Poll>
weir_result poll_until(uint64_t timeout_ns, Poll poll) {
  constexpr uint64_t busy_ns = 20'000;  // shorter waits than a sleep's own cost are spent asking
  constexpr uint64_t longest_ns = 1'000'000;
  weir_result result = poll();
  if (result != WEIR_NOT_READY) return result;
  if (timeout_ns == 0) return WEIR_ERROR_TIMEOUT;
  const uint64_t start = monotonic_ns();
  while (true) {
    result = poll();
    if (result != WEIR_NOT_READY) return result;
    const uint64_t waited = monotonic_ns() - start;
    if (waited >= timeout_ns) return WEIR_ERROR_TIMEOUT;
    if (waited < busy_ns) continue;
    uint64_t pause = waited / 8 < longest_ns ? waited / 8 : longest_ns;
    if (pause > timeout_ns - waited) pause = timeout_ns - waited;
    const timespec nap{0, static_cast<long>(pause)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
  }
}

}  // namespace weir::common
