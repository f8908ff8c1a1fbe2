// SPDX-License-Identifier: Apache-2.0
//
// The thread that tells of lost devices.

#include "core/pool/loss_watch.hpp"

#include "core/base/signals.hpp"

namespace weir::pool {

Status LossWatch::check_thread() const {
  if (runs_on_.load() != std::this_thread::get_id()) return {};
  return fail(WEIR_ERROR_BUSY, "not from within a loss callback");
}

Status LossWatch::set(weir_loss_callback callback, void *user) {
  WEIR_TRY(check_thread());
  const Guard hold(mutex_);
  std::thread fresh;
  const uint64_t number = turn_.load() + 1;
  if (callback != nullptr) {
    WEIR_TRY(start_thread(&fresh, "the thread of a loss callback", [this, callback, user, number] {
      // Not while the one before it may be called.
      for (uint64_t turn = turn_.load(); turn < number; turn = turn_.load()) turn_.wait(turn);
      runs_on_.store(std::this_thread::get_id());
      weir_device_loss loss = WEIR_DEVICE_LOSS_INIT;
      while (engine_.losses().next(&loss, stop_)) callback(user, &loss);
    }));
  }
  if (thread_.joinable()) {
    stop_.store(true);
    engine_.wake_all();
    thread_.join();
    stop_.store(false);
    runs_on_.store({});
  }
  thread_ = std::move(fresh);
  turn_.store(number);
  turn_.notify_all();
  return {};
}

}  // namespace weir::pool
