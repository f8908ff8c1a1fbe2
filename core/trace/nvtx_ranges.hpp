// SPDX-License-Identifier: Apache-2.0
//
// Ranges for NVIDIA's profilers: NVTX 3, whose header finds the profiler's library by itself (NVTX_INJECTION64_PATH); nothing is linked.
// The header is known to nvtx_ranges.cpp alone, and a library that was built without it reports no ranges.
#pragma once

#include "core/base/ranges.hpp"

namespace weir::trace {

bool nvtx_is_built_in() noexcept;
/// The sink for the process's domain "weir", for as long as the process lives. nullptr: no profiler takes ranges. Any thread.
RangeSink *nvtx_ranges();

}  // namespace weir::trace
