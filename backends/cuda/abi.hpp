// SPDX-License-Identifier: Apache-2.0
//
// Our mirror of the CUDA driver's binary interface: the types, constants and function types that Weir uses, under
// our names, so that nothing here needs the vendor's headers. tests/mirrors/cuda.cpp holds it against them.
// Functions keep the vendor's names, in abi::fn; ENTRIES lists each with the version that its signature belongs to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::cuda::abi {

using Result = int;
using Device = int;
using DevicePointer = unsigned long long;
using GranuleHandle = unsigned long long;  // CUmemGenericAllocationHandle
using HostFunction = void (*)(void *user);

using Context = struct ContextObject *;
using Stream = struct StreamObject *;
using Event = struct EventObject *;
using Graph = struct GraphObject *;
using Module = struct ModuleObject *;
using Function = struct FunctionObject *;

/// The names that stand for a default stream. NULL is the legacy one, too.
inline Stream stream_legacy() noexcept { return reinterpret_cast<Stream>(uintptr_t{1}); }
inline Stream stream_per_thread() noexcept { return reinterpret_cast<Stream>(uintptr_t{2}); }

namespace result {
inline constexpr Result success = 0;
inline constexpr Result invalid_value = 1;
inline constexpr Result out_of_memory = 2;
inline constexpr Result not_initialized = 3;
inline constexpr Result deinitialized = 4;
inline constexpr Result stub_library = 34;
inline constexpr Result call_requires_newer_driver = 36;
inline constexpr Result device_unavailable = 46;
inline constexpr Result no_device = 100;
inline constexpr Result invalid_device = 101;
inline constexpr Result invalid_image = 200;
inline constexpr Result invalid_context = 201;
inline constexpr Result map_failed = 205;
inline constexpr Result unmap_failed = 206;
inline constexpr Result already_mapped = 208;
inline constexpr Result not_mapped = 211;
inline constexpr Result ecc_uncorrectable = 214;
inline constexpr Result peer_access_unsupported = 217;
inline constexpr Result nvlink_uncorrectable = 220;
inline constexpr Result contained = 226;  // since 12.8
inline constexpr Result operating_system = 304;
inline constexpr Result invalid_handle = 400;
inline constexpr Result illegal_state = 401;
inline constexpr Result not_found = 500;
inline constexpr Result not_ready = 600;
inline constexpr Result illegal_address = 700;
inline constexpr Result launch_timeout = 702;
inline constexpr Result peer_access_already_enabled = 704;
inline constexpr Result peer_access_not_enabled = 705;
inline constexpr Result context_is_destroyed = 709;
inline constexpr Result device_assert = 710;
inline constexpr Result too_many_peers = 711;
inline constexpr Result host_memory_already_registered = 712;
inline constexpr Result host_memory_not_registered = 713;
inline constexpr Result hardware_stack_error = 714;
inline constexpr Result illegal_instruction = 715;
inline constexpr Result misaligned_address = 716;
inline constexpr Result invalid_address_space = 717;
inline constexpr Result invalid_pc = 718;
inline constexpr Result launch_failed = 719;
inline constexpr Result tensor_memory_leak = 721;  // since 12.8
inline constexpr Result not_permitted = 800;
inline constexpr Result not_supported = 801;
inline constexpr Result system_not_ready = 802;
inline constexpr Result system_driver_mismatch = 803;
inline constexpr Result compat_not_supported_on_device = 804;
inline constexpr Result mps_rpc_failure = 806;
inline constexpr Result mps_client_terminated = 810;
inline constexpr Result stream_capture_unsupported = 900;
inline constexpr Result stream_capture_invalidated = 901;
inline constexpr Result stream_capture_merge = 902;
inline constexpr Result stream_capture_unmatched = 903;
inline constexpr Result stream_capture_unjoined = 904;
inline constexpr Result stream_capture_isolation = 905;
inline constexpr Result stream_capture_implicit = 906;
inline constexpr Result captured_event = 907;
inline constexpr Result stream_capture_wrong_thread = 908;
inline constexpr Result timeout = 909;
inline constexpr Result external_device = 911;
inline constexpr Result unknown = 999;
}  // namespace result

