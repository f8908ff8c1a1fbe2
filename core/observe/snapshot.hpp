// SPDX-License-Identifier: Apache-2.0
//
// The JSON picture of a pool: counters, devices, clients, buffers. For people and tools, not for programs that
// run against the pool: it walks everything.
#pragma once

#include "core/residency/engine.hpp"

#include <string>

namespace weir::observe {

std::string snapshot(residency::Engine &engine, const char *name);

}  // namespace weir::observe
