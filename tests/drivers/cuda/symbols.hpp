// SPDX-License-Identifier: Apache-2.0
//
// Every function of the simulated CUDA driver: its type in the mirror (or here, where the mirror has none), the name it is
// exported by, the name and the versions under which cuGetProcAddress finds it. A form ends where the vendor brought
// another one under the same name that is not simulated: asked for that version, the look-up says that it has none.
#pragma once

#include "backends/cuda/abi.hpp"

#include <cstddef>
#include <cstdint>

namespace weir::sim_cuda {

namespace abi = cuda::abi;

/// The newest version that the driver can be, and is unless told otherwise.
inline constexpr int newest_version = 13000;
inline constexpr int for_ever = 1 << 30;

namespace more {  // what the CUDA backend does not use
using abi::Context;
using abi::DevicePointer;
using abi::Result;
using abi::Stream;
using cuDevicePrimaryCtxReset = Result(abi::Device device);
using cuMemcpyHtoD = Result(DevicePointer destination, const void *source, size_t bytes);
using cuMemcpyDtoH = Result(void *destination, DevicePointer source, size_t bytes);
using cuMemcpyDtoD = Result(DevicePointer destination, DevicePointer source, size_t bytes);
using cuMemcpyPeerAsync = Result(DevicePointer destination, Context destination_context,
                                 DevicePointer source, Context source_context, size_t bytes,
                                 Stream stream);
using cuMemGetAddressRange = Result(DevicePointer *start, size_t *bytes, DevicePointer address);
using cuStreamGetCaptureInfo = Result(Stream stream, int *status,
                                      uint64_t *id);  // the form of 10.1
}  // namespace more

/// X(the namespace of its type, its type, exported name, looked-up name, since, until)
#define WEIR_SIM_CUDA_FUNCTIONS(X)                                                                 \
  X(abi::fn, cuGetProcAddress, cuGetProcAddress, "cuGetProcAddress", 11030, 12000)                 \
  X(abi::fn, cuGetProcAddress_v2, cuGetProcAddress_v2, "cuGetProcAddress", 12000, for_ever)        \
  X(abi::fn, cuInit, cuInit, "cuInit", 2000, for_ever)                                             \
  X(abi::fn, cuDriverGetVersion, cuDriverGetVersion, "cuDriverGetVersion", 2020, for_ever)         \
  X(abi::fn, cuGetErrorName, cuGetErrorName, "cuGetErrorName", 6000, for_ever)                     \
  X(abi::fn, cuGetErrorString, cuGetErrorString, "cuGetErrorString", 6000, for_ever)               \
  X(abi::fn, cuDeviceGetCount, cuDeviceGetCount, "cuDeviceGetCount", 2000, for_ever)               \
  X(abi::fn, cuDeviceGet, cuDeviceGet, "cuDeviceGet", 2000, for_ever)                              \
  X(abi::fn, cuDeviceGetName, cuDeviceGetName, "cuDeviceGetName", 2000, for_ever)                  \
  X(abi::fn, cuDeviceGetUuid, cuDeviceGetUuid, "cuDeviceGetUuid", 9020, 11040)                     \
  X(abi::fn, cuDeviceGetUuid, cuDeviceGetUuid_v2, "cuDeviceGetUuid", 11040, for_ever)              \
  X(abi::fn, cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", 4010, for_ever)      \
  X(abi::fn, cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", 4010,          \
    for_ever)                                                                                      \
  X(abi::fn, cuDeviceTotalMem, cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, for_ever)            \
  X(abi::fn, cuDeviceGetAttribute, cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000, for_ever)   \
  X(abi::fn, cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, "cuDeviceGetP2PAttribute", 8000,    \
    for_ever)                                                                                      \
  X(abi::fn, cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", 4000,          \
    for_ever)                                                                                      \
  X(abi::fn, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, \
    for_ever)                                                                                      \
  X(abi::fn, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", \
    7000, for_ever)                                                                                \
  X(more, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 7000,    \
    for_ever)                                                                                      \
  X(abi::fn, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", \
    7000, for_ever)                                                                                \
  X(abi::fn, cuCtxCreate, cuCtxCreate_v2, "cuCtxCreate", 3020, 11040)                              \
  X(abi::fn, cuCtxDestroy, cuCtxDestroy_v2, "cuCtxDestroy", 4000, for_ever)                        \
  X(abi::fn, cuCtxGetCurrent, cuCtxGetCurrent, "cuCtxGetCurrent", 4000, for_ever)                  \
  X(abi::fn, cuCtxSetCurrent, cuCtxSetCurrent, "cuCtxSetCurrent", 4000, for_ever)                  \
  X(abi::fn, cuCtxPushCurrent, cuCtxPushCurrent_v2, "cuCtxPushCurrent", 4000, for_ever)            \
  X(abi::fn, cuCtxPopCurrent, cuCtxPopCurrent_v2, "cuCtxPopCurrent", 4000, for_ever)               \
  X(abi::fn, cuCtxGetDevice, cuCtxGetDevice, "cuCtxGetDevice", 2000, 13000)                        \
  X(abi::fn, cuCtxSynchronize, cuCtxSynchronize, "cuCtxSynchronize", 2000, 13000)                  \
  X(abi::fn, cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000,          \
    for_ever)                                                                                      \
  X(abi::fn, cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", 4000,       \
    for_ever)                                                                                      \
  X(abi::fn, cuMemGetInfo, cuMemGetInfo_v2, "cuMemGetInfo", 3020, for_ever)                        \
  X(abi::fn, cuMemAlloc, cuMemAlloc_v2, "cuMemAlloc", 3020, for_ever)                              \
  X(abi::fn, cuMemFree, cuMemFree_v2, "cuMemFree", 3020, for_ever)                                 \
  X(more, cuMemGetAddressRange, cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, for_ever)   \
  X(abi::fn, cuMemHostAlloc, cuMemHostAlloc, "cuMemHostAlloc", 2020, for_ever)                     \
  X(abi::fn, cuMemFreeHost, cuMemFreeHost, "cuMemFreeHost", 2000, for_ever)                        \
  X(abi::fn, cuMemHostRegister, cuMemHostRegister_v2, "cuMemHostRegister", 6050, for_ever)         \
  X(abi::fn, cuMemHostUnregister, cuMemHostUnregister, "cuMemHostUnregister", 4000, for_ever)      \
  X(abi::fn, cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, "cuMemHostGetDevicePointer", \
    3020, for_ever)                                                                                \
  X(abi::fn, cuPointerGetAttribute, cuPointerGetAttribute, "cuPointerGetAttribute", 4000,          \
    for_ever)                                                                                      \
  X(abi::fn, cuPointerGetAttributes, cuPointerGetAttributes, "cuPointerGetAttributes", 7000,       \
    for_ever)                                                                                      \
  X(abi::fn, cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,                         \
    "cuMemGetAllocationGranularity", 10020, for_ever)                                              \
  X(abi::fn, cuMemCreate, cuMemCreate, "cuMemCreate", 10020, for_ever)                             \
  X(abi::fn, cuMemRelease, cuMemRelease, "cuMemRelease", 10020, for_ever)                          \
  X(abi::fn, cuMemAddressReserve, cuMemAddressReserve, "cuMemAddressReserve", 10020, for_ever)     \
  X(abi::fn, cuMemAddressFree, cuMemAddressFree, "cuMemAddressFree", 10020, for_ever)              \
  X(abi::fn, cuMemMap, cuMemMap, "cuMemMap", 10020, for_ever)                                      \
  X(abi::fn, cuMemUnmap, cuMemUnmap, "cuMemUnmap", 10020, for_ever)                                \
  X(abi::fn, cuMemSetAccess, cuMemSetAccess, "cuMemSetAccess", 10020, for_ever)                    \
  X(abi::fn, cuMemGetAccess, cuMemGetAccess, "cuMemGetAccess", 10020, for_ever)                    \
  X(abi::fn, cuMemExportToShareableHandle, cuMemExportToShareableHandle,                           \
    "cuMemExportToShareableHandle", 10020, for_ever)                                               \
  X(abi::fn, cuMemImportFromShareableHandle, cuMemImportFromShareableHandle,                       \
    "cuMemImportFromShareableHandle", 10020, for_ever)                                             \
  X(abi::fn, cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle,       \
    "cuMemGetAllocationPropertiesFromHandle", 10020, for_ever)                                     \
  X(abi::fn, cuMemRetainAllocationHandle, cuMemRetainAllocationHandle,                             \
    "cuMemRetainAllocationHandle", 11000, for_ever)                                                \
  X(abi::fn, cuStreamCreate, cuStreamCreate, "cuStreamCreate", 2000, for_ever)                     \
  X(abi::fn, cuStreamCreateWithPriority, cuStreamCreateWithPriority, "cuStreamCreateWithPriority", \
    5050, for_ever)                                                                                \
  X(abi::fn, cuStreamDestroy, cuStreamDestroy_v2, "cuStreamDestroy", 4000, for_ever)               \
  X(abi::fn, cuStreamQuery, cuStreamQuery, "cuStreamQuery", 2000, for_ever)                        \
  X(abi::fn, cuStreamSynchronize, cuStreamSynchronize, "cuStreamSynchronize", 2000, for_ever)      \
  X(abi::fn, cuStreamWaitEvent, cuStreamWaitEvent, "cuStreamWaitEvent", 3020, for_ever)            \
  X(abi::fn, cuStreamGetFlags, cuStreamGetFlags, "cuStreamGetFlags", 5050, for_ever)               \
  X(abi::fn, cuStreamGetCtx, cuStreamGetCtx, "cuStreamGetCtx", 9020, 12050)                        \
  X(abi::fn, cuStreamGetDevice, cuStreamGetDevice, "cuStreamGetDevice", 12080, for_ever)           \
  X(abi::fn, cuStreamIsCapturing, cuStreamIsCapturing, "cuStreamIsCapturing", 10000, for_ever)     \
  X(abi::fn, cuStreamBeginCapture, cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010,         \
    for_ever)                                                                                      \
  X(abi::fn, cuStreamEndCapture, cuStreamEndCapture, "cuStreamEndCapture", 10000, for_ever)        \
  X(more, cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo", 10010, 11030)  \
  X(abi::fn, cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode,                 \
    "cuThreadExchangeStreamCaptureMode", 10010, for_ever)                                          \
  X(abi::fn, cuGraphDestroy, cuGraphDestroy, "cuGraphDestroy", 10000, for_ever)                    \
  X(abi::fn, cuLaunchHostFunc, cuLaunchHostFunc, "cuLaunchHostFunc", 10000, 13010)                 \
  X(abi::fn, cuEventCreate, cuEventCreate, "cuEventCreate", 2000, for_ever)                        \
  X(abi::fn, cuEventDestroy, cuEventDestroy_v2, "cuEventDestroy", 4000, for_ever)                  \
  X(abi::fn, cuEventRecord, cuEventRecord, "cuEventRecord", 2000, for_ever)                        \
  X(abi::fn, cuEventQuery, cuEventQuery, "cuEventQuery", 2000, for_ever)                           \
  X(abi::fn, cuEventSynchronize, cuEventSynchronize, "cuEventSynchronize", 2000, for_ever)         \
  X(abi::fn, cuEventElapsedTime, cuEventElapsedTime, "cuEventElapsedTime", 2000, for_ever)         \
  X(abi::fn, cuMemcpy, cuMemcpy, "cuMemcpy", 4000, for_ever)                                       \
  X(more, cuMemcpyHtoD, cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, for_ever)                           \
  X(more, cuMemcpyDtoH, cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, for_ever)                           \
  X(more, cuMemcpyDtoD, cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020, for_ever)                           \
  X(abi::fn, cuMemcpyAsync, cuMemcpyAsync, "cuMemcpyAsync", 4000, for_ever)                        \
  X(more, cuMemcpyPeerAsync, cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 4000, for_ever)               \
  X(abi::fn, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020, for_ever)         \
  X(abi::fn, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020, for_ever)         \
  X(abi::fn, cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020, for_ever)         \
  X(abi::fn, cuMemcpyBatchAsync_12080, cuMemcpyBatchAsync, "cuMemcpyBatchAsync", 12080, 13000)     \
  X(abi::fn, cuMemcpyBatchAsync_13000, cuMemcpyBatchAsync_v2, "cuMemcpyBatchAsync", 13000,         \
    for_ever)                                                                                      \
  X(abi::fn, cuMemsetD8, cuMemsetD8_v2, "cuMemsetD8", 3020, for_ever)                              \
  X(abi::fn, cuMemsetD8Async, cuMemsetD8Async, "cuMemsetD8Async", 3020, for_ever)

}  // namespace weir::sim_cuda

#pragma GCC visibility push(default)
extern "C" {
#define WEIR_SIM_CUDA_DECLARE(space, type, exported, name, since, until) \
  weir::sim_cuda::space::type exported;
WEIR_SIM_CUDA_FUNCTIONS(WEIR_SIM_CUDA_DECLARE)
#undef WEIR_SIM_CUDA_DECLARE
}
#pragma GCC visibility pop
