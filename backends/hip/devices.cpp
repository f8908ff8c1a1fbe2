// SPDX-License-Identifier: Apache-2.0
//
// Descriptions from attributes, names and addresses; no hipDeviceProp_t, which differs between releases.

#include "backends/hip/devices.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

namespace weir::hip {
namespace {

/// The node that the system says a PCI device is near to; UINT32_MAX if it does not say.
uint32_t numa_node_of(const char *pci_address) {
  std::ifstream file("/sys/bus/pci/devices/" + std::string(pci_address) + "/numa_node");
  int node = -1;
  return file >> node && node >= 0 ? static_cast<uint32_t>(node) : UINT32_MAX;
}

}  // namespace

abi::AllocationProperties granule_properties(uint32_t device, bool exportable) noexcept {
  abi::AllocationProperties properties{};
  properties.type = abi::allocation_pinned;
  properties.handle_type = exportable ? abi::handle_posix_fd : abi::handle_none;
  properties.location = {abi::location_device, static_cast<int>(device)};
  return properties;
}

weir_result Devices::check(uint32_t device) const noexcept {
  if (device < count()) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "there is no device %u, only %u of them", device,
                count());
}

weir_result Devices::check_vmm(uint32_t device) const noexcept {
  WEIR_BACKEND_TRY(check(device));
  if (can(device, WEIR_CAP_VMM)) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "virtual memory is off on device %u", device);
}

int Devices::attribute(uint32_t device, abi::Attribute which, int otherwise) const noexcept {
  int value = 0;
  const abi::Error error =
      runtime_.call().hipDeviceGetAttribute(&value, which, static_cast<int>(device));
  return error == abi::success ? value : otherwise;
}

weir_result Devices::identify(uint32_t device, weir_be_device *out) const {
  const Functions &call = runtime_.call();
  const int index = static_cast<int>(device);
  WEIR_HIP_TRY(call.hipDeviceGetName(out->name, sizeof out->name, index), "hipDeviceGetName");
  out->name[sizeof out->name - 1] = '\0';
  abi::Uuid uuid{};
  WEIR_HIP_TRY(call.hipDeviceGetUuid(&uuid, index), "hipDeviceGetUuid");
  std::memcpy(out->uuid, uuid.bytes, sizeof out->uuid);
  size_t total = 0;
  WEIR_HIP_TRY(call.hipDeviceTotalMem(&total, index), "hipDeviceTotalMem");
  out->memory_total = total;
  out->numa_node = UINT32_MAX;
  const int domain = attribute(device, abi::attribute_pci_domain, 0);
  const int bus = attribute(device, abi::attribute_pci_bus, -1);
  const int slot = attribute(device, abi::attribute_pci_device, -1);
  if (bus >= 0 && slot >= 0) {
    std::snprintf(out->pci_address, sizeof out->pci_address, "%04x:%02x:%02x.0",
                  static_cast<unsigned>(domain), static_cast<unsigned>(bus),
                  static_cast<unsigned>(slot));
    out->numa_node = numa_node_of(out->pci_address);
  }
  return WEIR_SUCCESS;
}

weir_result Devices::size_granules(uint32_t device, weir_be_device *out) const {
  const abi::AllocationProperties properties = granule_properties(device, false);
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  size_t bytes = 0;
  WEIR_HIP_TRY(runtime_.call().hipMemGetAllocationGranularity(&bytes, &properties,
                                                              abi::granularity_recommended),
               "hipMemGetAllocationGranularity");
  // Addresses are aligned to powers of two, so that another granularity is of no use.
  if (!std::has_single_bit(bytes)) return WEIR_SUCCESS;
  if (options_.granule != 0 && options_.granule < bytes) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "granule=%llu is less than the %zu that device %u takes",
                  static_cast<unsigned long long>(options_.granule), bytes, device);
  }
  out->granule =
      options_.granule != 0 ? options_.granule : std::max<uint64_t>(bytes, least_granule);
  const uint64_t large = options_.granule_large;
  const bool fits = large > out->granule && large % out->granule == 0;
  if (large != 0 && !fits && options_.granule_large_given) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "granule_large=%llu is no larger multiple of the granule of %llu",
                  static_cast<unsigned long long>(large),
                  static_cast<unsigned long long>(out->granule));
  }
  out->granule_large = fits ? large : 0;
  return WEIR_SUCCESS;
}

weir_result Devices::describe(uint32_t device, weir_be_device *out) const {
  WEIR_BACKEND_TRY(identify(device, out));
  const auto add = [&](bool on, uint64_t capability) { out->capabilities |= on ? capability : 0; };
  // The runtime has copies of any stream done by copy engines where that pays.
  add(true, WEIR_CAP_STREAM_ANY_THREAD | WEIR_CAP_TRANSFER_STREAM);
  add(options_.host_call && runtime_.has(abi::Need::host_call), WEIR_CAP_HOST_CALL);
  add(options_.batch_copy && runtime_.has(abi::Need::batch_copy), WEIR_CAP_BATCH_COPY);
  add(options_.host_register && runtime_.has(abi::Need::host_register) &&
          attribute(device, abi::attribute_host_register, 1) != 0,
      WEIR_CAP_HOST_REGISTER);
  add(attribute(device, abi::attribute_integrated, 0) != 0, WEIR_CAP_INTEGRATED);
  bool peer = false;
  for (uint32_t other = 0; other < runtime_.devices(); ++other) {
    peer = peer || reach_[size_t{device} * runtime_.devices() + other];
  }
  add(peer, WEIR_CAP_PEER);
  if (options_.vmm && runtime_.has(abi::Need::vmm) &&
      attribute(device, abi::attribute_virtual_memory, 0) != 0) {
    WEIR_BACKEND_TRY(size_granules(device, out));
    const bool vmm = out->granule != 0;
    add(vmm, WEIR_CAP_VMM | WEIR_CAP_MAP_MAY_BLOCK_DEVICE);
    add(vmm && options_.multi_map, WEIR_CAP_MULTI_MAP);
    add(vmm && options_.map_run && runtime_.devices() <= most_in_runs, WEIR_CAP_MAP_RUN);
    add(vmm && peer && options_.shared_range, WEIR_CAP_SHARED_RANGE);
    add(vmm && options_.export_fd && runtime_.has(abi::Need::export_fd), WEIR_CAP_EXPORT_FD);
  }
  return WEIR_SUCCESS;
}

