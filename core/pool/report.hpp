// SPDX-License-Identifier: Apache-2.0
//
// The report on a refusal (weir_last_error_report): what was short and who has it, of a pool that goes on meanwhile, and one sentence of
// what to do, which names the field to change. It is made when somebody asks, from what the pool is then; the refusal itself has kept
// its numbers and its cause alone (LastError).
#pragma once

#include "core/base/stacks.hpp"
#include "core/base/status.hpp"
#include "core/pool/inspector.hpp"

#include <string>

namespace weir::pool {

StackedText report(const Inspector &pool, const char *name, const LastError &error);

/// What to do about it; "" for what nothing is known of. Tests do as it says (tests/unit/test_report.cpp, test_report_leases.cpp).
std::string advice(const Inspector &pool, const LastError &error);

}  // namespace weir::pool
