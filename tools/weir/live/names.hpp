// SPDX-License-Identifier: Apache-2.0
//
// What the figures of live pages are called: counters as in weir_pool_stats, reasons as in core/live/layout.hpp.
#pragma once

#include "core/live/layout.hpp"

namespace weir::tool {

inline constexpr const char *live_counter_names[] = {
#define WEIR_NAME(name, meaning) #name,
    WEIR_POOL_STATS_FIELDS(WEIR_NAME)
#undef WEIR_NAME
};
inline constexpr const char *live_reason_names[] = {
#define WEIR_NAME(name, meaning) #name,
    WEIR_LIVE_WAITS(WEIR_NAME)
#undef WEIR_NAME
};

}  // namespace weir::tool
