// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver itself, for figures about single calls of it: the few functions that they need, found by dlopen
// (WEIR_CUDA_LIBRARY, else libcuda.so.1) and by the driver's own look-up, each in the form of the version that is named here.
// The first device's primary context is retained, and current on the making thread, from retain() to the object's end. `must` ends
// the program; a case whose call may fail keeps the code.
#pragma once

#include "bench/common.hpp"

#include <memory>
#include <string>
#include <vector>

namespace weir::bench {

struct Placement {
  int type;
  int id;
};
inline constexpr int on_device = 1;

struct GranuleProperties {
  int type;
  int handle_types;
  Placement place;
  void *windows_metadata;
  unsigned char flags[8];
};

struct Access {
  Placement place;
  int flags;
};
inline constexpr int read_write = 3;

// name, version of the signature, parameters; all return a code.
#define WEIR_DRIVER_CALLS(X)                                                                       \
  X(cuInit, 2000, (unsigned flags))                                                                \
  X(cuGetErrorString, 6000, (int code, const char **text))                                         \
  X(cuDriverGetVersion, 2020, (int *version))                                                      \
  X(cuDeviceGetCount, 2000, (int *count))                                                          \
  X(cuDeviceGet, 2000, (int *device, int ordinal))                                                 \
  X(cuDeviceGetName, 2000, (char *text, int bytes, int device))                                    \
  X(cuDeviceGetAttribute, 2000, (int *value, int attribute, int device))                           \
  X(cuDeviceCanAccessPeer, 4000, (int *can, int device, int peer))                                 \
  X(cuDevicePrimaryCtxRetain, 7000, (void **context, int device))                                  \
  X(cuDevicePrimaryCtxRelease, 11000, (int device))                                                \
  X(cuCtxPushCurrent, 4000, (void *context))                                                       \
  X(cuCtxPopCurrent, 4000, (void **context))                                                       \
  X(cuMemGetInfo, 3020, (size_t * free_bytes, size_t * total))                                     \
  X(cuMemAlloc, 3020, (uint64_t * address, size_t bytes))                                          \
  X(cuMemFree, 3020, (uint64_t address))                                                           \
  X(cuMemHostAlloc, 2020, (void **memory, size_t bytes, unsigned flags))                           \
  X(cuMemFreeHost, 2000, (void *memory))                                                           \
  X(cuMemGetAllocationGranularity, 10020, (size_t * bytes, const GranuleProperties *, int option)) \
  X(cuMemAddressReserve, 10020,                                                                    \
    (uint64_t * address, size_t bytes, size_t alignment, uint64_t wanted, unsigned long long))     \
  X(cuMemAddressFree, 10020, (uint64_t address, size_t bytes))                                     \
  X(cuMemCreate, 10020,                                                                            \
    (uint64_t * granule, size_t bytes, const GranuleProperties *, unsigned long long flags))       \
  X(cuMemRelease, 10020, (uint64_t granule))                                                       \
  X(cuMemMap, 10020,                                                                               \
    (uint64_t address, size_t bytes, size_t offset, uint64_t granule, unsigned long long flags))   \
  X(cuMemUnmap, 10020, (uint64_t address, size_t bytes))                                           \
  X(cuMemSetAccess, 10020, (uint64_t address, size_t bytes, const Access *, size_t count))         \
  X(cuStreamCreate, 2000, (void **stream, unsigned flags))                                         \
  X(cuStreamDestroy, 4000, (void *stream))                                                         \
  X(cuStreamQuery, 2000, (void *stream))                                                           \
  X(cuStreamSynchronize, 2000, (void *stream))                                                     \
  X(cuMemcpyAsync, 4000, (uint64_t to, uint64_t from, size_t bytes, void *stream))
#define WEIR_DRIVER_MORE_CALLS(X)                                                          \
  X(cuLaunchHostFunc, 10000, (void *stream, void (*function)(void *), void *user))         \
  X(cuModuleLoadData, 2000, (void **module, const void *image))                            \
  X(cuModuleUnload, 2000, (void *module))                                                  \
  X(cuModuleGetFunction, 2000, (void **function, void *module, const char *name))          \
  X(cuLaunchKernel, 4000,                                                                  \
    (void *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,    \
     unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters, \
     void **extra))                                                                        \
  X(cuMemAllocManaged, 6000, (uint64_t * address, size_t bytes, unsigned flags))           \
  X(cuMemPrefetchAsync, 8000, (uint64_t address, size_t bytes, int device, void *stream))

/// What the command line asked for.
struct DriverSettings {
  std::string only;  ///< one part, or "" for all
  int repetitions = 9;
  int kernel_ms = 50;
  uint64_t bytes =
      1024 * mib;  ///< of managed memory, and less where less is free; half of it is remapped
};

class Driver {
 public:
  /// Without a context for as long as `retain` has not been called.
  explicit Driver(bool with_context = true);
  ~Driver();
  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;

#define WEIR_DRIVER_MEMBER(name, version, parameters) int(*name) parameters = nullptr;
  WEIR_DRIVER_CALLS(WEIR_DRIVER_MEMBER)
  WEIR_DRIVER_MORE_CALLS(WEIR_DRIVER_MEMBER)  // may be NULL
#undef WEIR_DRIVER_MEMBER

