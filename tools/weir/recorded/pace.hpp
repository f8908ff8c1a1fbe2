// SPDX-License-Identifier: Apache-2.0
//
// Pace: when a recorded call is made again. None is made earlier than it was, so that what a pool does by itself has as long as it had.
// An acquire's line says when it was granted: it is made as long before that as it waited, but not before the calls that stand before it
// in the trace, which it may have waited for.
#pragma once

#include "tools/weir/recorded/program.hpp"

#include <cstdint>
#include <optional>

namespace weir::tool::recorded {

class Pace {
 public:
  /// `slow`: how many times as long everything takes. 0: no call waits.
  explicit Pace(double slow) noexcept : slow_(slow) {}

  /// Now is when the replay begins.
  void begin() noexcept;
  /// The calls that follow were made then, by the trace's clock.
  void at(uint64_t microseconds) noexcept { now_us_ = microseconds; }
  /// Sleeps until it is the call's turn.
  void wait_for(const ProgramCall &call);

  /// When it is the call's turn, in the trace's time from its first moment on; nothing: at once. The calls are asked for in their order.
  std::optional<uint64_t> turn_of(const ProgramCall &call) noexcept;

 private:
  const double slow_;
  uint64_t start_ns_ = 0;
  std::optional<uint64_t> first_us_, now_us_;  ///< by the trace's clock
  uint64_t called_us_ = 0;                     ///< the call before
};

}  // namespace weir::tool::recorded
