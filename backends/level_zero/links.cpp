// SPDX-License-Identifier: Apache-2.0
//
// Host links from PCI properties; links between devices from the peer-to-peer query with its bandwidth
// extension, and from the ports of the fabric where system management may be asked.

#include "backends/level_zero/links.hpp"

#include <algorithm>

namespace weir::level_zero {
namespace {

uint64_t pci_bandwidth(const Device &device) noexcept {
  const int64_t reported = device.pci_known ? device.pci.max_speed.max_bandwidth : -1;
  return reported > 0 ? static_cast<uint64_t>(reported) : 0;
}

std::vector<abi::FabricPort> ports_of(const Api &api, abi::Device device) {
  uint32_t count = 0;
  if (!api.sysman || api.sysman_fabric_ports(device, &count, nullptr) != abi::success) return {};
  std::vector<abi::FabricPort> ports(count);
  if (api.sysman_fabric_ports(device, &count, ports.data()) != abi::success) return {};
  return ports;
}

uint64_t bytes_a_second(const abi::FabricPortSpeed &speed) noexcept {
  if (speed.bit_rate <= 0 || speed.width <= 0) return 0;
  return static_cast<uint64_t>(speed.bit_rate) / 8 * static_cast<uint64_t>(speed.width);
}

/// Ports of `from` that are up and lead to a port of `to`. *bandwidth is their sum.
uint32_t fabric_between(const Api &api, abi::Device from, abi::Device to, uint64_t *bandwidth) {
  std::vector<uint32_t> fabric_ids;
  for (const abi::FabricPort port : ports_of(api, to)) {
    abi::FabricPortProperties properties;
    if (api.sysman_port_properties(port, &properties) != abi::success) continue;
    fabric_ids.push_back(properties.port_id.fabric_id);
  }
  uint32_t lanes = 0;
  *bandwidth = 0;
  for (const abi::FabricPort port : ports_of(api, from)) {
    abi::FabricPortState state;
    if (api.sysman_port_state(port, &state) != abi::success) continue;
    const bool up = state.status == abi::fabric_port_status_healthy ||
                    state.status == abi::fabric_port_status_degraded;
    const auto &ids = fabric_ids;
    if (!up || std::find(ids.begin(), ids.end(), state.remote_port_id.fabric_id) == ids.end())
      continue;
    ++lanes;
    *bandwidth += bytes_a_second(state.tx_speed);
  }
  return lanes;
}

uint64_t rated_bandwidth(const abi::P2pBandwidthProperties &speed, const Device &device) noexcept {
  const uint64_t amount = speed.logical_bandwidth;
  if (speed.bandwidth_unit == abi::bandwidth_unit_bytes_per_nanosecond)
    return amount * 1'000'000'000;
  // Of the clocks of a device the API tells one: the core's, in MHz.
  if (speed.bandwidth_unit == abi::bandwidth_unit_bytes_per_clock) {
    return amount * device.properties.core_clock_rate * 1'000'000;
  }
  return 0;
}

void describe_peers(const Platform &platform, uint32_t from, uint32_t to, weir_be_link *link) {
  const Device &a = platform.devices()[from];
  const Device &b = platform.devices()[to];
  abi::P2pBandwidthProperties speed;
  abi::P2pProperties properties;
  properties.next = &speed;
  const bool told =
      platform.api().device_get_p2p_properties(a.handle, b.handle, &properties) == abi::success;
  uint64_t fabric_bandwidth = 0;
  const bool fabric = fabric_between(platform.api(), a.handle, b.handle, &fabric_bandwidth) != 0;
  const uint64_t rated = told ? rated_bandwidth(speed, a) : 0;
  // Without system management: only links of a fabric carry atomics and have a rating.
  const bool fabric_like = rated != 0 && (properties.flags & abi::p2p_flag_atomics) != 0;
  link->kind = fabric || fabric_like ? WEIR_LINK_XE : WEIR_LINK_PCIE;
  link->hops = 1;
  if (rated != 0) {
    link->bandwidth = rated;
  } else if (fabric) {
    link->bandwidth = fabric_bandwidth;
  } else {
    link->bandwidth = std::min(pci_bandwidth(a), pci_bandwidth(b));
  }
  if (!told) return;
  if (speed.latency_unit == abi::latency_unit_nanosecond) link->latency_ns = speed.logical_latency;
  if (speed.latency_unit == abi::latency_unit_hop) link->hops = std::max(1U, speed.logical_latency);
}

}  // namespace

void describe_link(const Platform &platform, uint32_t from, uint32_t to, weir_be_link *link) {
  link->direct = 1;
  if (from == to) {
    link->kind = WEIR_LINK_SAME;
    return;
  }
  if (from == WEIR_DEVICE_HOST || to == WEIR_DEVICE_HOST) {
    const Device &device = platform.devices()[from == WEIR_DEVICE_HOST ? to : from];
    link->kind = device.integrated() ? WEIR_LINK_MEMORY : WEIR_LINK_PCIE;
    link->hops = 1;
    if (!device.integrated()) link->bandwidth = pci_bandwidth(device);
    return;
  }
  if (!platform.reaches(from, to)) {
    link->kind = WEIR_LINK_NONE;
    link->direct = 0;
    return;
  }
  describe_peers(platform, from, to, link);
}

}  // namespace weir::level_zero
