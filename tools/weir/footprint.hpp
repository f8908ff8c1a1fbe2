// SPDX-License-Identifier: Apache-2.0
//
// Footprint: how much device memory a trace needs at a page size: for everything at once, and for
// its largest operation. Both are upper bounds, as slabs and the lag between submission and
// completion are the library's matter.
#pragma once

#include "plan.hpp"

#include <cstdint>

namespace weir::tool {

struct FootprintOptions {
  uint64_t page = 0;
  uint64_t ahead = 0;  ///< operations the host may run ahead: memory freed there is still charged
  bool whole_blocks = false;  ///< residency is by whole blocks (no VMM)
};

struct Footprint {
  uint64_t all_resident = 0;  ///< a budget under which nothing is ever evicted
  uint64_t live = 0;          ///< peak of live blocks in whole pages
  uint64_t largest_set = 0;   ///< the largest operation's uses in whole pages
};

Footprint measure_footprint(const Plan &plan, const FootprintOptions &options);

/// The page size when none is asked for: the power of two nearest peak / 4096, in [16 KiB, 2 MiB].
uint64_t default_granule(uint64_t peak_live_bytes);

}  // namespace weir::tool
