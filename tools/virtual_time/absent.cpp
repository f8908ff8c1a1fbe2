// SPDX-License-Identifier: Apache-2.0
//
// Virtual time in builds that can't have it.
#include "tools/virtual_time/switch.hpp"
#include "tools/virtual_time/virtual_time.hpp"

namespace weir::virtual_time {

bool available() noexcept { return false; }
bool started() noexcept { return false; }
void start() noexcept {}
bool can_switch() noexcept { return false; }

}  // namespace weir::virtual_time
