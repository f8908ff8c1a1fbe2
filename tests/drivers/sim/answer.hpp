// SPDX-License-Identifier: Apache-2.0
//
// What the simulated machine says to a driver. A driver turns answers into its vendor's codes, and nothing
// else does. `invalid` is always counted as misuse by whoever found it, with a sentence.
#pragma once

#include <cstdint>

namespace weir::sim {

enum class Answer : uint8_t {
  ok,
  not_ready,
  timeout,
  invalid,             ///< a bad address, an overlap, a size of no multiple, a handle of nothing
  out_of_memory,       ///< the device has none left, or not in one piece
  out_of_host_memory,  ///< the process has none left
  no_addresses,        ///< no room for a reservation
  registered_already,  ///< host memory
  not_registered,      ///< host memory
  illegal_address,  ///< work that ran touched memory that was not there, or that it may not reach
  lost,             ///< the device is lost
  system,           ///< the operating system refused
};

}  // namespace weir::sim
