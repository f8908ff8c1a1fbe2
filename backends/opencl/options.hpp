// SPDX-License-Identifier: Apache-2.0
//
// The backend's options: which devices to take, what to leave unused of what they have, and whose context to work in.
#pragma once

#include <cstdint>
#include <string>

namespace weir::opencl {

struct Options {
  std::string library;  ///< the ICD loader's file; "" = the system's
  uint64_t platform =
      any;           ///< index in the loader's order; `any` = the first with a device that suffices
  bool cpu = false;  ///< 1: CPU devices beside others; without others they are taken anyway
  bool usm = true;   ///< 0: shared virtual memory also where there is unified shared memory
  bool integrated = true;     ///< 0: a device whose memory is the host's is treated like a card
  bool host_register = true;  ///< 0: only memory made by this backend is copied from and to
  uint64_t memory = 0;        ///< the most that a device gives out, in bytes; 0 = all it has
  uint64_t context = 0;       ///< a cl_context of the program's own; 0 = the backend makes one
  static constexpr uint64_t any = UINT64_MAX;
};

/// Reads "key=value;key=value" over the defaults. "" or a sentence that names key and value.
std::string parse_options(const char *text, Options *options);

}  // namespace weir::opencl
