// SPDX-License-Identifier: Apache-2.0
//
// Named points in the slow paths where a test can hold a thread, so that interleavings are made, not waited
// for. Costs one relaxed load where no test listens; never placed on the hit path, never reached with a lock held.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace weir {

class SeqPoints {
 public:
  using Hook = void (*)(void *user, const char *point);

  /// No thread is in the listener before when this returns: it may go. Not called by a listener.
  void listen(Hook hook, void *user) noexcept {
    hook_.store(nullptr);
    while (inside_.load() != 0) std::this_thread::yield();
    user_.store(user, std::memory_order_relaxed);
    hook_.store(hook);
  }
  void at(const char *point) const {
    if (hook_.load(std::memory_order_relaxed) != nullptr) tell(point);
  }

 private:
  void tell(const char *point) const {
    ++inside_;
    if (Hook hook = hook_.load()) hook(user_.load(std::memory_order_relaxed), point);
    --inside_;
  }

  std::atomic<Hook> hook_{nullptr};
  std::atomic<void *> user_{nullptr};
  mutable std::atomic<uint32_t> inside_{0};  ///< threads that may be in the listener
};

}  // namespace weir