/// CUdevice_attribute.
namespace attribute {
inline constexpr int integrated = 18;
inline constexpr int pci_bus_id = 33;
inline constexpr int pci_device_id = 34;
inline constexpr int unified_addressing = 41;
inline constexpr int pci_domain_id = 50;
inline constexpr int compute_capability_major = 75;
inline constexpr int compute_capability_minor = 76;
inline constexpr int pageable_memory_access = 88;
inline constexpr int can_use_host_pointer_for_registered_memory = 91;
inline constexpr int host_register_supported = 99;
inline constexpr int pageable_memory_access_uses_host_page_tables = 100;
inline constexpr int virtual_memory_management_supported = 102;
inline constexpr int handle_type_file_descriptor_supported = 103;
inline constexpr int rdma_with_vmm_supported = 110;
inline constexpr int handle_type_fabric_supported = 128;  // since 12.3
inline constexpr int numa_config = 130;                   // since 12.2
inline constexpr int numa_id = 131;                       // since 12.2
inline constexpr int host_numa_id = 134;                  // since 12.2
}  // namespace attribute

/// CUdevice_P2PAttribute.
namespace peer_attribute {
inline constexpr int performance_rank = 1;
inline constexpr int access_supported = 2;
inline constexpr int native_atomic_supported = 3;
inline constexpr int array_access_supported = 4;
}  // namespace peer_attribute

inline constexpr unsigned context_schedule_auto = 0;

inline constexpr unsigned stream_default = 0;
inline constexpr unsigned stream_non_blocking = 1;

inline constexpr unsigned event_default = 0;
inline constexpr unsigned event_blocking_sync = 1;
inline constexpr unsigned event_disable_timing = 2;

/// CUstreamCaptureStatus and CUstreamCaptureMode.
inline constexpr int capture_none = 0;
inline constexpr int capture_active = 1;
inline constexpr int capture_invalidated = 2;
inline constexpr int capture_mode_global = 0;
inline constexpr int capture_mode_thread_local = 1;
inline constexpr int capture_mode_relaxed = 2;

inline constexpr unsigned host_allocate_portable = 1;
inline constexpr unsigned host_allocate_device_map = 2;
inline constexpr unsigned host_register_portable = 1;
inline constexpr unsigned host_register_device_map = 2;

inline constexpr int location_invalid = 0;
inline constexpr int location_device = 1;
inline constexpr int location_host = 2;       // since 12.2
inline constexpr int location_host_numa = 3;  // since 12.2
inline constexpr int allocation_pinned = 1;
inline constexpr int handle_none = 0;
inline constexpr int handle_file_descriptor = 1;
inline constexpr int handle_fabric = 8;  // since 12.3
inline constexpr int access_none = 0;
inline constexpr int access_read = 1;
inline constexpr int access_read_write = 3;
inline constexpr int granularity_minimum = 0;
inline constexpr int granularity_recommended = 1;

/// CUmemcpySrcAccessOrder.
inline constexpr int source_order_stream = 1;
inline constexpr int source_order_during_call = 2;
inline constexpr int source_order_any = 3;
/// CUmemcpyFlags.
inline constexpr unsigned copy_overlaps_compute = 1;

/// CUpointer_attribute, and CUmemorytype for its memory_type.
namespace pointer_attribute {
inline constexpr int context = 1;
inline constexpr int memory_type = 2;
inline constexpr int device_pointer = 3;
inline constexpr int host_pointer = 4;
inline constexpr int device_ordinal = 9;
inline constexpr int range_start = 11;
inline constexpr int range_size = 12;
inline constexpr int mapped = 13;
}  // namespace pointer_attribute
inline constexpr unsigned memory_host = 1;
inline constexpr unsigned memory_device = 2;

