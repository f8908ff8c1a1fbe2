// SPDX-License-Identifier: Apache-2.0
//
// Finding the loader's functions and starting its drivers. Every way in which a machine can be without Level
// Zero ends here, with a sentence.

#include "backends/level_zero/api.hpp"

#include "backends/level_zero/errors.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weir::level_zero {
namespace {

constexpr const char *variable = "WEIR_LEVEL_ZERO_LIBRARY";

std::string failed(const char *call, abi::Result result, const char *hint) {
  char code[16];
  std::snprintf(code, sizeof code, " (0x%x)", result);
  return std::string(call) + " failed with " + name_of(result) + code + hint;
}

/// What `list` counts at its first call and gives at its second.
abi::Result list_drivers(abi::DriverGetFn *list, std::vector<abi::Driver> *drivers) {
  uint32_t count = 0;
  abi::Result result = list(&count, nullptr);
  drivers->resize(result == abi::success ? count : 0);
  if (!drivers->empty()) result = list(&count, drivers->data());
  if (result != abi::success) count = 0;
  drivers->resize(count);
  return result;
}

constexpr const char *no_driver_hint =
    ": no driver accepts this machine (is Intel's driver installed, is there a GPU, may this user "
    "open "
    "/dev/dri/renderD*?)";

}  // namespace

bool Api::start(std::vector<abi::Driver> *drivers, std::string *reason) {
  std::string why;
  if (!library.open(variable, {"libze_loader.so.1"}, &why)) {
    *reason = "the Level Zero loader is not here: " + why;
    return false;
  }
  return find_functions(reason) && find_drivers(drivers, reason);
}

bool Api::find_functions(std::string *reason) {
  bool complete = true;
  const auto need = [&](const char *name, auto **function) {
    if (library.find(name, function) || !complete) return;
    complete = false;
    *reason =
        library.name() + " has no " + name + ": it is no Level Zero loader, or one before 1.0";
  };
  need("zeInit", &init);
  need("zeDriverGet", &driver_get);
  need("zeDriverGetApiVersion", &driver_get_api_version);
  need("zeDriverGetProperties", &driver_get_properties);
  need("zeDriverGetExtensionFunctionAddress", &driver_get_extension_function_address);
  need("zeDeviceGet", &device_get);
  need("zeDeviceGetProperties", &device_get_properties);
  need("zeDeviceGetCommandQueueGroupProperties", &device_get_queue_groups);
  need("zeDeviceGetMemoryProperties", &device_get_memory_properties);
  need("zeDeviceGetP2PProperties", &device_get_p2p_properties);
  need("zeDeviceCanAccessPeer", &device_can_access_peer);
  need("zeContextCreate", &context_create);
  need("zeContextDestroy", &context_destroy);
  need("zeContextGetStatus", &context_get_status);
  need("zeCommandListCreateImmediate", &list_create_immediate);
  need("zeCommandListDestroy", &list_destroy);
  need("zeCommandListAppendBarrier", &append_barrier);
  need("zeCommandListAppendMemoryCopy", &append_copy);
  need("zeCommandListAppendMemoryFill", &append_fill);
  need("zeEventPoolCreate", &event_pool_create);
  need("zeEventPoolDestroy", &event_pool_destroy);
  need("zeEventCreate", &event_create);
  need("zeEventDestroy", &event_destroy);
  need("zeEventHostSynchronize", &event_synchronize);
  need("zeEventQueryStatus", &event_query);
  need("zeEventHostReset", &event_reset);
  need("zeEventHostSignal", &event_signal);
  need("zeMemAllocDevice", &mem_alloc_device);
  need("zeMemAllocHost", &mem_alloc_host);
  need("zeMemFree", &mem_free);
  need("zeVirtualMemReserve", &virtual_reserve);
  need("zeVirtualMemFree", &virtual_free);
  need("zeVirtualMemQueryPageSize", &virtual_page_size);
  need("zeVirtualMemMap", &virtual_map);
  need("zeVirtualMemUnmap", &virtual_unmap);
  need("zePhysicalMemCreate", &physical_create);
  need("zePhysicalMemDestroy", &physical_destroy);

  library.find("zeDevicePciGetPropertiesExt", &device_pci);
  library.find("zeCommandListHostSynchronize", &list_synchronize);
  library.find("zelLoaderTranslateHandle", &translate_handle);
  const bool memory = library.find("zesDeviceEnumMemoryModules", &sysman_memory_modules) &&
                      library.find("zesMemoryGetProperties", &sysman_memory_properties) &&
                      library.find("zesMemoryGetState", &sysman_memory_state);
  const bool ports = library.find("zesDeviceEnumFabricPorts", &sysman_fabric_ports) &&
                     library.find("zesFabricPortGetProperties", &sysman_port_properties) &&
                     library.find("zesFabricPortGetState", &sysman_port_state);
  const char *enabled = std::getenv("ZES_ENABLE_SYSMAN");
  sysman = memory && ports && enabled != nullptr && std::strcmp(enabled, "1") == 0;
  return complete;
}

bool Api::find_drivers(std::vector<abi::Driver> *drivers, std::string *reason) const {
  // Not zeInitDrivers: a loader of version 1.20 crashes in its second call where the first found no driver, and loses the
  // drivers that don't have it. What zeInit said a loader remembers.
  abi::Result result = init(abi::init_flag_gpu_only);
  if (result != abi::success) {
    *reason = failed("zeInit", result, no_driver_hint);
    return false;
  }
  result = list_drivers(driver_get, drivers);
  if (result != abi::success) {
    *reason = failed("zeDriverGet", result, "");
    return false;
  }
  if (drivers->empty()) *reason = "Level Zero has no driver on this machine";
  return !drivers->empty();
}

}  // namespace weir::level_zero
