// SPDX-License-Identifier: Apache-2.0
//
// Machine: the tree of places of one machine (packages, NUMA nodes, bridges, devices, switches) and the links between
// its devices and the host. A value: it knows neither hwloc nor a runtime. Invariants: places()[0] is the machine
// itself; a place's parent comes before it; every pair of devices, and of a device and the host, has exactly one link
// each way. A figure always says where it is from, and a better founded one is never replaced by a lesser one.
#pragma once

#include <weir/topology.h>

#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::topology {

enum class PlaceKind : uint8_t {
  machine,
  package,
  numa_node,
  host_bridge,
  bridge,
  device,  ///< a GPU: one PCI function, or what a backend offers without one
  tile,  ///< a part of a device that a runtime may offer as a device of its own: a tile, a MIG slice, a partition
  switch_port
};
const char *name_of(PlaceKind kind) noexcept;

inline constexpr uint32_t none = UINT32_MAX;
/// The host, as an end in Machine::link.
inline constexpr uint32_t host_end = UINT32_MAX;

struct Place {
  explicit Place(std::pmr::memory_resource *resource)
      : name(resource), pci_address(resource), aliases(resource) {}
  Place(Place &&) = default;

  PlaceKind kind = PlaceKind::machine;
  uint32_t parent = none;
  uint32_t number = none;          ///< the system's, of a package or node; of a tile its place
  uint32_t numa_node = none;       ///< of a device: the system's number of the node it is at
  uint32_t device = none;          ///< index in Machine::devices()
  uint32_t context_device = none;  ///< the weir_device that it is, if a backend offers it
  uint32_t partitions = 1;     ///< of a device a backend offers: how many it offers of this card
  uint64_t memory = 0;         ///< bytes; 0 = unknown
  uint32_t memory_shared = 1;  ///< how many partitions of the card have that memory together
  bool slice = false;  ///< a tile that reaches no other device and no part of its own: a MIG slice
  bool integrated = false;  ///< a device whose memory is the host's
  uint64_t upstream = 0;  ///< bytes a second one way of the PCIe link it is an end of; 0 = unknown
  std::pmr::string name;  ///< of a device its model
  std::pmr::string pci_address;  ///< "0000:17:00.0"
  std::pmr::string aliases;      ///< what the system and the runtimes call it: "cuda0 nvml0"
};

/// What was measured of a link, one way.
struct Reading {
  uint64_t bandwidth = 0;  ///< bytes a second; never 0 of a link that was measured
  uint64_t latency_ns = 0;
  bool operator==(const Reading &) const noexcept = default;
};
/// Measured figures by the numbers of the two devices, from and to, or WEIR_DEVICE_HOST. Ordered, so that the same figures are always written
/// the same way.
using Figures = std::pmr::map<std::pair<uint32_t, uint32_t>, Reading>;

struct Link {
  uint32_t kind = WEIR_LINK_NONE;
  uint32_t hops = 0;
  uint64_t bandwidth = 0;                   ///< bytes a second one way; 0 = unknown
  uint64_t latency_ns = 0;                  ///< 0 = unknown
  uint32_t source = WEIR_LINK_FIGURE_NONE;  ///< of the bandwidth
  bool direct = false;                      ///< the hardware lets one end reach the other's memory
  // What bandwidth, latency_ns and source were before a measurement took their place.
  Reading before{};
  uint32_t source_before = WEIR_LINK_FIGURE_NONE;

  /// The link as if nothing had been measured.
  Link told() const noexcept;
};

/// Fills what the better source leaves open of a link from the lesser one. Kinds that differ are not mixed: a figure of one kind says nothing
/// about another. Measured figures are not asked for.
Link combine(const Link &better, const Link &lesser) noexcept;

class Machine {
 public:
  static constexpr uint32_t most_devices = 256;

  explicit Machine(std::pmr::memory_resource *memory)
      : memory_(memory), origin_(memory), places_(memory), devices_(memory), links_(memory) {}

  std::pmr::memory_resource *memory() const noexcept { return memory_; }
  /// "the system", or the file's path.
  const std::pmr::string &origin() const noexcept { return origin_; }
  void set_origin(std::string_view origin) { origin_ = origin; }

  /// Appends a place, and returns its index; its parent exists.
  uint32_t add(PlaceKind kind, uint32_t parent);
  /// Makes a place of kind device or tile an end of links; its links are of kind NONE at first.
  void make_device(uint32_t place);

