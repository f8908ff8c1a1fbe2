// SPDX-License-Identifier: Apache-2.0
//
// The part of the HIP runtime's binary interface that Weir uses, as ROCm 6 and 7 have it: a mirror of our own, so
// that no vendor header is needed to build. tests/mirrors/hip.cpp compares it with the real headers where they are.
//
// ROCm 5 must never be called through it: hipMemAllocationProp, hipDeviceProp_t and several enumerations changed
// under the same names. No hipDeviceProp_t is mirrored: attributes, name and PCI address say all that is needed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::hip::abi {

/// hipError_t.
using Error = int32_t;
inline constexpr Error success = 0;
inline constexpr Error invalid_value = 1;
inline constexpr Error out_of_memory = 2;
inline constexpr Error not_initialized = 3;
inline constexpr Error deinitialized = 4;
inline constexpr Error invalid_device_pointer = 17;
inline constexpr Error insufficient_driver = 35;
inline constexpr Error no_device = 100;
inline constexpr Error invalid_device = 101;
inline constexpr Error invalid_context = 201;
inline constexpr Error map_failed = 205;
inline constexpr Error unmap_failed = 206;
inline constexpr Error already_mapped = 208;
inline constexpr Error not_mapped = 211;
inline constexpr Error ecc_not_correctable = 214;
inline constexpr Error peer_access_unsupported = 217;
inline constexpr Error operating_system = 304;
inline constexpr Error invalid_handle = 400;
inline constexpr Error not_found = 500;
inline constexpr Error not_ready = 600;
inline constexpr Error illegal_address = 700;
inline constexpr Error launch_time_out = 702;
inline constexpr Error peer_access_already_enabled = 704;
inline constexpr Error peer_access_not_enabled = 705;
inline constexpr Error context_is_destroyed = 709;
inline constexpr Error assertion = 710;
inline constexpr Error host_memory_already_registered = 712;
inline constexpr Error host_memory_not_registered = 713;
inline constexpr Error launch_failure = 719;
inline constexpr Error not_supported = 801;
inline constexpr Error stream_capture_unsupported = 900;
inline constexpr Error stream_capture_invalidated = 901;
inline constexpr Error stream_capture_implicit = 906;
inline constexpr Error captured_event = 907;
inline constexpr Error stream_capture_wrong_thread = 908;
inline constexpr Error unknown = 999;
inline constexpr Error runtime_memory = 1052;
inline constexpr Error runtime_other = 1053;

/// The first runtime whose interface this is: major * 10,000,000 + minor * 100,000 + patch.
inline constexpr int first_version = 60000000;

using Device = int;
using Stream = struct StreamObject *;       ///< hipStream_t
using Event = struct EventObject *;         ///< hipEvent_t
using Memory = struct PhysicalMemory *;     ///< hipMemGenericAllocationHandle_t
using HostFunction = void (*)(void *user);  ///< hipHostFn_t

/// The default streams are values, not objects: the legacy one is NULL.
inline constexpr uintptr_t stream_legacy = 1;  ///< hipStreamLegacy, since ROCm 7
inline constexpr uintptr_t stream_per_thread = 2;

inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned event_release_to_system = 0x80000000U;
inline constexpr unsigned host_malloc_portable = 1;
inline constexpr unsigned host_malloc_coherent = 0x40000000U;
inline constexpr unsigned host_register_portable = 1;

/// hipDeviceAttribute_t.
using Attribute = int32_t;
inline constexpr Attribute attribute_integrated = 16;
inline constexpr Attribute attribute_pci_bus = 67;
inline constexpr Attribute attribute_pci_device = 68;
inline constexpr Attribute attribute_pci_domain = 69;
inline constexpr Attribute attribute_virtual_memory = 89;
inline constexpr Attribute attribute_host_register = 90;

/// What hipExtGetLinkTypeAndHopCount tells: hsa_amd_link_info_type_t.
inline constexpr uint32_t link_pcie = 2;
inline constexpr uint32_t link_xgmi = 4;

