// SPDX-License-Identifier: Apache-2.0
//
// A timeline semaphore of one stream. Each piece of the stream's work has a value, and the semaphore reaches it when the
// work is done. A value is `submitted` once its signal is sure to come without anything that this process has still to do;
// only then may the driver be told to wait for it, since a queue that waits holds up all work behind it. What waits for
// a value earlier than that is a stream's own list, which goes on when the value is submitted.
//
// Fences refer to timelines and outlive streams. Thread-safe.
#pragma once

#include "backends/vulkan/errors.hpp"

#include <atomic>
#include <list>
#include <memory>
#include <mutex>

namespace weir::vulkan {

class Device;
class Stream;

/// A stream that waits until a value is submitted.
struct Waiter {
  uint64_t value = 0;
  std::shared_ptr<Stream> stream;
};
using Waiters = std::list<Waiter>;

class Timeline {
 public:
  explicit Timeline(Device &device) noexcept : device_(device) {}
  ~Timeline();
  Timeline(const Timeline &) = delete;
  Timeline &operator=(const Timeline &) = delete;

  static weir_result make(Device &device, std::shared_ptr<Timeline> *made);
  /// The program's own, which it signals: each value that it tells is submitted.
  static std::shared_ptr<Timeline> borrow(Device &device, VkSemaphore semaphore);

  Device &device() const noexcept { return device_; }
  VkSemaphore semaphore() const noexcept { return semaphore_; }

  uint64_t submitted() const noexcept { return submitted_.load(std::memory_order_acquire); }
  /// True: the value is not submitted yet, and the stream is told when it is. Throws bad_alloc.
  bool await(uint64_t value, const std::shared_ptr<Stream> &stream);
  /// The streams that waited for it, or for less, come to *woken.
  void set_submitted(uint64_t value, Waiters *woken) noexcept;

  /// As the driver said last; asks nothing.
  bool seen(uint64_t value) const noexcept {
    return completed_.load(std::memory_order_acquire) >= value;
  }
  /// SUCCESS, NOT_READY, DEVICE_LOST, or what the driver failed with.
  weir_result poll(uint64_t value) noexcept;
  /// The same, but blocks up to timeout_ns (UINT64_MAX = no limit), and TIMEOUT then.
  weir_result wait(uint64_t value, uint64_t timeout_ns) noexcept;
  /// The host's own signal of a value.
  weir_result signal(uint64_t value) noexcept;

 private:
  void note(uint64_t value) noexcept;

  Device &device_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  bool borrowed_ = false;
  std::atomic<uint64_t> completed_{0}, submitted_{0};
  std::mutex mutex_;  // the waiters, and raising submitted_
  Waiters waiters_;
};

/// Work of a timeline up to a value.
struct Point {
  std::shared_ptr<Timeline> timeline;
  uint64_t value = 0;
};

}  // namespace weir::vulkan
