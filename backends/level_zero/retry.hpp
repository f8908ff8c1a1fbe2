// SPDX-License-Identifier: Apache-2.0
//
// Ending an object of the runtime when no caller is left to be told of a failure. A call that failed is made
// once more: some failures pass (a device waking up, memory for a moment short), and what still fails then is
// the driver's to clean up when the process ends.
#pragma once

#include "backends/level_zero/abi.hpp"

namespace weir::level_zero {

template <class Call>
void twice(Call call) noexcept {
  if (call() != abi::success) (void)call();
}

}  // namespace weir::level_zero
