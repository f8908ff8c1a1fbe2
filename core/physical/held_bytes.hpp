// SPDX-License-Identifier: Apache-2.0
//
// HeldBytes: what a device's memory calls have really got from the system, and the most that ever was. Counted where the
// calls are made, outside the pool's lock, hence atomic. A budget's charge runs ahead of it: what is about to be taken is
// charged, and without VMM what is about to be given back, too.
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::physical {

class HeldBytes {
 public:
  uint64_t now() const noexcept { return now_.load(std::memory_order_relaxed); }
  uint64_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }

  void take(uint64_t bytes) noexcept {
    const uint64_t now = now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    uint64_t seen = peak();
    while (seen < now && !peak_.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }
  void give(uint64_t bytes) noexcept { now_.fetch_sub(bytes, std::memory_order_relaxed); }
  /// The peak counts anew from what is held now.
  void reset_peak() noexcept { peak_.store(now(), std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> now_{0}, peak_{0};
};

}  // namespace weir::physical
