// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver's own look-up of its functions, in either of its forms: each function in the form of a version, and those
// that take a stream for the legacy default stream. Only the look-up itself is taken from the library by name, so that a
// library may stand before the driver that has nothing else.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace weir::bench {

/// WEIR_CUDA_LIBRARY, else libcuda.so.1; nullptr if it can't be loaded, and dlerror() says why.
inline void *open_cuda() {
  const char *named = std::getenv("WEIR_CUDA_LIBRARY");
  return dlopen(named != nullptr && *named != '\0' ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

class LookUp {
 public:
  explicit LookUp(void *library) {
    void *found = dlsym(library, "cuGetProcAddress_v2");
    std::memcpy(&newer_, &found, sizeof newer_);
    found = dlsym(library, "cuGetProcAddress");
    std::memcpy(&older_, &found, sizeof older_);
  }
  /// Stores the function, or NULL. False without one.
  template <class Slot>
  bool find(const char *name, int version, Slot *slot) const {
    constexpr uint64_t legacy_stream = 1;
    void *found = nullptr;
    int status = 0;
    int code = 1;
    if (newer_ != nullptr) {
      code = newer_(name, &found, version, legacy_stream, &status);
    } else if (older_ != nullptr) {
      code = older_(name, &found, version, legacy_stream);
    }
    if (code != 0) found = nullptr;
    std::memcpy(slot, &found, sizeof found);
    return found != nullptr;
  }

 private:
  int (*newer_)(const char *, void **, int, uint64_t, int *) = nullptr;
  int (*older_)(const char *, void **, int, uint64_t) = nullptr;
};

}  // namespace weir::bench
