// SPDX-License-Identifier: Apache-2.0
//
// The runtime's functions, found in its loader library when a state is started. After zeInit has failed none
// of them may be called: loaders up to 1.8 crash then.
#pragma once

#include "backends/common/library.hpp"
#include "backends/level_zero/abi.hpp"

#include <string>
#include <vector>

namespace weir::level_zero {

struct Api {
  /// Opens the loader (WEIR_LEVEL_ZERO_LIBRARY, else libze_loader.so.1), finds the functions and starts the
  /// drivers. False: *reason says in words why not.
  bool start(std::vector<abi::Driver> *drivers, std::string *reason);

  common::Library library;

  abi::InitFn *init = nullptr;
  abi::DriverGetFn *driver_get = nullptr;
  abi::DriverGetApiVersionFn *driver_get_api_version = nullptr;
  abi::DriverGetPropertiesFn *driver_get_properties = nullptr;
  abi::DriverGetExtensionFunctionAddressFn *driver_get_extension_function_address = nullptr;
  abi::DeviceGetFn *device_get = nullptr;
  abi::DeviceGetPropertiesFn *device_get_properties = nullptr;
  abi::DeviceGetCommandQueueGroupPropertiesFn *device_get_queue_groups = nullptr;
  abi::DeviceGetMemoryPropertiesFn *device_get_memory_properties = nullptr;
  abi::DeviceGetP2PPropertiesFn *device_get_p2p_properties = nullptr;
  abi::DeviceCanAccessPeerFn *device_can_access_peer = nullptr;
  abi::ContextCreateFn *context_create = nullptr;
  abi::ContextDestroyFn *context_destroy = nullptr;
  abi::ContextGetStatusFn *context_get_status = nullptr;
  abi::CommandListCreateImmediateFn *list_create_immediate = nullptr;
  abi::CommandListDestroyFn *list_destroy = nullptr;
  abi::CommandListAppendBarrierFn *append_barrier = nullptr;
  abi::CommandListAppendMemoryCopyFn *append_copy = nullptr;
  abi::CommandListAppendMemoryFillFn *append_fill = nullptr;
  abi::EventPoolCreateFn *event_pool_create = nullptr;
  abi::EventPoolDestroyFn *event_pool_destroy = nullptr;
  abi::EventCreateFn *event_create = nullptr;
  abi::EventDestroyFn *event_destroy = nullptr;
  abi::EventHostSynchronizeFn *event_synchronize = nullptr;
  abi::EventQueryStatusFn *event_query = nullptr;
  abi::EventHostResetFn *event_reset = nullptr;
  abi::EventHostSignalFn *event_signal = nullptr;
  abi::MemAllocDeviceFn *mem_alloc_device = nullptr;
  abi::MemAllocHostFn *mem_alloc_host = nullptr;
  abi::MemFreeFn *mem_free = nullptr;
  abi::VirtualMemReserveFn *virtual_reserve = nullptr;
  abi::VirtualMemFreeFn *virtual_free = nullptr;
  abi::VirtualMemQueryPageSizeFn *virtual_page_size = nullptr;
  abi::VirtualMemMapFn *virtual_map = nullptr;
  abi::VirtualMemUnmapFn *virtual_unmap = nullptr;
  abi::PhysicalMemCreateFn *physical_create = nullptr;
  abi::PhysicalMemDestroyFn *physical_destroy = nullptr;

  // May be missing: older or newer loaders, or system management that is off.
  abi::DevicePciGetPropertiesExtFn *device_pci = nullptr;
  abi::CommandListHostSynchronizeFn *list_synchronize = nullptr;
  abi::LoaderTranslateHandleFn *translate_handle = nullptr;
  abi::DeviceEnumMemoryModulesFn *sysman_memory_modules = nullptr;
  abi::MemoryGetPropertiesFn *sysman_memory_properties = nullptr;
  abi::MemoryGetStateFn *sysman_memory_state = nullptr;
  abi::DeviceEnumFabricPortsFn *sysman_fabric_ports = nullptr;
  abi::FabricPortGetPropertiesFn *sysman_port_properties = nullptr;
  abi::FabricPortGetStateFn *sysman_port_state = nullptr;
  /// System management answers only if the program set ZES_ENABLE_SYSMAN=1 before the drivers started; a
  /// library that set it itself would change the environment under the program's threads.
  bool sysman = false;

 private:
  bool find_functions(std::string *reason);
  bool find_drivers(std::vector<abi::Driver> *drivers, std::string *reason) const;
};

}  // namespace weir::level_zero
