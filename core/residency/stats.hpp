// SPDX-License-Identifier: Apache-2.0
//
// The pool's counters, from the one list in weir/pool.h. Guarded by the pool's lock; hits of the hit path are
// counted per stream (lease.hpp) and added when somebody asks.
#pragma once

#include <weir/pool.h>

namespace weir::residency {

struct Stats {
#define WEIR_STATS_MEMBER(name, meaning) uint64_t name = 0;
  WEIR_POOL_STATS_FIELDS(WEIR_STATS_MEMBER)
#undef WEIR_STATS_MEMBER
};

}  // namespace weir::residency