inline constexpr uint64_t proc_default = 0;
inline constexpr uint64_t proc_legacy_stream = 1;
inline constexpr uint64_t proc_per_thread_stream = 2;
/// CUdriverProcAddressQueryResult.
inline constexpr int proc_found = 0;
inline constexpr int proc_not_found = 1;
inline constexpr int proc_version_not_sufficient = 2;

struct Uuid {
  char bytes[16];
};

struct Location {
  int type;
  int id;
};

struct AllocationProperties {
  int type;
  int handle_types;
  Location location;
  void *windows_metadata;
  struct {
    unsigned char compression;
    unsigned char rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

struct AccessDescription {
  Location location;
  int flags;
};

struct FabricHandle {
  unsigned char data[64];
};

struct CopyAttributes {  // since 12.8
  int source_order;
  Location source_hint;
  Location destination_hint;
  unsigned flags;
};

/// The vendor's functions by their names. A suffix with a version is ours, where one name has several signatures.
namespace fn {
using cuGetProcAddress = Result(const char *symbol, void **function, int version,
                                uint64_t flags);  // 11.3
using cuGetProcAddress_v2 = Result(const char *symbol, void **function, int version, uint64_t flags,
                                   int *found);  // 12.0

using cuInit = Result(unsigned flags);
using cuDriverGetVersion = Result(int *version);
using cuGetErrorName = Result(Result error, const char **text);
using cuGetErrorString = Result(Result error, const char **text);

using cuDeviceGetCount = Result(int *count);
using cuDeviceGet = Result(Device *device, int ordinal);
using cuDeviceGetName = Result(char *name, int bytes, Device device);
using cuDeviceGetUuid = Result(Uuid *uuid, Device device);
using cuDeviceGetPCIBusId = Result(char *text, int bytes, Device device);
using cuDeviceGetByPCIBusId = Result(Device *device, const char *text);
using cuDeviceTotalMem = Result(size_t *bytes, Device device);
using cuDeviceGetAttribute = Result(int *value, int attribute, Device device);
using cuDeviceGetP2PAttribute = Result(int *value, int attribute, Device source,
                                       Device destination);
using cuDeviceCanAccessPeer = Result(int *can, Device device, Device peer);
using cuDevicePrimaryCtxRetain = Result(Context *context, Device device);
using cuDevicePrimaryCtxRelease = Result(Device device);
using cuDevicePrimaryCtxGetState = Result(Device device, unsigned *flags, int *active);

using cuCtxCreate = Result(Context *context, unsigned flags, Device device);  // the form of 3.2
using cuCtxDestroy = Result(Context context);
using cuCtxGetCurrent = Result(Context *context);
using cuCtxSetCurrent = Result(Context context);
using cuCtxPushCurrent = Result(Context context);
using cuCtxPopCurrent = Result(Context *context);
using cuCtxGetDevice = Result(Device *device);  // the form of 2.0: the current context's
using cuCtxSynchronize = Result();              // the form of 2.0: the current context
using cuCtxEnablePeerAccess = Result(Context peer, unsigned flags);
using cuCtxDisablePeerAccess = Result(Context peer);

using cuMemGetInfo = Result(size_t *free_bytes, size_t *total_bytes);
using cuMemAlloc = Result(DevicePointer *address, size_t bytes);
using cuMemFree = Result(DevicePointer address);
using cuMemHostAlloc = Result(void **memory, size_t bytes, unsigned flags);
using cuMemFreeHost = Result(void *memory);
using cuMemHostRegister = Result(void *memory, size_t bytes, unsigned flags);
using cuMemHostUnregister = Result(void *memory);
using cuMemHostGetDevicePointer = Result(DevicePointer *address, void *memory, unsigned flags);
using cuPointerGetAttribute = Result(void *value, int attribute, DevicePointer address);
using cuPointerGetAttributes = Result(unsigned count, int *attributes, void **values,
                                      DevicePointer address);

using cuMemGetAllocationGranularity = Result(size_t *bytes, const AllocationProperties *properties,
                                             int option);
using cuMemCreate = Result(GranuleHandle *granule, size_t bytes,
                           const AllocationProperties *properties, unsigned long long flags);
using cuMemRelease = Result(GranuleHandle granule);
using cuMemAddressReserve = Result(DevicePointer *address, size_t bytes, size_t alignment,
                                   DevicePointer wanted, unsigned long long flags);
using cuMemAddressFree = Result(DevicePointer address, size_t bytes);
using cuMemMap = Result(DevicePointer address, size_t bytes, size_t offset, GranuleHandle granule,
                        unsigned long long flags);
using cuMemUnmap = Result(DevicePointer address, size_t bytes);
using cuMemSetAccess = Result(DevicePointer address, size_t bytes, const AccessDescription *who,
                              size_t count);
using cuMemGetAccess = Result(unsigned long long *flags, const Location *who,
                              DevicePointer address);
using cuMemExportToShareableHandle = Result(void *handle, GranuleHandle granule, int handle_type,
                                            unsigned long long flags);
using cuMemImportFromShareableHandle = Result(GranuleHandle *granule, void *handle,
                                              int handle_type);
using cuMemGetAllocationPropertiesFromHandle = Result(AllocationProperties *properties,
                                                      GranuleHandle granule);
using cuMemRetainAllocationHandle = Result(GranuleHandle *granule, void *address);

using cuStreamCreate = Result(Stream *stream, unsigned flags);
using cuStreamCreateWithPriority = Result(Stream *stream, unsigned flags, int priority);
using cuStreamDestroy = Result(Stream stream);
using cuStreamQuery = Result(Stream stream);
using cuStreamSynchronize = Result(Stream stream);
using cuStreamWaitEvent = Result(Stream stream, Event event, unsigned flags);
using cuStreamGetFlags = Result(Stream stream, unsigned *flags);
using cuStreamGetCtx = Result(Stream stream, Context *context);   // the form of 9.2
using cuStreamGetDevice = Result(Stream stream, Device *device);  // since 12.8
using cuStreamIsCapturing = Result(Stream stream, int *status);
using cuStreamBeginCapture = Result(Stream stream, int mode);
using cuStreamEndCapture = Result(Stream stream, Graph *graph);
using cuThreadExchangeStreamCaptureMode = Result(int *mode);
using cuGraphDestroy = Result(Graph graph);
using cuLaunchHostFunc = Result(Stream stream, HostFunction function,
                                void *user);  // the form of 10.0

using cuEventCreate = Result(Event *event, unsigned flags);
using cuEventDestroy = Result(Event event);
using cuEventRecord = Result(Event event, Stream stream);
using cuEventQuery = Result(Event event);
using cuEventSynchronize = Result(Event event);
using cuEventElapsedTime = Result(float *milliseconds, Event from, Event to);

using cuMemcpy = Result(DevicePointer destination, DevicePointer source, size_t bytes);
using cuMemcpyAsync = Result(DevicePointer destination, DevicePointer source, size_t bytes,
                             Stream stream);
using cuMemcpyHtoDAsync = Result(DevicePointer destination, const void *source, size_t bytes,
                                 Stream stream);
using cuMemcpyDtoHAsync = Result(void *destination, DevicePointer source, size_t bytes,
                                 Stream stream);
using cuMemcpyDtoDAsync = Result(DevicePointer destination, DevicePointer source, size_t bytes,
                                 Stream stream);
using cuMemcpyBatchAsync_12080 = Result(DevicePointer *destinations, DevicePointer *sources,
                                        size_t *bytes, size_t count, CopyAttributes *attributes,
                                        size_t *attribute_starts, size_t attribute_count,
                                        size_t *failed, Stream stream);
using cuMemcpyBatchAsync_13000 = Result(DevicePointer *destinations, DevicePointer *sources,
                                        size_t *bytes, size_t count, CopyAttributes *attributes,
                                        size_t *attribute_starts, size_t attribute_count,
                                        Stream stream);
using cuMemsetD8 = Result(DevicePointer address, unsigned char value, size_t bytes);
using cuMemsetD8Async = Result(DevicePointer address, unsigned char value, size_t bytes,
                               Stream stream);

using cuModuleLoadData = Result(Module *module, const void *image);
using cuModuleUnload = Result(Module module);
using cuModuleGetFunction = Result(Function *function, Module module, const char *name);
using cuLaunchKernel = Result(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                              unsigned block_x, unsigned block_y, unsigned block_z,
                              unsigned shared_bytes, Stream stream, void **parameters,
                              void **extra);
}  // namespace fn

/// Every function above but the two look-ups: X(type in fn, the vendor's symbol, the version to ask for). The
/// version is the one that brought the signature; asked for a later one the driver may answer with another.
#define WEIR_CUDA_ENTRIES(X)                                                                 \
  X(cuInit, "cuInit", 2000)                                                                  \
  X(cuDriverGetVersion, "cuDriverGetVersion", 2020)                                          \
  X(cuGetErrorName, "cuGetErrorName", 6000)                                                  \
  X(cuGetErrorString, "cuGetErrorString", 6000)                                              \
  X(cuDeviceGetCount, "cuDeviceGetCount", 2000)                                              \
  X(cuDeviceGet, "cuDeviceGet", 2000)                                                        \
  X(cuDeviceGetName, "cuDeviceGetName", 2000)                                                \
  X(cuDeviceGetUuid, "cuDeviceGetUuid", 11040)                                               \
  X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", 4010)                                        \
  X(cuDeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", 4010)                                    \
  X(cuDeviceTotalMem, "cuDeviceTotalMem", 3020)                                              \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000)                                      \
  X(cuDeviceGetP2PAttribute, "cuDeviceGetP2PAttribute", 8000)                                \
  X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", 4000)                                    \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000)                              \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 11000)                           \
  X(cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", 7000)                          \
  X(cuCtxCreate, "cuCtxCreate", 3020)                                                        \
  X(cuCtxDestroy, "cuCtxDestroy", 4000)                                                      \
  X(cuCtxGetCurrent, "cuCtxGetCurrent", 4000)                                                \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", 4000)                                                \
  X(cuCtxPushCurrent, "cuCtxPushCurrent", 4000)                                              \
  X(cuCtxPopCurrent, "cuCtxPopCurrent", 4000)                                                \
  X(cuCtxGetDevice, "cuCtxGetDevice", 2000)                                                  \
  X(cuCtxSynchronize, "cuCtxSynchronize", 2000)                                              \
  X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000)                                    \
  X(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", 4000)                                  \
  X(cuMemGetInfo, "cuMemGetInfo", 3020)                                                      \
  X(cuMemAlloc, "cuMemAlloc", 3020)                                                          \
  X(cuMemFree, "cuMemFree", 3020)                                                            \
  X(cuMemHostAlloc, "cuMemHostAlloc", 2020)                                                  \
  X(cuMemFreeHost, "cuMemFreeHost", 2000)                                                    \
  X(cuMemHostRegister, "cuMemHostRegister", 6050)                                            \
  X(cuMemHostUnregister, "cuMemHostUnregister", 4000)                                        \
  X(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer", 3020)                            \
  X(cuPointerGetAttribute, "cuPointerGetAttribute", 4000)                                    \
  X(cuPointerGetAttributes, "cuPointerGetAttributes", 7000)                                  \
  X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 10020)                   \
  X(cuMemCreate, "cuMemCreate", 10020)                                                       \
  X(cuMemRelease, "cuMemRelease", 10020)                                                     \
  X(cuMemAddressReserve, "cuMemAddressReserve", 10020)                                       \
  X(cuMemAddressFree, "cuMemAddressFree", 10020)                                             \
  X(cuMemMap, "cuMemMap", 10020)                                                             \
  X(cuMemUnmap, "cuMemUnmap", 10020)                                                         \
  X(cuMemSetAccess, "cuMemSetAccess", 10020)                                                 \
  X(cuMemGetAccess, "cuMemGetAccess", 10020)                                                 \
  X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020)                     \
  X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020)                 \
  X(cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle", 10020) \
  X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000)                       \
  X(cuStreamCreate, "cuStreamCreate", 2000)                                                  \
  X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", 5050)                          \
  X(cuStreamDestroy, "cuStreamDestroy", 4000)                                                \
  X(cuStreamQuery, "cuStreamQuery", 2000)                                                    \
  X(cuStreamSynchronize, "cuStreamSynchronize", 2000)                                        \
  X(cuStreamWaitEvent, "cuStreamWaitEvent", 3020)                                            \
  X(cuStreamGetFlags, "cuStreamGetFlags", 5050)                                              \
  X(cuStreamGetCtx, "cuStreamGetCtx", 9020)                                                  \
  X(cuStreamGetDevice, "cuStreamGetDevice", 12080)                                           \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", 10000)                                       \
  X(cuStreamBeginCapture, "cuStreamBeginCapture", 10010)                                     \
  X(cuStreamEndCapture, "cuStreamEndCapture", 10000)                                         \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010)           \
  X(cuGraphDestroy, "cuGraphDestroy", 10000)                                                 \
  X(cuLaunchHostFunc, "cuLaunchHostFunc", 10000)                                             \
  X(cuEventCreate, "cuEventCreate", 2000)                                                    \
  X(cuEventDestroy, "cuEventDestroy", 4000)                                                  \
  X(cuEventRecord, "cuEventRecord", 2000)                                                    \
  X(cuEventQuery, "cuEventQuery", 2000)                                                      \
  X(cuEventSynchronize, "cuEventSynchronize", 2000)                                          \
  X(cuEventElapsedTime, "cuEventElapsedTime", 2000)                                          \
  X(cuMemcpy, "cuMemcpy", 4000)                                                              \
  X(cuMemcpyAsync, "cuMemcpyAsync", 4000)                                                    \
  X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync", 3020)                                            \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync", 3020)                                            \
  X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync", 3020)                                            \
  X(cuMemcpyBatchAsync_12080, "cuMemcpyBatchAsync", 12080)                                   \
  X(cuMemcpyBatchAsync_13000, "cuMemcpyBatchAsync", 13000)                                   \
  X(cuMemsetD8, "cuMemsetD8", 3020)                                                          \
  X(cuMemsetD8Async, "cuMemsetD8Async", 3020)                                                \
  X(cuModuleLoadData, "cuModuleLoadData", 2000)                                              \
  X(cuModuleUnload, "cuModuleUnload", 2000)                                                  \
  X(cuModuleGetFunction, "cuModuleGetFunction", 2000)                                        \
  X(cuLaunchKernel, "cuLaunchKernel", 4000)

}  // namespace weir::cuda::abi

