// SPDX-License-Identifier: Apache-2.0
//
// What is taken over of a loaded hwloc topology: places first, then matrices. Included by the discovery only.
#pragma once

#include "core/topology/fabric.hpp"
#include "core/topology/machine.hpp"

#include <hwloc.h>

#include <map>
#include <memory_resource>

namespace weir::topology {

/// Which of hwloc's objects is which end of a link, by its gp_index.
using KnownObjects = std::pmr::map<uint64_t, FabricEnd>;

/// Fills *machine, which is empty. NOT_SUPPORTED if there are more devices than it takes.
Status add_places(hwloc_topology_t topology, Machine *machine, KnownObjects *known);

/// Adds the matrices of links; other matrices are passed over.
Status add_matrices(hwloc_topology_t topology, const KnownObjects &known, Machine *machine);

}  // namespace weir::topology
