// SPDX-License-Identifier: Apache-2.0
//
// The part of Level Zero's binary interface that this backend uses, written down anew: handles, constants,
// structures and the types of functions. No vendor header is needed to build. tests/mirrors/level_zero.cpp
// compares every line with the vendor's headers where those are installed. Names follow the specification's,
// without its prefix; what a newer specification added says so.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::level_zero::abi {

// ---- handles

using Driver = struct DriverHandle *;
using Device = struct DeviceHandle
    *;  ///< also the device's handle for system management (ZES_ENABLE_SYSMAN=1)
using Context = struct ContextHandle *;
using CommandList = struct CommandListHandle *;
using EventPool = struct EventPoolHandle *;
using Event = struct EventHandle *;
using PhysicalMemory = struct PhysicalMemoryHandle *;
using MemoryModule = struct MemoryModuleHandle *;  ///< system management
using FabricPort = struct FabricPortHandle *;      ///< system management

// ---- results

using Result =
    uint32_t;  ///< an enumeration of 32 bits; newer drivers know codes that this list lacks
inline constexpr Result success = 0;
inline constexpr Result not_ready = 1;
inline constexpr Result error_device_lost = 0x70000001;
inline constexpr Result error_out_of_host_memory = 0x70000002;
inline constexpr Result error_out_of_device_memory = 0x70000003;
inline constexpr Result error_module_build_failure = 0x70000004;
inline constexpr Result error_module_link_failure = 0x70000005;
inline constexpr Result error_device_requires_reset = 0x70000006;
inline constexpr Result error_device_in_low_power_state = 0x70000007;
inline constexpr Result error_insufficient_permissions = 0x70010000;
inline constexpr Result error_not_available = 0x70010001;
inline constexpr Result error_dependency_unavailable = 0x70020000;
inline constexpr Result warning_dropped_data = 0x70020001;
inline constexpr Result error_uninitialized = 0x78000001;
inline constexpr Result error_unsupported_version = 0x78000002;
inline constexpr Result error_unsupported_feature = 0x78000003;
inline constexpr Result error_invalid_argument = 0x78000004;
inline constexpr Result error_invalid_null_handle = 0x78000005;
inline constexpr Result error_handle_object_in_use = 0x78000006;
inline constexpr Result error_invalid_null_pointer = 0x78000007;
inline constexpr Result error_invalid_size = 0x78000008;
inline constexpr Result error_unsupported_size = 0x78000009;
inline constexpr Result error_unsupported_alignment = 0x7800000a;
inline constexpr Result error_invalid_synchronization_object = 0x7800000b;
inline constexpr Result error_invalid_enumeration = 0x7800000c;
inline constexpr Result error_unsupported_enumeration = 0x7800000d;
inline constexpr Result error_unsupported_image_format = 0x7800000e;
inline constexpr Result error_invalid_native_binary = 0x7800000f;
inline constexpr Result error_invalid_global_name = 0x78000010;
inline constexpr Result error_invalid_kernel_name = 0x78000011;
inline constexpr Result error_invalid_function_name = 0x78000012;
inline constexpr Result error_invalid_group_size_dimension = 0x78000013;
inline constexpr Result error_invalid_global_width_dimension = 0x78000014;
inline constexpr Result error_invalid_kernel_argument_index = 0x78000015;
inline constexpr Result error_invalid_kernel_argument_size = 0x78000016;
inline constexpr Result error_invalid_kernel_attribute_value = 0x78000017;
inline constexpr Result error_invalid_module_unlinked = 0x78000018;
inline constexpr Result error_invalid_command_list_type = 0x78000019;
inline constexpr Result error_overlapping_regions = 0x7800001a;
inline constexpr Result warning_action_required = 0x7800001b;
inline constexpr Result error_unknown = 0x7ffffffe;

// ---- versions: major in the upper 16 bits

using ApiVersion = uint32_t;
constexpr ApiVersion version(uint32_t major, uint32_t minor) { return major << 16U | minor; }

// ---- structures: each begins with its kind and a link to an extension's structure

