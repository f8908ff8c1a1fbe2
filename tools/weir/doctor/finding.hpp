// SPDX-License-Identifier: Apache-2.0
//
// Finding: what one check of `weir doctor` has come to. A finding that is not ok says what to change, if anything can be changed.
#pragma once

#include <string>
#include <vector>

namespace weir::tool::doctor {

/// bad: something of Weir's does not work so. warn: it works, and slower or less of it.
enum class Level { ok, warn, bad };

struct Finding {
  std::string check;  ///< "locked-memory"
  Level level = Level::ok;
  std::string found;                ///< the value, and where it stands
  std::string why;                  ///< what of Weir's depends on it
  std::vector<std::string> change;  ///< commands, or lines for a file, each as it is to be written
};

}  // namespace weir::tool::doctor
