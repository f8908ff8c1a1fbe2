// SPDX-License-Identifier: Apache-2.0
//
// Which metric each counter of weir_pool_stats is. What must hold: every counter is here, once; those that another metric tells, by
// device or tier, stand here without a name.
#pragma once

#include "core/metrics/table.hpp"

namespace weir::metrics {

/// The counters of weir_pool_stats, by their place on the page.
enum class Field : uint32_t {
#define WEIR_METRICS_FIELD(name, meaning) name,
  WEIR_POOL_STATS_FIELDS(WEIR_METRICS_FIELD)
#undef WEIR_METRICS_FIELD
      count
};

inline uint64_t at(const live::Pool &pool, Field field) noexcept {
  return pool.counters[static_cast<size_t>(field)];
}

struct CounterRow {
  Field field{};
  const char *name = nullptr;  ///< nullptr: told elsewhere
  Type type = Type::counter;
  const char *label = nullptr;  ///< rows of one name differ in its value, and follow each other
  const char *value = nullptr;
  const char *help = nullptr;  ///< nullptr: what weir/pool.h says of the counter
  bool seconds = false;        ///< it is counted in nanoseconds
};

std::span<const CounterRow> counter_rows() noexcept;
const char *meaning_of(Field field) noexcept;

}  // namespace weir::metrics
