// SPDX-License-Identifier: Apache-2.0
//
// run_pickle: the pickle machine: a stack, a memo, and the operations of protocols 0 to 5 that make plain data. Nothing else of the
// program is reached from here.
#pragma once

#include "tools/weir/import/pickle.hpp"

namespace weir::tool {

/// What the bytes come to. Lists and dicts go to `lists`; `name` is for errors. Throws ToolError.
PickleValue run_pickle(const std::string &bytes, const std::string &name,
                       const PickleLimits &limits, std::vector<std::vector<PickleValue>> *lists);

}  // namespace weir::tool
