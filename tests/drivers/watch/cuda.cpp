// SPDX-License-Identifier: Apache-2.0
//
// libweir_watched_cuda.so: stands before a CUDA driver, real or simulated, and notes each call while it lasts (notes.hpp), so
// that scripts/gpu-check can name the call in which a process is stuck. Named by WEIR_CUDA_LIBRARY; the driver behind it is
// WEIR_WATCHED_LIBRARY, else libcuda.so.1. It has the driver's look-up function and nothing else: whoever looks a function up
// in exactly the form that Weir mirrors gets it watched, all others get the driver's own. Without WEIR_WATCH_DIR everybody does.

#include "backends/cuda/abi.hpp"
#include "tests/drivers/watch/notes.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

namespace weir::watch {
namespace {

namespace cu = cuda::abi;

/// What the benchmarks call and the backends do not.
namespace more {
using cu::Device;
using cu::DevicePointer;
using cu::Module;
using cu::Result;
using cu::Stream;
using cuModuleLoadDataEx = Result(Module *, const void *, unsigned, int *, void **);
using cuMemAllocAsync = Result(DevicePointer *, size_t, Stream);
using cuMemFreeAsync = Result(DevicePointer, Stream);
using cuMemAllocManaged = Result(DevicePointer *, size_t, unsigned);
using cuMemPrefetchAsync = Result(DevicePointer, size_t, Device, Stream);
}  // namespace more
#define WEIR_WATCH_MORE(X)                          \
  X(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010) \
  X(cuMemAllocAsync, "cuMemAllocAsync", 11020)      \
  X(cuMemFreeAsync, "cuMemFreeAsync", 11020)        \
  X(cuMemAllocManaged, "cuMemAllocManaged", 6000)   \
  X(cuMemPrefetchAsync, "cuMemPrefetchAsync", 8000)

#define WEIR_WATCH_NUMBER(entry, symbol, since) number_##entry,
enum Number : uint32_t {
  WEIR_CUDA_ENTRIES(WEIR_WATCH_NUMBER) WEIR_WATCH_MORE(WEIR_WATCH_NUMBER) number_look_up,
  number_load,
  number_of_names
};
#undef WEIR_WATCH_NUMBER

#define WEIR_WATCH_NAME(entry, symbol, since) symbol,
constexpr const char *names[] = {WEIR_CUDA_ENTRIES(WEIR_WATCH_NAME)
                                     WEIR_WATCH_MORE(WEIR_WATCH_NAME) "cuGetProcAddress",
                                 "dlopen of the driver"};
#undef WEIR_WATCH_NAME

template <uint32_t Name, class Function>
struct Watched;
template <uint32_t Name, class Answer, class... Arguments>
struct Watched<Name, Answer(Arguments...)> {
  static inline Answer (*real)(Arguments...) = nullptr;
  static Answer call(Arguments... arguments) {
    const Inside inside(Name);
    return real(arguments...);
  }
  static void *stand_before(void *function) noexcept {
    std::memcpy(&real, &function, sizeof real);
    Answer (*const mine)(Arguments...) = call;
    void *pointer = nullptr;
    std::memcpy(&pointer, &mine, sizeof pointer);
    return pointer;
  }
};

/// What the look-up found, or our function that calls it.
void *watched(const char *symbol, int version, void *found) noexcept {
#define WEIR_WATCH_ENTRY(space, entry, name, since)           \
  if (version == (since) && std::strcmp(symbol, (name)) == 0) \
    return Watched<number_##entry, space::entry>::stand_before(found);
#define WEIR_WATCH_MINE(entry, name, since) WEIR_WATCH_ENTRY(cu::fn, entry, name, since)
#define WEIR_WATCH_OTHER(entry, name, since) WEIR_WATCH_ENTRY(more, entry, name, since)
  WEIR_CUDA_ENTRIES(WEIR_WATCH_MINE)
  WEIR_WATCH_MORE(WEIR_WATCH_OTHER)
#undef WEIR_WATCH_OTHER
#undef WEIR_WATCH_MINE
#undef WEIR_WATCH_ENTRY
  return found;
}

struct Behind {
  cu::fn::cuGetProcAddress_v2 *newer = nullptr;
  cu::fn::cuGetProcAddress *older = nullptr;
  bool noted = false;
  Behind() {
    noted = open_notes(names, number_of_names);
    const Inside inside(number_load);
    const char *named = secure_getenv("WEIR_WATCHED_LIBRARY");
    void *library =
        dlopen(named != nullptr && *named != '\0' ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    void *found = dlsym(library, "cuGetProcAddress_v2");
    std::memcpy(&newer, &found, sizeof newer);
    found = dlsym(library, "cuGetProcAddress");
    std::memcpy(&older, &found, sizeof older);
  }
};

Behind &behind() {
  static Behind one;
  return one;
}

}  // namespace
}  // namespace weir::watch

#pragma GCC visibility push(default)
extern "C" {
weir::cuda::abi::fn::cuGetProcAddress_v2 cuGetProcAddress_v2;
weir::cuda::abi::fn::cuGetProcAddress cuGetProcAddress;
}
#pragma GCC visibility pop

weir::cuda::abi::Result cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                            uint64_t flags, int *status) {
  using namespace weir::watch;
  const Behind &driver = behind();
  if (driver.newer == nullptr && driver.older == nullptr) return cu::result::not_found;
  const Inside inside(number_look_up);
  cu::Result result = cu::result::success;
  if (driver.newer != nullptr) {
    result = driver.newer(symbol, function, version, flags, status);
  } else {
    result = driver.older(symbol, function, version, flags);
    if (status != nullptr)
      *status = result == cu::result::success ? cu::proc_found : cu::proc_not_found;
  }
  if (driver.noted && result == cu::result::success && *function != nullptr)
    *function = watched(symbol, version, *function);
  return result;
}

weir::cuda::abi::Result cuGetProcAddress(const char *symbol, void **function, int version,
                                         uint64_t flags) {
  int status = 0;
  return cuGetProcAddress_v2(symbol, function, version, flags, &status);
}