using StructureType = uint32_t;
inline constexpr StructureType driver_properties = 0x1;
inline constexpr StructureType device_properties = 0x3;
inline constexpr StructureType command_queue_group_properties = 0x6;
inline constexpr StructureType device_memory_properties = 0x7;
inline constexpr StructureType device_p2p_properties = 0xb;
inline constexpr StructureType context_desc = 0xd;
inline constexpr StructureType command_queue_desc = 0xe;
inline constexpr StructureType event_pool_desc = 0x10;
inline constexpr StructureType event_desc = 0x11;
inline constexpr StructureType device_mem_alloc_desc = 0x15;
inline constexpr StructureType host_mem_alloc_desc = 0x16;
inline constexpr StructureType physical_mem_desc = 0x20;
inline constexpr StructureType pci_ext_properties = 0x10008;
inline constexpr StructureType relaxed_allocation_limits_exp_desc = 0x20001;
inline constexpr StructureType device_p2p_bandwidth_exp_properties = 0x2000a;
// System management counts its structures anew.
inline constexpr StructureType sysman_fabric_port_properties = 0x6;
inline constexpr StructureType sysman_mem_properties = 0xb;
inline constexpr StructureType sysman_fabric_port_state = 0x19;
inline constexpr StructureType sysman_mem_state = 0x1e;

inline constexpr uint32_t init_flag_gpu_only = 1;

struct DriverProperties {
  StructureType stype = driver_properties;
  void *next = nullptr;
  uint8_t uuid[16] = {};
  uint32_t driver_version = 0;
};

inline constexpr uint32_t device_type_gpu = 1;
inline constexpr uint32_t device_property_flag_integrated = 1;

struct DeviceProperties {
  StructureType stype = device_properties;
  void *next = nullptr;
  uint32_t type = 0;
  uint32_t vendor_id = 0;
  uint32_t device_id = 0;
  uint32_t flags = 0;
  uint32_t subdevice_id = 0;
  uint32_t core_clock_rate = 0;
  uint64_t max_mem_alloc_size = 0;
  uint32_t max_hardware_contexts = 0;
  uint32_t max_command_queue_priority = 0;
  uint32_t num_threads_per_eu = 0;
  uint32_t physical_eu_simd_width = 0;
  uint32_t num_eus_per_subslice = 0;
  uint32_t num_subslices_per_slice = 0;
  uint32_t num_slices = 0;
  uint64_t timer_resolution = 0;
  uint32_t timestamp_valid_bits = 0;
  uint32_t kernel_timestamp_valid_bits = 0;
  uint8_t uuid[16] = {};
  char name[256] = {};
};

inline constexpr uint32_t queue_group_flag_compute = 1;
inline constexpr uint32_t queue_group_flag_copy = 2;

struct CommandQueueGroupProperties {
  StructureType stype = command_queue_group_properties;
  void *next = nullptr;
  uint32_t flags = 0;
  size_t max_memory_fill_pattern_size = 0;
  uint32_t num_queues = 0;
};

struct DeviceMemoryProperties {
  StructureType stype = device_memory_properties;
  void *next = nullptr;
  uint32_t flags = 0;
  uint32_t max_clock_rate = 0;
  uint32_t max_bus_width = 0;
  uint64_t total_size = 0;
  char name[256] = {};
};

inline constexpr uint32_t p2p_flag_access = 1;
inline constexpr uint32_t p2p_flag_atomics = 2;

struct P2pProperties {
  StructureType stype = device_p2p_properties;
  void *next = nullptr;
  uint32_t flags = 0;
};

inline constexpr uint32_t bandwidth_unit_bytes_per_nanosecond = 1;
inline constexpr uint32_t bandwidth_unit_bytes_per_clock = 2;
inline constexpr uint32_t latency_unit_nanosecond = 1;
inline constexpr uint32_t latency_unit_hop = 3;

struct P2pBandwidthProperties {
  StructureType stype = device_p2p_bandwidth_exp_properties;
  void *next = nullptr;
  uint32_t logical_bandwidth = 0;
  uint32_t physical_bandwidth = 0;
  uint32_t bandwidth_unit = 0;
  uint32_t logical_latency = 0;
  uint32_t physical_latency = 0;
  uint32_t latency_unit = 0;
};

struct PciAddress {
  uint32_t domain = 0;
  uint32_t bus = 0;
  uint32_t device = 0;
  uint32_t function = 0;
};

struct PciSpeed {
  int32_t generation = -1;
  int32_t width = -1;
  int64_t max_bandwidth = -1;  ///< bytes a second over all lanes; -1 = unknown
};

struct PciProperties {
  StructureType stype = pci_ext_properties;
  void *next = nullptr;
  PciAddress address;
  PciSpeed max_speed;
};

struct ContextDesc {
  StructureType stype = context_desc;
  const void *next = nullptr;
  uint32_t flags = 0;
};

