// SPDX-License-Identifier: Apache-2.0
//
// Virtual time in builds that can't have it.
#include "tools/virtual_time/virtual_time.hpp"

namespace weir::virtual_time {

bool available() noexcept { return false; }
bool started() noexcept { return false; }
void start() noexcept {}

}  // namespace weir::virtual_time
