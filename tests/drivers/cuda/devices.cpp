// SPDX-License-Identifier: Apache-2.0
//
// What devices are, and what they may do with each other.

#include "tests/drivers/cuda/driver.hpp"

#include <cstdio>
#include <cstring>

using namespace weir::sim_cuda;
namespace attribute = weir::cuda::abi::attribute;
namespace sim = weir::sim;

namespace {

/// Buses from here on, one a device.
constexpr int first_bus = 0x10;

template <class Body>
Result on_device(const char *name, abi::Device device, Body body) noexcept {
  return initialized(name, [&](Driver &driver) -> Result {
    if (!driver.is_device(device)) {
      return WEIR_SIM_MISUSE(driver, result::invalid_device, "%s: there is no device %d", name,
                             device);
    }
    return body(driver);
  });
}

bool attribute_of(const Driver &driver, int which, abi::Device device, int *value) {
  const sim::Options &options = driver.machine.options();
  switch (which) {
    case attribute::pci_bus_id:
      *value = first_bus + device;
      return true;
    case attribute::pci_device_id:
    case attribute::pci_domain_id:
      *value = 0;
      return true;
    case attribute::unified_addressing:
      *value = 1;
      return true;
    case attribute::compute_capability_major:
      *value = static_cast<int>(options.compute);
      return true;
    case attribute::compute_capability_minor:
      *value = 0;
      return true;
    case attribute::pageable_memory_access:
    case attribute::pageable_memory_access_uses_host_page_tables:
      *value = 0;
      return true;
    case attribute::can_use_host_pointer_for_registered_memory:
    case attribute::host_register_supported:
      *value = 1;
      return true;
    case attribute::virtual_memory_management_supported:
      *value = options.vmm;
      return true;
    case attribute::rdma_with_vmm_supported:
      *value = options.vmm && options.rdma;
      return true;
    case attribute::handle_type_file_descriptor_supported:
      *value = options.vmm && options.export_fd;
      return true;
    case attribute::handle_type_fabric_supported:
      *value = options.vmm && options.export_fabric;
      return driver.version() >= 12030;
    case attribute::numa_config:
      *value = 0;
      return driver.version() >= 12020;
    case attribute::numa_id:
      *value = -1;
      return driver.version() >= 12020;
    case attribute::host_numa_id:
      *value = 0;
      return driver.version() >= 12020;
    case attribute::integrated:
      *value = options.integrated;
      return true;
    case 19:  // can map host memory
      *value = 1;
      return true;
    case 40:  // asynchronous engines
      *value = 2;
      return true;
    default:
      return false;
  }
}

void address_text(char (&text)[32], abi::Device device) {
  std::snprintf(text, sizeof text, "0000:%02X:00.0", static_cast<unsigned>(first_bus + device));
}

}  // namespace

Result cuDeviceGetCount(int *count) {
  return initialized("cuDeviceGetCount", [&](Driver &driver) -> Result {
    if (count == nullptr) return result::invalid_value;
    *count = static_cast<int>(driver.machine.devices());
    return result::success;
  });
}

Result cuDeviceGet(abi::Device *device, int ordinal) {
  return on_device("cuDeviceGet", ordinal, [&](Driver &) -> Result {
    if (device == nullptr) return result::invalid_value;
    *device = ordinal;
    return result::success;
  });
}

Result cuDeviceGetName(char *name, int bytes, abi::Device device) {
  return on_device("cuDeviceGetName", device, [&](Driver &) -> Result {
    if (name == nullptr || bytes <= 0) return result::invalid_value;
    std::snprintf(name, static_cast<size_t>(bytes), "Simulated CUDA device %d", device);
    return result::success;
  });
}

Result cuDeviceGetUuid_v2(abi::Uuid *uuid, abi::Device device) {
  return on_device("cuDeviceGetUuid", device, [&](Driver &) -> Result {
    if (uuid == nullptr) return result::invalid_value;
    std::memcpy(uuid->bytes, "weir-sim-cuda-00", sizeof uuid->bytes);
    uuid->bytes[15] = static_cast<char>('0' + device);
    return result::success;
  });
}

Result cuDeviceGetUuid(abi::Uuid *uuid, abi::Device device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

Result cuDeviceGetPCIBusId(char *text, int bytes, abi::Device device) {
  return on_device("cuDeviceGetPCIBusId", device, [&](Driver &) -> Result {
    char full[32];
    address_text(full, device);
    if (text == nullptr || bytes < static_cast<int>(std::strlen(full)) + 1) {
      return result::invalid_value;
    }
    std::strcpy(text, full);
    return result::success;
  });
}

Result cuDeviceGetByPCIBusId(abi::Device *device, const char *text) {
  return initialized("cuDeviceGetByPCIBusId", [&](Driver &driver) -> Result {
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned slot = 0;
    if (device == nullptr || text == nullptr ||
        (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3)) {
      return result::invalid_value;
    }
    const int found = static_cast<int>(bus) - first_bus;
    if (domain != 0 || slot != 0 || !driver.is_device(found)) return result::invalid_device;
    *device = found;
    return result::success;
  });
}

Result cuDeviceTotalMem_v2(size_t *bytes, abi::Device device) {
  return on_device("cuDeviceTotalMem", device, [&](Driver &driver) -> Result {
    if (bytes == nullptr) return result::invalid_value;
    *bytes = driver.machine.memory_total(static_cast<uint32_t>(device));
    return result::success;
  });
}

Result cuDeviceGetAttribute(int *value, int which, abi::Device device) {
  return on_device("cuDeviceGetAttribute", device, [&](Driver &driver) -> Result {
    int found = 0;
    if (value == nullptr || !attribute_of(driver, which, device, &found)) {
      return result::invalid_value;
    }
    *value = found;
    return result::success;
  });
}

Result cuDeviceGetP2PAttribute(int *value, int which, abi::Device source, abi::Device destination) {
  return on_device("cuDeviceGetP2PAttribute", source, [&](Driver &driver) -> Result {
    if (!driver.is_device(destination) || source == destination) return result::invalid_device;
    if (value == nullptr) return result::invalid_value;
    const bool fast = sim::linked(driver.machine.options(), static_cast<uint32_t>(source),
                                  static_cast<uint32_t>(destination));
    const bool reach = driver.can_reach(source, destination);
    switch (which) {
      case abi::peer_attribute::performance_rank:
        *value = reach && fast ? 0 : 1;
        break;
      case abi::peer_attribute::access_supported:
      case abi::peer_attribute::array_access_supported:
        *value = reach;
        break;
      case abi::peer_attribute::native_atomic_supported:
        *value = reach && fast;
        break;
      default:
        return result::invalid_value;
    }
    return result::success;
  });
}

Result cuDeviceCanAccessPeer(int *can, abi::Device device, abi::Device peer) {
  return on_device("cuDeviceCanAccessPeer", device, [&](Driver &driver) -> Result {
    if (!driver.is_device(peer)) return result::invalid_device;
    if (can == nullptr) return result::invalid_value;
    *can = driver.can_reach(device, peer);
    return result::success;
  });
}

Result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  return in_context("cuMemGetInfo", [&](Driver &driver, ContextObject &context) -> Result {
    if (free_bytes == nullptr || total_bytes == nullptr) return result::invalid_value;
    *free_bytes = driver.machine.memory_free(static_cast<uint32_t>(context.device));
    *total_bytes = driver.machine.memory_total(static_cast<uint32_t>(context.device));
    return result::success;
  });
}