inline constexpr uint32_t queue_flag_explicit_only = 1;
inline constexpr uint32_t queue_flag_in_order = 2;  // newer than 1.4
inline constexpr uint32_t queue_mode_asynchronous = 2;
inline constexpr uint32_t queue_priority_normal = 0;

struct CommandQueueDesc {
  StructureType stype = command_queue_desc;
  const void *next = nullptr;
  uint32_t ordinal = 0;
  uint32_t index = 0;
  uint32_t flags = 0;
  uint32_t mode = queue_mode_asynchronous;
  uint32_t priority = queue_priority_normal;
};

inline constexpr uint32_t event_pool_flag_host_visible = 1;

struct EventPoolDesc {
  StructureType stype = event_pool_desc;
  const void *next = nullptr;
  uint32_t flags = event_pool_flag_host_visible;
  uint32_t count = 0;
};

inline constexpr uint32_t event_scope_flag_device = 2;
inline constexpr uint32_t event_scope_flag_host = 4;

struct EventDesc {
  StructureType stype = event_desc;
  const void *next = nullptr;
  uint32_t index = 0;
  uint32_t signal = event_scope_flag_host;
  uint32_t wait = event_scope_flag_device;
};

struct DeviceMemAllocDesc {
  StructureType stype = device_mem_alloc_desc;
  const void *next = nullptr;
  uint32_t flags = 0;
  uint32_t ordinal = 0;
};

struct HostMemAllocDesc {
  StructureType stype = host_mem_alloc_desc;
  const void *next = nullptr;
  uint32_t flags = 0;
};

inline constexpr uint32_t relaxed_allocation_flag_max_size = 1;

struct RelaxedAllocationLimitsDesc {
  StructureType stype = relaxed_allocation_limits_exp_desc;
  const void *next = nullptr;
  uint32_t flags = relaxed_allocation_flag_max_size;
};

struct PhysicalMemDesc {
  StructureType stype = physical_mem_desc;
  const void *next = nullptr;
  uint32_t flags = 0;
  size_t size = 0;
};

inline constexpr uint32_t memory_access_readwrite = 1;

// ---- system management

inline constexpr uint32_t memory_location_device = 1;

struct MemoryModuleProperties {
  StructureType stype = sysman_mem_properties;
  void *next = nullptr;
  uint32_t type = 0;
  uint8_t on_subdevice = 0;
  uint32_t subdevice_id = 0;
  uint32_t location = 0;
  uint64_t physical_size = 0;
  int32_t bus_width = 0;
  int32_t num_channels = 0;
};

struct MemoryModuleState {
  StructureType stype = sysman_mem_state;
  const void *next = nullptr;
  uint32_t health = 0;
  uint64_t free = 0;
  uint64_t size = 0;
};

struct FabricPortId {
  uint32_t fabric_id = 0;
  uint32_t attach_id = 0;
  uint8_t port_number = 0;
};

struct FabricPortSpeed {
  int64_t bit_rate = -1;  ///< bits a second of a lane
  int32_t width = -1;     ///< lanes
};

struct FabricPortProperties {
  StructureType stype = sysman_fabric_port_properties;
  void *next = nullptr;
  char model[256] = {};
  uint8_t on_subdevice = 0;
  uint32_t subdevice_id = 0;
  FabricPortId port_id;
  FabricPortSpeed max_rx_speed;
  FabricPortSpeed max_tx_speed;
};

inline constexpr uint32_t fabric_port_status_healthy = 1;
inline constexpr uint32_t fabric_port_status_degraded = 2;

struct FabricPortState {
  StructureType stype = sysman_fabric_port_state;
  const void *next = nullptr;
  uint32_t status = 0;
  uint32_t quality_issues = 0;
  uint32_t failure_reasons = 0;
  FabricPortId remote_port_id;
  FabricPortSpeed rx_speed;
  FabricPortSpeed tx_speed;
};

// ---- functions, as types

using Bool = uint8_t;

using InitFn = Result(uint32_t flags);
using DriverGetFn = Result(uint32_t *count, Driver *drivers);
using DriverGetApiVersionFn = Result(Driver driver, ApiVersion *version);
using DriverGetPropertiesFn = Result(Driver driver, DriverProperties *properties);
using DriverGetExtensionFunctionAddressFn = Result(Driver driver, const char *name, void **address);
using DeviceGetFn = Result(Driver driver, uint32_t *count, Device *devices);
using DeviceGetPropertiesFn = Result(Device device, DeviceProperties *properties);
using DeviceGetCommandQueueGroupPropertiesFn = Result(Device device, uint32_t *count,
                                                      CommandQueueGroupProperties *properties);
