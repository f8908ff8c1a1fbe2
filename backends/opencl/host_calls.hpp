// SPDX-License-Identifier: Apache-2.0
//
// Host functions in one stream's order: the queue passes a marker when its turn has come, a thread that waits for it runs
// the function and completes a user event, for which the queue waits. (clEnqueueNativeKernel is for CPUs alone.) Each
// stream has a thread of its own, made with its first function, so that one that takes long holds up no other stream.
// On a lost device the functions that have not run never will.
#pragma once

#include "backends/opencl/events.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace weir::opencl {

class HostCalls {
 public:
  struct Call {
    weir_host_function function = nullptr;
    void *user = nullptr;
    Event reached;  ///< the queue's marker
    Event over;     ///< the user event
  };

  /// Makes the thread; throws when there is none to be had.
  HostCalls(const Platform &platform, uint32_t device);
  /// Waits until every call is over.
  ~HostCalls();
  HostCalls(const HostCalls &) = delete;
  HostCalls &operator=(const HostCalls &) = delete;

  /// Room for one more, so that push() cannot fail. Throws bad_alloc.
  void prepare();
  void push(Call call) noexcept;
  /// No more will come: the thread leaves when the last call is over.
  void close() noexcept;
  /// The thread has left, so that ending this does not wait.
  bool left() const noexcept { return left_.load(std::memory_order_acquire); }

 private:
  void serve() noexcept;
  void run(const Call &call) noexcept;

  const Platform &platform_;
  const uint32_t device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;
  size_t ready_ = 0;  ///< of calls_; what lies beyond them is room
  bool closed_ = false;
  std::atomic<bool> left_{false};
  std::thread thread_;
};

}  // namespace weir::opencl
