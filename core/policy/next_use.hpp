// SPDX-License-Identifier: Apache-2.0
//
// Next use: when a buffer is used again after a use of it, and whether its content is needed then. If it has been used again, that is
// known; if not, it is what followed the use that had its place when the program was here before (the twin); if that is not known
// either, what followed the buffer's own last use by an operation of the same name. Distances are counts of operations.
//
// Nothing is kept here: all is read off the log.
#pragma once

#include "core/policy/forecast.hpp"
#include "core/policy/program_log.hpp"

namespace weir::policy {

/// After a use that the log holds.
Outlook outlook_after(const ProgramLog &log, uint32_t use) noexcept;

/// After the newest use of a life, as seen after the log's newest operation. What was to come and has not come for too long is unknown.
Outlook outlook_of(const ProgramLog &log, uint32_t life) noexcept;

}  // namespace weir::policy
