// SPDX-License-Identifier: Apache-2.0
//
// One link after the other is measured, on the calling thread, within a bound of time for all of them. It knows no
// machine and no file: figures are handed out as they are found.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/clock.hpp"
#include "core/topology/figures.hpp"

#include <functional>
#include <memory_resource>
#include <vector>

namespace weir::topology {

/// Two ends whose links, both ways, are to be measured.
struct Pair {
  const backend::Device *a = nullptr;
  const backend::Device *b = nullptr;  ///< nullptr: the host; else of the same backend as `a`
};

struct CalibrateBounds {
  uint64_t time_ns = 0;  ///< a pair that is not begun within it is left out
  uint64_t bytes = 0;    ///< that may be held at once, both ends together
};

struct CalibrateCounts {
  uint32_t measured = 0, failed = 0, skipped = 0;
  uint64_t time_ns = 0;
};

/// What a link's measuring came to. `status` failed: figure has the ends only, and why is in last_error() of this thread.
using CalibrateResult = std::function<void(Status status, const Figure &figure)>;

/// Links to the host should come first: what there is no time for is at the end. `each` is called once a link that was
/// tried, with no lock held.
CalibrateCounts calibrate(const std::pmr::vector<Pair> &pairs, const CalibrateBounds &bounds,
                          const Clock &clock, const CalibrateResult &each);

}  // namespace weir::topology
