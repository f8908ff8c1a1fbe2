// SPDX-License-Identifier: Apache-2.0
//
// The time of an allocate and a free, of each allocator on each load.
#pragma once

#include "bench/arena/loads.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

namespace weir::bench {

/// A low percentile: what the work costs when no neighbour on the machine interferes.
inline double undisturbed(std::vector<double> values) {
  const auto tenth = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), tenth, values.end());
  return *tenth;
}

template <class Body>
double nanoseconds(Body &&body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

/// Of one allocator, a figure each repetition.
struct Figures {
  const char *name;
  std::vector<double> ns;
};

/// Of the repetitions' ratios.
struct Ratio {
  double middle, low, high;
};
Ratio ratio(const Figures &subject, const Figures &yardstick);

/// The arena's figures, then its yardsticks'. Every repetition runs each allocator once in a new process, so that each has
/// a fresh heap and none finds its records pushed out of the cache by another's. A process is timed for some ten
/// milliseconds, all of which a neighbour on the machine can slow: hence many, and the median.
std::vector<Figures> measure_pairs(const Load &load, int repetitions);
/// Such a process: writes its figure to standard output. Returns what main() returns.
int run_one(std::string_view load_name, std::string_view allocator);

}  // namespace weir::bench
