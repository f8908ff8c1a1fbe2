// SPDX-License-Identifier: Apache-2.0
//
// Turns, and sleeping until they come.
#include "tools/weir/recorded/pace.hpp"

#include "tools/weir/job.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace weir::tool::recorded {
namespace {

/// What a sleep overshoots.
constexpr uint64_t least_wait_ns = 50'000;

}  // namespace

void Pace::begin() noexcept { start_ns_ = now_ns(); }

std::optional<uint64_t> Pace::turn_of(const ProgramCall &call) noexcept {
  if (!now_us_.has_value()) return std::nullopt;
  const uint64_t waited = call.kind == CallKind::acquire ? std::min(call.length, *now_us_) : 0;
  if (!first_us_.has_value()) first_us_ = called_us_ = *now_us_;
  const uint64_t turn = std::max(called_us_, *now_us_ - waited);
  called_us_ = *now_us_;
  return turn - *first_us_;
}

void Pace::wait_for(const ProgramCall &call) {
  if (slow_ == 0) return;
  const std::optional<uint64_t> turn = turn_of(call);
  if (!turn.has_value()) return;
  const uint64_t when = start_ns_ + static_cast<uint64_t>(static_cast<double>(*turn) * 1e3 * slow_);
  if (when < now_ns() + least_wait_ns) return;
  const timespec until{static_cast<time_t>(when / 1'000'000'000),
                       static_cast<long>(when % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

}  // namespace weir::tool::recorded
