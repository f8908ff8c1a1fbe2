// SPDX-License-Identifier: Apache-2.0
//
// Places, links and their lookups.

#include "core/topology/machine.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace weir::topology {
namespace {

struct Address {
  uint32_t domain = 0, bus = 0, device = 0, function = 0;
  bool operator==(const Address &) const noexcept = default;
};

bool hex(std::string_view text, uint32_t *value) noexcept {
  if (text.empty()) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, 16);
  return error == std::errc{} && end == text.data() + text.size();
}

/// "[domain:]bus:device[.function]".
std::optional<Address> parse(std::string_view text) noexcept {
  Address address;
  const size_t dot = text.find('.');
  if (dot != std::string_view::npos && !hex(text.substr(dot + 1), &address.function)) return {};
  text = text.substr(0, dot);
  const size_t last = text.rfind(':');
  if (last == std::string_view::npos || !hex(text.substr(last + 1), &address.device)) return {};
  text = text.substr(0, last);
  const size_t first = text.rfind(':');
  if (first != std::string_view::npos && !hex(text.substr(0, first), &address.domain)) return {};
  if (first != std::string_view::npos) text = text.substr(first + 1);
  if (!hex(text, &address.bus)) return {};
  return address;
}

}  // namespace

const char *name_of(PlaceKind kind) noexcept {
  static constexpr std::array names{"machine",   "package",     "group",
                                    "numa_node", "host_bridge", "pcie_bridge",
                                    "device",    "subdevice",   "switch_port"};
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

bool same_address(std::string_view a, std::string_view b) noexcept {
  const std::optional<Address> first = parse(a), second = parse(b);
  return first && second && *first == *second;
}

bool same_card(std::string_view a, std::string_view b) noexcept {
  std::optional<Address> first = parse(a), second = parse(b);
  if (!first || !second) return false;
  first->function = second->function = 0;
  return *first == *second;
}

Link Link::told() const noexcept {
  Link result = *this;
  if (source != WEIR_LINK_FIGURE_MEASURED) return result;
  result.bandwidth = told_bandwidth;
  result.latency_ns = told_latency_ns;
  result.source = told_source;
  return result;
}

Link combine(const Link &better, const Link &lesser) noexcept {
  if (lesser.source == WEIR_LINK_FIGURE_MEASURED) {
    Link result = better.kind != WEIR_LINK_NONE ? better : lesser;
    result.direct = better.direct;
    result.bandwidth = lesser.bandwidth;
    result.source = lesser.source;
    if (lesser.latency_ns != 0) result.latency_ns = lesser.latency_ns;
    return result;
  }
  if (better.kind == WEIR_LINK_NONE) {
    // Nothing is known but whether copies work.
    Link result = lesser;
    result.direct = better.direct;
    if (better.bandwidth != 0) {
      result.bandwidth = better.bandwidth;
      result.source = better.source;
    }
    if (better.latency_ns != 0) result.latency_ns = better.latency_ns;
    return result;
  }
  Link result = better;
  if (lesser.kind != better.kind) return result;
  if (result.bandwidth == 0) {
    result.bandwidth = lesser.bandwidth;
    result.source = lesser.source;
  }
  if (result.latency_ns == 0) result.latency_ns = lesser.latency_ns;
  if (result.hops == 0) result.hops = lesser.hops;
  return result;
}

Place &Machine::add(PlaceKind kind, uint32_t parent) {
  Place &place = places_.emplace_back(memory_);
  place.kind = kind;
  place.parent = parent;
  return place;
}

void Machine::make_device(uint32_t place) {
  const size_t before = devices_.size(), side = before + 2;
  std::pmr::vector<Link> grown(side * side, memory_);
  const auto moved = [before](size_t end) { return end == before ? before + 1 : end; };
  if (!links_.empty()) {
    for (size_t from = 0; from <= before; ++from) {
      for (size_t to = 0; to <= before; ++to)
        grown[moved(from) * side + moved(to)] = links_[from * (before + 1) + to];
    }
  }
  devices_.push_back(place);
  links_.swap(grown);
  places_[place].device = static_cast<uint32_t>(before);
}

uint32_t Machine::above(uint32_t place, PlaceKind kind) const noexcept {
  for (uint32_t at = places_[place].parent; at != none; at = places_[at].parent) {
    if (places_[at].kind == kind) return at;
  }
  return none;
}

bool Machine::has_tiles(uint32_t device) const noexcept {
  const uint32_t place = devices_[device];
  return std::any_of(places_.begin(), places_.end(), [place](const Place &each) {
    return each.kind == PlaceKind::tile && each.parent == place;
  });
}

size_t Machine::slot(uint32_t from, uint32_t to) const noexcept {
  const size_t count = devices_.size();
  return (from == host_end ? count : from) * (count + 1) + (to == host_end ? count : to);
}

Link Machine::link(uint32_t from, uint32_t to) const noexcept {
  if (from != to) return links_[slot(from, to)];
  Link same;
  same.kind = WEIR_LINK_SAME;
  same.direct = true;
  return same;
}

void Machine::set_link(uint32_t from, uint32_t to, const Link &link) noexcept {
  if (from != to) links_[slot(from, to)] = link;
}

void Machine::record(uint32_t from, uint32_t to, uint64_t bandwidth, uint64_t latency_ns) noexcept {
  if (from == to) return;
  Link &link = links_[slot(from, to)];
  if (bandwidth != 0) {
    if (link.source != WEIR_LINK_FIGURE_MEASURED) {
      link.told_bandwidth = link.bandwidth;
      link.told_latency_ns = link.latency_ns;
      link.told_source = link.source;
    }
    link.bandwidth = bandwidth;
    link.source = WEIR_LINK_FIGURE_MEASURED;
  }
  if (latency_ns != 0) link.latency_ns = latency_ns;
}

uint32_t Machine::find(std::string_view pci_address) const noexcept {
  for (uint32_t i = 0; i < device_count(); ++i)
    if (device(i).kind == PlaceKind::device && same_address(device(i).pci_address, pci_address))
      return i;
  return none;
}

uint32_t Machine::find_card(std::string_view pci_address) const noexcept {
  const uint32_t exact = find(pci_address);
  if (exact != none) return exact;
  for (uint32_t i = 0; i < device_count(); ++i)
    if (device(i).kind == PlaceKind::device && same_card(device(i).pci_address, pci_address))
      return i;
  return none;
}

uint32_t Machine::tile(uint32_t index, uint32_t nth) const noexcept {
  for (uint32_t i = 0; i < device_count(); ++i)
    if (device(i).kind == PlaceKind::tile && device(i).parent == devices_[index] &&
        device(i).number == nth)
      return i;
  return none;
}

uint32_t Machine::add_tile(uint32_t index, uint32_t nth) {
  Place &made = add(PlaceKind::tile, devices_[index]);
  made.number = nth;
  made.numa_node = device(index).numa_node;
  made.pci_address = device(index).pci_address;
  make_device(static_cast<uint32_t>(places_.size() - 1));
  const uint32_t fresh = device_count() - 1;
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
  const uint32_t here = devices_[a], there = devices_[b];
  const auto card = [this](uint32_t place) {
    return places_[place].kind == PlaceKind::tile ? places_[place].parent : place;
  };
  return card(here) == card(there) ||
         same_card(places_[here].pci_address, places_[there].pci_address);
}

uint32_t Machine::partitions_of(uint32_t index) const noexcept {
  const Place &place = device(index);
  if (place.kind != PlaceKind::tile) return place.partitions;
  const auto siblings = std::count_if(places_.begin(), places_.end(), [&place](const Place &each) {
    return each.kind == PlaceKind::tile && each.parent == place.parent;
  });
  return std::max(place.partitions, static_cast<uint32_t>(siblings));
}

uint32_t Machine::sharing(uint32_t from, uint32_t to) const noexcept {
  if (from != host_end && to != host_end && one_card(from, to)) return 1;
  const auto of = [this](uint32_t end) { return end == host_end ? 1U : partitions_of(end); };
  return std::max(of(from), of(to));
}

}  // namespace weir::topology
