// SPDX-License-Identifier: Apache-2.0
//
// The options of the simulated Level Zero driver itself, as control.h describes them. Nothing is guessed.
#pragma once

#include <cstdint>
#include <string>

namespace weir::sim::ze {

struct DriverOptions {
  uint64_t max_alloc = 0;                    ///< 0: all of the device's memory
  uint64_t large_page = uint64_t{2} << 20U;  ///< of objects of 2 MiB and more
  bool multi_map = false;
  bool import = true;
  uint64_t tiles = 1;  ///< devices on one card
  bool stale_imports = true;
  uint64_t hold_ns = 2'000'000;
  uint64_t barrier_ns = 0;  ///< how long a barrier takes
  bool clock_units = false;
};

/// Reads "key=value;key=value" (NULL = none) over the defaults. "" or what was wrong.
std::string parse_options(const char *text, DriverOptions *options);

}  // namespace weir::sim::ze
