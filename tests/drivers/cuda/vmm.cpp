// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory management. None of these calls needs a current context (unless the machine is made so), and none waits for the devices' work:
// the vendor's unmap and set-access say that they are synchronous "for most use cases", which is no promise.
// The vendor's words on a mapping's offset contradict each other (a multiple of the granularity; must be zero); any
// multiple is taken here.
//
// Memory that is mapped is reached by a device when access was set for it, whoever owns the memory: peer access
// between contexts opens allocations of cuMemAlloc only.

#include "backends/host/link.hpp"
#include "tests/drivers/cuda/driver.hpp"

#include <cstring>

using namespace weir::sim_cuda;
namespace sim = weir::sim;

namespace {

void take_time(uint64_t ns) {
  if (ns != 0) weir::host::wait_until(weir::host::now_ns() + ns);
}

using GranulePointer = std::shared_ptr<GranuleObject>;

template <class Body>
Result vmm(const char *name, Body body) noexcept {
  return initialized(name, [&](Driver &driver) -> Result {
    if (!driver.machine.options().vmm) return result::not_supported;
    const auto &stack = this_thread(driver).stack;
    const bool without_context = stack.empty() || stack.back() == nullptr;
    if (driver.machine.options().vmm_context && without_context) return result::invalid_context;
    // The vendor names no such call as one of those that a capture forbids, nor says that none is.
    WEIR_SIM_TRY(driver.unsafe());
    return body(driver);
  });
}

abi::GranuleHandle handle_of(const GranulePointer &granule) {
  return reinterpret_cast<uintptr_t>(granule.get());
}

Result granule_of(Driver &driver, abi::GranuleHandle handle, GranulePointer *granule) {
  *granule = driver.granules.find(reinterpret_cast<const void *>(static_cast<uintptr_t>(handle)));
  if (*granule != nullptr) return result::success;
  return WEIR_SIM_MISUSE(driver, result::invalid_value, "%#llx is no handle of memory", handle);
}

/// Without the outputs it needs, or with flags that must be zero.
Result bad_arguments(Driver &driver, const char *call) {
  return WEIR_SIM_MISUSE(driver, result::invalid_value, "%s: bad arguments", call);
}

/// The trouble of the device that the mapped memory at the address is of.
Result health_at(Driver &driver, uint64_t address) {
  const sim::Found found = driver.machine.addresses().find(address);
  return found.physical != nullptr ? driver.health(static_cast<int>(found.physical->device()))
                                   : result::success;
}

Result check(Driver &driver, const abi::AllocationProperties *properties) {
  if (properties == nullptr || properties->type != abi::allocation_pinned ||
      properties->location.type != abi::location_device) {
    return WEIR_SIM_MISUSE(driver, result::invalid_value, "memory that is not pinned on a device");
  }
  if (!driver.is_device(properties->location.id)) {
    return WEIR_SIM_MISUSE(driver, result::invalid_device, "memory of device %d, which is not",
                           properties->location.id);
  }
  constexpr int known = abi::handle_file_descriptor | abi::handle_fabric;
  if ((properties->handle_types & ~known) != 0) return result::not_supported;
  const sim::Options &options = driver.machine.options();
  const bool fd = (properties->handle_types & abi::handle_file_descriptor) != 0;
  const bool fabric = (properties->handle_types & abi::handle_fabric) != 0;
  return (fd && !options.export_fd) || (fabric && !options.export_fabric) ? result::not_supported
                                                                          : result::success;
}

sim::Sharing sharing_of(int handle_types) {
  int sharing = sim::share_none;
  if ((handle_types & abi::handle_file_descriptor) != 0) sharing |= sim::share_fd;
  if ((handle_types & abi::handle_fabric) != 0) sharing |= sim::share_fabric;
  return static_cast<sim::Sharing>(sharing);
}

/// A reservation that keeps to an alignment of `most` and to no larger one.
Result reserve_unaligned(sim::AddressSpace &addresses, uint64_t bytes, uint64_t alignment,
                         uint64_t most, uint64_t *address) {
  WEIR_SIM_TRY(code_of(addresses.reserve(bytes, most, address)));
  for (int i = 0; i < 8 && *address % alignment == 0; ++i) {
    // The next one lies behind what was taken last.
    uint64_t filler = 0, next = 0;
    WEIR_SIM_TRY(code_of(addresses.reserve(most, most, &filler)));
    WEIR_SIM_TRY(code_of(addresses.reserve(bytes, most, &next)));
    (void)addresses.free(*address, bytes);
    (void)addresses.free(filler, most);
    *address = next;
  }
  return result::success;
}

abi::GranuleHandle enlist(Driver &driver, std::shared_ptr<sim::Physical> physical, int types,
                          bool rdma = false) {
  auto granule = std::make_shared<GranuleObject>(driver.census, std::move(physical), types, rdma);
  const abi::GranuleHandle handle = handle_of(granule);
  driver.granules.add(std::move(granule));
  return handle;
}

bool access_of(int flags, sim::Access *access) {
  switch (flags) {
    case abi::access_none:
      *access = sim::Access::none;
      return true;
    case abi::access_read:
      *access = sim::Access::read;
      return true;
    case abi::access_read_write:
      *access = sim::Access::read_write;
      return true;
    default:
      return false;
  }
}

}  // namespace