/// NVML: what links between devices are made of. Its functions are found by these very names.
namespace weir::cuda::nvml {

using Result = int;
using Device = struct DeviceObject *;

inline constexpr Result success = 0;
inline constexpr Result uninitialized = 1;
inline constexpr Result invalid_argument = 2;
inline constexpr Result not_supported = 3;
inline constexpr Result not_found = 6;
inline constexpr Result unknown = 999;

inline constexpr int feature_disabled = 0;
inline constexpr int feature_enabled = 1;

/// nvmlIntNvLinkDeviceType_t: what is at the far end of an NVLink.
inline constexpr int remote_gpu = 0;
inline constexpr int remote_npu = 1;  // IBM's processors
inline constexpr int remote_switch = 2;
inline constexpr int remote_unknown = 255;

/// nvmlNvlinkVersion_t.
inline constexpr unsigned nvlink_1_0 = 1;
inline constexpr unsigned nvlink_2_0 = 2;
inline constexpr unsigned nvlink_2_2 = 3;
inline constexpr unsigned nvlink_3_0 = 4;
inline constexpr unsigned nvlink_3_1 = 5;
inline constexpr unsigned nvlink_4_0 = 6;
inline constexpr unsigned nvlink_5_0 = 7;

/// Fields for nvmlDeviceGetFieldValues; the scope of the first is the link's number.
inline constexpr unsigned field_nvlink_speed = 164;  // MB/s
inline constexpr unsigned field_c2c_link_count = 170;
inline constexpr unsigned field_c2c_link_status = 171;     // scope: the link's number
inline constexpr unsigned field_c2c_link_bandwidth = 172;  // MB/s; scope: the link's number

/// nvmlValueType_t.
inline constexpr int value_double = 0;
inline constexpr int value_uint = 1;
inline constexpr int value_ulong = 2;
inline constexpr int value_uint64 = 3;
inline constexpr int value_int64 = 4;
inline constexpr int value_int = 5;

/// More than any device has; a link's number beyond a device's own is answered with invalid_argument.
inline constexpr unsigned links_at_most = 36;

struct PciInfo {
  char legacy_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char id[32];
};

union Value {
  double as_double;
  int as_int;
  unsigned as_uint;
  unsigned long as_ulong;
  unsigned long long as_uint64;
  long long as_int64;
};

struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency_us;
  int value_type;
  Result result;
  Value value;
};

