// SPDX-License-Identifier: Apache-2.0
//
// ToolError: the one way a sub-command fails. Its text is the whole sentence the user reads on
// stderr; main() prints it and exits with 1. It must name the value or the place that is wrong.
#pragma once

#include <stdexcept>
#include <string>

namespace weir::tool {

class ToolError : public std::runtime_error {
 public:
  explicit ToolError(const std::string &sentence) : std::runtime_error(sentence) {}
};

}  // namespace weir::tool