using DeviceGetMemoryPropertiesFn = Result(Device device, uint32_t *count,
                                           DeviceMemoryProperties *properties);
using DeviceGetP2PPropertiesFn = Result(Device device, Device peer, P2pProperties *properties);
using DeviceCanAccessPeerFn = Result(Device device, Device peer, Bool *value);
using DevicePciGetPropertiesExtFn = Result(Device device, PciProperties *properties);
using ContextCreateFn = Result(Driver driver, const ContextDesc *desc, Context *context);
using ContextDestroyFn = Result(Context context);
using ContextGetStatusFn = Result(Context context);
using CommandListCreateImmediateFn = Result(Context context, Device device,
                                            const CommandQueueDesc *desc, CommandList *list);
using CommandListDestroyFn = Result(CommandList list);
using CommandListHostSynchronizeFn = Result(CommandList list, uint64_t timeout);  // since 1.6
using CommandListAppendBarrierFn = Result(CommandList list, Event signal, uint32_t wait_count,
                                          Event *waits);
using CommandListAppendMemoryCopyFn = Result(CommandList list, void *destination,
                                             const void *source, size_t size, Event signal,
                                             uint32_t wait_count, Event *waits);
using CommandListAppendMemoryFillFn = Result(CommandList list, void *memory, const void *pattern,
                                             size_t pattern_size, size_t size, Event signal,
                                             uint32_t wait_count, Event *waits);
using EventPoolCreateFn = Result(Context context, const EventPoolDesc *desc, uint32_t device_count,
                                 Device *devices, EventPool *pool);
using EventPoolDestroyFn = Result(EventPool pool);
using EventCreateFn = Result(EventPool pool, const EventDesc *desc, Event *event);
using EventDestroyFn = Result(Event event);
using EventHostSynchronizeFn = Result(Event event, uint64_t timeout);
using EventQueryStatusFn = Result(Event event);
using EventHostResetFn = Result(Event event);
using EventHostSignalFn = Result(Event event);
using MemAllocDeviceFn = Result(Context context, const DeviceMemAllocDesc *desc, size_t size,
                                size_t alignment, Device device, void **memory);
using MemAllocHostFn = Result(Context context, const HostMemAllocDesc *desc, size_t size,
                              size_t alignment, void **memory);
using MemFreeFn = Result(Context context, void *memory);
using VirtualMemReserveFn = Result(Context context, const void *start, size_t size, void **address);
using VirtualMemFreeFn = Result(Context context, const void *address, size_t size);
using VirtualMemQueryPageSizeFn = Result(Context context, Device device, size_t size,
                                         size_t *page_size);
using VirtualMemMapFn = Result(Context context, const void *address, size_t size,
                               PhysicalMemory memory, size_t offset, uint32_t access);
using VirtualMemUnmapFn = Result(Context context, const void *address, size_t size);
using PhysicalMemCreateFn = Result(Context context, Device device, PhysicalMemDesc *desc,
                                   PhysicalMemory *memory);
using PhysicalMemDestroyFn = Result(Context context, PhysicalMemory memory);

using DeviceEnumMemoryModulesFn = Result(Device device, uint32_t *count, MemoryModule *modules);
using MemoryGetPropertiesFn = Result(MemoryModule module, MemoryModuleProperties *properties);
using MemoryGetStateFn = Result(MemoryModule module, MemoryModuleState *state);
using DeviceEnumFabricPortsFn = Result(Device device, uint32_t *count, FabricPort *ports);
using FabricPortGetPropertiesFn = Result(FabricPort port, FabricPortProperties *properties);
using FabricPortGetStateFn = Result(FabricPort port, FabricPortState *state);

// Intel's own functions, got from a driver by name; their driver handles are the driver's, not the loader's.
using ImportExternalPointerFn = Result(Driver driver, void *memory, size_t size);
using ReleaseImportedPointerFn = Result(Driver driver, void *memory);
// The loader's: turns a handle of its own into the driver's. Kind 0 is a driver.
inline constexpr uint32_t loader_handle_driver = 0;
using LoaderTranslateHandleFn = Result(uint32_t kind, void *handle, void **native);

}  // namespace weir::level_zero::abi
