// SPDX-License-Identifier: Apache-2.0
//
// The thread of a stream's host functions.

#include "backends/opencl/host_calls.hpp"

#include "backends/common/signals.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace weir::opencl {

/// How often a look that fails is made, 20 ms apart.
constexpr int most_tries = 50;

HostCalls::HostCalls(const Platform &platform, uint32_t device)
    : platform_(platform), device_(device) {
  const common::SignalsBlocked blocked;
  thread_ = std::thread([this] { serve(); });
}

HostCalls::~HostCalls() {
  close();
  thread_.join();
}

void HostCalls::prepare() {
  const std::lock_guard hold(mutex_);
  if (calls_.size() == ready_) calls_.emplace_back();
}

void HostCalls::push(Call call) noexcept {
  {
    const std::lock_guard hold(mutex_);
    calls_[ready_++] = std::move(call);
  }
  changed_.notify_one();
}

void HostCalls::close() noexcept {
  {
    const std::lock_guard hold(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
}

void HostCalls::serve() noexcept {
  for (;;) {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [this] { return ready_ != 0 || closed_; });
    if (ready_ == 0) break;
    const Call call = std::move(calls_.front());
    calls_.pop_front();
    --ready_;
    hold.unlock();
    run(call);
  }
  left_.store(true, std::memory_order_release);
}

void HostCalls::run(const Call &call) noexcept {
  weir_result turn = WEIR_NOT_READY;
  // A look that failed for another reason than the device's end is made again: the queue waits for this thread.
  for (int tries = 0; tries < most_tries; ++tries) {
    turn = finish(platform_, device_, call.reached.handle(), UINT64_MAX);
    if (turn == WEIR_SUCCESS || turn == WEIR_ERROR_DEVICE_LOST) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // A driver that can't tell any more when its work ends is of no use: what follows must not run as if the function had.
  if (turn != WEIR_SUCCESS && turn != WEIR_ERROR_DEVICE_LOST)
    turn = platform_.command_failed(device_, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  if (turn == WEIR_SUCCESS && !platform_.lost(device_)) call.function(call.user);
  twice([&] { return platform_.api().clSetUserEventStatus(call.over.handle(), CL_COMPLETE); });
}

}  // namespace weir::opencl