  const std::pmr::vector<Place> &places() const noexcept { return places_; }
  Place &place(uint32_t index) noexcept { return places_[index]; }
  /// Indices of places, in the order they were made devices.
  const std::pmr::vector<uint32_t> &devices() const noexcept { return devices_; }
  uint32_t device_count() const noexcept { return static_cast<uint32_t>(devices_.size()); }
  Place &device(uint32_t index) noexcept { return places_[devices_[index]]; }
  const Place &device(uint32_t index) const noexcept { return places_[devices_[index]]; }

  /// The nearest place of this kind that holds `place`, or none.
  uint32_t above(uint32_t place, PlaceKind kind) const noexcept;
  /// The device that a tile is a part of; any other end is its own.
  uint32_t card(uint32_t end) const noexcept {
    const bool tile = end != host_end && device(end).kind == PlaceKind::tile;
    return tile ? places_[device(end).parent].device : end;
  }
  /// Whether `end` is a tile of the device.
  bool is_tile(uint32_t end, uint32_t device) const noexcept {
    return end != device && card(end) == device;
  }
  uint32_t tile_count(uint32_t device) const noexcept;
  bool has_tiles(uint32_t device) const noexcept { return tile_count(device) != 0; }

  /// Ends are indices in devices(), or `host_end`. From an end to itself it is SAME.
  Link link(uint32_t from, uint32_t to) const noexcept;
  void set_link(uint32_t from, uint32_t to, const Link &link) noexcept;
  void set_links(uint32_t a, uint32_t b, const Link &link) noexcept {
    set_link(a, b, link);
    set_link(b, a, link);
  }
  /// What was measured on a link counts more than all else, for good. 0 of either leaves that as it is.
  void record(uint32_t from, uint32_t to, const Reading &reading) noexcept;

  /// The device at this PCI address (see same_address), or none. Tiles are not found by their addresses.
  uint32_t find(std::string_view pci_address) const noexcept;
  /// The same, and else a device of the same slot.
  uint32_t find_card(std::string_view pci_address) const noexcept;
  /// The `nth` tile of a device, or none.
  uint32_t tile(uint32_t device, uint32_t nth) const noexcept;
  /// Gives the device one more tile, with that number. It has the device's links, for it shares them; to its siblings
  /// nothing is known.
  uint32_t add_tile(uint32_t device, uint32_t nth);
  /// How many partitions of one card have the link between the two in common; 1 = it is their own.
  uint32_t sharing(uint32_t from, uint32_t to) const noexcept;

 private:
  bool one_card(uint32_t a, uint32_t b) const noexcept;
  uint32_t partitions_of(uint32_t device) const noexcept;
  /// The slot of a link in the table. The host comes first: one after `host_end` is 0.
  size_t slot(uint32_t from, uint32_t to) const noexcept {
    return size_t{from + 1} * (devices_.size() + 1) + size_t{to + 1};
  }
  template <class Fits>
  uint32_t first_device(const Fits &fits) const noexcept;

  std::pmr::memory_resource *memory_;
  std::pmr::string origin_;
  std::pmr::vector<Place> places_;
  std::pmr::vector<uint32_t> devices_;
  std::pmr::vector<Link> links_;  // (devices + 1) squared
};

/// Calls it for every link of so many devices: to and from the host, and between two of them.
template <class Call>
void each_link(uint32_t devices, const Call &call) {
  for (uint32_t from = 0; from < devices; ++from) {
    call(from, host_end);
    call(host_end, from);
    for (uint32_t to = 0; to < devices; ++to)
      if (from != to) call(from, to);
  }
}

/// In words, as the C ABI gives them; "unknown" for other values.
const char *link_kind_name(uint32_t kind) noexcept;
const char *link_figure_name(uint32_t source) noexcept;

/// The numbers of a PCI address, "[domain:]bus:device[.function]"; what is left out is 0. nvidia-smi writes the domain with eight
/// digits, sysfs with four.
struct PciAddress {
  uint32_t domain = 0, bus = 0, device = 0, function = 0;
  bool operator==(const PciAddress &) const = default;
};
std::optional<PciAddress> pci_address_of(std::string_view text) noexcept;
/// Whether two spellings are of one PCI address: case and leading zeros of the domain do not matter, nor does a domain
/// or function left out, which is 0.
bool same_address(std::string_view a, std::string_view b) noexcept;
/// The same but for the function: runtimes number the partitions of a card by it, or leave it 0 for all.
bool same_card(std::string_view a, std::string_view b) noexcept;

}  // namespace weir::topology