weir_result Devices::open() {
  const uint32_t total = runtime_.devices();
  reach_.assign(size_t{total} * total, false);
  for (uint32_t from = 0; options_.peer && runtime_.has(abi::Need::peer) && from < total; ++from) {
    for (uint32_t to = 0; to < total; ++to) {
      int can = 0;
      if (from == to) continue;
      WEIR_HIP_TRY(runtime_.call().hipDeviceCanAccessPeer(&can, static_cast<int>(from),
                                                          static_cast<int>(to)),
                   "hipDeviceCanAccessPeer");
      reach_[size_t{from} * total + to] = can != 0;
    }
  }
  for (uint32_t device = 0; device < total; ++device) {
    weir_be_device described{};
    WEIR_BACKEND_TRY(describe(device, &described));
    devices_.push_back(described);
  }
  return WEIR_SUCCESS;
}

void Devices::turn_off_vmm(uint32_t device) noexcept {
  weir_be_device &each = devices_[device];
  each.capabilities &= ~(WEIR_CAP_VMM | WEIR_CAP_MAP_MAY_BLOCK_DEVICE | WEIR_CAP_MULTI_MAP |
                         WEIR_CAP_EXPORT_FD | WEIR_CAP_SHARED_RANGE | WEIR_CAP_MAP_RUN);
  each.granule = each.granule_large = 0;
}

void Devices::turn_off_shared_ranges() noexcept {
  for (weir_be_device &each : devices_) each.capabilities &= ~WEIR_CAP_SHARED_RANGE;
}

bool Devices::shares_one_size() const noexcept {
  uint64_t size = 0;
  for (const weir_be_device &each : devices_) {
    if ((each.capabilities & WEIR_CAP_SHARED_RANGE) == 0) continue;
    if (size == 0) size = each.granule;
    if (each.granule != size || each.granule_large != 0) return false;
  }
  return true;
}

weir_result Devices::memory(uint32_t device, uint64_t *free_bytes, uint64_t *total_bytes) const {
  WEIR_BACKEND_TRY(check(device));
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  size_t available = 0, total = 0;
  WEIR_HIP_TRY(runtime_.call().hipMemGetInfo(&available, &total), "hipMemGetInfo");
  // Under some limits the runtime's two totals differ; here there is one.
  *total_bytes = devices_[device].memory_total;
  *free_bytes = std::min<uint64_t>(available, *total_bytes);
  return WEIR_SUCCESS;
}

weir_result Devices::link(uint32_t from, uint32_t to, weir_be_link *link) const {
  if (from != WEIR_DEVICE_HOST) WEIR_BACKEND_TRY(check(from));
  if (to != WEIR_DEVICE_HOST) WEIR_BACKEND_TRY(check(to));
  weir_be_link full{};
  full.kind = from == to ? WEIR_LINK_SAME : WEIR_LINK_PCIE;
  full.hops = from == to ? 0 : 1;
  full.direct = 1;
  if (from != to && from != WEIR_DEVICE_HOST && to != WEIR_DEVICE_HOST) {
    full.direct = reaches(from, to) ? 1 : 0;
    // What the runtime can't tell of a link is unknown, and no failure.
    uint32_t type = 0, hops = 0;
    const bool told =
        runtime_.has(abi::Need::link) &&
        runtime_.call().hipExtGetLinkTypeAndHopCount(static_cast<int>(from), static_cast<int>(to),
                                                     &type, &hops) == abi::success;
    if (told && type == abi::link_xgmi) full.kind = WEIR_LINK_INFINITY_FABRIC;
    if (told && hops != 0) full.hops = hops;
  }
  *link = full;
  return WEIR_SUCCESS;
}

weir_result Devices::enable_peer(uint32_t device, uint32_t peer) const {
  WEIR_BACKEND_TRY(check(device));
  WEIR_BACKEND_TRY(check(peer));
  if (device == peer) return WEIR_SUCCESS;
  if (!options_.peer) return refuse(WEIR_ERROR_NOT_SUPPORTED, "peers are off (peer=0)");
  if (!reaches(device, peer)) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u can't reach the memory of device %u", device,
                  peer);
  }
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  const abi::Error error = runtime_.call().hipDeviceEnablePeerAccess(static_cast<int>(peer), 0);
  return error == abi::peer_access_already_enabled ? WEIR_SUCCESS
                                                   : checked(error, "hipDeviceEnablePeerAccess");
}

}  // namespace weir::hip
