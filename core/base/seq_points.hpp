// SPDX-License-Identifier: Apache-2.0
//
// Named points in the slow paths where a test can hold a thread, so that interleavings are made, not waited
// for. Costs one relaxed load where no test listens; never placed on the hit path, never reached with a lock held.
#pragma once

#include <array>
#include <atomic>
#include <thread>

namespace weir {

class SeqPoints {
 public:
  using Hook = void (*)(void *user, const char *point);

  /// Replaces the current listener: threads that are in its hook stay there.
  void listen(Hook hook, void *user) noexcept {
    user_.store(nullptr);
    hook_.store(hook);
    user_.store(user);
  }
  /// The listener is told no more, and no thread is in its hook when this returns: it may be destroyed. Not called by a hook.
  void leave(void *user) noexcept {
    if (user_.load() == user) {
      user_.store(nullptr);
      hook_.store(nullptr);
    }
    for (const Inside &place : inside_)
      while (place.user.load() == user) std::this_thread::yield();
  }
  void at(const char *point) const {
    if (hook_.load(std::memory_order_relaxed) != nullptr) tell(point);
  }

 private:
  struct Inside {
    std::atomic<bool> taken{false};
    std::atomic<void *> user{nullptr};  ///< in whose hook the thread is
  };
  void tell(const char *point) const {
    for (Inside &place : inside_) {
      if (place.taken.exchange(true)) continue;
      void *const user = user_.load();
      place.user.store(user);
      // The listener may have left before it could see that.
      if (Hook hook = hook_.load(); hook != nullptr && user != nullptr && user_.load() == user)
        hook(user, point);
      place.user.store(nullptr);
      place.taken.store(false);
      return;
    }
  }

  std::atomic<Hook> hook_{nullptr};
  std::atomic<void *> user_{nullptr};
  mutable std::array<Inside, 64> inside_;  ///< more threads at once are not told
};

}  // namespace weir
