// SPDX-License-Identifier: Apache-2.0
//
// What a device's plan, and who learns for it, are made by: read off the device. Under the pool's lock.
#pragma once

#include "core/page/env.hpp"
#include "core/policy/learned_forecast.hpp"
#include "core/policy/residency_plan.hpp"

#include <algorithm>

namespace weir::move {

/// Elsewhere no plan can be made of what is learned.
inline bool may_have_plans(const PoolDevice &device) noexcept WEIR_HELD {
  return device.vmm() && !device.gone() && !device.lost();
}

/// Where half a per cent is less than a page, two pages stay free, of 2 % at most: a load that comes first finds its room.
inline policy::ResidencyPlan::Terms plan_terms_of(const PoolDevice &device) noexcept WEIR_HELD {
  policy::ResidencyPlan::Terms terms;
  terms.page_bytes = device.memory.page_size();
  const uint64_t two_pages =
      2000 * terms.page_bytes / std::max<uint64_t>(1, device.memory.budget());
  terms.free_permille =
      static_cast<uint32_t>(std::clamp<uint64_t>(two_pages, terms.free_permille, 20));
  return terms;
}

/// One of `sharers` that share the memory.
inline policy::LearnedForecast::Terms learning_terms_of(const PoolDevice &device, uint64_t memory,
                                                        size_t sharers) noexcept WEIR_HELD {
  policy::LearnedForecast::Terms terms;
  terms.budget = memory / std::max<size_t>(1, sharers);
  terms.smallest = device.memory.page_size();  // what shares its pages with others
  return terms;
}

}  // namespace weir::move
