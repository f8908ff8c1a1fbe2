// SPDX-License-Identifier: Apache-2.0
//
// The context's devices take their places in the machine: by their address, as partitions of a card where a backend offers
// several on one, or in the order in which they were stood up. One that is not there joins the machine. Two devices of one
// backend never share a place; two of different backends do where their addresses are the same.

#include "core/topology/places.hpp"
#include "core/topology/rehearsal.hpp"

#include <algorithm>
#include <set>

namespace weir::topology {
namespace {

/// A device that the machine does not know, at the NUMA node that its backend tells.
uint32_t join(const weir_be_device &about, Machine *machine) {
  uint32_t parent = 0;
  for (uint32_t i = 0; i < machine->places().size(); ++i) {
    const Place &each = machine->places()[i];
    if (each.kind == PlaceKind::numa_node && each.number == about.numa_node) parent = i;
  }
  const uint32_t place = machine->add(PlaceKind::device, parent);
  machine->place(place).pci_address = about.pci_address;
  machine->make_device(place);
  return machine->device_count() - 1;
}

/// The partition of a card, which joins the machine with its card if need be.
uint32_t tile_of(const weir_be_device &about, uint32_t nth, Machine *machine) {
  uint32_t card = machine->find_card(about.pci_address);
  if (card == none) card = join(about, machine);
  const uint32_t known = machine->tile(card, nth);
  return known != none ? known : machine->add_tile(card, nth);
}

}  // namespace

void Places::merge(Owned<Machine> machine) {
  ends_.clear();
  for (const auto &device : devices_) merge_device(*device, machine.get());
  merge_links(machine.get());
  for (const auto &figure : measured_.figures()) record(figure, machine.get());
  machine_ = std::move(machine);
  merged_ = true;
}

/// Whether the machine has a place for each of the device's partitions: as the virtual functions of a card are.
bool Places::each_is_listed(const backend::Device &device, const Machine &machine) const {
  std::pmr::set<uint32_t> seen({none}, memory_);
  return std::all_of(devices_.begin(), devices_.end(), [&](const auto &each) {
    return !of_one_card(*each, device) ||
           seen.insert(machine.find(each->description.pci_address)).second;
  });
}

bool Places::taken(uint32_t place, uint32_t backend) const noexcept {
  for (uint32_t id = 0; id < ends_.size(); ++id)
    if (ends_[id] == place && devices_[id]->backend == backend) return true;
  return false;
}

uint32_t Places::place_of(const backend::Device &device, Machine *machine) const {
  const weir_be_device &about = device.description;
  const Card of = card(device);
  uint32_t found = none;
  if (rehearse_ && std::string_view(device.runtime->name()) == "host") {
    const std::pmr::vector<uint32_t> order = rehearsed(*machine);
    if (device.index < order.size()) found = order[device.index];
  } else if (of.partitions < 2 || each_is_listed(device, *machine)) {
    found = machine->find(about.pci_address);
  } else {
    found = tile_of(about, of.partition, machine);
  }
  return found == none || taken(found, device.backend) ? join(about, machine) : found;
}

void Places::merge_device(const backend::Device &device, Machine *machine) {
  const weir_be_device &about = device.description;
  const uint32_t found = place_of(device, machine);
  Place &place = machine->device(found);
  if (place.context_device == none) {
    place.context_device = device.id;
    if (about.name[0] != '\0') place.name = about.name;
  }
  place.partitions = std::max(place.partitions, card(device).partitions);
  if (place.kind == PlaceKind::tile && about.pci_address[0] != '\0')
    place.pci_address = about.pci_address;
  if (about.numa_node != UINT32_MAX) place.numa_node = about.numa_node;
  if (place.memory == 0) place.memory = about.memory_total;
  place.integrated = place.integrated || device.has(WEIR_CAP_INTEGRATED);
  if (!place.aliases.empty()) place.aliases += ' ';
  place.aliases += device.runtime->name();
  ends_.push_back(found);
}

/// What backends report now goes into the machine, for its pictures; a report that fails leaves what is known.
void Places::merge_links(Machine *machine) const {
  const auto both = [&](uint32_t from, uint32_t to) WEIR_REQUIRES(mutex_) {
    const uint32_t a = end(from), b = end(to);
    Link told;
    if (a == b || !reported(from, to, &told)) return;
    // What the hardware allows and no runtime of ours can do is not direct.
    machine->set_link(a, b, combine(told, machine->link(a, b)));
  };
  for (uint32_t from = 0; from < count(); ++from) {
    both(from, WEIR_DEVICE_HOST);
    both(WEIR_DEVICE_HOST, from);
    for (uint32_t to = 0; to < count(); ++to)
      if (devices_[from]->runtime == devices_[to]->runtime) both(from, to);
  }
}

}  // namespace weir::topology
