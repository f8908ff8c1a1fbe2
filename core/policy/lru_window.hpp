// SPDX-License-Identifier: Apache-2.0
//
// The "lru-window" policy: the one that knows no plans, and what others fall back to.
#pragma once

#include "core/policy/policy.hpp"

namespace weir::policy {

/// The view outlives the policy.
Owned<Policy> make_lru_window(View &view, std::pmr::memory_resource *memory);

}  // namespace weir::policy
