// SPDX-License-Identifier: Apache-2.0
//
// What the replay of a recorded program found, as text for people and as JSON for programs. The JSON names are a contract with
// scripts; they are only added to.
#pragma once

#include "tools/weir/recorded/run.hpp"

#include <string>

namespace weir::tool::recorded {

std::string report_json(const Program &program, const ReplayOptions &options,
                        const RunOutcome &outcome);
std::string report_text(const Program &program, const ReplayOptions &options,
                        const RunOutcome &outcome);

}  // namespace weir::tool::recorded
