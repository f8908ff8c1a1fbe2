// SPDX-License-Identifier: Apache-2.0
//
// A lock for a handful of instructions: one exchange to take, one store to give. Never held across a call
// that can block, allocate or take another lock.
#pragma once

#include "core/base/thread_safety.hpp"

#include <atomic>
#include <thread>

namespace weir {

class WEIR_CAPABILITY("spin lock") SpinLock {
 public:
  void lock() noexcept WEIR_ACQUIRE() {
    int spins = 0;
    while (taken_.exchange(true, std::memory_order_acquire)) {
      while (taken_.load(std::memory_order_relaxed)) {
        if (++spins > 200) std::this_thread::yield();  // the holder may have lost its core
      }
    }
  }
  void unlock() noexcept WEIR_RELEASE() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace weir
