// SPDX-License-Identifier: Apache-2.0
//
// The functions that the driver gives by name only.
#pragma once

namespace weir::sim::ze {

/// nullptr if there is no such function.
void *extension_function(const char *name) noexcept;

}  // namespace weir::sim::ze