/// hipStreamCaptureStatus.
using CaptureStatus = int32_t;
inline constexpr CaptureStatus capture_none = 0;
inline constexpr CaptureStatus capture_active = 1;
inline constexpr CaptureStatus capture_invalidated = 2;

/// hipStreamCaptureMode.
using CaptureMode = int32_t;
inline constexpr CaptureMode capture_mode_relaxed = 2;

/// hipMemcpyKind.
using CopyKind = int32_t;
inline constexpr CopyKind copy_default = 4;

/// hipMemAllocationGranularity_flags.
using Granularity = int32_t;
inline constexpr Granularity granularity_minimum = 0;
inline constexpr Granularity granularity_recommended = 1;

/// hipMemAllocationHandleType.
using HandleType = int32_t;
inline constexpr HandleType handle_none = 0;
inline constexpr HandleType handle_posix_fd = 1;

inline constexpr int32_t allocation_pinned = 1;
inline constexpr int32_t location_device = 1;
inline constexpr int32_t access_read_write = 3;

/// hipMemLocation.
struct Location {
  int32_t type;
  int32_t id;
};

/// hipMemAllocationProp.
struct AllocationProperties {
  int32_t type;
  HandleType handle_type;
  Location location;
  void *win32_metadata;
  struct {
    unsigned char compression;
    unsigned char rdma_capable;
    unsigned short usage;
  } flags;
};

/// hipMemAccessDesc.
struct AccessDescription {
  Location location;
  int32_t flags;
};

/// hipUUID.
struct Uuid {
  char bytes[16];
};

/// hipMemcpyAttributes; ROCm 7 takes none.
struct CopyAttributes;

/// The runtime's functions by their names.
namespace fn {
using hipInit = Error(unsigned flags);
using hipRuntimeGetVersion = Error(int *version);
using hipGetDeviceCount = Error(int *count);
using hipGetDevice = Error(int *device);
using hipSetDevice = Error(int device);
using hipDeviceGetName = Error(char *name, int bytes, Device device);
using hipDeviceGetUuid = Error(Uuid *uuid, Device device);
using hipDeviceGetAttribute = Error(int *value, Attribute attribute, int device);
using hipDeviceTotalMem = Error(size_t *bytes, Device device);
using hipMemGetInfo = Error(size_t *free_bytes, size_t *total_bytes);
using hipMalloc = Error(void **memory, size_t bytes);
using hipFree = Error(void *memory);
using hipHostMalloc = Error(void **memory, size_t bytes, unsigned flags);
using hipHostFree = Error(void *memory);
using hipStreamCreateWithFlags = Error(Stream *stream, unsigned flags);
using hipStreamDestroy = Error(Stream stream);
using hipStreamSynchronize = Error(Stream stream);
using hipStreamQuery = Error(Stream stream);
using hipStreamGetDevice = Error(Stream stream, Device *device);
using hipStreamIsCapturing = Error(Stream stream, CaptureStatus *status);
using hipThreadExchangeStreamCaptureMode = Error(CaptureMode *mode);
using hipStreamWaitEvent = Error(Stream stream, Event event, unsigned flags);
using hipEventCreateWithFlags = Error(Event *event, unsigned flags);
using hipEventRecord = Error(Event event, Stream stream);
using hipEventQuery = Error(Event event);
using hipEventDestroy = Error(Event event);
using hipMemcpyAsync = Error(void *to, const void *from, size_t bytes, CopyKind kind,
                             Stream stream);
using hipMemsetAsync = Error(void *to, int value, size_t bytes, Stream stream);

using hipMemGetAllocationGranularity = Error(size_t *bytes, const AllocationProperties *properties,
                                             Granularity which);
using hipMemAddressReserve = Error(void **address, size_t bytes, size_t alignment, void *wanted,
                                   unsigned long long flags);
using hipMemAddressFree = Error(void *address, size_t bytes);
using hipMemCreate = Error(Memory *memory, size_t bytes, const AllocationProperties *properties,
                           unsigned long long flags);
using hipMemRelease = Error(Memory memory);
using hipMemMap = Error(void *address, size_t bytes, size_t offset, Memory memory,
                        unsigned long long flags);
using hipMemUnmap = Error(void *address, size_t bytes);
using hipMemSetAccess = Error(void *address, size_t bytes, const AccessDescription *who,
                              size_t count);

using hipMemExportToShareableHandle = Error(void *handle, Memory memory, HandleType type,
                                            unsigned long long flags);
/// A file descriptor is passed by its value since ROCm 7.1, by its address before.
using hipMemImportFromShareableHandle = Error(Memory *memory, void *handle, HandleType type);

using hipHostRegister = Error(void *memory, size_t bytes, unsigned flags);
using hipHostUnregister = Error(void *memory);

using hipDeviceCanAccessPeer = Error(int *can, int device, int peer);
using hipDeviceEnablePeerAccess = Error(int peer, unsigned flags);
using hipExtGetLinkTypeAndHopCount = Error(int from, int to, uint32_t *type, uint32_t *hops);

using hipLaunchHostFunc = Error(Stream stream, HostFunction function, void *user);
/// Since ROCm 7.1; its attributes are not supported there and must be none.
using hipMemcpyBatchAsync = Error(void **to, void **from, size_t *bytes, size_t count,
                                  CopyAttributes *attributes, size_t *attribute_indices,
                                  size_t attribute_count, size_t *failed, Stream stream);
}  // namespace fn

