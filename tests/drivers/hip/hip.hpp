// SPDX-License-Identifier: Apache-2.0
//
// The functions that the look-alike exports, with the types of the mirror: a definition that differs does not compile.
#pragma once

#include "backends/hip/abi.hpp"

#define WEIR_DECLARE(name, need) \
  extern "C" __attribute__((visibility("default"))) weir::hip::abi::fn::name name;
WEIR_HIP_ENTRIES(WEIR_DECLARE)
#undef WEIR_DECLARE
/// Ends what the look-alike itself holds of the current device. For tests; Weir never calls it.
extern "C" __attribute__((visibility("default"))) weir::hip::abi::Error hipDeviceReset();