namespace fn {
using nvmlInit_v2 = Result();
using nvmlShutdown = Result();
using nvmlErrorString = const char *(Result result);
using nvmlDeviceGetHandleByPciBusId_v2 = Result(const char *pci_address, Device *device);
using nvmlDeviceGetNvLinkState = Result(Device device, unsigned link, int *active);
using nvmlDeviceGetNvLinkVersion = Result(Device device, unsigned link, unsigned *version);
using nvmlDeviceGetNvLinkRemotePciInfo_v2 = Result(Device device, unsigned link, PciInfo *remote);
using nvmlDeviceGetNvLinkRemoteDeviceType = Result(Device device, unsigned link, int *type);
using nvmlDeviceGetFieldValues = Result(Device device, int count, FieldValue *values);
using nvmlDeviceGetCurrPcieLinkGeneration = Result(Device device, unsigned *generation);
using nvmlDeviceGetCurrPcieLinkWidth = Result(Device device, unsigned *width);
using nvmlDeviceGetMaxPcieLinkGeneration = Result(Device device, unsigned *generation);
using nvmlDeviceGetMaxPcieLinkWidth = Result(Device device, unsigned *width);
}  // namespace fn

/// Every function above, by its type in fn.
#define WEIR_NVML_ENTRIES(X)             \
  X(nvmlInit_v2)                         \
  X(nvmlShutdown)                        \
  X(nvmlErrorString)                     \
  X(nvmlDeviceGetHandleByPciBusId_v2)    \
  X(nvmlDeviceGetNvLinkState)            \
  X(nvmlDeviceGetNvLinkVersion)          \
  X(nvmlDeviceGetNvLinkRemotePciInfo_v2) \
  X(nvmlDeviceGetNvLinkRemoteDeviceType) \
  X(nvmlDeviceGetFieldValues)            \
  X(nvmlDeviceGetCurrPcieLinkGeneration) \
  X(nvmlDeviceGetCurrPcieLinkWidth)      \
  X(nvmlDeviceGetMaxPcieLinkGeneration)  \
  X(nvmlDeviceGetMaxPcieLinkWidth)

}  // namespace weir::cuda::nvml
