// SPDX-License-Identifier: Apache-2.0
//
// UsableBytes: what budgets of devices come to as far as there is memory for them. A budget may be WEIR_UNLIMITED, and a device may not
// say what it has.
#pragma once

#include "core/backend/runtime.hpp"

#include <algorithm>

namespace weir::pool {

class UsableBytes {
 public:
  void add(const backend::Device &device, uint64_t budget) noexcept {
    const uint64_t total = device.description.memory_total;
    const uint64_t bytes = total != 0 ? std::min(budget, total) : budget;
    all_ += std::min(bytes, UINT64_MAX - all_);
  }
  uint64_t all() const noexcept { return all_; }

 private:
  uint64_t all_ = 0;
};

}  // namespace weir::pool
