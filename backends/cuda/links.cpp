// SPDX-License-Identifier: Apache-2.0
//
// Bandwidths are those of the wire, one way; what copies reach is some way below. Where the system tells a link's speed
// it is taken; where it tells only a version, the numbers below are: of NVLink per link and direction as NVIDIA
// publishes them for P100 (20 GB/s), V100, A100 and H100 (25 GB/s) and B200 (50 GB/s), and of PCIe as the standards
// define rate and encoding.

#include "backends/cuda/links.hpp"

#include "backends/cuda/fault.hpp"

#include <algorithm>
#include <cstdio>

namespace weir::cuda {
namespace {

constexpr uint64_t mega = 1'000'000;

uint64_t nvlink_bandwidth(unsigned version) noexcept {
  switch (version) {
    case nvml::nvlink_1_0:
      return 20'000 * mega;
    case nvml::nvlink_2_0:
    case nvml::nvlink_2_2:
    case nvml::nvlink_3_0:
    case nvml::nvlink_3_1:
    case nvml::nvlink_4_0:
      return 25'000 * mega;
    case nvml::nvlink_5_0:
      return 50'000 * mega;
    default:
      return 0;
  }
}

uint64_t pcie_bandwidth(unsigned generation, unsigned width) noexcept {
  // Bytes a second and lane: transfers times the share of the encoding, over eight.
  constexpr uint64_t lanes[] = {
      0, 250 * mega, 500 * mega, 984'615'384, 1'969'230'769, 3'938'461'538, 7'562'500'000};
  return generation < std::size(lanes) ? lanes[generation] * width : 0;
}

uint64_t value_of(const nvml::FieldValue &field) noexcept {
  switch (field.value_type) {
    case nvml::value_double:
      return static_cast<uint64_t>(std::max(0.0, field.value.as_double));
    case nvml::value_uint:
      return field.value.as_uint;
    case nvml::value_ulong:
      return field.value.as_ulong;
    case nvml::value_uint64:
      return field.value.as_uint64;
    case nvml::value_int64:
      return static_cast<uint64_t>(std::max(0LL, field.value.as_int64));
    case nvml::value_int:
      return static_cast<uint64_t>(std::max(0, field.value.as_int));
    default:
      return 0;
  }
}

bool same_place(const nvml::PciInfo &remote, const char *pci_address) noexcept {
  unsigned domain = 0, bus = 0, device = 0;
  return pci_address != nullptr &&
         std::sscanf(pci_address, "%x:%x:%x", &domain, &bus, &device) == 3 &&
         remote.domain == domain && remote.bus == bus && remote.device == device;
}

}  // namespace

Nvml::~Nvml() {
  if (usable_) nvmlShutdown();
}

bool Nvml::open() {
  std::call_once(opened_, [this] {
    std::string reason;
    if (!library_.open("WEIR_NVML_LIBRARY", {"libnvidia-ml.so.1"}, &reason)) return;
#define WEIR_NVML_FIND(name) library_.find(#name, &name);
    WEIR_NVML_ENTRIES(WEIR_NVML_FIND)
#undef WEIR_NVML_FIND
    usable_ = nvmlInit_v2 != nullptr && nvmlShutdown != nullptr &&
              nvmlDeviceGetHandleByPciBusId_v2 != nullptr && nvmlInit_v2() == nvml::success;
  });
  return usable_;
}

nvml::Device Nvml::device_at(const char *pci_address) {
  nvml::Device device = nullptr;
  if (!open() || nvmlDeviceGetHandleByPciBusId_v2(pci_address, &device) != nvml::success)
    return nullptr;
  return device;
}

bool Nvml::field(nvml::Device device, unsigned field, unsigned scope,
                 uint64_t *value) const noexcept {
  if (nvmlDeviceGetFieldValues == nullptr) return false;
  nvml::FieldValue asked{};
  asked.field = field;
  asked.scope = scope;
  if (nvmlDeviceGetFieldValues(device, 1, &asked) != nvml::success ||
      asked.result != nvml::success) {
    return false;
  }
  *value = value_of(asked);
  return true;
}

uint64_t Nvml::bandwidth_of(nvml::Device device, unsigned link) const noexcept {
  uint64_t megabytes = 0;
  if (field(device, nvml::field_nvlink_speed, link, &megabytes) && megabytes != 0)
    return megabytes * mega;
  unsigned version = 0;
  const bool known = nvmlDeviceGetNvLinkVersion != nullptr &&
                     nvmlDeviceGetNvLinkVersion(device, link, &version) == nvml::success;
  return known ? nvlink_bandwidth(version) : 0;
}

Nvml::Nvlinks Nvml::nvlinks(const char *pci_address, const char *peer_address) {
  Nvlinks all;
  nvml::Device device = device_at(pci_address);
  if (device == nullptr || nvmlDeviceGetNvLinkState == nullptr) return all;
  for (unsigned link = 0; link < nvml::links_at_most; ++link) {
    int active = nvml::feature_disabled;
    const nvml::Result asked = nvmlDeviceGetNvLinkState(device, link, &active);
    if (asked == nvml::invalid_argument) break;  // the device has no more
    if (asked != nvml::success || active != nvml::feature_enabled) continue;
    const uint64_t bandwidth = bandwidth_of(device, link);
    int type = nvml::remote_unknown;
    const bool typed = nvmlDeviceGetNvLinkRemoteDeviceType != nullptr &&
                       nvmlDeviceGetNvLinkRemoteDeviceType(device, link, &type) == nvml::success;
    nvml::PciInfo remote{};
    const bool placed = nvmlDeviceGetNvLinkRemotePciInfo_v2 != nullptr &&
                        nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &remote) == nvml::success;
    if (placed && same_place(remote, peer_address)) {
      all.peer = true;
      all.to_peer += bandwidth;
    } else if (typed && type == nvml::remote_switch) {
      all.through_switch = true;
      all.to_switch += bandwidth;
    } else if (typed && type == nvml::remote_npu) {
      all.host = true;
      all.to_host += bandwidth;
    }
  }
  return all;
}

bool Nvml::chip_to_chip(const char *pci_address, uint64_t *bandwidth) {
  nvml::Device device = device_at(pci_address);
  uint64_t count = 0;
  if (device == nullptr || !field(device, nvml::field_c2c_link_count, 0, &count)) return false;
  bool any = false;
  *bandwidth = 0;
  for (unsigned link = 0; link < std::min<uint64_t>(count, nvml::links_at_most); ++link) {
    uint64_t active = 0, megabytes = 0;
    if (!field(device, nvml::field_c2c_link_status, link, &active) || active == 0) continue;
    any = true;
    if (field(device, nvml::field_c2c_link_bandwidth, link, &megabytes))
      *bandwidth += megabytes * mega;
  }
  return any;
}

// An idle device lowers its link's rate, not its width: the width is what it has now, the rate what device and slot
// agree on at most.
uint64_t Nvml::pcie(const char *pci_address) {
  nvml::Device device = device_at(pci_address);
  if (device == nullptr) return 0;
  unsigned generation = 0, width = 0;
  const bool rated = (nvmlDeviceGetMaxPcieLinkGeneration != nullptr &&
                      nvmlDeviceGetMaxPcieLinkGeneration(device, &generation) == nvml::success) ||
                     (nvmlDeviceGetCurrPcieLinkGeneration != nullptr &&
                      nvmlDeviceGetCurrPcieLinkGeneration(device, &generation) == nvml::success);
  const bool wide = (nvmlDeviceGetCurrPcieLinkWidth != nullptr &&
                     nvmlDeviceGetCurrPcieLinkWidth(device, &width) == nvml::success) ||
                    (nvmlDeviceGetMaxPcieLinkWidth != nullptr &&
                     nvmlDeviceGetMaxPcieLinkWidth(device, &width) == nvml::success);
  return rated && wide ? pcie_bandwidth(generation, width) : 0;
}

weir_be_link Links::to_host(const Device &device) {
  weir_be_link link{};
  link.direct = 1;
  link.hops = 1;
  const char *place = device.pci_address();
  if (nvml_.chip_to_chip(place, &link.bandwidth)) {
    link.kind = WEIR_LINK_NVLINK;
    return link;
  }
  const Nvml::Nvlinks nvlinks = nvml_.nvlinks(place, nullptr);
  if (nvlinks.host) {
    link.kind = WEIR_LINK_NVLINK;
    link.bandwidth = nvlinks.to_host;
    return link;
  }
  // A device that walks the processor's own page tables is attached coherently, which PCIe is not.
  if (device.attribute_or(abi::attribute::pageable_memory_access_uses_host_page_tables, 0) != 0) {
    link.kind = WEIR_LINK_NVLINK;
    return link;
  }
  link.kind = WEIR_LINK_PCIE;
  link.bandwidth = nvml_.pcie(place);
  return link;
}

weir_be_link Links::between(const Device &from, const Device &to) {
  weir_be_link link{};
  if (from.index() == to.index()) {
    link.kind = WEIR_LINK_SAME;
    link.direct = 1;
    return link;
  }
  link.direct = from.reaches(to.index()) && to.reaches(from.index()) ? 1 : 0;
  if (link.direct == 0) {
    link.kind = WEIR_LINK_NONE;
    return link;
  }
  const Nvml::Nvlinks here = nvml_.nvlinks(from.pci_address(), to.pci_address());
  if (here.peer) {
    link.kind = WEIR_LINK_NVLINK;
    link.bandwidth = here.to_peer;
    link.hops = 1;
    return link;
  }
  const Nvml::Nvlinks there =
      here.through_switch ? nvml_.nvlinks(to.pci_address(), nullptr) : Nvml::Nvlinks{};
  if (here.through_switch && there.through_switch) {
    link.kind = WEIR_LINK_NVLINK;
    link.bandwidth = std::min(here.to_switch, there.to_switch);
    link.hops = 2;
    return link;
  }
  int atomics = 0;
  if (api_.cuDeviceGetP2PAttribute(&atomics, abi::peer_attribute::native_atomic_supported,
                                   from.handle(), to.handle()) == abi::result::success &&
      atomics != 0) {
    link.kind =
        WEIR_LINK_NVLINK;  // PCIe carries no device's atomics; how fast is not told without NVML
    link.hops = 1;
    return link;
  }
  link.kind = WEIR_LINK_PCIE;
  link.bandwidth = std::min(nvml_.pcie(from.pci_address()), nvml_.pcie(to.pci_address()));
  link.hops = 2;
  return link;
}

}  // namespace weir::cuda
