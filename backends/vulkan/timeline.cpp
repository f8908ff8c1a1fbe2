// SPDX-License-Identifier: Apache-2.0
//
// Asking and waiting. A wait is cut into slices, so that a device that another thread found lost ends it.

#include "backends/vulkan/timeline.hpp"

#include "backends/common/patience.hpp"
#include "backends/vulkan/device.hpp"

#include <algorithm>
#include <iterator>

namespace weir::vulkan {
namespace {

constexpr uint64_t slice_ns = 20'000'000;

}  // namespace

Timeline::~Timeline() {
  if (semaphore_ == VK_NULL_HANDLE || borrowed_) return;
  const uint64_t last = submitted();
  device_.give_counter({semaphore_, last}, !seen(last) && poll(last) != WEIR_SUCCESS);
}

weir_result Timeline::make(Device &device, std::shared_ptr<Timeline> *made) {
  auto timeline = std::make_shared<Timeline>(device);
  Device::Counter counter;
  WEIR_BACKEND_TRY(device.take_counter(&counter));
  timeline->semaphore_ = counter.semaphore;
  timeline->completed_.store(counter.value);
  timeline->submitted_.store(counter.value);
  *made = std::move(timeline);
  return WEIR_SUCCESS;
}

std::shared_ptr<Timeline> Timeline::borrow(Device &device, VkSemaphore semaphore) {
  auto timeline = std::make_shared<Timeline>(device);
  timeline->semaphore_ = semaphore;
  timeline->borrowed_ = true;
  timeline->submitted_.store(UINT64_MAX);
  return timeline;
}

bool Timeline::await(uint64_t value, const std::shared_ptr<Stream> &stream) {
  if (submitted() >= value) return false;
  const std::lock_guard hold(mutex_);
  if (submitted() >= value) return false;
  const bool known = std::any_of(waiters_.begin(), waiters_.end(), [&](const Waiter &waiter) {
    return waiter.value == value && waiter.stream == stream;
  });
  if (!known) waiters_.push_back({value, stream});
  return true;
}

void Timeline::set_submitted(uint64_t value, Waiters *woken) noexcept {
  const std::lock_guard hold(mutex_);
  if (submitted() < value) submitted_.store(value, std::memory_order_release);
  for (auto each = waiters_.begin(); each != waiters_.end();) {
    const auto next = std::next(each);
    if (each->value <= value) woken->splice(woken->end(), waiters_, each);
    each = next;
  }
}

void Timeline::note(uint64_t value) noexcept {
  uint64_t known = completed_.load(std::memory_order_relaxed);
  while (known < value &&
         !completed_.compare_exchange_weak(known, value, std::memory_order_acq_rel)) {
  }
}

weir_result Timeline::poll(uint64_t value) noexcept {
  if (seen(value)) return WEIR_SUCCESS;
  if (device_.lost()) return device_.gone();
  uint64_t now = 0;
  const VkResult result =
      device_.api().GetSemaphoreCounterValue(device_.handle(), semaphore_, &now);
  if (result != VK_SUCCESS) return device_.failed(result, "vkGetSemaphoreCounterValue");
  // A driver that loses its device may set the counter to anything; what was not submitted was not done.
  note(std::min(now, submitted()));
  return seen(value) ? WEIR_SUCCESS : WEIR_NOT_READY;
}

weir_result Timeline::wait(uint64_t value, uint64_t timeout_ns) noexcept {
  weir_result result = poll(value);
  if (result != WEIR_NOT_READY) return result;
  if (timeout_ns == 0) return WEIR_ERROR_TIMEOUT;
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore_;
  info.pValues = &value;
  const uint64_t start = common::monotonic_ns();
  while (true) {
    const uint64_t waited = common::monotonic_ns() - start;
    if (waited >= timeout_ns) return WEIR_ERROR_TIMEOUT;
    const VkResult code = device_.api().WaitSemaphores(device_.handle(), &info,
                                                       std::min(timeout_ns - waited, slice_ns));
    if (code != VK_SUCCESS && code != VK_TIMEOUT)
      return device_.failed(code, "vkWaitSemaphores for %llu", number(value));
    result = poll(value);
    if (result != WEIR_NOT_READY) return result;
  }
}

weir_result Timeline::signal(uint64_t value) noexcept {
  if (device_.lost()) return device_.gone();
  VkSemaphoreSignalInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
  info.semaphore = semaphore_;
  info.value = value;
  const VkResult result = device_.api().SignalSemaphore(device_.handle(), &info);
  return result == VK_SUCCESS ? WEIR_SUCCESS
                              : device_.failed(result, "vkSignalSemaphore to %llu", number(value));
}

}  // namespace weir::vulkan
