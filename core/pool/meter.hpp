// SPDX-License-Identifier: Apache-2.0
//
// Meter: the figures of a context's pools as text for Prometheus (weir_metrics_text). It reads what the live page has of each pool,
// whether there is a page or not.
//
// What must hold: no pool ends while it is looked at, and no two pools of a name have a number in common. What a call takes is bounded:
// so many pools are told of, and the others counted.
#pragma once

#include "core/base/mutex.hpp"
#include "core/metrics/numbers.hpp"

#include <string>

namespace weir::pool {

class Context;

class Meter {
 public:
  static constexpr size_t most_pools = 256;

  explicit Meter(Context &context) noexcept : context_(context) {}

  std::string text();

 private:
  Context &context_;
  RankedMutex<Rank::leaf> mutex_;
  metrics::Numbers numbers_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::pool
