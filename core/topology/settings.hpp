// SPDX-License-Identifier: Apache-2.0
//
// The context's own options, "topology.key=value" among those of the backends, and the environment variable that names a
// file. It reads and checks; it acts on nothing.
#pragma once

#include "core/base/status.hpp"

#include <memory_resource>
#include <string>

namespace weir::topology {

struct Settings {
  explicit Settings(std::pmr::memory_resource *memory) : file(memory) {}
  std::pmr::string file;  ///< "" = the system's topology
  bool cache = true;      ///< figures of earlier measurements are read, and new ones saved
  bool rehearse = false;  ///< the host backend stands up the machine's devices
  uint64_t throttle = 0;  ///< how many times slower rehearsed links are; 0 = not held up
};

/// `options` are all of the context's. INVALID_ARGUMENT names what is wrong.
Status read_settings(const char *options, Settings *settings);

}  // namespace weir::topology
