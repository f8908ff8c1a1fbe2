// SPDX-License-Identifier: Apache-2.0
//
// A machine's links, of what tells them. Fabrics (NVLink, xGMI, Xe Link): from matrices over whatever ends a source has to
// links between devices. Switches are folded: two devices that reach the same fabric of switches have a link of one hop. PCIe:
// what the tree alone tells, for every pair that no fabric joins. It knows no hwloc.
#pragma once

#include "core/base/status.hpp"
#include "core/topology/machine.hpp"

#include <span>

namespace weir::topology {

enum class EndKind : uint8_t { unknown, device, switch_port };

struct FabricEnd {
  EndKind kind = EndKind::unknown;
  uint32_t device = none;  ///< index in Machine::devices(), or host_end
};

/// Rows are where bytes come from. Values are megabytes (10^6) a second one way, or hops.
struct FabricMatrix {
  uint32_t kind = WEIR_LINK_NONE;  ///< WEIR_LINK_* of what it tells
  bool hops = false;               ///< values are hops, not bandwidths
  std::span<const FabricEnd> ends;
  std::span<const uint64_t> values;

  uint64_t value(size_t from, size_t to) const noexcept { return values[from * ends.size() + to]; }
};

/// Sets the links of the matrix; hops only where there is a link already. Bandwidths beyond all sense are refused;
/// `name` is for the message.
Status add_fabric(const FabricMatrix &matrix, const char *name, Machine *machine);

/// A device with tiles has the best of their links, and tiles of which no matrix tells have their device's. Call it after all
/// matrices.
void join_tiles(Machine *machine);

/// Fills the links of kind NONE: devices to the host, and to each other. Bandwidths are generation times lanes of the slowest
/// link on the way, one way.
void add_pcie(Machine *machine);

}  // namespace weir::topology