  void retain();
  void must(int code, const char *call) const;
  std::string words(int code) const;
  int device() const { return 0; }
  int devices() const { return devices_; }
  /// A device of silicon: only there do times mean anything.
  bool real() const { return real_; }
  int attribute(int which) const;
  /// As memory that is mapped must be asked for.
  GranuleProperties properties() const;
  /// Says the first line: what this is about.
  void introduce(const DriverSettings &settings) const;
  Json begin(const char *benchmark, const char *what, const char *yardstick) const;
  /// Says a figure; times as absolute values on a real device only.
  void say(Json json, const Pair &pair, size_t samples, const char *unit) const;
  static void skip(Json json, const std::string &reason);

 private:
  int devices_ = 0;
  bool real_ = true;
  void *context_ = nullptr;
};

/// Pinned host memory, and as much plain device memory, and a stream: how fast bytes are copied here.
class PlainCopy {
 public:
  PlainCopy(const Driver &driver, uint64_t bytes);
  ~PlainCopy();
  PlainCopy(const PlainCopy &) = delete;
  PlainCopy &operator=(const PlainCopy &) = delete;
  double up_ns(uint64_t bytes) const { return copy_ns(device_, host(), bytes); }
  double down_ns(uint64_t bytes) const { return copy_ns(host(), device_, bytes); }
  uint64_t device_address() const { return device_; }
  uint64_t host_address() const { return host(); }

 private:
  uint64_t host() const { return reinterpret_cast<uint64_t>(host_); }
  double copy_ns(uint64_t to, uint64_t from, uint64_t bytes) const;

  const Driver &driver_;
  void *host_ = nullptr;
  uint64_t device_ = 0;
  void *stream_ = nullptr;
};

/// Work that keeps a stream busy for a while: a kernel that only computes, or, where the driver runs no kernels, a host
/// function that sleeps.
class Work {
 public:
  Work(const Driver &driver, double ms);
  ~Work();
  Work(const Work &) = delete;
  Work &operator=(const Work &) = delete;
  const char *name() const { return kernel_ != nullptr ? "kernel" : "host function"; }
  /// How long it takes alone.
  double ns() const { return ns_; }
  void start();
  bool running() const;
  void wait() const;

 private:
  void launch();
  double timed();
  void calibrate();

  const Driver &driver_;
  double ns_;
  void *stream_ = nullptr;
  void *module_ = nullptr;
  void *kernel_ = nullptr;
  uint64_t out_ = 0;
  uint32_t rounds_ = 64;
  uint32_t blocks_ = 1;
};

/// On a driver without a context: the first calls that a process makes.
void measure_first_calls(const Driver &driver);
void measure_calls(const DriverSettings &settings, const Driver &driver);
void measure_remapping(const DriverSettings &settings, const Driver &driver);
void measure_managed(const DriverSettings &settings, const Driver &driver);

}  // namespace weir::bench
