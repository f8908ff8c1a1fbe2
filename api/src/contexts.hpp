// SPDX-License-Identifier: Apache-2.0
//
// The live contexts of the process, for code that has no handle: the report on a thread's last error, which names a pool by its number,
// and what is told at the process's end of what was left behind. The one list that is the process's own; what it shows does not
// end meanwhile.
#pragma once

#include "core/base/mutex.hpp"
#include "core/pool/pool.hpp"

#include <functional>

namespace weir::api {

/// Throws std::bad_alloc with nothing changed.
void add_context(pool::Context *context);
/// Waits until look_at_pool() and the report at the process's end are done with it.
void remove_context(pool::Context *context) noexcept;
/// Shows it the pool with that number (Pool::serial). False: there is none any more.
bool look_at_pool(uint64_t serial, const std::function<void(pool::Pool &)> &look);

/// Whether its lines go to standard error because WEIR_LOG says so (context.cpp).
bool logs_to_stderr(const Log &log) noexcept;
/// Whether a line of that level is shown anywhere. Of a program's own callback that is not known.
bool is_logged(const Log &log, int32_t level) noexcept;

}  // namespace weir::api
