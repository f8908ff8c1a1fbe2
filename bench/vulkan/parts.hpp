// SPDX-License-Identifier: Apache-2.0
//
// The parts of bench_vulkan; each makes what it needs and ends it.
#pragma once

#include "bench/device/report.hpp"
#include "bench/vulkan/engine.hpp"

namespace weir::bench {

inline constexpr const char *nobody_counts =
    "nobody counts calls: libweir_watched_vulkan.so is not the loader";

/// Pages evicted and restored beside the driver's own copies, and how many binds that takes.
void measure_pages(const Settings &settings, const Backend &backend, Report &report);
/// How many submissions a lease of resident memory makes, on a stream of Weir's.
void measure_hits(const Settings &settings, const Backend &backend, Report &report);
/// What the end of a lease costs on a queue that the program uses as well.
void measure_wrapped(const Settings &settings, const Backend &backend, Report &report);

}  // namespace weir::bench
