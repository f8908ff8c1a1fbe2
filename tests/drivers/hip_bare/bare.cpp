// SPDX-License-Identifier: Apache-2.0
//
// A HIP runtime that is new enough and has next to nothing. Any call but for its version ends the program: a backend
// must notice what is missing before it calls.

#include <cstdlib>

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))

WEIR_EXPORT int hipRuntimeGetVersion(int *version) {
  *version = 60242134;
  return 0;
}

WEIR_EXPORT int hipInit(unsigned) { std::abort(); }

WEIR_EXPORT int hipGetDeviceCount(int *) { std::abort(); }
