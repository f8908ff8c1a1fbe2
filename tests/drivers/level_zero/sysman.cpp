// SPDX-License-Identifier: Apache-2.0
//
// The little of sysman that tells of memory, PCI and the links between devices. It answers only if ZES_ENABLE_SYSMAN
// was 1 at zeInit, as the API says. A sysman device is the core device.
#include <cstdio>

#include "tests/drivers/level_zero/driver.hpp"
#include "tests/drivers/level_zero/facts.hpp"
#include "tests/drivers/level_zero/tables.hpp"

namespace weir::sim::ze {
namespace {

template <class Body>
ze_result_t enter_sysman(const char *name, zes_device_handle_t handle, Body body) noexcept {
  return enter(name, [&](Driver &driver) -> ze_result_t {
    if (!driver.sysman) return ZE_RESULT_ERROR_UNINITIALIZED;
    Device *device = driver.device(handle);
    if (device == nullptr) return driver.bad_handle(name, "device", handle);
    const ze_result_t lost = driver.state_of(device->index);
    return lost != ZE_RESULT_SUCCESS ? lost : body(driver, *device);
  });
}

ze_result_t zesDeviceGetProperties(zes_device_handle_t handle, zes_device_properties_t *out) {
  const char *const name = __func__;
  return enter_sysman(name, handle, [&](Driver &driver, const Device &device) -> ze_result_t {
    if (out == nullptr) return driver.null_pointer(name, "pProperties");
    describe(driver, device, &out->core);
    out->numSubdevices = 0;
    for (char *text : {out->serialNumber, out->boardNumber, out->brandName, out->modelName}) {
      std::snprintf(text, ZES_STRING_PROPERTY_SIZE, "unknown");
    }
    std::snprintf(out->vendorName, sizeof out->vendorName, "Simulated");
    std::snprintf(out->driverVersion, sizeof out->driverVersion, "1.3");
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zesDevicePciGetProperties(zes_device_handle_t handle, zes_pci_properties_t *out) {
  const char *const name = __func__;
  return enter_sysman(name, handle, [&](Driver &driver, const Device &device) -> ze_result_t {
    if (out == nullptr) return driver.null_pointer(name, "pProperties");
    const PciFacts pci = pci_facts(driver, device.index);
    out->address = {pci.domain, pci.bus, pci.device, pci.function};
    out->maxSpeed = {pci.generation, pci.width, pci.bandwidth};
    out->haveBandwidthCounters = out->havePacketCounters = out->haveReplayCounters = 0;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zesDeviceEnumMemoryModules(zes_device_handle_t handle, uint32_t *count,
                                       zes_mem_handle_t *out) {
  const char *const name = __func__;
  return enter_sysman(name, handle, [&](Driver &driver, Device &device) {
    return list_things(driver, name, 1, count, out,
                       [&](uint32_t) { *out = as_handle<zes_mem_handle_t>(&device.module); });
  });
}

template <class Body>
ze_result_t enter_memory(const char *name, zes_mem_handle_t handle, Body body) noexcept {
  return enter(name, [&](Driver &driver) -> ze_result_t {
    for (const auto &device : driver.devices) {
      if (static_cast<const Object *>(&device->module) != static_cast<const void *>(handle)) {
        continue;
      }
      const ze_result_t lost = driver.state_of(device->index);
      return lost != ZE_RESULT_SUCCESS ? lost : body(driver, device->index);
    }
    return driver.bad_handle(name, "memory module", handle);
  });
}

ze_result_t zesMemoryGetProperties(zes_mem_handle_t handle, zes_mem_properties_t *out) {
  const char *const name = __func__;
  return enter_memory(name, handle, [&](Driver &driver, uint32_t device) -> ze_result_t {
    if (out == nullptr) return driver.null_pointer(name, "pProperties");
    out->type = ZES_MEM_TYPE_HBM;
    out->onSubdevice = 0;
    out->subdeviceId = 0;
    out->location = ZES_MEM_LOC_DEVICE;
    out->physicalSize = driver.machine.memory_total(device);
    out->busWidth = 1024;
    out->numChannels = 8;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zesMemoryGetState(zes_mem_handle_t handle, zes_mem_state_t *out) {
  const char *const name = __func__;
  return enter_memory(name, handle, [&](Driver &driver, uint32_t device) -> ze_result_t {
    if (out == nullptr) return driver.null_pointer(name, "pState");
    out->health = ZES_MEM_HEALTH_OK;
    out->free = driver.machine.memory_free(device);
    out->size = driver.machine.memory_total(device);
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zesDeviceEnumFabricPorts(zes_device_handle_t handle, uint32_t *count,
                                     zes_fabric_port_handle_t *out) {
  const char *const name = __func__;
  return enter_sysman(name, handle, [&](Driver &driver, Device &device) {
    const auto total = static_cast<uint32_t>(device.ports.size());
    return list_things(driver, name, total, count, out, [&](uint32_t i) {
      out[i] = as_handle<zes_fabric_port_handle_t>(&device.ports[i]);
    });
  });
}

template <class Body>
ze_result_t enter_port(const char *name, zes_fabric_port_handle_t handle, Body body) noexcept {
  return enter(name, [&](Driver &driver) -> ze_result_t {
    for (const auto &device : driver.devices) {
      for (const FabricPort &port : device->ports) {
        if (static_cast<const Object *>(&port) != static_cast<const void *>(handle)) continue;
        const ze_result_t lost = driver.state_of(device->index);
        return lost != ZE_RESULT_SUCCESS ? lost : body(driver, port);
      }
    }
    return driver.bad_handle(name, "fabric port", handle);
  });
}

/// A device is one end-point; its ports are numbered from 1.
zes_fabric_port_id_t port_id(uint32_t device, uint8_t number) noexcept {
  return {0x1000 + device, 0, number};
}

zes_fabric_port_speed_t port_speed(const Driver &driver) noexcept {
  const uint64_t bandwidth = driver.machine.options().peer_bandwidth;
  if (bandwidth == 0 || bandwidth > INT64_MAX / 8) return {-1, -1};
  return {static_cast<int64_t>(bandwidth * 8), 4};
}

ze_result_t zesFabricPortGetProperties(zes_fabric_port_handle_t handle,
                                       zes_fabric_port_properties_t *out) {
  const char *const name = __func__;
  return enter_port(name, handle, [&](Driver &driver, const FabricPort &port) -> ze_result_t {
    if (out == nullptr) return driver.null_pointer(name, "pProperties");
    std::snprintf(out->model, sizeof out->model, "XeLink");
    out->onSubdevice = 0;
    out->subdeviceId = 0;
    out->portId = port_id(port.device, port.number);
    out->maxRxSpeed = out->maxTxSpeed = port_speed(driver);
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zesFabricPortGetState(zes_fabric_port_handle_t handle, zes_fabric_port_state_t *out) {
  const char *const name = __func__;
  return enter_port(name, handle, [&](Driver &driver, const FabricPort &port) -> ze_result_t {
    if (out == nullptr) return driver.null_pointer(name, "pState");
    out->status = ZES_FABRIC_PORT_STATUS_HEALTHY;
    out->qualityIssues = 0;
    out->failureReasons = 0;
    out->remotePortId = port_id(port.peer, port.remote_number);
    out->rxSpeed = out->txSpeed = port_speed(driver);
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zesFabricPortGetLinkType(zes_fabric_port_handle_t handle, zes_fabric_link_type_t *out) {
  const char *const name = __func__;
  return enter_port(name, handle, [&](Driver &driver, const FabricPort &) -> ze_result_t {
    if (out == nullptr) return driver.null_pointer(name, "pLinkType");
    std::snprintf(out->desc, sizeof out->desc, "XeLink");
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zesFabricPortGetConfig(zes_fabric_port_handle_t handle, zes_fabric_port_config_t *out) {
  const char *const name = __func__;
  return enter_port(name, handle, [&](Driver &driver, const FabricPort &) -> ze_result_t {
    if (out == nullptr) return driver.null_pointer(name, "pConfig");
    out->enabled = 1;
    out->beaconing = 0;
    return ZE_RESULT_SUCCESS;
  });
}

}  // namespace

void fill(zes_device_dditable_t &table) noexcept {
  table.pfnGetProperties = zesDeviceGetProperties;
  table.pfnPciGetProperties = zesDevicePciGetProperties;
  table.pfnEnumMemoryModules = zesDeviceEnumMemoryModules;
  table.pfnEnumFabricPorts = zesDeviceEnumFabricPorts;
}

void fill(zes_memory_dditable_t &table) noexcept {
  table.pfnGetProperties = zesMemoryGetProperties;
  table.pfnGetState = zesMemoryGetState;
}

void fill(zes_fabric_port_dditable_t &table) noexcept {
  table.pfnGetProperties = zesFabricPortGetProperties;
  table.pfnGetState = zesFabricPortGetState;
  table.pfnGetLinkType = zesFabricPortGetLinkType;
  table.pfnGetConfig = zesFabricPortGetConfig;
}

}  // namespace weir::sim::ze