/// What a function is needed for. A library without one of `runtime` is refused; without one of another, that is off.
enum class Need { runtime, vmm, export_fd, host_register, peer, link, host_call, batch_copy };

/// Every function above: X(name, need).
#define WEIR_HIP_ENTRIES(X)                      \
  X(hipInit, runtime)                            \
  X(hipRuntimeGetVersion, runtime)               \
  X(hipGetDeviceCount, runtime)                  \
  X(hipGetDevice, runtime)                       \
  X(hipSetDevice, runtime)                       \
  X(hipDeviceGetName, runtime)                   \
  X(hipDeviceGetUuid, runtime)                   \
  X(hipDeviceGetAttribute, runtime)              \
  X(hipDeviceTotalMem, runtime)                  \
  X(hipMemGetInfo, runtime)                      \
  X(hipMalloc, runtime)                          \
  X(hipFree, runtime)                            \
  X(hipHostMalloc, runtime)                      \
  X(hipHostFree, runtime)                        \
  X(hipStreamCreateWithFlags, runtime)           \
  X(hipStreamDestroy, runtime)                   \
  X(hipStreamSynchronize, runtime)               \
  X(hipStreamQuery, runtime)                     \
  X(hipStreamGetDevice, runtime)                 \
  X(hipStreamIsCapturing, runtime)               \
  X(hipThreadExchangeStreamCaptureMode, runtime) \
  X(hipStreamWaitEvent, runtime)                 \
  X(hipEventCreateWithFlags, runtime)            \
  X(hipEventRecord, runtime)                     \
  X(hipEventQuery, runtime)                      \
  X(hipEventDestroy, runtime)                    \
  X(hipMemcpyAsync, runtime)                     \
  X(hipMemsetAsync, runtime)                     \
  X(hipMemGetAllocationGranularity, vmm)         \
  X(hipMemAddressReserve, vmm)                   \
  X(hipMemAddressFree, vmm)                      \
  X(hipMemCreate, vmm)                           \
  X(hipMemRelease, vmm)                          \
  X(hipMemMap, vmm)                              \
  X(hipMemUnmap, vmm)                            \
  X(hipMemSetAccess, vmm)                        \
  X(hipMemExportToShareableHandle, export_fd)    \
  X(hipMemImportFromShareableHandle, export_fd)  \
  X(hipHostRegister, host_register)              \
  X(hipHostUnregister, host_register)            \
  X(hipDeviceCanAccessPeer, peer)                \
  X(hipDeviceEnablePeerAccess, peer)             \
  X(hipExtGetLinkTypeAndHopCount, link)          \
  X(hipLaunchHostFunc, host_call)                \
  X(hipMemcpyBatchAsync, batch_copy)

}  // namespace weir::hip::abi
