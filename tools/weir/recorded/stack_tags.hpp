// SPDX-License-Identifier: Apache-2.0
//
// stack_tags: the stacks of a recorded program as tags that weir frag takes for stacks: frames with ";" between them, the outermost first.
// Offsets have become names where addr2line knows them.
#pragma once

#include "tools/weir/recorded/program.hpp"

#include <string>
#include <vector>

namespace weir::tool::recorded {

/// By index of Program::stacks. What could not be named is said in `notes`.
std::vector<std::string> stack_tags(const Program &program, std::vector<std::string> *notes);

}  // namespace weir::tool::recorded
