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
    if (!may(a) || !may(b)) return;
    const uint32_t here = a.kind == EndKind::host ? host_end : a.device;
    const uint32_t there = b.kind == EndKind::host ? host_end : b.device;
    if (here == there) return;
    Link link = machine_->link(here, there);
    const bool known = link.kind == matrix_.kind;
    if (matrix_.hops) {
      if (!known || value(from, to) == 0) return;
      link.hops = static_cast<uint32_t>(std::min<uint64_t>(value(from, to), UINT32_MAX));
      return machine_->set_link(here, there, link);
    }
    // Several ends may be one device, and several packages the host: the best counts.
    const uint64_t through = std::min(through_switches(from, true), through_switches(to, false));
    const uint64_t bandwidth = (value(from, to) + through) * megabyte;
    if (bandwidth == 0 || (known && link.bandwidth >= bandwidth)) return;
    machine_->set_link(here, there,
                       {.kind = matrix_.kind,
                        .hops = 1,
                        .bandwidth = bandwidth,
                        .source = WEIR_LINK_FIGURE_TOPOLOGY,
                        .direct = true});
  }

  const FabricMatrix &matrix_;
  Machine *machine_;
};

/// Ends that a matrix left out: partitions, where it was of cards.
std::pmr::vector<bool> left_out(const Machine &machine) {
  std::pmr::vector<bool> alone(machine.device_count(), machine.memory());
  for (uint32_t i = 0; i < machine.device_count(); ++i) alone[i] = machine.card(i) != i;
  each_link(machine.device_count(), [&](uint32_t from, uint32_t to) {
    if (machine.link(from, to).kind == WEIR_LINK_NONE) return;
    if (from != host_end) alone[from] = false;
    if (to != host_end) alone[to] = false;
  });
  return alone;
}

/// The links of cards are those of their partitions, which have them together. A slice has only what leads to the host.
void lower(Machine *machine) {
  const std::pmr::vector<bool> alone = left_out(*machine);
  const auto of_tile = [&](uint32_t end) { return end != host_end && alone[end]; };
  const auto slice = [&](uint32_t end) { return end != host_end && machine->device(end).slice; };
  each_link(machine->device_count(), [&](uint32_t from, uint32_t to) {
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
  for (uint32_t other = 0; other < machine->device_count(); ++other) {
    if (machine->card(other) == device) continue;
    Link to, from;
    const auto take = [](const Link &link, Link *best) {
      if (link.kind != WEIR_LINK_NONE && link.bandwidth > best->bandwidth) *best = link;
    };
    for (uint32_t tile = 0; tile < machine->device_count(); ++tile) {
      if (machine->card(tile) != device || tile == device) continue;
      take(machine->link(tile, other), &to);
      take(machine->link(other, tile), &from);
    }
    if (to.kind != WEIR_LINK_NONE) machine->set_link(device, other, to);
    if (from.kind != WEIR_LINK_NONE) machine->set_link(other, device, from);
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
    if (!machine->has_tiles(device)) continue;
    for (uint32_t tile = 0; tile < machine->device_count(); ++tile)
      if (tile != device && machine->card(tile) == device)
        machine->set_links(device, tile, {.kind = WEIR_LINK_SAME, .direct = true});
    lift(device, machine);
  }
}

}  // namespace weir::topology
