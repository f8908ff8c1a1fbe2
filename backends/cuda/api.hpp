// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver's entry points, found in the driver's own library and by its own look-up, each at the version
// whose signature we mirror. What every driver from 12.0 on has is required; the rest may be NULL.
#pragma once

#include "backends/common/library.hpp"
#include "backends/cuda/abi.hpp"

#include <weir/backend.h>

#include <string>

namespace weir::cuda {

// clang-format off
#define WEIR_CUDA_REQUIRED(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGetCount) \
  X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceGetPCIBusId) \
  X(cuDeviceTotalMem) X(cuDeviceGetAttribute) X(cuDeviceGetP2PAttribute) \
  X(cuDeviceCanAccessPeer) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) \
  X(cuCtxGetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxEnablePeerAccess) \
  X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) \
  X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemGetAllocationGranularity) X(cuMemCreate) \
  X(cuMemRelease) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) \
  X(cuMemSetAccess) X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle) \
  X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamQuery) X(cuStreamSynchronize) \
  X(cuStreamWaitEvent) X(cuStreamGetCtx) X(cuStreamIsCapturing) \
  X(cuThreadExchangeStreamCaptureMode) X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) \
  X(cuEventQuery) X(cuMemcpyAsync) X(cuMemsetD8Async)
// clang-format on

#define WEIR_CUDA_OPTIONAL(X) \
  X(cuLaunchHostFunc) X(cuMemcpyBatchAsync_12080) X(cuMemcpyBatchAsync_13000)

class Api {
 public:
  /// Finds the driver and starts it. On failure *reason says why in words for a person. No other entry point is called
  /// after a failure: a driver that could not start may not survive it.
  weir_result load(std::string *reason);

  /// 12040 for 12.4.
  int version() const noexcept { return version_; }
  /// A result's name and words, "CUDA_ERROR_OUT_OF_MEMORY" and "out of memory"; never NULL.
  const char *name_of(abi::Result code) const noexcept;
  const char *words_of(abi::Result code) const noexcept;

#define WEIR_CUDA_MEMBER(name) abi::fn::name *name = nullptr;
  WEIR_CUDA_REQUIRED(WEIR_CUDA_MEMBER)
  WEIR_CUDA_OPTIONAL(WEIR_CUDA_MEMBER)
#undef WEIR_CUDA_MEMBER

 private:
  weir_result find_look_up(std::string *reason);
  weir_result find_entries(std::string *reason);
  abi::Result find(const char *symbol, int version, void **function) const noexcept;
  weir_result check_version(std::string *reason);

  common::Library library_;
  abi::fn::cuGetProcAddress_v2 *look_up_ = nullptr;
  abi::fn::cuGetProcAddress *old_look_up_ = nullptr;
  int version_ = 0;
};

}  // namespace weir::cuda
