// SPDX-License-Identifier: Apache-2.0
//
// The one symbol of the host backend built as a plugin library. Must not be linked into libweir.

#include "backends/host/table.hpp"

extern "C" __attribute__((visibility("default"))) const weir_backend_table *weir_backend_query(
    uint32_t abi_major) {
  return weir_host_backend_query(abi_major);
}
