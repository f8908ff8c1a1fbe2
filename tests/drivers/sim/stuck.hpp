// SPDX-License-Identifier: Apache-2.0
//
// A call of the driver that never returns, in a process that then can't be ended: what a kernel driver in uninterruptible
// sleep looks like to everybody else. WEIR_SIM_STUCK=STEP:CALL:N:SECONDS asks for it: in a process whose WEIR_STEP is STEP
// ("*" for any), the N-th call of CALL ("*": of any that can fail) and all that follow never return. A tracer that never looks holds the
// process: killed, it becomes a zombie that its parent can't reap until SECONDS are over. 0 seconds: it can be killed as usual.
#pragma once

#include <cstdint>

namespace weir::sim {

/// Called by enter() with the name of the call, how often it and how often any was made. Returns if nothing is asked for.
void stuck_if_asked(const char *name, uint64_t own, uint64_t any) noexcept;

}  // namespace weir::sim
