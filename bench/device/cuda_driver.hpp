// SPDX-License-Identifier: Apache-2.0
//
// The few functions of the CUDA driver that the yardsticks need and the backend ABI has not: launching kernels and
// stream-ordered allocation. Found as the backend finds its own: by the look-up of WEIR_CUDA_LIBRARY, else libcuda.so.1. The
// device's primary context is current on the making thread from construction to destruction. Streams are the driver's own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace weir::bench {

class CudaDriver {
 public:
  using Function = struct CUfunc_st *;

  /// nullptr if there is none, and why in *reason.
  static std::unique_ptr<CudaDriver> open(std::string *reason);
  ~CudaDriver();
  CudaDriver(const CudaDriver &) = delete;
  CudaDriver &operator=(const CudaDriver &) = delete;

  uint32_t multiprocessors() const { return multiprocessors_; }
  /// Kernels of a text in PTX, compiled by the driver. A text it refuses ends the program with the driver's words.
  void load(const char *ptx);
  Function kernel(const char *name) const;
  /// `parameters` as for cuLaunchKernel: pointers to the values.
  void launch(Function kernel, uint32_t blocks, uint32_t threads, void *stream,
              void **parameters) const;
  void synchronize(void *stream) const;
  /// From the device's default pool, which from now on keeps what is freed, as frameworks tell it to.
  uint64_t allocate(uint64_t bytes, void *stream) const;
  void free(uint64_t address, void *stream) const;

 private:
  struct Calls;
  CudaDriver() = default;
  void must(int result, const char *call) const;
  void keep_freed_memory() const;

  std::unique_ptr<Calls> calls_;
  void *library_ = nullptr;
  void *context_ = nullptr;
  void *module_ = nullptr;
  int device_ = 0;
  uint32_t multiprocessors_ = 0;
};

}  // namespace weir::bench
