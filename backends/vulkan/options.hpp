// SPDX-License-Identifier: Apache-2.0
//
// The backend's options: which devices to use, and what to leave unused of what the driver has.
#pragma once

#include <cstdint>
#include <string>

namespace weir::vulkan {

struct Options {
  bool cpu = false;  ///< 1: implementations on the CPU too, not only where there is no other device
  bool vmm = true;   ///< 0: no virtual-memory management
  bool multi_map = true;        ///< 0: a granule is mapped once at a time
  bool map_run = true;          ///< 0: one bind a granule
  bool batch_copy = true;       ///< 0: one call a copy
  bool export_fd = true;        ///< 0: nothing can be exported
  bool transfer_stream = true;  ///< 0: copies run where kernels do
  bool host_register = true;    ///< 0: only memory made by this backend is copied from and to
  bool integrated = true;  ///< 0: a device with the host's memory is taken for one that has its own
  uint64_t memory = 0;     ///< so much of each device's memory is used at most; 0 = all of it
  /// Wished for; the driver's alignment may ask for more.
  uint64_t granule = uint64_t{2} << 20U;
  uint64_t granule_large = uint64_t{32} << 20U;
  std::string library;  ///< the loader's file; "": where the system looks
};

/// Reads "key=value;key=value" over the defaults. "" or a sentence that names key and value.
std::string parse_options(const char *text, Options *options);

}  // namespace weir::vulkan
