// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend's options (docs/cuda.md). A capability that is switched off is as if the driver lacked it.
#pragma once

#include <weir/backend.h>

#include <cstdint>
#include <string>

namespace weir::cuda {

struct Options {
  bool vmm = true;
  bool multi_map = true;
  bool peer = true;
  bool shared_range = true;
  bool map_run = true;
  bool access_later = true;
  bool batch_copy = false;  ///< counts if it was given; else the driver and the device decide
  bool batch_copy_given = false;
  bool rdma = true;
  bool export_fd = true;
  bool export_fabric = true;
  bool host_call = true;
  bool host_register = true;
  uint64_t granule_large = uint64_t{32}
                           << 20U;  ///< 0 = none; used where it fits the device's granule
};

/// On failure *reason names the key and the value.
weir_result parse_options(const char *text, Options *options, std::string *reason);

}  // namespace weir::cuda
