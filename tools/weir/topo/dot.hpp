// SPDX-License-Identifier: Apache-2.0
//
// A machine as a graph in Graphviz's language DOT, from left to right: the host's memory, a box a NUMA node; what PCIe branches
// at; the devices; and the links between these. Nothing is only a colour: each line says what it is and how fast. The text names
// no font file and fetches nothing.
#pragma once

#include "tools/weir/topo/machine.hpp"

namespace weir::tool::topo {

std::string dot_of(const MachineTold &machine);

/// Rules that turn each colour of dot_of() into one for a dark page, where the viewer prefers that.
std::string dark_rules();

}  // namespace weir::tool::topo
