// SPDX-License-Identifier: Apache-2.0
//
// Places, links and their lookups.

#include "core/topology/machine.hpp"

#include "core/topology/text.hpp"

#include <algorithm>
#include <array>

namespace weir::topology {

const char *name_of(PlaceKind kind) noexcept {
  static constexpr std::array names{"machine",     "package", "numa_node", "host_bridge",
                                    "pcie_bridge", "device",  "subdevice", "switch_port"};
  return names[static_cast<size_t>(kind)];
}

const char *link_kind_name(uint32_t kind) noexcept {
  static constexpr std::array names{"none", "same",   "pcie", "nvlink", "infinity_fabric",
                                    "xe",   "memory", "c2c",  "network"};
  return kind < names.size() ? names[kind] : "unknown";
}

const char *link_figure_name(uint32_t source) noexcept {
  static constexpr std::array names{"none", "pcie", "topology", "backend", "measured"};
  return source < names.size() ? names[source] : "unknown";
}

std::optional<PciAddress> pci_address_of(std::string_view text) noexcept {
  const auto hex = [](std::string_view digits) { return whole_number<uint32_t>(digits, 16); };
  const size_t dot = text.find('.'), last = text.substr(0, dot).rfind(':');
  if (last == std::string_view::npos) return {};
  const std::string_view front = text.substr(0, last);
  const size_t first = front.rfind(':');
  const auto domain = first != std::string_view::npos ? hex(front.substr(0, first)) : 0;
  const auto bus = hex(front.substr(first + 1));
  const auto device = hex(text.substr(0, dot).substr(last + 1));
  const auto function = dot != std::string_view::npos ? hex(text.substr(dot + 1)) : 0;
  if (!domain || !bus || !device || !function) return {};
  return PciAddress{*domain, *bus, *device, *function};
}

bool same_address(std::string_view a, std::string_view b) noexcept {
  const auto first = pci_address_of(a), second = pci_address_of(b);
  return first && first == second;
}

bool same_card(std::string_view a, std::string_view b) noexcept {
  auto first = pci_address_of(a), second = pci_address_of(b);
  if (!first || !second) return false;
  first->function = second->function;
  return first == second;
}

Link Link::told() const noexcept {
  Link result = *this;
  if (source != WEIR_LINK_FIGURE_MEASURED) return result;
  result.bandwidth = before.bandwidth;
  result.latency_ns = before.latency_ns;
  result.source = source_before;
  return result;
}

Link combine(const Link &better, const Link &lesser) noexcept {
  Link result = better;
  if (better.kind == WEIR_LINK_NONE) {  // nothing is known but whether copies work
    result.kind = lesser.kind;
    result.hops = lesser.hops;
  } else if (better.kind != lesser.kind) {
    return result;
  }
  if (result.bandwidth == 0) {
    result.bandwidth = lesser.bandwidth;
    result.source = lesser.source;
  }
  if (result.latency_ns == 0) result.latency_ns = lesser.latency_ns;
  if (result.hops == 0) result.hops = lesser.hops;
  return result;
}

uint32_t Machine::add(PlaceKind kind, uint32_t parent) {
  Place &place = places_.emplace_back(memory_);
  place.kind = kind;
  place.parent = parent;
  return static_cast<uint32_t>(places_.size() - 1);
}

void Machine::make_device(uint32_t place) {
  const size_t before = devices_.size() + 1, side = before + 1;
  std::pmr::vector<Link> grown(side * side, memory_);
  for (size_t i = 0; i < links_.size(); ++i) grown[i / before * side + i % before] = links_[i];
  devices_.push_back(place);
  links_.swap(grown);
  places_[place].device = device_count() - 1;
}

uint32_t Machine::above(uint32_t place, PlaceKind kind) const noexcept {
  for (uint32_t at = places_[place].parent; at != none; at = places_[at].parent)
    if (places_[at].kind == kind) return at;
  return none;
}

uint32_t Machine::tile_count(uint32_t device) const noexcept {
  uint32_t count = 0;
  for (uint32_t i = 0; i < device_count(); ++i) count += is_tile(i, device) ? 1 : 0;
  return count;
}

Link Machine::link(uint32_t from, uint32_t to) const noexcept {
  if (from != to) return links_[slot(from, to)];
  return {.kind = WEIR_LINK_SAME, .direct = true};
}

void Machine::set_link(uint32_t from, uint32_t to, const Link &link) noexcept {
  if (from != to) links_[slot(from, to)] = link;
}

void Machine::record(uint32_t from, uint32_t to, const Reading &reading) noexcept {
  if (from == to) return;
  Link &link = links_[slot(from, to)];
  if (reading.bandwidth != 0) {
    if (link.source != WEIR_LINK_FIGURE_MEASURED) {
      link.before = {link.bandwidth, link.latency_ns};
      link.source_before = link.source;
    }
    link.bandwidth = reading.bandwidth;
    link.source = WEIR_LINK_FIGURE_MEASURED;
  }
  if (reading.latency_ns != 0) link.latency_ns = reading.latency_ns;
}

template <class Fits>
uint32_t Machine::first_device(const Fits &fits) const noexcept {
  for (uint32_t i = 0; i < device_count(); ++i)
    if (fits(device(i))) return i;
  return none;
}

uint32_t Machine::find(std::string_view pci_address) const noexcept {
  return first_device([&](const Place &each) {
    return each.kind == PlaceKind::device && same_address(each.pci_address, pci_address);
  });
}

uint32_t Machine::find_card(std::string_view pci_address) const noexcept {
  const uint32_t exact = find(pci_address);
  if (exact != none) return exact;
  return first_device([&](const Place &each) {
    return each.kind == PlaceKind::device && same_card(each.pci_address, pci_address);
  });
}

uint32_t Machine::tile(uint32_t index, uint32_t nth) const noexcept {
  return first_device([&](const Place &each) {
    return each.kind == PlaceKind::tile && each.parent == devices_[index] && each.number == nth;
  });
}

uint32_t Machine::add_tile(uint32_t index, uint32_t nth) {
  const uint32_t place = add(PlaceKind::tile, devices_[index]), fresh = device_count();
  places_[place].number = nth;
  places_[place].numa_node = device(index).numa_node;
  places_[place].pci_address = device(index).pci_address;
  make_device(place);
  const auto take = [&](uint32_t other) {
    set_link(fresh, other, link(index, other));
    set_link(other, fresh, link(other, index));
  };
  take(host_end);
  for (uint32_t other = 0; other < fresh; ++other)
    if (other != index && !one_card(other, fresh)) take(other);
  set_links(index, fresh, link(index, index));
  return fresh;
}

bool Machine::one_card(uint32_t a, uint32_t b) const noexcept {
  return card(a) == card(b) || same_card(device(a).pci_address, device(b).pci_address);
}

uint32_t Machine::partitions_of(uint32_t index) const noexcept {
  const Place &place = device(index);
  return place.kind != PlaceKind::tile ? place.partitions
                                       : std::max(place.partitions, tile_count(card(index)));
}

uint32_t Machine::sharing(uint32_t from, uint32_t to) const noexcept {
  if (from != host_end && to != host_end && one_card(from, to)) return 1;
  const auto of = [this](uint32_t end) { return end == host_end ? 1U : partitions_of(end); };
  return std::max(of(from), of(to));
}

}  // namespace weir::topology
