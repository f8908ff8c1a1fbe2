// SPDX-License-Identifier: Apache-2.0
//
// Rehearsal: a machine's devices as options of the host backend, so that a program runs where they are not.
#pragma once

#include "core/base/status.hpp"
#include "core/topology/machine.hpp"

#include <memory_resource>
#include <string>

namespace weir::topology {

/// The devices that are stood up, in this order: those without tiles, and tiles. Indices in Machine::devices().
std::pmr::vector<uint32_t> rehearsed(const Machine &machine);

/// "devices=4;names=..." without the backend's prefix. `throttle` as in Settings. INVALID_ARGUMENT where the machine has no
/// devices, or more than the host backend takes.
Status rehearsal_options(const Machine &machine, uint64_t throttle, std::pmr::string *options);

}  // namespace weir::topology
