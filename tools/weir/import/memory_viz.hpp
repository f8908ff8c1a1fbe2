// SPDX-License-Identifier: Apache-2.0
//
// A pool's snapshot as what pytorch.org/memory_viz opens: a pickle of the shape that torch.cuda.memory._dump_snapshot writes. A snapshot has no
// addresses and no times, so buffers lie side by side in the order of the list, and the history is that they were made in it.
#pragma once

#include "tools/weir/import/pool_snapshot.hpp"

#include <string>

namespace weir::tool {

/// The file's bytes. `symbols` has looked up the stacks, or nothing.
std::string memory_viz(const PoolSnapshot &snapshot, const Symbols &symbols);

/// Looks up the calls of all stacks.
Symbols symbols_of(const PoolSnapshot &snapshot);

}  // namespace weir::tool
