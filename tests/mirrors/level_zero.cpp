// SPDX-License-Identifier: Apache-2.0
//
// Holds backends/level_zero/abi.hpp against the vendor's headers: sizes, offsets, constants and the types of
// functions. It compiles or it does not; nothing runs. What only newer headers know is compared where they are
// new enough: since specification 1.11 they tell their version as a macro.

#include "backends/level_zero/abi.hpp"

#include <level_zero/loader/ze_loader.h>
#include <level_zero/ze_api.h>
#include <level_zero/zes_api.h>

#include <cstddef>
#include <type_traits>

namespace abi = weir::level_zero::abi;

namespace {

// ---- types: each of the vendor's has one of ours, and a function's type is translated piece by piece

template <class Theirs>
struct Pair {
  using Ours = Theirs;
};
template <class Theirs>
using Ours = typename Pair<Theirs>::Ours;

template <class Theirs>
requires std::is_enum_v<Theirs>
struct Pair<Theirs> {
  static_assert(sizeof(Theirs) == 4);
  using Ours = uint32_t;
};
template <class Theirs>
struct Pair<const Theirs> {
  using Ours = const ::Ours<Theirs>;
};
template <class Theirs>
struct Pair<Theirs *> {
  using Ours = ::Ours<Theirs> *;
};
template <class Result, class... Parameters>
struct Pair<Result(Parameters...)> {
  using Ours = ::Ours<Result>(::Ours<Parameters>...);
};

#define PAIR(theirs, ours)                    \
  template <>                                 \
  struct Pair<theirs> {                       \
    static_assert(std::is_trivial_v<theirs>); \
    using Ours = abi::ours;                   \
  }
PAIR(ze_driver_handle_t, Driver);
PAIR(ze_device_handle_t, Device);
static_assert(std::is_same_v<zes_device_handle_t, ze_device_handle_t>);
PAIR(ze_context_handle_t, Context);
PAIR(ze_command_list_handle_t, CommandList);
PAIR(ze_event_pool_handle_t, EventPool);
PAIR(ze_event_handle_t, Event);
PAIR(ze_physical_mem_handle_t, PhysicalMemory);
PAIR(zes_mem_handle_t, MemoryModule);
PAIR(zes_fabric_port_handle_t, FabricPort);

/// One structure: the pair is of the same size, and its members lie at the same places with the same sizes.
#define STRUCTURE(theirs, ours) \
  PAIR(theirs, ours);           \
  static_assert(sizeof(theirs) == sizeof(abi::ours) && alignof(theirs) == alignof(abi::ours))
#define MEMBER(theirs, their_member, ours, our_member)                               \
  static_assert(offsetof(theirs, their_member) == offsetof(abi::ours, our_member) && \
                sizeof(theirs::their_member) == sizeof(abi::ours::our_member))
#define HEADED(theirs, ours, kind)    \
  STRUCTURE(theirs, ours);            \
  MEMBER(theirs, stype, ours, stype); \
  MEMBER(theirs, pNext, ours, next);  \
  static_assert(abi::kind == static_cast<uint32_t>(THEIR_##kind))

#define THEIR_driver_properties ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES
HEADED(ze_driver_properties_t, DriverProperties, driver_properties);
MEMBER(ze_driver_properties_t, uuid, DriverProperties, uuid);
MEMBER(ze_driver_properties_t, driverVersion, DriverProperties, driver_version);

#define THEIR_device_properties ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES
HEADED(ze_device_properties_t, DeviceProperties, device_properties);
MEMBER(ze_device_properties_t, type, DeviceProperties, type);
MEMBER(ze_device_properties_t, vendorId, DeviceProperties, vendor_id);
MEMBER(ze_device_properties_t, deviceId, DeviceProperties, device_id);
MEMBER(ze_device_properties_t, flags, DeviceProperties, flags);
MEMBER(ze_device_properties_t, subdeviceId, DeviceProperties, subdevice_id);
MEMBER(ze_device_properties_t, coreClockRate, DeviceProperties, core_clock_rate);
MEMBER(ze_device_properties_t, maxMemAllocSize, DeviceProperties, max_mem_alloc_size);
MEMBER(ze_device_properties_t, maxHardwareContexts, DeviceProperties, max_hardware_contexts);
MEMBER(ze_device_properties_t, maxCommandQueuePriority, DeviceProperties,
       max_command_queue_priority);
MEMBER(ze_device_properties_t, numThreadsPerEU, DeviceProperties, num_threads_per_eu);
MEMBER(ze_device_properties_t, physicalEUSimdWidth, DeviceProperties, physical_eu_simd_width);
MEMBER(ze_device_properties_t, numEUsPerSubslice, DeviceProperties, num_eus_per_subslice);
MEMBER(ze_device_properties_t, numSubslicesPerSlice, DeviceProperties, num_subslices_per_slice);
MEMBER(ze_device_properties_t, numSlices, DeviceProperties, num_slices);
MEMBER(ze_device_properties_t, timerResolution, DeviceProperties, timer_resolution);
MEMBER(ze_device_properties_t, timestampValidBits, DeviceProperties, timestamp_valid_bits);
MEMBER(ze_device_properties_t, kernelTimestampValidBits, DeviceProperties,
       kernel_timestamp_valid_bits);
MEMBER(ze_device_properties_t, uuid, DeviceProperties, uuid);
MEMBER(ze_device_properties_t, name, DeviceProperties, name);

#define THEIR_command_queue_group_properties ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES
HEADED(ze_command_queue_group_properties_t, CommandQueueGroupProperties,
       command_queue_group_properties);
MEMBER(ze_command_queue_group_properties_t, flags, CommandQueueGroupProperties, flags);
MEMBER(ze_command_queue_group_properties_t, maxMemoryFillPatternSize, CommandQueueGroupProperties,
       max_memory_fill_pattern_size);
MEMBER(ze_command_queue_group_properties_t, numQueues, CommandQueueGroupProperties, num_queues);

#define THEIR_device_memory_properties ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES
HEADED(ze_device_memory_properties_t, DeviceMemoryProperties, device_memory_properties);
MEMBER(ze_device_memory_properties_t, flags, DeviceMemoryProperties, flags);
MEMBER(ze_device_memory_properties_t, maxClockRate, DeviceMemoryProperties, max_clock_rate);
MEMBER(ze_device_memory_properties_t, maxBusWidth, DeviceMemoryProperties, max_bus_width);
MEMBER(ze_device_memory_properties_t, totalSize, DeviceMemoryProperties, total_size);
MEMBER(ze_device_memory_properties_t, name, DeviceMemoryProperties, name);

#define THEIR_device_p2p_properties ZE_STRUCTURE_TYPE_DEVICE_P2P_PROPERTIES
HEADED(ze_device_p2p_properties_t, P2pProperties, device_p2p_properties);
MEMBER(ze_device_p2p_properties_t, flags, P2pProperties, flags);

#define THEIR_device_p2p_bandwidth_exp_properties \
  ZE_STRUCTURE_TYPE_DEVICE_P2P_BANDWIDTH_EXP_PROPERTIES
HEADED(ze_device_p2p_bandwidth_exp_properties_t, P2pBandwidthProperties,
       device_p2p_bandwidth_exp_properties);
MEMBER(ze_device_p2p_bandwidth_exp_properties_t, logicalBandwidth, P2pBandwidthProperties,
       logical_bandwidth);
MEMBER(ze_device_p2p_bandwidth_exp_properties_t, physicalBandwidth, P2pBandwidthProperties,
       physical_bandwidth);
MEMBER(ze_device_p2p_bandwidth_exp_properties_t, bandwidthUnit, P2pBandwidthProperties,
       bandwidth_unit);
MEMBER(ze_device_p2p_bandwidth_exp_properties_t, logicalLatency, P2pBandwidthProperties,
       logical_latency);
MEMBER(ze_device_p2p_bandwidth_exp_properties_t, physicalLatency, P2pBandwidthProperties,
       physical_latency);
MEMBER(ze_device_p2p_bandwidth_exp_properties_t, latencyUnit, P2pBandwidthProperties, latency_unit);

STRUCTURE(ze_pci_address_ext_t, PciAddress);
MEMBER(ze_pci_address_ext_t, domain, PciAddress, domain);
MEMBER(ze_pci_address_ext_t, bus, PciAddress, bus);
MEMBER(ze_pci_address_ext_t, device, PciAddress, device);
MEMBER(ze_pci_address_ext_t, function, PciAddress, function);
STRUCTURE(ze_pci_speed_ext_t, PciSpeed);
MEMBER(ze_pci_speed_ext_t, genVersion, PciSpeed, generation);
MEMBER(ze_pci_speed_ext_t, width, PciSpeed, width);
MEMBER(ze_pci_speed_ext_t, maxBandwidth, PciSpeed, max_bandwidth);
#define THEIR_pci_ext_properties ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES
HEADED(ze_pci_ext_properties_t, PciProperties, pci_ext_properties);
MEMBER(ze_pci_ext_properties_t, address, PciProperties, address);
MEMBER(ze_pci_ext_properties_t, maxSpeed, PciProperties, max_speed);

#define THEIR_context_desc ZE_STRUCTURE_TYPE_CONTEXT_DESC
HEADED(ze_context_desc_t, ContextDesc, context_desc);
MEMBER(ze_context_desc_t, flags, ContextDesc, flags);

#define THEIR_command_queue_desc ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC
HEADED(ze_command_queue_desc_t, CommandQueueDesc, command_queue_desc);
MEMBER(ze_command_queue_desc_t, ordinal, CommandQueueDesc, ordinal);
MEMBER(ze_command_queue_desc_t, index, CommandQueueDesc, index);
MEMBER(ze_command_queue_desc_t, flags, CommandQueueDesc, flags);
MEMBER(ze_command_queue_desc_t, mode, CommandQueueDesc, mode);
MEMBER(ze_command_queue_desc_t, priority, CommandQueueDesc, priority);

#define THEIR_event_pool_desc ZE_STRUCTURE_TYPE_EVENT_POOL_DESC
HEADED(ze_event_pool_desc_t, EventPoolDesc, event_pool_desc);
MEMBER(ze_event_pool_desc_t, flags, EventPoolDesc, flags);
MEMBER(ze_event_pool_desc_t, count, EventPoolDesc, count);

#define THEIR_event_desc ZE_STRUCTURE_TYPE_EVENT_DESC
HEADED(ze_event_desc_t, EventDesc, event_desc);
MEMBER(ze_event_desc_t, index, EventDesc, index);
MEMBER(ze_event_desc_t, signal, EventDesc, signal);
MEMBER(ze_event_desc_t, wait, EventDesc, wait);

#define THEIR_device_mem_alloc_desc ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC
HEADED(ze_device_mem_alloc_desc_t, DeviceMemAllocDesc, device_mem_alloc_desc);
MEMBER(ze_device_mem_alloc_desc_t, flags, DeviceMemAllocDesc, flags);
MEMBER(ze_device_mem_alloc_desc_t, ordinal, DeviceMemAllocDesc, ordinal);

#define THEIR_host_mem_alloc_desc ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC
HEADED(ze_host_mem_alloc_desc_t, HostMemAllocDesc, host_mem_alloc_desc);
MEMBER(ze_host_mem_alloc_desc_t, flags, HostMemAllocDesc, flags);

#define THEIR_relaxed_allocation_limits_exp_desc \
  ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC
HEADED(ze_relaxed_allocation_limits_exp_desc_t, RelaxedAllocationLimitsDesc,
       relaxed_allocation_limits_exp_desc);
MEMBER(ze_relaxed_allocation_limits_exp_desc_t, flags, RelaxedAllocationLimitsDesc, flags);

#define THEIR_physical_mem_desc ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC
HEADED(ze_physical_mem_desc_t, PhysicalMemDesc, physical_mem_desc);
MEMBER(ze_physical_mem_desc_t, flags, PhysicalMemDesc, flags);
MEMBER(ze_physical_mem_desc_t, size, PhysicalMemDesc, size);

#define THEIR_sysman_mem_properties ZES_STRUCTURE_TYPE_MEM_PROPERTIES
HEADED(zes_mem_properties_t, MemoryModuleProperties, sysman_mem_properties);
MEMBER(zes_mem_properties_t, type, MemoryModuleProperties, type);
MEMBER(zes_mem_properties_t, onSubdevice, MemoryModuleProperties, on_subdevice);
MEMBER(zes_mem_properties_t, subdeviceId, MemoryModuleProperties, subdevice_id);
MEMBER(zes_mem_properties_t, location, MemoryModuleProperties, location);
MEMBER(zes_mem_properties_t, physicalSize, MemoryModuleProperties, physical_size);
MEMBER(zes_mem_properties_t, busWidth, MemoryModuleProperties, bus_width);
MEMBER(zes_mem_properties_t, numChannels, MemoryModuleProperties, num_channels);

#define THEIR_sysman_mem_state ZES_STRUCTURE_TYPE_MEM_STATE
HEADED(zes_mem_state_t, MemoryModuleState, sysman_mem_state);
MEMBER(zes_mem_state_t, health, MemoryModuleState, health);
MEMBER(zes_mem_state_t, free, MemoryModuleState, free);
MEMBER(zes_mem_state_t, size, MemoryModuleState, size);

STRUCTURE(zes_fabric_port_id_t, FabricPortId);
MEMBER(zes_fabric_port_id_t, fabricId, FabricPortId, fabric_id);
MEMBER(zes_fabric_port_id_t, attachId, FabricPortId, attach_id);
MEMBER(zes_fabric_port_id_t, portNumber, FabricPortId, port_number);
STRUCTURE(zes_fabric_port_speed_t, FabricPortSpeed);
MEMBER(zes_fabric_port_speed_t, bitRate, FabricPortSpeed, bit_rate);
MEMBER(zes_fabric_port_speed_t, width, FabricPortSpeed, width);
#define THEIR_sysman_fabric_port_properties ZES_STRUCTURE_TYPE_FABRIC_PORT_PROPERTIES
HEADED(zes_fabric_port_properties_t, FabricPortProperties, sysman_fabric_port_properties);
MEMBER(zes_fabric_port_properties_t, model, FabricPortProperties, model);
MEMBER(zes_fabric_port_properties_t, onSubdevice, FabricPortProperties, on_subdevice);
MEMBER(zes_fabric_port_properties_t, subdeviceId, FabricPortProperties, subdevice_id);
MEMBER(zes_fabric_port_properties_t, portId, FabricPortProperties, port_id);
MEMBER(zes_fabric_port_properties_t, maxRxSpeed, FabricPortProperties, max_rx_speed);
MEMBER(zes_fabric_port_properties_t, maxTxSpeed, FabricPortProperties, max_tx_speed);
#define THEIR_sysman_fabric_port_state ZES_STRUCTURE_TYPE_FABRIC_PORT_STATE
HEADED(zes_fabric_port_state_t, FabricPortState, sysman_fabric_port_state);
MEMBER(zes_fabric_port_state_t, status, FabricPortState, status);
MEMBER(zes_fabric_port_state_t, qualityIssues, FabricPortState, quality_issues);
MEMBER(zes_fabric_port_state_t, failureReasons, FabricPortState, failure_reasons);
MEMBER(zes_fabric_port_state_t, remotePortId, FabricPortState, remote_port_id);
MEMBER(zes_fabric_port_state_t, rxSpeed, FabricPortState, rx_speed);
MEMBER(zes_fabric_port_state_t, txSpeed, FabricPortState, tx_speed);

// ---- constants

#define CONSTANT(ours, theirs) static_assert(abi::ours == static_cast<uint32_t>(theirs))
CONSTANT(success, ZE_RESULT_SUCCESS);
CONSTANT(not_ready, ZE_RESULT_NOT_READY);
CONSTANT(error_device_lost, ZE_RESULT_ERROR_DEVICE_LOST);
CONSTANT(error_out_of_host_memory, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
CONSTANT(error_out_of_device_memory, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
CONSTANT(error_module_build_failure, ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
CONSTANT(error_module_link_failure, ZE_RESULT_ERROR_MODULE_LINK_FAILURE);
CONSTANT(error_device_requires_reset, ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET);
CONSTANT(error_device_in_low_power_state, ZE_RESULT_ERROR_DEVICE_IN_LOW_POWER_STATE);
CONSTANT(error_insufficient_permissions, ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS);
CONSTANT(error_not_available, ZE_RESULT_ERROR_NOT_AVAILABLE);
CONSTANT(error_dependency_unavailable, ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE);
CONSTANT(warning_dropped_data, ZE_RESULT_WARNING_DROPPED_DATA);
CONSTANT(error_uninitialized, ZE_RESULT_ERROR_UNINITIALIZED);
CONSTANT(error_unsupported_version, ZE_RESULT_ERROR_UNSUPPORTED_VERSION);
CONSTANT(error_unsupported_feature, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
CONSTANT(error_invalid_argument, ZE_RESULT_ERROR_INVALID_ARGUMENT);
CONSTANT(error_invalid_null_handle, ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
CONSTANT(error_handle_object_in_use, ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
CONSTANT(error_invalid_null_pointer, ZE_RESULT_ERROR_INVALID_NULL_POINTER);
CONSTANT(error_invalid_size, ZE_RESULT_ERROR_INVALID_SIZE);
CONSTANT(error_unsupported_size, ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
CONSTANT(error_unsupported_alignment, ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
CONSTANT(error_invalid_synchronization_object, ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT);
CONSTANT(error_invalid_enumeration, ZE_RESULT_ERROR_INVALID_ENUMERATION);
CONSTANT(error_unsupported_enumeration, ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION);
CONSTANT(error_unsupported_image_format, ZE_RESULT_ERROR_UNSUPPORTED_IMAGE_FORMAT);
CONSTANT(error_invalid_native_binary, ZE_RESULT_ERROR_INVALID_NATIVE_BINARY);
CONSTANT(error_invalid_global_name, ZE_RESULT_ERROR_INVALID_GLOBAL_NAME);
CONSTANT(error_invalid_kernel_name, ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
CONSTANT(error_invalid_function_name, ZE_RESULT_ERROR_INVALID_FUNCTION_NAME);
CONSTANT(error_invalid_group_size_dimension, ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
CONSTANT(error_invalid_global_width_dimension, ZE_RESULT_ERROR_INVALID_GLOBAL_WIDTH_DIMENSION);
CONSTANT(error_invalid_kernel_argument_index, ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX);
CONSTANT(error_invalid_kernel_argument_size, ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE);
CONSTANT(error_invalid_kernel_attribute_value, ZE_RESULT_ERROR_INVALID_KERNEL_ATTRIBUTE_VALUE);
CONSTANT(error_invalid_module_unlinked, ZE_RESULT_ERROR_INVALID_MODULE_UNLINKED);
CONSTANT(error_invalid_command_list_type, ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE);
CONSTANT(error_overlapping_regions, ZE_RESULT_ERROR_OVERLAPPING_REGIONS);
CONSTANT(warning_action_required, ZE_RESULT_WARNING_ACTION_REQUIRED);
CONSTANT(error_unknown, ZE_RESULT_ERROR_UNKNOWN);
CONSTANT(init_flag_gpu_only, ZE_INIT_FLAG_GPU_ONLY);
CONSTANT(version(1, 4), ZE_API_VERSION_1_4);
CONSTANT(device_type_gpu, ZE_DEVICE_TYPE_GPU);
CONSTANT(device_property_flag_integrated, ZE_DEVICE_PROPERTY_FLAG_INTEGRATED);
CONSTANT(queue_group_flag_compute, ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE);
CONSTANT(queue_group_flag_copy, ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY);
CONSTANT(p2p_flag_access, ZE_DEVICE_P2P_PROPERTY_FLAG_ACCESS);
CONSTANT(p2p_flag_atomics, ZE_DEVICE_P2P_PROPERTY_FLAG_ATOMICS);
CONSTANT(bandwidth_unit_bytes_per_nanosecond, ZE_BANDWIDTH_UNIT_BYTES_PER_NANOSEC);
CONSTANT(bandwidth_unit_bytes_per_clock, ZE_BANDWIDTH_UNIT_BYTES_PER_CLOCK);
CONSTANT(latency_unit_nanosecond, ZE_LATENCY_UNIT_NANOSEC);
CONSTANT(latency_unit_hop, ZE_LATENCY_UNIT_HOP);
CONSTANT(queue_mode_asynchronous, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
CONSTANT(queue_priority_normal, ZE_COMMAND_QUEUE_PRIORITY_NORMAL);
CONSTANT(event_pool_flag_host_visible, ZE_EVENT_POOL_FLAG_HOST_VISIBLE);
CONSTANT(event_scope_flag_device, ZE_EVENT_SCOPE_FLAG_DEVICE);
CONSTANT(event_scope_flag_host, ZE_EVENT_SCOPE_FLAG_HOST);
CONSTANT(relaxed_allocation_flag_max_size, ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE);
CONSTANT(memory_access_readwrite, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE);
CONSTANT(memory_location_device, ZES_MEM_LOC_DEVICE);
CONSTANT(fabric_port_status_healthy, ZES_FABRIC_PORT_STATUS_HEALTHY);
CONSTANT(fabric_port_status_degraded, ZES_FABRIC_PORT_STATUS_DEGRADED);
CONSTANT(loader_handle_driver, ZEL_HANDLE_DRIVER);

// ---- functions

#define FUNCTION(theirs, ours) static_assert(std::is_same_v<Ours<decltype(theirs)>, abi::ours>)
FUNCTION(zeInit, InitFn);
FUNCTION(zeDriverGet, DriverGetFn);
FUNCTION(zeDriverGetApiVersion, DriverGetApiVersionFn);
FUNCTION(zeDriverGetProperties, DriverGetPropertiesFn);
FUNCTION(zeDriverGetExtensionFunctionAddress, DriverGetExtensionFunctionAddressFn);
FUNCTION(zeDeviceGet, DeviceGetFn);
FUNCTION(zeDeviceGetProperties, DeviceGetPropertiesFn);
FUNCTION(zeDeviceGetCommandQueueGroupProperties, DeviceGetCommandQueueGroupPropertiesFn);
FUNCTION(zeDeviceGetMemoryProperties, DeviceGetMemoryPropertiesFn);
FUNCTION(zeDeviceGetP2PProperties, DeviceGetP2PPropertiesFn);
FUNCTION(zeDeviceCanAccessPeer, DeviceCanAccessPeerFn);
FUNCTION(zeDevicePciGetPropertiesExt, DevicePciGetPropertiesExtFn);
FUNCTION(zeContextCreate, ContextCreateFn);
FUNCTION(zeContextDestroy, ContextDestroyFn);
FUNCTION(zeContextGetStatus, ContextGetStatusFn);
FUNCTION(zeCommandListCreateImmediate, CommandListCreateImmediateFn);
FUNCTION(zeCommandListDestroy, CommandListDestroyFn);
FUNCTION(zeCommandListAppendBarrier, CommandListAppendBarrierFn);
FUNCTION(zeCommandListAppendMemoryCopy, CommandListAppendMemoryCopyFn);
FUNCTION(zeCommandListAppendMemoryFill, CommandListAppendMemoryFillFn);
FUNCTION(zeEventPoolCreate, EventPoolCreateFn);
FUNCTION(zeEventPoolDestroy, EventPoolDestroyFn);
FUNCTION(zeEventCreate, EventCreateFn);
FUNCTION(zeEventDestroy, EventDestroyFn);
FUNCTION(zeEventHostSynchronize, EventHostSynchronizeFn);
FUNCTION(zeEventQueryStatus, EventQueryStatusFn);
FUNCTION(zeEventHostReset, EventHostResetFn);
FUNCTION(zeEventHostSignal, EventHostSignalFn);
FUNCTION(zeMemAllocDevice, MemAllocDeviceFn);
FUNCTION(zeMemAllocHost, MemAllocHostFn);
FUNCTION(zeMemFree, MemFreeFn);
FUNCTION(zeVirtualMemReserve, VirtualMemReserveFn);
FUNCTION(zeVirtualMemFree, VirtualMemFreeFn);
FUNCTION(zeVirtualMemQueryPageSize, VirtualMemQueryPageSizeFn);
FUNCTION(zeVirtualMemMap, VirtualMemMapFn);
FUNCTION(zeVirtualMemUnmap, VirtualMemUnmapFn);
FUNCTION(zePhysicalMemCreate, PhysicalMemCreateFn);
FUNCTION(zePhysicalMemDestroy, PhysicalMemDestroyFn);
FUNCTION(zesDeviceEnumMemoryModules, DeviceEnumMemoryModulesFn);
FUNCTION(zesMemoryGetProperties, MemoryGetPropertiesFn);
FUNCTION(zesMemoryGetState, MemoryGetStateFn);
FUNCTION(zesDeviceEnumFabricPorts, DeviceEnumFabricPortsFn);
FUNCTION(zesFabricPortGetProperties, FabricPortGetPropertiesFn);
FUNCTION(zesFabricPortGetState, FabricPortGetStateFn);
FUNCTION(zelLoaderTranslateHandle, LoaderTranslateHandleFn);

CONSTANT(queue_flag_explicit_only, ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY);

// ---- newer than specification 1.4

#if defined(ZE_API_VERSION_CURRENT_M)
CONSTANT(queue_flag_in_order, ZE_COMMAND_QUEUE_FLAG_IN_ORDER);
FUNCTION(zeCommandListHostSynchronize, CommandListHostSynchronizeFn);
#endif

}  // namespace
