// SPDX-License-Identifier: Apache-2.0
//
// The JSON picture of a pool: counters, devices, clients, buffers. For people and tools, not for programs that
// run against the pool: it walks everything.
#pragma once

#include "core/pool/inspector.hpp"

#include <string>

namespace weir::pool {

std::string snapshot(const Inspector &pool, const char *name);

}  // namespace weir::pool
