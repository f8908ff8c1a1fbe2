// SPDX-License-Identifier: Apache-2.0
//
// Paths through bridges and packages.

#include "core/topology/fabric.hpp"

#include <algorithm>

namespace weir::topology {
namespace {

uint64_t least(uint64_t a, uint64_t b) noexcept {
  if (a == 0 || b == 0) return a + b;
  return std::min(a, b);
}

bool is_bridge(const Place &place) noexcept {
  return place.kind == PlaceKind::bridge || place.kind == PlaceKind::host_bridge;
}

struct Climb {
  uint32_t bridges = 0;    ///< passed below `end`
  uint64_t bandwidth = 0;  ///< the least of the links passed, 0 if none is known
};

/// From a device up to, but not into, `end`; all of the way if that is none. Going up, the two ends of a link follow each
/// other: a device and the port above it, a switch's upper port and the port above that. Ends may differ in what they tell,
/// as an idle link is slower and hwloc may have asked one end's driver for the link's best: the greater is the link's.
Climb climb(const Machine &machine, uint32_t device, uint32_t end) noexcept {
  const std::pmr::vector<Place> &places = machine.places();
  Climb result;
  if (places[device].kind == PlaceKind::tile) device = places[device].parent;
  uint32_t at = device;
  while (at != none && at != end && (at == device || is_bridge(places[at]))) {
    const Place &low = places[at];
    uint64_t link = low.upstream;
    if (is_bridge(low)) ++result.bridges;
    at = low.parent;
    if (at != none && is_bridge(places[at])) {
      link = std::max(link, places[at].upstream);
      if (at != end) {
        ++result.bridges;
        at = places[at].parent;
      }
    }
    result.bandwidth = least(result.bandwidth, link);
  }
  return result;
}

uint32_t common(const Machine &machine, uint32_t a, uint32_t b) noexcept {
  for (uint32_t at = a; at != none; at = machine.places()[at].parent) {
    for (uint32_t other = b; other != none; other = machine.places()[other].parent)
      if (at == other) return at;
  }
  return 0;
}

Link pcie(uint64_t bandwidth, uint32_t hops, bool direct) noexcept {
  return {.kind = WEIR_LINK_PCIE,
          .hops = hops,
          .bandwidth = bandwidth,
          .source = bandwidth != 0 ? WEIR_LINK_FIGURE_PCIE : WEIR_LINK_FIGURE_NONE,
          .direct = direct};
}

Link to_host(const Machine &machine, uint32_t device) noexcept {
  const Climb way = climb(machine, machine.devices()[device], none);
  return pcie(way.bandwidth, std::max<uint32_t>(way.bridges, 1), true);
}

/// Where both are joined to the CPUs by the same fabric, that is the way; else it is PCIe.
Link between(const Machine &machine, uint32_t a, uint32_t b) noexcept {
  const uint32_t from = machine.devices()[a], to = machine.devices()[b];
  const uint32_t meet = common(machine, from, to);
  // MIG slices reach nothing but the host, by the link that they have together.
  const bool slices = machine.device(a).slice || machine.device(b).slice;
  if (machine.places()[meet].kind == PlaceKind::device) {
    if (!slices) return {.kind = WEIR_LINK_C2C, .hops = 1, .direct = true};  // parts of one device
    const Link way = machine.link(a, host_end);
    return pcie(way.kind == WEIR_LINK_PCIE ? way.bandwidth : 0, 2 * way.hops, false);
  }
  const uint32_t crossed =
      machine.above(from, PlaceKind::package) != machine.above(to, PlaceKind::package) ? 1 : 0;
  const Link up = machine.link(a, host_end), down = machine.link(host_end, b);
  if (up.kind == down.kind && up.kind != WEIR_LINK_PCIE && up.kind != WEIR_LINK_NONE) {
    Link link = up;
    link.bandwidth = least(up.bandwidth, down.bandwidth);
    link.hops = up.hops + down.hops + crossed;
    link.direct = false;
    return link;
  }
  const Climb first = climb(machine, from, meet), second = climb(machine, to, meet);
  const bool below_bridge = is_bridge(machine.places()[meet]);
  const uint32_t passed = first.bridges + second.bridges + (below_bridge ? 1 : 0) + crossed;
  return pcie(least(first.bandwidth, second.bandwidth), std::max<uint32_t>(passed, 1),
              below_bridge && !slices);
}

}  // namespace

void add_pcie(Machine *machine) {
  const auto on_pcie = [machine](uint32_t end) {
    return end == host_end || !machine->device(end).pci_address.empty();
  };
  each_link(machine->device_count(), [&](uint32_t from, uint32_t to) {
    if (machine->link(from, to).kind != WEIR_LINK_NONE || !on_pcie(from) || !on_pcie(to)) return;
    const bool host = from == host_end || to == host_end;
    machine->set_link(from, to,
                      host ? to_host(*machine, std::min(from, to)) : between(*machine, from, to));
  });
}

}  // namespace weir::topology
