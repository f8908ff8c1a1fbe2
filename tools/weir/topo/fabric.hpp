// SPDX-License-Identifier: Apache-2.0
//
// What is drawn of the links between devices. Links of one kind and nearly one speed that join every two of a group are one hub
// with a line to each member; other links are drawn one by one, as long as they can be told apart; more than that are one hub
// that says how many there are. So a picture has at most a few lines a device, however many links there are.
#pragma once

#include "tools/weir/topo/machine.hpp"

#include <set>

namespace weir::tool::topo {

struct Bandwidth {
  uint64_t low = 0, high = 0;  ///< bytes a second one way; 0 = not told
};

/// Indices are of MachineTold::rows.
struct FabricLink {
  uint32_t a = 0, b = 0;  ///< a < b
  uint64_t to_b = 0, to_a = 0;
};

struct FabricGroup {
  enum class Shape : uint8_t {
    single,  ///< one link
    mesh,    ///< all members are joined, but for those that have another link
    some     ///< too many to draw, and not all are joined
  };
  Shape shape = Shape::single;
  std::string kind;
  Bandwidth bandwidth;
  std::vector<FabricLink> links;
  std::set<uint32_t> members;
  bool every_two = false;  ///< of a mesh: no two are left out
};

/// Direct links that are neither PCIe's nor memory's of unknown speed: these stand in no line of their own.
std::vector<FabricGroup> fabric_of(const MachineTold &machine);

/// More than so many single links are not drawn one by one.
inline constexpr size_t most_single_links = 24;

}  // namespace weir::tool::topo
