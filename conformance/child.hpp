// SPDX-License-Identifier: Apache-2.0
//
// What the processes do that the runner starts: one requirement each, or a look at the backend. They tell
// the runner on starter_descriptor what came of it, as their last act.
#pragma once

#include "conformance/settings.hpp"

#include <cstdint>
#include <string>

namespace weir::conformance {

/// What a requirement's process says. Crashes and timeouts are seen by the runner; waivers are its own.
struct Report {
  std::string verdict;  ///< "pass", "fail", "not-supported" or "empty"
  uint64_t capabilities = 0;
  std::string message;
};
std::string write_report(const Report &report);
/// False if the text is none.
bool read_report(const std::string &text, Report *report);

/// The seed of one requirement, which does not depend on what else is run.
uint64_t seed_for(uint64_t seed, const std::string &id);

/// The program's exit status, for the roles that are not the runner's.
int run_role(const Settings &settings);

}  // namespace weir::conformance
