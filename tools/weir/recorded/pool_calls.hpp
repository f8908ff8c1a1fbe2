// SPDX-License-Identifier: Apache-2.0
//
// Calls of a recorded program that are about a pool as a whole, made again: its devices, trim, defragmentation and their like.
#pragma once

#include "tools/weir/recorded/world.hpp"

namespace weir::tool::recorded {

/// Throws ToolError.
void call_pool(const World &world, weir_pool pool, uint32_t context, const ProgramCall &call);

}  // namespace weir::tool::recorded
