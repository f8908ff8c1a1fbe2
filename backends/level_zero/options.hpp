// SPDX-License-Identifier: Apache-2.0
//
// The backend's options: what to leave unused of what the driver has, and whose context to work in.
#pragma once

#include <cstdint>
#include <string>

namespace weir::level_zero {

struct Options {
  bool vmm = true;              ///< 0: no virtual-memory management
  bool peer = true;             ///< 0: devices never reach each other's memory
  bool peer_cards = false;      ///< 1: those of two cards do so too where there is virtual memory
  bool shared_range = true;     ///< 0: a device's granules lie in ranges that it reserved
  bool transfer_stream = true;  ///< 0: copies run where kernels do
  bool host_register = true;    ///< 0: only memory made by this backend is copied from and to
  /// Wished for; a device whose pages it does not fit has none.
  uint64_t granule_large = uint64_t{32} << 20U;
  uint64_t context = 0;   ///< a ze_context_handle_t of the program's own; 0 = the backend makes one
  uint64_t driver = any;  ///< index among the loader's drivers; `any` = the first with a GPU
  static constexpr uint64_t any = UINT64_MAX;
};

/// Reads "key=value;key=value" over the defaults. "" or a sentence that names key and value.
std::string parse_options(const char *text, Options *options);

}  // namespace weir::level_zero
