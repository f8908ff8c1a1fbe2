// SPDX-License-Identifier: Apache-2.0
//
// zeInit, the driver and what it tells of its devices: fixed facts about made-up cards.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "tests/drivers/level_zero/driver.hpp"
#include "tests/drivers/level_zero/extensions.hpp"
#include "tests/drivers/level_zero/facts.hpp"
#include "tests/drivers/level_zero/tables.hpp"

namespace weir::sim::ze {
namespace {

ze_result_t zeInit(ze_init_flags_t flags) {
  const char *const name = __func__;
  constexpr bool before_init = true;
  return enter(
      name,
      [&](Driver &driver) -> ze_result_t {
        if (flags > 0x3) {
          return driver.misuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "%s: flags %#x", name, flags);
        }
        if (flags == ZE_INIT_FLAG_VPU_ONLY) return ZE_RESULT_ERROR_UNINITIALIZED;
        driver.sysman = Driver::wants_sysman();
        driver.initialised = true;
        return ZE_RESULT_SUCCESS;
      },
      before_init);
}

bool is_driver(const Driver &driver, ze_driver_handle_t handle) noexcept {
  return static_cast<const void *>(handle) == &driver.handle;
}

ze_result_t zeDriverGet(uint32_t *count, ze_driver_handle_t *out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) {
    return list_things(driver, name, 1, count, out, [&](uint32_t) {
      *out = reinterpret_cast<ze_driver_handle_t>(&driver.handle);
    });
  });
}

ze_result_t zeDriverGetApiVersion(ze_driver_handle_t handle, ze_api_version_t *version) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    if (!is_driver(driver, handle)) return driver.bad_handle(name, "driver", handle);
    if (version == nullptr) return driver.null_pointer(name, "version");
    *version = static_cast<ze_api_version_t>(driver.version());
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeDriverGetProperties(ze_driver_handle_t handle, ze_driver_properties_t *properties) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    if (!is_driver(driver, handle)) return driver.bad_handle(name, "driver", handle);
    if (properties == nullptr) return driver.null_pointer(name, "pDriverProperties");
    std::memset(&properties->uuid, 0x57, sizeof properties->uuid);
    properties->driverVersion = 0x01030000;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeDriverGetExtensionProperties(ze_driver_handle_t handle, uint32_t *count,
                                           ze_driver_extension_properties_t *out) {
  const char *const name = __func__;
  static constexpr const char *extensions[] = {ZE_RELAXED_ALLOCATION_LIMITS_EXP_NAME,
                                               ZE_PCI_PROPERTIES_EXT_NAME,
                                               ZE_BANDWIDTH_PROPERTIES_EXP_NAME};
  return enter(name, [&](Driver &driver) -> ze_result_t {
    if (!is_driver(driver, handle)) return driver.bad_handle(name, "driver", handle);
    return list_things(driver, name, std::size(extensions), count, out, [&](uint32_t i) {
      std::snprintf(out[i].name, sizeof out[i].name, "%s", extensions[i]);
      out[i].version = ZE_MAKE_VERSION(1, 0);
    });
  });
}

ze_result_t zeDriverGetExtensionFunctionAddress(ze_driver_handle_t handle, const char *function,
                                                void **out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    if (!is_driver(driver, handle)) return driver.bad_handle(name, "driver", handle);
    if (function == nullptr || out == nullptr) {
      return driver.null_pointer(name, "name or ppFunctionAddress");
    }
    void *found = driver.options.import ? extension_function(function) : nullptr;
    if (found == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;  // asking is no misuse
    *out = found;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeDeviceGet(ze_driver_handle_t handle, uint32_t *count, ze_device_handle_t *out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    if (!is_driver(driver, handle)) return driver.bad_handle(name, "driver", handle);
    return list_things(driver, name, driver.machine.devices(), count, out, [&](uint32_t i) {
      out[i] = as_handle<ze_device_handle_t>(driver.devices[i].get());
    });
  });
}

/// The steps around the functions about one device, which a lost one does not answer.
template <class Body>
ze_result_t enter_device(const char *name, ze_device_handle_t handle, Body body) noexcept {
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const Device *device = driver.device(handle);
    if (device == nullptr) return driver.bad_handle(name, "device", handle);
    const ze_result_t lost = driver.state_of(device->index);
    return lost != ZE_RESULT_SUCCESS ? lost : body(driver, *device);
  });
}