Result cuMemGetAllocationGranularity(size_t *bytes, const abi::AllocationProperties *properties,
                                     int option) {
  return vmm("cuMemGetAllocationGranularity", [&](Driver &driver) -> Result {
    WEIR_SIM_TRY(check(driver, properties));
    if (bytes == nullptr ||
        (option != abi::granularity_minimum && option != abi::granularity_recommended)) {
      return result::invalid_value;
    }
    *bytes = driver.machine.options().granule;
    return result::success;
  });
}

Result cuMemCreate(abi::GranuleHandle *handle, size_t bytes,
                   const abi::AllocationProperties *properties, unsigned long long flags) {
  return vmm("cuMemCreate", [&](Driver &driver) -> Result {
    if (handle == nullptr || flags != 0) return bad_arguments(driver, "cuMemCreate");
    WEIR_SIM_TRY(check(driver, properties));
    WEIR_SIM_TRY(driver.health(properties->location.id));
    std::shared_ptr<sim::Physical> physical;
    WEIR_SIM_TRY(
        code_of(driver.machine.make_physical(static_cast<uint32_t>(properties->location.id), bytes,
                                             sharing_of(properties->handle_types), &physical)));
    *handle = enlist(driver, std::move(physical), properties->handle_types,
                     properties->flags.rdma_capable != 0);
    return result::success;
  });
}

/// Legal while it is mapped: the mappings keep the memory.
Result cuMemRelease(abi::GranuleHandle handle) {
  return vmm("cuMemRelease", [&](Driver &driver) -> Result {
    GranulePointer granule;
    WEIR_SIM_TRY(granule_of(driver, handle, &granule));
    if (--granule->holds == 0) driver.granules.remove(granule.get());
    return driver.health(static_cast<int>(granule->physical->device()));
  });
}

Result cuMemRetainAllocationHandle(abi::GranuleHandle *handle, void *address) {
  return vmm("cuMemRetainAllocationHandle", [&](Driver &driver) -> Result {
    const sim::Found found = driver.machine.addresses().find(reinterpret_cast<uintptr_t>(address));
    if (handle == nullptr || found.what != sim::Found::What::mapped) return result::invalid_value;
    for (const GranulePointer &granule : driver.granules.all()) {
      if (granule->physical != found.physical) continue;
      ++granule->holds;
      *handle = handle_of(granule);
      return result::success;
    }
    *handle = enlist(driver, found.physical, abi::handle_none);
    return result::success;
  });
}

Result cuMemGetAllocationPropertiesFromHandle(abi::AllocationProperties *properties,
                                              abi::GranuleHandle handle) {
  return vmm("cuMemGetAllocationPropertiesFromHandle", [&](Driver &driver) -> Result {
    GranulePointer granule;
    if (properties == nullptr)
      return bad_arguments(driver, "cuMemGetAllocationPropertiesFromHandle");
    WEIR_SIM_TRY(granule_of(driver, handle, &granule));
    *properties = abi::AllocationProperties{};
    properties->type = abi::allocation_pinned;
    properties->handle_types = granule->handle_types;
    properties->flags.rdma_capable = granule->rdma ? 1 : 0;
    properties->location = {abi::location_device, static_cast<int>(granule->physical->device())};
    return result::success;
  });
}

Result cuMemAddressReserve(abi::DevicePointer *address, size_t bytes, size_t alignment,
                           abi::DevicePointer, unsigned long long flags) {
  return vmm("cuMemAddressReserve", [&](Driver &driver) -> Result {
    if (address == nullptr || flags != 0) return bad_arguments(driver, "cuMemAddressReserve");
    uint64_t made = 0;
    const uint64_t most = driver.machine.options().reserve_alignment;
    sim::AddressSpace &addresses = driver.machine.addresses();
    WEIR_SIM_TRY(most != 0 && alignment > most
                     ? reserve_unaligned(addresses, bytes, alignment, most, &made)
                     : code_of(addresses.reserve(bytes, alignment, &made)));
    *address = made;
    return result::success;
  });
}

Result cuMemAddressFree(abi::DevicePointer address, size_t bytes) {
  return vmm("cuMemAddressFree", [&](Driver &driver) -> Result {
    return code_of(driver.machine.addresses().free(address, bytes));
  });
}

Result cuMemMap(abi::DevicePointer address, size_t bytes, size_t offset, abi::GranuleHandle handle,
                unsigned long long flags) {
  return vmm("cuMemMap", [&](Driver &driver) -> Result {
    GranulePointer granule;
    if (flags != 0) return bad_arguments(driver, "cuMemMap");
    WEIR_SIM_TRY(granule_of(driver, handle, &granule));
    WEIR_SIM_TRY(driver.health(static_cast<int>(granule->physical->device())));
    return code_of(driver.machine.addresses().map(address, bytes, granule->physical, offset));
  });
}

