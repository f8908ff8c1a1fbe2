// SPDX-License-Identifier: Apache-2.0
//
// The parent of all tests. It starts no runtime and loads no backend: whatever a backend does, the runner
// goes on to the next requirement.
#pragma once

#include "conformance/settings.hpp"

namespace weir::conformance {

/// The program's exit status: 0 = nothing failed, crashed or timed out; 1 = something did; 2 = could not run.
int run_suite(const Settings &settings);

/// The normative list, as it is checked in.
void print_list();

}  // namespace weir::conformance
