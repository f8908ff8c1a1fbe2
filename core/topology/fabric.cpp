// SPDX-License-Identifier: Apache-2.0
//
// Folding of matrices, and paths through bridges and packages.

#include "core/topology/fabric.hpp"

#include <algorithm>

namespace weir::topology {
namespace {

constexpr uint64_t megabyte = 1'000'000;
constexpr uint64_t most_megabytes = 100'000'000;  // 100 TB/s

/// To all ports of the switches together, or from them.
uint64_t through_switches(const FabricMatrix &matrix, size_t end, bool up) noexcept {
  uint64_t sum = 0;
  for (size_t port = 0; port < matrix.ends.size(); ++port)
    if (matrix.ends[port].kind == EndKind::switch_port)
      sum += up ? matrix.value(end, port) : matrix.value(port, end);
  return sum;
}

void fold(const FabricMatrix &matrix, size_t from, size_t to, Machine *machine) {
  const FabricEnd &a = matrix.ends[from], &b = matrix.ends[to];
  if (a.kind != EndKind::device || b.kind != EndKind::device || a.device == b.device) return;
  Link link = machine->link(a.device, b.device);
  const bool known = link.kind == matrix.kind;
  const uint64_t value = matrix.value(from, to);
  if (matrix.hops) {
    if (!known || value == 0) return;
    link.hops = static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX));
    return machine->set_link(a.device, b.device, link);
  }
  // Several ends may be one device, and several packages the host: the best counts.
  const uint64_t through =
      std::min(through_switches(matrix, from, true), through_switches(matrix, to, false));
  const uint64_t bandwidth = (value + through) * megabyte;
  if (bandwidth == 0 || (known && link.bandwidth >= bandwidth)) return;
  machine->set_link(a.device, b.device,
                    {.kind = matrix.kind,
                     .hops = 1,
                     .bandwidth = bandwidth,
                     .source = WEIR_LINK_FIGURE_TOPOLOGY,
                     .direct = true});
}

/// The links of cards are those of their partitions, which have them together, where a matrix left these out: it was of cards.
/// A slice has only what leads to the host.
void lower(Machine *machine) {
  const uint32_t count = machine->device_count();
  std::pmr::vector<bool> left_out(count, machine->memory());
  for (uint32_t i = 0; i < count; ++i) left_out[i] = machine->card(i) != i;
  each_link(count, [&](uint32_t from, uint32_t to) {
    if (machine->link(from, to).kind == WEIR_LINK_NONE) return;
    if (from != host_end) left_out[from] = false;
    if (to != host_end) left_out[to] = false;
  });
  const auto of_tile = [&](uint32_t end) { return end != host_end && left_out[end]; };
  const auto slice = [&](uint32_t end) { return end != host_end && machine->device(end).slice; };
  each_link(count, [&](uint32_t from, uint32_t to) {
    const uint32_t a = machine->card(from), b = machine->card(to);
    if (a == b || (!of_tile(from) && !of_tile(to)) ||
        machine->link(from, to).kind != WEIR_LINK_NONE)
      return;
    const bool inward = from != host_end && to != host_end;
    if (inward && (slice(from) || slice(to))) return;
    machine->set_link(from, to, machine->link(a, b));
  });
}

/// The best of what the device's tiles have to the others, each way.
void lift(uint32_t device, Machine *machine) {
  const auto slower = [](const Link &a, const Link &b) { return a.bandwidth < b.bandwidth; };
  for (uint32_t other = 0; other < machine->device_count(); ++other) {
    if (machine->card(other) == device) continue;
    Link to, from;
    for (uint32_t tile = 0; tile < machine->device_count(); ++tile) {
      if (!machine->is_tile(tile, device)) continue;
      to = std::max(to, machine->link(tile, other), slower);
      from = std::max(from, machine->link(other, tile), slower);
    }
    if (to.kind != WEIR_LINK_NONE) machine->set_link(device, other, to);
    if (from.kind != WEIR_LINK_NONE) machine->set_link(other, device, from);
  }
}

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
  for (uint32_t at = a; at != none; at = machine.places()[at].parent)
    for (uint32_t other = b; other != none; other = machine.places()[other].parent)
      if (at == other) return at;
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

Status add_fabric(const FabricMatrix &matrix, const char *name, Machine *machine) {
  for (const uint64_t value : matrix.values)
    if (value > most_megabytes)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "topology %s: matrix %s has a value of %llu",
                  machine->origin().c_str(), name, llu(value));
  for (size_t from = 0; from < matrix.ends.size(); ++from)
    for (size_t to = 0; to < matrix.ends.size(); ++to)
      if (from != to) fold(matrix, from, to, machine);
  return {};
}

void join_tiles(Machine *machine) {
  lower(machine);
  // Tiles of one device are its parts; then each device with tiles takes the best of theirs, so that two devices with
  // tiles, of which neither was in a matrix, find each other through the second.
  for (uint32_t device = 0; device < machine->device_count(); ++device) {
    if (!machine->has_tiles(device)) continue;
    for (uint32_t tile = 0; tile < machine->device_count(); ++tile)
      if (machine->is_tile(tile, device))
        machine->set_links(device, tile, {.kind = WEIR_LINK_SAME, .direct = true});
    lift(device, machine);
  }
}

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
