// SPDX-License-Identifier: Apache-2.0
//
// EvictionClock: a device's time in bytes evicted, by which it is told whether a page that comes back has left it lately. Its unit is a
// 256th of the budget that the device began with. It goes around after 65536 budgets, and is never 0.
#pragma once

#include "core/page/page.hpp"

#include <algorithm>

namespace weir::page {

class EvictionClock {
 public:
  explicit EvictionClock(uint64_t budget) noexcept : unit_(std::max<uint64_t>(budget / 256, 1)) {}

  void count(uint64_t evicted) noexcept { total_ += evicted; }
  /// A round of evictions begins, by its number (Tap::next_round).
  void begin_round(uint64_t number) noexcept { last_round_ = number; }
  uint64_t last_round() const noexcept { return last_round_; }
  uint64_t total() const noexcept { return total_; }
  uint32_t now() const noexcept { return static_cast<uint32_t>(total_ / unit_ % period) + 1; }
  /// Within the last `bytes` of evictions; 0 is never.
  bool lately(uint32_t when, uint64_t bytes) const noexcept {
    const uint64_t since = (now() + period - when) % period;
    return when != 0 && since * unit_ < bytes;
  }

 private:
  static constexpr uint32_t period = DevicePage::eviction_period - 1;
  uint64_t total_ = 0;
  uint64_t last_round_ = 0;
  const uint64_t unit_;
};

}  // namespace weir::page
