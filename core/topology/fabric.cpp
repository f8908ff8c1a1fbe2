// SPDX-License-Identifier: Apache-2.0
//
// Folding of matrices.

#include "core/topology/fabric.hpp"

#include <algorithm>

namespace weir::topology {
namespace {

constexpr uint64_t megabyte = 1'000'000;
constexpr uint64_t most_megabytes = 100'000'000;  // 100 TB/s

class Fold {
 public:
  Fold(const FabricMatrix &matrix, Machine *machine) : matrix_(matrix), machine_(machine) {}

  void run() {
    for (size_t from = 0; from < side(); ++from) {
      for (size_t to = 0; to < side(); ++to) {
        if (from != to) pair(from, to);
      }
    }
  }

 private:
  size_t side() const noexcept { return matrix_.ends.size(); }
  uint64_t value(size_t from, size_t to) const noexcept {
    return matrix_.values[from * side() + to];
  }

  /// To all ports of the switches together, or from them.
  uint64_t through_switches(size_t end, bool up) const noexcept {
    uint64_t sum = 0;
    for (size_t port = 0; port < side(); ++port) {
      if (matrix_.ends[port].kind == EndKind::switch_port)
        sum += up ? value(end, port) : value(port, end);
    }
    return sum;
  }

  void pair(size_t from, size_t to) {
    const FabricEnd &a = matrix_.ends[from], &b = matrix_.ends[to];
    const auto may = [](const FabricEnd &end) {
      return end.kind == EndKind::device || end.kind == EndKind::host;
    };
    if (!may(a) || !may(b) || (a.kind == EndKind::host && b.kind == EndKind::host)) return;
    const uint32_t here = a.kind == EndKind::host ? host_end : a.device;
    const uint32_t there = b.kind == EndKind::host ? host_end : b.device;
    if (here == there) return;
    if (matrix_.hops) {
      Link link = machine_->link(here, there);
      if (link.kind != matrix_.kind || value(from, to) == 0) return;
      link.hops = static_cast<uint32_t>(std::min<uint64_t>(value(from, to), UINT32_MAX));
      machine_->set_link(here, there, link);
      return;
    }
    const uint64_t through = std::min(through_switches(from, true), through_switches(to, false));
    offer(here, there, value(from, to) + through);
  }

  /// Several ends may be one device, and several packages the host: the best counts.
  void offer(uint32_t from, uint32_t to, uint64_t megabytes) {
    if (megabytes == 0) return;
    const Link known = machine_->link(from, to);
    if (known.kind == matrix_.kind && known.bandwidth >= megabytes * megabyte) return;
    Link link;
    link.kind = matrix_.kind;
    link.hops = 1;
    link.bandwidth = megabytes * megabyte;
    link.source = WEIR_LINK_FIGURE_TOPOLOGY;
    link.direct = true;
    machine_->set_link(from, to, link);
  }

  const FabricMatrix &matrix_;
  Machine *machine_;
};

/// The device that a partition is of, and any other itself.
uint32_t card_of(const Machine &machine, uint32_t end) {
  if (end == host_end || machine.device(end).kind != PlaceKind::tile) return end;
  return machine.places()[machine.device(end).parent].device;
}

/// Ends that a matrix left out: partitions, where it was of cards.
std::pmr::vector<bool> left_out(const Machine &machine) {
  std::pmr::vector<bool> alone(machine.device_count(), true, machine.memory());
  const auto joined = [&machine](uint32_t a, uint32_t b) {
    return machine.link(a, b).kind != WEIR_LINK_NONE || machine.link(b, a).kind != WEIR_LINK_NONE;
  };
  for (uint32_t i = 0; i < machine.device_count(); ++i) {
    bool any = machine.device(i).kind != PlaceKind::tile || joined(i, host_end);
    for (uint32_t k = 0; k < machine.device_count() && !any; ++k) any = k != i && joined(i, k);
    alone[i] = !any;
  }
  return alone;
}

/// The links of cards are those of their partitions, which have them together. A slice has only what leads to the host.
void lower(Machine *machine) {
  const std::pmr::vector<bool> alone = left_out(*machine);
  const auto of_tile = [&](uint32_t end) { return end != host_end && alone[end]; };
  const auto slice = [&](uint32_t end) { return end != host_end && machine->device(end).slice; };
  const auto pair = [&](uint32_t from, uint32_t to) {
    const uint32_t a = card_of(*machine, from), b = card_of(*machine, to);
    if (a == b || (!of_tile(from) && !of_tile(to)) ||
        machine->link(from, to).kind != WEIR_LINK_NONE)
      return;
    const bool inward = from != host_end && to != host_end;
    if (inward && (slice(from) || slice(to))) return;
    machine->set_link(from, to, machine->link(a, b));
  };
  for (uint32_t from = 0; from < machine->device_count(); ++from) {
    pair(from, host_end);
    pair(host_end, from);
    for (uint32_t to = 0; to < machine->device_count(); ++to)
      if (from != to) pair(from, to);
  }
}

void lift(uint32_t device, Machine *machine) {
  for (uint32_t other = 0; other < machine->device_count(); ++other) {
    const bool own = machine->device(other).kind == PlaceKind::tile &&
                     machine->device(other).parent == machine->devices()[device];
    if (other == device || own) continue;
    Link best[2];
    for (uint32_t tile = 0; tile < machine->device_count(); ++tile) {
      if (machine->device(tile).kind != PlaceKind::tile ||
          machine->device(tile).parent != machine->devices()[device])
        continue;
      const Link ways[2] = {machine->link(tile, other), machine->link(other, tile)};
      for (int way = 0; way < 2; ++way)
        if (ways[way].kind != WEIR_LINK_NONE && ways[way].bandwidth > best[way].bandwidth)
          best[way] = ways[way];
    }
    if (best[0].kind != WEIR_LINK_NONE) machine->set_link(device, other, best[0]);
    if (best[1].kind != WEIR_LINK_NONE) machine->set_link(other, device, best[1]);
  }
}

}  // namespace

Status add_fabric(const FabricMatrix &matrix, const char *name, Machine *machine) {
  for (const uint64_t value : matrix.values) {
    if (value > most_megabytes) {
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "topology %s: matrix %s has a value of %llu",
                  machine->origin().c_str(), name, llu(value));
    }
  }
  Fold(matrix, machine).run();
  return {};
}

void join_tiles(Machine *machine) {
  lower(machine);
  // Tiles of one device are its parts; then each device with tiles takes the best of theirs, so that two devices with
  // tiles, of which neither was in a matrix, find each other through the second.
  for (uint32_t device = 0; device < machine->device_count(); ++device) {
    if (machine->device(device).kind != PlaceKind::device || !machine->has_tiles(device)) continue;
    for (uint32_t tile = 0; tile < machine->device_count(); ++tile) {
      if (machine->device(tile).kind != PlaceKind::tile ||
          machine->device(tile).parent != machine->devices()[device])
        continue;
      Link part;
      part.kind = WEIR_LINK_SAME;
      part.direct = true;
      machine->set_links(device, tile, part);
    }
    lift(device, machine);
  }
}

}  // namespace weir::topology
