// SPDX-License-Identifier: Apache-2.0
//
// Named points in the slow paths where a test can hold a thread, so that interleavings are made, not waited
// for. Costs one relaxed load where no test listens; never placed on the hit path, never reached with a lock held.
#pragma once

#include <atomic>

namespace weir {

class SeqPoints {
 public:
  using Hook = void (*)(void *user, const char *point);

  void listen(Hook hook, void *user) noexcept {
    user_.store(user, std::memory_order_relaxed);
    hook_.store(hook, std::memory_order_release);
  }
  void at(const char *point) const {
    if (Hook hook = hook_.load(std::memory_order_acquire))
      hook(user_.load(std::memory_order_relaxed), point);
  }

 private:
  std::atomic<Hook> hook_{nullptr};
  std::atomic<void *> user_{nullptr};
};

}  // namespace weir
