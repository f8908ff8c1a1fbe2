// SPDX-License-Identifier: Apache-2.0
//
// LossWatch: tells a program of lost devices by its callback, on a thread of its own, which holds no lock meanwhile. Each
// loss is told once to each callback, those from before it was set too.
#pragma once

#include "core/base/mutex.hpp"
#include "core/pool/engine.hpp"

#include <weir/pool.h>

#include <thread>

namespace weir::pool {

class LossWatch {
 public:
  explicit LossWatch(Engine &engine) noexcept : engine_(engine) {}
  ~LossWatch() { (void)set(nullptr, nullptr); }

  /// Ends the callback there was, after the call of it that may be under way; nullptr: and sets none. BUSY from within one. Without
  /// a thread for the new one the old one stays.
  Status set(weir_loss_callback callback, void *user);
  /// BUSY from within a callback.
  Status check_thread() const;

 private:
  Engine &engine_;
  RankedMutex<Rank::call> mutex_;  // one change at a time
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> turn_{
      0};  ///< the callback of this number may be called, and those before it
  std::atomic<std::thread::id> runs_on_{};
  std::thread thread_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::pool
