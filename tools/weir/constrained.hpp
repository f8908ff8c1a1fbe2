// SPDX-License-Identifier: Apache-2.0
//
// The machine of a run under the budgets that were asked for: what `weir replay` measures and `weir frag` draws.
#pragma once

#include "replay_options.hpp"
#include "weir_machine.hpp"

namespace weir::tool {

WeirMachineDesc constrained_machine(const ReplayOptions &options, const Settings &settings);

}  // namespace weir::tool
