// SPDX-License-Identifier: Apache-2.0
//
// `weir replay` of a trace of version 2: reads it, does what it says, reports.
#pragma once

#include "tools/weir/replay_options.hpp"
#include "tools/weir/trace_file.hpp"

#include <string>

namespace weir::tool::recorded {

struct ReplayReport {
  std::string text, json;
  uint64_t verify_errors = 0;
  std::vector<VerifyError> first_errors;
};

/// Throws ToolError, also for options that mean nothing for a recorded program.
ReplayReport replay_recorded(TraceFile &file, const ReplayOptions &options);

}  // namespace weir::tool::recorded
