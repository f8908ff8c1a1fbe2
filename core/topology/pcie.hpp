// SPDX-License-Identifier: Apache-2.0
//
// PCIe: what the tree alone tells of links, for every pair that no fabric joins. Bandwidths are generation times lanes of
// the slowest link on the way, one way.
#pragma once

#include "core/topology/machine.hpp"

namespace weir::topology {

/// Fills the links of kind NONE: devices to the host, then devices to each other.
void add_pcie(Machine *machine);

}  // namespace weir::topology
