// SPDX-License-Identifier: Apache-2.0
//
// Holds backends/cuda/abi.hpp against the vendor's headers, 12.0 or later. All of it is done by the compiler: what
// is newer than the headers at hand is left out.

#include "backends/cuda/abi.hpp"

#include <cuda.h>
#include <cudaTypedefs.h>
#if __has_include(<nvml.h>)
#include <nvml.h>
#define WEIR_HAVE_NVML 1
#endif

#include <type_traits>

// The header renames these for programs that link the driver; here a function is called by one name.
#undef cuGetProcAddress
#undef cuDeviceGetUuid
#undef cuDeviceTotalMem
#undef cuDevicePrimaryCtxRelease
#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuMemGetInfo
#undef cuMemAlloc
#undef cuMemFree
#undef cuMemHostRegister
#undef cuMemHostGetDevicePointer
#undef cuStreamDestroy
#undef cuStreamQuery
#undef cuStreamSynchronize
#undef cuStreamWaitEvent
#undef cuStreamGetFlags
#undef cuStreamGetCtx
#undef cuStreamGetDevice
#undef cuStreamIsCapturing
#undef cuStreamBeginCapture
#undef cuStreamEndCapture
#undef cuLaunchHostFunc
#undef cuEventDestroy
#undef cuEventRecord
#undef cuEventElapsedTime
#undef cuMemcpy
#undef cuMemcpyAsync
#undef cuMemcpyHtoDAsync
#undef cuMemcpyDtoHAsync
#undef cuMemcpyDtoDAsync
#undef cuMemsetD8
#undef cuMemsetD8Async
#undef cuLaunchKernel

namespace {

namespace abi = weir::cuda::abi;

/// Two types are passed alike: both integers or enumerations of one size, or pointers to what is alike. What an opaque
/// handle points to is nobody's business.
template <class Mine, class Theirs>
constexpr bool alike();

template <class Mine, class Theirs>
struct SameFunction : std::false_type {};
template <class MyResult, class... Mine, class TheirResult, class... Theirs>
struct SameFunction<MyResult(Mine...), TheirResult(Theirs...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(Mine) != sizeof...(Theirs)) {
      return false;
    } else {
      return alike<MyResult, TheirResult>() && (alike<Mine, Theirs>() && ...);
    }
  }
  static constexpr bool value = compare();
};

template <class T>
concept Complete = requires {
  sizeof(T);
};

template <class Mine, class Theirs>
constexpr bool alike() {
  using A = std::remove_cv_t<Mine>;
  using B = std::remove_cv_t<Theirs>;
  if constexpr (std::is_function_v<A> || std::is_function_v<B>) {
    return SameFunction<A, B>::value;
  } else if constexpr (std::is_pointer_v<A> != std::is_pointer_v<B>) {
    return false;
  } else if constexpr (std::is_pointer_v<A>) {
    return alike<std::remove_pointer_t<A>, std::remove_pointer_t<B>>();
  } else if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
    return std::is_void_v<A> && std::is_void_v<B>;
  } else if constexpr (!Complete<A> || !Complete<B>) {
    return !Complete<A> && !Complete<B>;
  } else {
    constexpr bool mine_whole = std::is_integral_v<A> || std::is_enum_v<A>;
    constexpr bool theirs_whole = std::is_integral_v<B> || std::is_enum_v<B>;
    return mine_whole == theirs_whole && std::is_class_v<A> == std::is_class_v<B> &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B> && sizeof(A) == sizeof(B) &&
           alignof(A) == alignof(B);
  }
}

// The comparison itself can say no.
static_assert(!alike<int(int), int(long)>() && !alike<int(int *), int(int)>() &&
              !alike<int(), int(int)>() && !alike<int(float), int(int)>() &&
              !alike<int **, int *>());

