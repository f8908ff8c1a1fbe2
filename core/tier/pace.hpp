// SPDX-License-Identifier: Apache-2.0
//
// Pace: how long a byte takes to a tier below HOST and back, as measured while pages go there. The time that is waited for (the
// way up) counts in full, the time in the background (the way down) half. Each figure follows what is seen by an
// eighth of the difference at a time, so that one slow transfer changes little. Any thread; a figure may be one behind.
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::tier {

class Pace {
 public:
  void went_down(uint64_t bytes, uint64_t ns) noexcept { follow(&down_, bytes, ns); }
  void came_up(uint64_t bytes, uint64_t ns) noexcept { follow(&up_, bytes, ns); }

  /// Picoseconds a byte, there and back; 0: not both ways are known yet.
  uint64_t cost() const noexcept {
    const uint64_t down = down_.load(std::memory_order_relaxed);
    const uint64_t up = up_.load(std::memory_order_relaxed);
    return down == 0 || up == 0 ? 0 : up + down / 2;
  }

 private:
  static void follow(std::atomic<uint64_t> *figure, uint64_t bytes, uint64_t ns) noexcept {
    if (bytes == 0) return;
    const uint64_t seen = ns * 1000 / bytes + 1;
    const uint64_t old = figure->load(std::memory_order_relaxed);
    const uint64_t next = old == 0 ? seen : old - old / 8 + seen / 8;
    figure->store(next != 0 ? next : 1, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> down_{0}, up_{0};
};

}  // namespace weir::tier