Result cuMemUnmap(abi::DevicePointer address, size_t bytes) {
  return vmm("cuMemUnmap", [&](Driver &driver) -> Result {
    const Result trouble = health_at(driver, address);
    WEIR_SIM_TRY(code_of(driver.machine.addresses().unmap(address, bytes)));
    take_time(driver.machine.options().map_latency_ns / 2);
    return trouble;
  });
}

Result cuMemSetAccess(abi::DevicePointer address, size_t bytes, const abi::AccessDescription *who,
                      size_t count) {
  return vmm("cuMemSetAccess", [&](Driver &driver) -> Result {
    if (who == nullptr || count == 0) return bad_arguments(driver, "cuMemSetAccess");
    sim::AddressSpace &addresses = driver.machine.addresses();
    const sim::Found found = addresses.find(address);
    sim::Access access = sim::Access::none;
    for (size_t i = 0; i < count; ++i) {
      const abi::Location &location = who[i].location;
      if (location.type != abi::location_device || !access_of(who[i].flags, &access)) {
        return WEIR_SIM_MISUSE(driver, result::invalid_value, "access %d for location type %d",
                               who[i].flags, location.type);
      }
      const bool reaches =
          driver.is_device(location.id) &&
          (found.physical == nullptr ||
           static_cast<uint32_t>(location.id) == found.physical->device() ||
           driver.can_reach(location.id, static_cast<int>(found.physical->device())));
      if (!reaches) {
        return WEIR_SIM_MISUSE(driver, result::invalid_device,
                               "access for device %d, which cannot reach the memory", location.id);
      }
    }
    WEIR_SIM_TRY(health_at(driver, address));
    for (size_t i = 0; i < count; ++i) {
      (void)access_of(who[i].flags, &access);
      const auto device = static_cast<uint32_t>(who[i].location.id);
      WEIR_SIM_TRY(code_of(addresses.set_access(address, bytes, sim::device_bit(device), access)));
    }
    take_time(driver.machine.options().map_latency_ns);
    return result::success;
  });
}

Result cuMemGetAccess(unsigned long long *flags, const abi::Location *who,
                      abi::DevicePointer address) {
  return vmm("cuMemGetAccess", [&](Driver &driver) -> Result {
    if (flags == nullptr || who == nullptr || who->type != abi::location_device) {
      return result::invalid_value;
    }
    if (!driver.is_device(who->id)) return result::invalid_device;
    sim::Access access = sim::Access::none;
    WEIR_SIM_TRY(code_of(
        driver.machine.addresses().get_access(address, static_cast<uint32_t>(who->id), &access)));
    *flags =
        static_cast<unsigned long long>(access == sim::Access::none   ? abi::access_none
                                        : access == sim::Access::read ? abi::access_read
                                                                      : abi::access_read_write);
    return result::success;
  });
}

Result cuMemExportToShareableHandle(void *out, abi::GranuleHandle handle, int type,
                                    unsigned long long flags) {
  return vmm("cuMemExportToShareableHandle", [&](Driver &driver) -> Result {
    GranulePointer granule;
    if (out == nullptr || flags != 0) return bad_arguments(driver, "cuMemExportToShareableHandle");
    WEIR_SIM_TRY(granule_of(driver, handle, &granule));
    if (type == abi::handle_file_descriptor) {
      return code_of(driver.machine.export_fd(*granule->physical, static_cast<int *>(out)));
    }
    if (type != abi::handle_fabric) return bad_arguments(driver, "cuMemExportToShareableHandle");
    sim::FabricName name{};
    WEIR_SIM_TRY(code_of(driver.machine.export_fabric(*granule->physical, &name)));
    std::memcpy(static_cast<abi::FabricHandle *>(out)->data, name.bytes, sizeof name.bytes);
    return result::success;
  });
}

Result cuMemImportFromShareableHandle(abi::GranuleHandle *handle, void *from, int type) {
  return vmm("cuMemImportFromShareableHandle", [&](Driver &driver) -> Result {
    if (handle == nullptr) return bad_arguments(driver, "cuMemImportFromShareableHandle");
    const sim::Options &options = driver.machine.options();
    std::shared_ptr<sim::Physical> physical;
    if (type == abi::handle_file_descriptor) {
      if (!options.export_fd) return result::not_supported;
      const int fd = static_cast<int>(reinterpret_cast<intptr_t>(from));
      WEIR_SIM_TRY(code_of(driver.machine.import_fd(fd, &physical)));
    } else if (type == abi::handle_fabric) {
      if (!options.export_fabric) return result::not_supported;
      if (from == nullptr) return bad_arguments(driver, "cuMemImportFromShareableHandle");
      sim::FabricName name{};
      std::memcpy(name.bytes, static_cast<const abi::FabricHandle *>(from)->data,
                  sizeof name.bytes);
      WEIR_SIM_TRY(code_of(driver.machine.import_fabric(name, &physical)));
    } else {
      return result::invalid_value;
    }
    *handle = enlist(driver, std::move(physical), abi::handle_none);
    return result::success;
  });
}