#define FUNCTION(name, theirs) \
  static_assert(alike<abi::fn::name, std::remove_pointer_t<PFN_##theirs>>(), #name)
#define SAME(mine, theirs) \
  static_assert(static_cast<long long>(mine) == static_cast<long long>(theirs), #theirs)
#define FIELD(type, field, their_type, their_field)                           \
  static_assert(offsetof(type, field) == offsetof(their_type, their_field) && \
                    sizeof(type::field) == sizeof(their_type::their_field),   \
                #their_type "." #their_field)
#define SIZE(type, their_type)                                                              \
  static_assert(sizeof(type) == sizeof(their_type) && alignof(type) == alignof(their_type), \
                #their_type)

// ---- types ----
static_assert(alike<abi::Result, CUresult>() && alike<abi::Device, CUdevice>() &&
              alike<abi::DevicePointer, CUdeviceptr>() &&
              alike<abi::GranuleHandle, CUmemGenericAllocationHandle>() &&
              alike<abi::Context, CUcontext>() && alike<abi::Stream, CUstream>() &&
              alike<abi::Event, CUevent>() && alike<abi::Graph, CUgraph>() &&
              alike<abi::HostFunction, CUhostFn>());

SIZE(abi::Uuid, CUuuid);
SIZE(abi::Location, CUmemLocation);
FIELD(abi::Location, type, CUmemLocation, type);
FIELD(abi::Location, id, CUmemLocation, id);
SIZE(abi::AccessDescription, CUmemAccessDesc);
FIELD(abi::AccessDescription, location, CUmemAccessDesc, location);
FIELD(abi::AccessDescription, flags, CUmemAccessDesc, flags);
SIZE(abi::AllocationProperties, CUmemAllocationProp);
FIELD(abi::AllocationProperties, type, CUmemAllocationProp, type);
FIELD(abi::AllocationProperties, handle_types, CUmemAllocationProp, requestedHandleTypes);
FIELD(abi::AllocationProperties, location, CUmemAllocationProp, location);
FIELD(abi::AllocationProperties, windows_metadata, CUmemAllocationProp, win32HandleMetaData);
FIELD(abi::AllocationProperties, flags, CUmemAllocationProp, allocFlags);
using MyFlags = decltype(abi::AllocationProperties::flags);
using TheirFlags = decltype(CUmemAllocationProp::allocFlags);
FIELD(MyFlags, compression, TheirFlags, compressionType);
FIELD(MyFlags, rdma_capable, TheirFlags, gpuDirectRDMACapable);
FIELD(MyFlags, usage, TheirFlags, usage);
#if CUDA_VERSION >= 12030
SIZE(abi::FabricHandle, CUmemFabricHandle);
SAME(abi::handle_fabric, CU_MEM_HANDLE_TYPE_FABRIC);
SAME(abi::attribute::handle_type_fabric_supported,
     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
#endif
#if CUDA_VERSION >= 12080
SIZE(abi::CopyAttributes, CUmemcpyAttributes);
FIELD(abi::CopyAttributes, source_order, CUmemcpyAttributes, srcAccessOrder);
FIELD(abi::CopyAttributes, source_hint, CUmemcpyAttributes, srcLocHint);
FIELD(abi::CopyAttributes, destination_hint, CUmemcpyAttributes, dstLocHint);
FIELD(abi::CopyAttributes, flags, CUmemcpyAttributes, flags);
SAME(abi::source_order_stream, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
SAME(abi::source_order_during_call, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
SAME(abi::source_order_any, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
SAME(abi::copy_overlaps_compute, CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
#endif

// ---- results ----
SAME(abi::result::success, CUDA_SUCCESS);
SAME(abi::result::invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME(abi::result::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(abi::result::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
SAME(abi::result::deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME(abi::result::stub_library, CUDA_ERROR_STUB_LIBRARY);
#if CUDA_VERSION >= 12080
SAME(abi::result::contained, CUDA_ERROR_CONTAINED);
SAME(abi::result::tensor_memory_leak, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif
#if CUDA_VERSION >= 13000
SAME(abi::result::call_requires_newer_driver, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
#endif
SAME(abi::result::device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(abi::result::no_device, CUDA_ERROR_NO_DEVICE);
SAME(abi::result::invalid_device, CUDA_ERROR_INVALID_DEVICE);
SAME(abi::result::invalid_image, CUDA_ERROR_INVALID_IMAGE);
SAME(abi::result::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
SAME(abi::result::map_failed, CUDA_ERROR_MAP_FAILED);
SAME(abi::result::unmap_failed, CUDA_ERROR_UNMAP_FAILED);
SAME(abi::result::already_mapped, CUDA_ERROR_ALREADY_MAPPED);
SAME(abi::result::not_mapped, CUDA_ERROR_NOT_MAPPED);
SAME(abi::result::ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(abi::result::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SAME(abi::result::nvlink_uncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(abi::result::operating_system, CUDA_ERROR_OPERATING_SYSTEM);
SAME(abi::result::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
SAME(abi::result::illegal_state, CUDA_ERROR_ILLEGAL_STATE);
SAME(abi::result::not_found, CUDA_ERROR_NOT_FOUND);
SAME(abi::result::not_ready, CUDA_ERROR_NOT_READY);
SAME(abi::result::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(abi::result::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(abi::result::peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(abi::result::peer_access_not_enabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
SAME(abi::result::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(abi::result::device_assert, CUDA_ERROR_ASSERT);
SAME(abi::result::too_many_peers, CUDA_ERROR_TOO_MANY_PEERS);
SAME(abi::result::host_memory_already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME(abi::result::host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME(abi::result::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(abi::result::illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(abi::result::misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(abi::result::invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(abi::result::invalid_pc, CUDA_ERROR_INVALID_PC);
SAME(abi::result::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
SAME(abi::result::not_permitted, CUDA_ERROR_NOT_PERMITTED);
SAME(abi::result::not_supported, CUDA_ERROR_NOT_SUPPORTED);
SAME(abi::result::system_not_ready, CUDA_ERROR_SYSTEM_NOT_READY);
SAME(abi::result::system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(abi::result::compat_not_supported_on_device, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME(abi::result::mps_rpc_failure, CUDA_ERROR_MPS_RPC_FAILURE);
SAME(abi::result::external_device, CUDA_ERROR_EXTERNAL_DEVICE);
SAME(abi::result::mps_client_terminated, CUDA_ERROR_MPS_CLIENT_TERMINATED);
SAME(abi::result::stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(abi::result::stream_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(abi::result::stream_capture_merge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
SAME(abi::result::stream_capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME(abi::result::stream_capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME(abi::result::stream_capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME(abi::result::stream_capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(abi::result::captured_event, CUDA_ERROR_CAPTURED_EVENT);
SAME(abi::result::stream_capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME(abi::result::timeout, CUDA_ERROR_TIMEOUT);
SAME(abi::result::unknown, CUDA_ERROR_UNKNOWN);

// ---- attributes and flags ----
SAME(abi::attribute::integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME(abi::attribute::pci_bus_id, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
SAME(abi::attribute::pci_device_id, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
SAME(abi::attribute::pci_domain_id, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SAME(abi::attribute::unified_addressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(abi::attribute::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(abi::attribute::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(abi::attribute::pageable_memory_access, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
SAME(abi::attribute::can_use_host_pointer_for_registered_memory,
     CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
SAME(abi::attribute::host_register_supported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
SAME(abi::attribute::pageable_memory_access_uses_host_page_tables,
     CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
SAME(abi::attribute::virtual_memory_management_supported,
     CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(abi::attribute::rdma_with_vmm_supported,
     CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(abi::attribute::handle_type_file_descriptor_supported,
     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(abi::peer_attribute::performance_rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK);
SAME(abi::peer_attribute::access_supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED);
SAME(abi::peer_attribute::native_atomic_supported, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
SAME(abi::peer_attribute::array_access_supported,
     CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED);
#if CUDA_VERSION >= 12020
SAME(abi::attribute::numa_config, CU_DEVICE_ATTRIBUTE_NUMA_CONFIG);
SAME(abi::attribute::numa_id, CU_DEVICE_ATTRIBUTE_NUMA_ID);
SAME(abi::attribute::host_numa_id, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
SAME(abi::location_host, CU_MEM_LOCATION_TYPE_HOST);
SAME(abi::location_host_numa, CU_MEM_LOCATION_TYPE_HOST_NUMA);
#endif
SAME(abi::location_invalid, CU_MEM_LOCATION_TYPE_INVALID);
SAME(abi::location_device, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(abi::allocation_pinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(abi::handle_none, CU_MEM_HANDLE_TYPE_NONE);
SAME(abi::handle_file_descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(abi::access_none, CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME(abi::access_read, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(abi::access_read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(abi::granularity_minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(abi::granularity_recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(abi::context_schedule_auto, CU_CTX_SCHED_AUTO);
SAME(abi::stream_default, CU_STREAM_DEFAULT);
SAME(abi::stream_non_blocking, CU_STREAM_NON_BLOCKING);
SAME(abi::event_default, CU_EVENT_DEFAULT);
SAME(abi::event_blocking_sync, CU_EVENT_BLOCKING_SYNC);
SAME(abi::event_disable_timing, CU_EVENT_DISABLE_TIMING);
SAME(abi::capture_none, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(abi::capture_active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(abi::capture_invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(abi::capture_mode_global, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(abi::capture_mode_thread_local, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(abi::capture_mode_relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(abi::host_allocate_portable, CU_MEMHOSTALLOC_PORTABLE);
SAME(abi::host_allocate_device_map, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(abi::host_register_portable, CU_MEMHOSTREGISTER_PORTABLE);
SAME(abi::host_register_device_map, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(abi::pointer_attribute::context, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(abi::pointer_attribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(abi::pointer_attribute::device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME(abi::pointer_attribute::host_pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
SAME(abi::pointer_attribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(abi::pointer_attribute::range_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(abi::pointer_attribute::range_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(abi::pointer_attribute::mapped, CU_POINTER_ATTRIBUTE_MAPPED);
SAME(abi::memory_host, CU_MEMORYTYPE_HOST);
SAME(abi::memory_device, CU_MEMORYTYPE_DEVICE);
SAME(abi::proc_default, CU_GET_PROC_ADDRESS_DEFAULT);
SAME(abi::proc_legacy_stream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME(abi::proc_per_thread_stream, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
SAME(abi::proc_found, CU_GET_PROC_ADDRESS_SUCCESS);
SAME(abi::proc_not_found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME(abi::proc_version_not_sufficient, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

// ---- functions: the version that ENTRIES asks for is the one whose signature is mirrored ----
constexpr bool asked_for(int version, int mirrored) { return version == mirrored; }
#define VERSION_OF(name, symbol, version) constexpr int version_of_##name = version;
WEIR_CUDA_ENTRIES(VERSION_OF)
#define CHECKED(name, version)       \
  FUNCTION(name, name##_v##version); \
  static_assert(asked_for(version_of_##name, version), #name)

FUNCTION(cuGetProcAddress, cuGetProcAddress_v11030);
FUNCTION(cuGetProcAddress_v2, cuGetProcAddress_v12000);
CHECKED(cuInit, 2000);
CHECKED(cuDriverGetVersion, 2020);
CHECKED(cuGetErrorName, 6000);
CHECKED(cuGetErrorString, 6000);
CHECKED(cuDeviceGetCount, 2000);
CHECKED(cuDeviceGet, 2000);
CHECKED(cuDeviceGetName, 2000);
CHECKED(cuDeviceGetUuid, 11040);
CHECKED(cuDeviceGetPCIBusId, 4010);
CHECKED(cuDeviceGetByPCIBusId, 4010);
CHECKED(cuDeviceTotalMem, 3020);
CHECKED(cuDeviceGetAttribute, 2000);
CHECKED(cuDeviceGetP2PAttribute, 8000);
CHECKED(cuDeviceCanAccessPeer, 4000);
CHECKED(cuDevicePrimaryCtxRetain, 7000);
CHECKED(cuDevicePrimaryCtxRelease, 11000);
CHECKED(cuDevicePrimaryCtxGetState, 7000);
CHECKED(cuCtxCreate, 3020);
CHECKED(cuCtxDestroy, 4000);
CHECKED(cuCtxGetCurrent, 4000);
CHECKED(cuCtxSetCurrent, 4000);
CHECKED(cuCtxPushCurrent, 4000);
CHECKED(cuCtxPopCurrent, 4000);
CHECKED(cuCtxGetDevice, 2000);
CHECKED(cuCtxSynchronize, 2000);
CHECKED(cuCtxEnablePeerAccess, 4000);
CHECKED(cuCtxDisablePeerAccess, 4000);
CHECKED(cuMemGetInfo, 3020);
CHECKED(cuMemAlloc, 3020);
CHECKED(cuMemFree, 3020);
CHECKED(cuMemHostAlloc, 2020);
CHECKED(cuMemFreeHost, 2000);
CHECKED(cuMemHostRegister, 6050);
CHECKED(cuMemHostUnregister, 4000);
CHECKED(cuMemHostGetDevicePointer, 3020);
CHECKED(cuPointerGetAttribute, 4000);
CHECKED(cuPointerGetAttributes, 7000);
CHECKED(cuMemGetAllocationGranularity, 10020);
CHECKED(cuMemCreate, 10020);
CHECKED(cuMemRelease, 10020);
CHECKED(cuMemAddressReserve, 10020);
CHECKED(cuMemAddressFree, 10020);
CHECKED(cuMemMap, 10020);
CHECKED(cuMemUnmap, 10020);
CHECKED(cuMemSetAccess, 10020);
CHECKED(cuMemGetAccess, 10020);
CHECKED(cuMemExportToShareableHandle, 10020);
CHECKED(cuMemImportFromShareableHandle, 10020);
CHECKED(cuMemGetAllocationPropertiesFromHandle, 10020);
CHECKED(cuMemRetainAllocationHandle, 11000);
CHECKED(cuStreamCreate, 2000);
CHECKED(cuStreamCreateWithPriority, 5050);
CHECKED(cuStreamDestroy, 4000);
CHECKED(cuStreamQuery, 2000);
CHECKED(cuStreamSynchronize, 2000);
CHECKED(cuStreamWaitEvent, 3020);
CHECKED(cuStreamGetFlags, 5050);
CHECKED(cuStreamGetCtx, 9020);
#if CUDA_VERSION >= 12080
CHECKED(cuStreamGetDevice, 12080);
#endif
CHECKED(cuStreamIsCapturing, 10000);
CHECKED(cuStreamBeginCapture, 10010);
CHECKED(cuStreamEndCapture, 10000);
CHECKED(cuThreadExchangeStreamCaptureMode, 10010);
CHECKED(cuGraphDestroy, 10000);
CHECKED(cuLaunchHostFunc, 10000);
CHECKED(cuEventCreate, 2000);
CHECKED(cuEventDestroy, 4000);
CHECKED(cuEventRecord, 2000);
CHECKED(cuEventQuery, 2000);
CHECKED(cuEventSynchronize, 2000);
CHECKED(cuEventElapsedTime, 2000);
CHECKED(cuMemcpy, 4000);
CHECKED(cuMemcpyAsync, 4000);
CHECKED(cuMemcpyHtoDAsync, 3020);
CHECKED(cuMemcpyDtoHAsync, 3020);
CHECKED(cuMemcpyDtoDAsync, 3020);
#if CUDA_VERSION >= 12080
FUNCTION(cuMemcpyBatchAsync_12080, cuMemcpyBatchAsync_v12080);
static_assert(asked_for(version_of_cuMemcpyBatchAsync_12080, 12080));
#endif
#if CUDA_VERSION >= 13000
FUNCTION(cuMemcpyBatchAsync_13000, cuMemcpyBatchAsync_v13000);
static_assert(asked_for(version_of_cuMemcpyBatchAsync_13000, 13000));
#endif
CHECKED(cuMemsetD8, 3020);
CHECKED(cuMemsetD8Async, 3020);
CHECKED(cuModuleLoadData, 2000);
CHECKED(cuModuleUnload, 2000);
CHECKED(cuModuleGetFunction, 2000);
CHECKED(cuLaunchKernel, 4000);

#ifdef WEIR_HAVE_NVML
namespace nvml = weir::cuda::nvml;
#define NVML(name) static_assert(alike<nvml::fn::name, decltype(::name)>(), #name);
WEIR_NVML_ENTRIES(NVML)

SIZE(nvml::PciInfo, nvmlPciInfo_t);
FIELD(nvml::PciInfo, domain, nvmlPciInfo_t, domain);
FIELD(nvml::PciInfo, bus, nvmlPciInfo_t, bus);
FIELD(nvml::PciInfo, device, nvmlPciInfo_t, device);
FIELD(nvml::PciInfo, device_id, nvmlPciInfo_t, pciDeviceId);
FIELD(nvml::PciInfo, id, nvmlPciInfo_t, busId);
SIZE(nvml::Value, nvmlValue_t);
SIZE(nvml::FieldValue, nvmlFieldValue_t);
FIELD(nvml::FieldValue, field, nvmlFieldValue_t, fieldId);
FIELD(nvml::FieldValue, scope, nvmlFieldValue_t, scopeId);
FIELD(nvml::FieldValue, value_type, nvmlFieldValue_t, valueType);
FIELD(nvml::FieldValue, result, nvmlFieldValue_t, nvmlReturn);
FIELD(nvml::FieldValue, value, nvmlFieldValue_t, value);
SAME(nvml::success, NVML_SUCCESS);
SAME(nvml::uninitialized, NVML_ERROR_UNINITIALIZED);
SAME(nvml::invalid_argument, NVML_ERROR_INVALID_ARGUMENT);
SAME(nvml::not_supported, NVML_ERROR_NOT_SUPPORTED);
SAME(nvml::not_found, NVML_ERROR_NOT_FOUND);
SAME(nvml::unknown, NVML_ERROR_UNKNOWN);
SAME(nvml::feature_disabled, NVML_FEATURE_DISABLED);
SAME(nvml::feature_enabled, NVML_FEATURE_ENABLED);
SAME(nvml::remote_gpu, NVML_NVLINK_DEVICE_TYPE_GPU);
SAME(nvml::remote_npu, NVML_NVLINK_DEVICE_TYPE_IBMNPU);
SAME(nvml::remote_switch, NVML_NVLINK_DEVICE_TYPE_SWITCH);
SAME(nvml::remote_unknown, NVML_NVLINK_DEVICE_TYPE_UNKNOWN);
SAME(nvml::field_nvlink_speed, NVML_FI_DEV_NVLINK_GET_SPEED);
SAME(nvml::value_double, NVML_VALUE_TYPE_DOUBLE);
SAME(nvml::value_uint, NVML_VALUE_TYPE_UNSIGNED_INT);
SAME(nvml::value_ulong, NVML_VALUE_TYPE_UNSIGNED_LONG);
SAME(nvml::value_uint64, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
SAME(nvml::value_int64, NVML_VALUE_TYPE_SIGNED_LONG_LONG);
// NVML is another package, and comes in other versions than cuda.h: what is there is asked of NVML itself.
#ifdef NVML_FI_DEV_C2C_LINK_COUNT
SAME(nvml::value_int, NVML_VALUE_TYPE_SIGNED_INT);
SAME(nvml::field_c2c_link_count, NVML_FI_DEV_C2C_LINK_COUNT);
SAME(nvml::field_c2c_link_status, NVML_FI_DEV_C2C_LINK_GET_STATUS);
SAME(nvml::field_c2c_link_bandwidth, NVML_FI_DEV_C2C_LINK_GET_MAX_BW);
#endif
#if NVML_API_VERSION >= 13
SAME(nvml::nvlink_1_0, NVML_NVLINK_VERSION_1_0);
SAME(nvml::nvlink_2_0, NVML_NVLINK_VERSION_2_0);
SAME(nvml::nvlink_2_2, NVML_NVLINK_VERSION_2_2);
SAME(nvml::nvlink_3_0, NVML_NVLINK_VERSION_3_0);
SAME(nvml::nvlink_3_1, NVML_NVLINK_VERSION_3_1);
SAME(nvml::nvlink_4_0, NVML_NVLINK_VERSION_4_0);
SAME(nvml::nvlink_5_0, NVML_NVLINK_VERSION_5_0);
SAME(nvml::links_at_most, NVML_NVLINK_MAX_LINKS);
#endif
#endif

}  // namespace
