// SPDX-License-Identifier: Apache-2.0
//
// The options of the HIP backend. A bad key or value is told, never guessed at.
#pragma once

#include <cstdint>
#include <string>

namespace weir::hip {

struct Options {
  bool vmm = true;
  bool multi_map = false;  ///< reported to go wrong, so only on the program's word
  bool peer = true;
  bool shared_range = true;
  bool map_run = true;
  bool batch_copy = false;  ///< reported to corrupt device memory, so only on the program's word
  bool export_fd = true;
  bool host_call = true;
  bool host_register = true;
  bool probe = true;     ///< tries virtual memory once a device, when the runtime starts
  uint64_t granule = 0;  ///< the program's word for the smallest one; 0 = a safe one (docs/hip.md)
  uint64_t granule_large = uint64_t{32} << 20U;  ///< 0 = none
  bool granule_large_given = false;
  uint64_t map_settle_us = 0;  ///< how long map() waits before it answers
};

/// Reads "key=value;key=value" over the defaults; "" or why not.
std::string parse_options(const char *text, Options *options);

}  // namespace weir::hip
