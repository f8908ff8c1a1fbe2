// SPDX-License-Identifier: Apache-2.0
//
// MachineTold: a machine as weir_topology_export tells it in JSON, with what a picture asks: which rows `weir topo` prints, and
// the links between them. A value, which knows neither the library nor a drawing. Invariants: places[0] is the machine, a
// place's parent comes before it, and rows have the labels of the text that `weir topo` prints.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weir::tool::topo {

inline constexpr uint32_t none = UINT32_MAX;

struct PlaceTold {
  std::string kind;
  uint32_t parent = none;
  uint32_t number = none;  ///< the system's, of a package or a NUMA node
  std::string name, pci_address;
  uint64_t memory = 0;  ///< bytes; 0 = not told
  uint64_t memory_shared = 1;
  bool integrated = false;
  uint64_t upstream = 0;  ///< bytes a second of its PCIe link; 0 = not told
  bool end = false;       ///< of links: a device, or a part of one
  uint32_t device = none;
  uint32_t numa_node = none;
};

struct LinkTold {
  std::string kind = "none";
  uint64_t bandwidth = 0;  ///< bytes a second one way; 0 = not told
  std::string source;
  bool direct = false;
  uint64_t shared = 1;
};

/// A device that has a row of its own in the matrix of `weir topo`.
struct RowTold {
  uint32_t place = none;
  std::string label;  ///< "D3" or "G3"
};

struct MachineTold {
  std::string origin;
  std::vector<PlaceTold> places;
  std::vector<RowTold> rows;
  std::map<std::pair<uint32_t, uint32_t>, LinkTold> links;  ///< by places; 0 is the host

  const LinkTold &link(uint32_t from, uint32_t to) const;
  /// The nearest place of that kind above a place, or none.
  uint32_t above(uint32_t place, const char *kind) const;
  /// The place of the NUMA node that a row is at: by its number, else by where it hangs, else the only one there is.
  uint32_t node_of(uint32_t place) const;
};

/// Throws ToolError if the text is not what weir_topology_export writes.
MachineTold machine_of(const std::string &json);

}  // namespace weir::tool::topo
