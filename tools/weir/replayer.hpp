// SPDX-License-Identifier: Apache-2.0
//
// Replayer: drives one machine through a plan. It keeps what each byte must hold (versions), hands
// the stream a job an operation, announces operations a window ahead, and runs ahead of the stream
// by a bounded number of operations.
#pragma once

#include "job.hpp"
#include "machine.hpp"
#include "pattern.hpp"
#include "plan.hpp"

#include <functional>
#include <optional>

namespace weir::tool {

/// How long an operation takes: max(flops / F, touched bytes / B), scaled down with the trace and
/// slowed at will.
struct Pace {
  double flops = 0;  ///< a second
  double bytes = 0;  ///< a second
  double link = 0;   ///< bytes a second, each way
  double slow = 1;

  double seconds(const Plan &plan, const PlanOperation &operation) const;
  /// The same as a job lasts.
  uint64_t nanoseconds(const Plan &plan, const PlanOperation &operation) const;
  double link_bandwidth() const { return link / slow; }
};

/// The sum over all operations.
double compute_seconds(const Plan &plan, const Pace &pace);

/// For RunOptions::announce: the whole plan, before its first operation. Its blocks are then all created first, so that they can be named;
/// they take no memory until they are used.
constexpr uint64_t announce_all = UINT64_MAX;

struct RunOptions {
  uint64_t announce = 32;  ///< operations; 0 = none
  uint64_t ahead = 64;     ///< operations the host may be ahead of the stream
  bool verify = true;      ///< fill and check; else jobs only hold time
  /// Every block is written once as it is born: its bytes are in the pool from then on, whatever uses the trace has.
  bool touch = false;
  std::optional<Pace> pace;
  std::function<void(uint64_t operations)> progress;  ///< told now and then; may be empty
  /// Told after each operation has been submitted and what it frees has been destroyed. May be empty.
  std::function<void(uint64_t operation)> after;
};

struct RunResult {
  double seconds = 0;                 ///< from the first operation to the end of the stream's work
  uint64_t begin_ns = 0, end_ns = 0;  ///< of CLOCK_MONOTONIC: the same
  double overrun_seconds =
      0;  ///< how much longer than their modelled times the operations' jobs took
  uint64_t verify_errors = 0;
  std::vector<VerifyError> first_errors;
};

/// Runs the whole plan and destroys the blocks that are left. Throws ToolError when the machine
/// refuses; no job runs any more then.
RunResult replay(const Plan &plan, Machine &machine, const Pattern &pattern,
                 const RunOptions &options);

}  // namespace weir::tool
