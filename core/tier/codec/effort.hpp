// SPDX-License-Identifier: Apache-2.0
//
// Effort: how much time a page's bytes are worth.
#pragma once

#include <cstdint>

namespace weir::tier {

/// quick: near the speed of memory. dense: as few bytes as can be had, at a tenth of the speed where it has to be tried.
enum class Effort : uint8_t { quick, dense };

}  // namespace weir::tier
