// SPDX-License-Identifier: Apache-2.0
//
// RecordedRun: does what a recorded program did, call by call in the trace's order and on one thread: on pools, streams and buffers
// of its own. What an operation reads is compared with what was written last, as `weir replay` does it with any trace.
#pragma once

#include "tools/weir/job.hpp"
#include "tools/weir/recorded/world.hpp"
#include "tools/weir/versions.hpp"

#include <weir/weir.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace weir::tool::recorded {

struct PoolOutcome {
  weir_pool_stats stats{};
  bool known = false;                 ///< there are some
  const Figures *recorded = nullptr;  ///< what the trace has of the same moment; may be none
};

struct RunOutcome {
  double seconds = 0;  ///< of all calls, and of the work that they enqueued
  uint64_t verify_errors = 0;
  std::vector<VerifyError> first_errors;
  std::vector<PoolOutcome> pools;
  std::vector<std::string> notes;  ///< what was done otherwise
};

/// Throws ToolError, with the trace's line, when a call is refused; nothing runs any more then.
RunOutcome run_recorded(const Program &program, const ReplayOptions &options,
                        const std::function<void(uint64_t acquires)> &progress);

}  // namespace weir::tool::recorded