ze_result_t zeDeviceGetSubDevices(ze_device_handle_t handle, uint32_t *count,
                                  ze_device_handle_t *) {
  const char *const name = __func__;
  return enter_device(name, handle, [&](Driver &driver, const Device &) -> ze_result_t {
    if (count == nullptr) return driver.null_pointer(name, "pCount");
    *count = 0;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeDeviceGetProperties(ze_device_handle_t handle, ze_device_properties_t *properties) {
  const char *const name = __func__;
  return enter_device(name, handle, [&](Driver &driver, const Device &device) -> ze_result_t {
    if (properties == nullptr) return driver.null_pointer(name, "pDeviceProperties");
    if (properties->stype != ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES &&
        properties->stype != ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: stype %#x", name,
                           static_cast<unsigned>(properties->stype));
    }
    describe(driver, device, properties);
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t handle, uint32_t *count,
                                                   ze_command_queue_group_properties_t *out) {
  const char *const name = __func__;
  return enter_device(name, handle, [&](Driver &driver, const Device &) {
    return list_things(driver, name, std::size(queue_groups), count, out, [&](uint32_t i) {
      out[i].flags = queue_groups[i].flags;
      out[i].maxMemoryFillPatternSize = queue_groups[i].most_pattern;
      out[i].numQueues = queue_groups[i].queues;
    });
  });
}

ze_result_t zeDeviceGetMemoryProperties(ze_device_handle_t handle, uint32_t *count,
                                        ze_device_memory_properties_t *out) {
  const char *const name = __func__;
  return enter_device(name, handle, [&](Driver &driver, const Device &device) {
    return list_things(driver, name, 1, count, out, [&](uint32_t) {
      out->flags = 0;
      out->maxClockRate = 3200;
      out->maxBusWidth = 1024;
      out->totalSize = driver.machine.memory_total(device.index);
      std::snprintf(out->name, sizeof out->name, "HBM");
    });
  });
}

ze_result_t zeDeviceGetMemoryAccessProperties(ze_device_handle_t handle,
                                              ze_device_memory_access_properties_t *properties) {
  const char *const name = __func__;
  return enter_device(name, handle, [&](Driver &driver, const Device &) -> ze_result_t {
    if (properties == nullptr) return driver.null_pointer(name, "pMemAccessProperties");
    properties->hostAllocCapabilities = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
    properties->deviceAllocCapabilities = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
    properties->sharedSingleDeviceAllocCapabilities = 0;
    properties->sharedCrossDeviceAllocCapabilities = 0;
    properties->sharedSystemAllocCapabilities = 0;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeDevicePciGetPropertiesExt(ze_device_handle_t handle, ze_pci_ext_properties_t *out) {
  const char *const name = __func__;
  return enter_device(name, handle, [&](Driver &driver, const Device &device) -> ze_result_t {
    if (out == nullptr) return driver.null_pointer(name, "pPciProperties");
    if (out->stype != ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: stype %#x", name,
                           static_cast<unsigned>(out->stype));
    }
    const PciFacts pci = pci_facts(driver, device.index);
    out->address = {pci.domain, pci.bus, pci.device, pci.function};
    out->maxSpeed = {pci.generation, pci.width, pci.bandwidth};
    return ZE_RESULT_SUCCESS;
  });
}

void tell_bandwidth(Driver &driver, uint32_t from, uint32_t to,
                    ze_device_p2p_bandwidth_exp_properties_t *out) {
  uint64_t bandwidth = 0, latency_ns = 0;
  driver.machine.links().describe(from, to, &bandwidth, &latency_ns);
  if (!driver.can_access(from, to)) bandwidth = latency_ns = 0;
  uint64_t amount = bandwidth / 1'000'000'000;  // bytes a nanosecond
  out->bandwidthUnit = ZE_BANDWIDTH_UNIT_BYTES_PER_NANOSEC;
  if (driver.options.clock_units) {
    amount = bandwidth / (uint64_t{core_clock_mhz} * 1'000'000);
    out->bandwidthUnit = ZE_BANDWIDTH_UNIT_BYTES_PER_CLOCK;
  }
  if (amount == 0) out->bandwidthUnit = ZE_BANDWIDTH_UNIT_UNKNOWN;
  out->logicalBandwidth = out->physicalBandwidth = static_cast<uint32_t>(amount);
  out->logicalLatency = out->physicalLatency = static_cast<uint32_t>(latency_ns);
  out->latencyUnit = latency_ns != 0 ? ZE_LATENCY_UNIT_NANOSEC : ZE_LATENCY_UNIT_UNKNOWN;
}

ze_result_t zeDeviceGetP2PProperties(ze_device_handle_t handle, ze_device_handle_t other,
                                     ze_device_p2p_properties_t *out) {
  const char *const name = __func__;
  return enter_device(name, handle, [&](Driver &driver, const Device &device) -> ze_result_t {
    const Device *peer = driver.device(other);
    if (peer == nullptr) return driver.bad_handle(name, "device", other);
    if (out == nullptr) return driver.null_pointer(name, "pP2PProperties");
    out->flags = 0;
    if (driver.can_access(device.index, peer->index)) {
      out->flags |= ZE_DEVICE_P2P_PROPERTY_FLAG_ACCESS;
    }
    if (linked(driver.machine.options(), device.index, peer->index)) {
      out->flags |= ZE_DEVICE_P2P_PROPERTY_FLAG_ATOMICS;
    }
    auto *bandwidth = chained<ze_device_p2p_bandwidth_exp_properties_t>(
        out->pNext, ZE_STRUCTURE_TYPE_DEVICE_P2P_BANDWIDTH_EXP_PROPERTIES);
    if (bandwidth != nullptr) tell_bandwidth(driver, device.index, peer->index, bandwidth);
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeDeviceCanAccessPeer(ze_device_handle_t handle, ze_device_handle_t other,
                                  ze_bool_t *out) {
  const char *const name = __func__;
  return enter_device(name, handle, [&](Driver &driver, const Device &device) -> ze_result_t {
    const Device *peer = driver.device(other);
    if (peer == nullptr) return driver.bad_handle(name, "device", other);
    if (out == nullptr) return driver.null_pointer(name, "value");
    *out = driver.can_access(device.index, peer->index) ? 1 : 0;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeDeviceGetStatus(ze_device_handle_t handle) {
  return enter_device(__func__, handle, [](Driver &, const Device &) { return ZE_RESULT_SUCCESS; });
}

}  // namespace

PciFacts pci_facts(const Driver &driver, uint32_t device) noexcept {
  PciFacts facts;
  facts.bus = 0x18 + driver.card_of(device);
  const uint64_t bandwidth = driver.machine.options().link_bandwidth;
  facts.bandwidth = bandwidth == 0 ? -1 : static_cast<int64_t>(bandwidth);
  return facts;
}

void describe(const Driver &driver, const Device &device, ze_device_properties_t *out) noexcept {
  const bool cycles = out->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
  out->type = ZE_DEVICE_TYPE_GPU;
  out->vendorId = 0x8086;
  out->deviceId = 0x0bd5;
  out->flags = ZE_DEVICE_PROPERTY_FLAG_ECC;
  if (driver.machine.options().integrated) out->flags |= ZE_DEVICE_PROPERTY_FLAG_INTEGRATED;
  out->subdeviceId = 0;
  out->coreClockRate = core_clock_mhz;
  out->maxMemAllocSize = driver.max_alloc();
  out->maxHardwareContexts = 64;
  out->maxCommandQueuePriority = 0;
  out->numThreadsPerEU = 8;
  out->physicalEUSimdWidth = 16;
  out->numEUsPerSubslice = 8;
  out->numSubslicesPerSlice = 16;
  out->numSlices = 4;
  out->timerResolution = cycles ? 12'500'000 : 80;
  out->timestampValidBits = 36;
  out->kernelTimestampValidBits = 32;
  std::memset(&out->uuid, 0, sizeof out->uuid);
  out->uuid.id[0] = 0x86;
  out->uuid.id[1] = 0x80;
  out->uuid.id[2] = 0xd5;
  out->uuid.id[3] = 0x0b;
  out->uuid.id[15] = static_cast<uint8_t>(device.index + 1);
  std::snprintf(out->name, sizeof out->name, "Simulated Level Zero device %u", device.index);
}

void fill(ze_global_dditable_t &table) noexcept { table.pfnInit = zeInit; }

void fill(ze_driver_dditable_t &table) noexcept {
  table.pfnGet = zeDriverGet;
  table.pfnGetApiVersion = zeDriverGetApiVersion;
  table.pfnGetProperties = zeDriverGetProperties;
  table.pfnGetExtensionProperties = zeDriverGetExtensionProperties;
  table.pfnGetExtensionFunctionAddress = zeDriverGetExtensionFunctionAddress;
}

void fill(ze_device_dditable_t &table) noexcept {
  table.pfnGet = zeDeviceGet;
  table.pfnGetSubDevices = zeDeviceGetSubDevices;
  table.pfnGetProperties = zeDeviceGetProperties;
  table.pfnGetCommandQueueGroupProperties = zeDeviceGetCommandQueueGroupProperties;
  table.pfnGetMemoryProperties = zeDeviceGetMemoryProperties;
  table.pfnGetMemoryAccessProperties = zeDeviceGetMemoryAccessProperties;
  table.pfnPciGetPropertiesExt = zeDevicePciGetPropertiesExt;
  table.pfnGetP2PProperties = zeDeviceGetP2PProperties;
  table.pfnCanAccessPeer = zeDeviceCanAccessPeer;
  table.pfnGetStatus = zeDeviceGetStatus;
}

}  // namespace weir::sim::ze
