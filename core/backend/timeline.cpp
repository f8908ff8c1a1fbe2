// SPDX-License-Identifier: Apache-2.0
//
// The ring of fences. Everything here is called with few instructions to spare or with the lock held:
// nothing allocates.

#include "core/backend/timeline.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>

namespace weir::backend {

void Timeline::open(const Device *device, weir_be_stream stream, Ticks *ticks) noexcept {
  std::lock_guard hold(lock);
  device_ = device;
  stream_ = stream;
  ticks_ = ticks;
  // Beyond every point of the slot's earlier life, which has passed altogether.
  last_ = std::max(last_, ticks->now());
  passed_.store(last_, std::memory_order_release);
  lost_.store(false, std::memory_order_relaxed);
}

Status Timeline::record(uint64_t *point) noexcept {
  std::lock_guard hold(lock);
  return record_locked(point);
}

uint64_t Timeline::pass_all() noexcept {
  std::lock_guard hold(lock);
  last_ = ticks_->next(last_);
  pop_through(count_);
  passed_.store(last_, std::memory_order_release);
  return last_;
}

void Timeline::retire(weir_be_fence fence) noexcept {
  for (Pinned &pin : pinned_) {
    if (pins_ == 0) break;
    if (pin.waiters != 0 && pin.fence == fence) {
      pin.dropped = true;
      return;
    }
  }
  (void)device_->table().fence_destroy(device_->state(), fence);
}

weir_be_fence Timeline::pin(uint64_t point, Pinned **pin) noexcept {
  std::lock_guard hold(lock);
  const weir_be_fence fence = find(point);
  *pin = nullptr;
  if (fence == 0) return 0;
  Pinned *unused = nullptr;
  for (Pinned &slot : pinned_) {
    if (slot.waiters != 0 && slot.fence == fence) {
      ++slot.waiters;
      *pin = &slot;
      return fence;
    }
    if (slot.waiters == 0) unused = &slot;
  }
  if (unused != nullptr) {
    *unused = Pinned{fence, 1, false};
    ++pins_;
  }
  *pin = unused;
  return fence;
}

void Timeline::unpin(Pinned *pin) noexcept {
  std::lock_guard hold(lock);
  if (--pin->waiters != 0) return;
  --pins_;
  if (pin->dropped) (void)device_->table().fence_destroy(device_->state(), pin->fence);
}

void Timeline::pop_through(uint32_t count) noexcept {
  for (uint32_t i = 0; i < count; ++i) retire(at(i).fence);
  head_ = (head_ + count) & (capacity - 1);
  count_ -= count;
}

// Half of the ring at a time, so that the cost is spread over many records.
void Timeline::make_room() noexcept {
  const uint32_t middle = capacity / 2;
  if (device_->table().fence_poll(device_->state(), at(middle - 1).fence) == WEIR_SUCCESS) {
    passed_.store(at(middle - 1).point, std::memory_order_release);
    pop_through(middle);
    return;
  }
  // Nothing has passed: keep every other fence of the older half. The later of a pair stands for both.
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    if (i < middle && (i & 1U) == 0) {
      retire(at(i).fence);
    } else {
      at(kept++) = at(i);
    }
  }
  count_ = kept;
}

weir_be_fence Timeline::find(uint64_t point) noexcept {
  for (uint32_t i = 0; i < count_; ++i) {
    if (at(i).point >= point) return at(i).fence;
  }
  return 0;
}

void Timeline::note_loss() noexcept {
  if (lost_.load(std::memory_order_relaxed)) return;
  sound_.store(passed_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  lost_.store(true, std::memory_order_release);
}

bool Timeline::passed(uint64_t point) noexcept {
  if (passed_.load(std::memory_order_acquire) >= point) return true;
  if (device_ == nullptr) return true;
  std::lock_guard hold(lock);
  uint32_t i = 0;
  while (i < count_ && at(i).point < point) ++i;
  if (i == count_) return true;
  const weir_result result = device_->table().fence_poll(device_->state(), at(i).fence);
  // Nothing runs on a lost device any more, so nothing has to be waited for.
  if (result != WEIR_SUCCESS && result != WEIR_ERROR_DEVICE_LOST) return false;
  if (result == WEIR_ERROR_DEVICE_LOST) note_loss();
  passed_.store(at(i).point, std::memory_order_release);
  pop_through(i + 1);
  return true;
}

Status Timeline::wait(uint64_t point, uint64_t timeout_ns) noexcept {
  const auto start = std::chrono::steady_clock::now();
  while (!passed(point)) {
    Pinned *pinned = nullptr;
    const weir_be_fence fence = pin(point, &pinned);
    if (fence == 0) return {};
    if (pinned == nullptr) {  // sixteen other points are being waited for: take turns
      const auto waited = std::chrono::steady_clock::now() - start;
      if (timeout_ns != UINT64_MAX && waited >= std::chrono::nanoseconds(timeout_ns))
        return Status(WEIR_ERROR_TIMEOUT);
      std::this_thread::yield();
      continue;
    }
    const weir_result result = device_->table().fence_wait(device_->state(), fence, timeout_ns);
    unpin(pinned);
    if (result == WEIR_ERROR_DEVICE_LOST) {
      const std::lock_guard hold(lock);
      note_loss();
      return {};
    }
    if (result != WEIR_SUCCESS) return device_->check(result, "fence_wait");
    (void)passed(point);
    return {};
  }
  return {};
}

Status Timeline::finish(uint64_t point) noexcept {
  WEIR_TRY(wait(point, UINT64_MAX));
  if (!lost_.load(std::memory_order_relaxed)) return {};
  return device_->check(WEIR_ERROR_DEVICE_LOST, "fence_wait");
}

Status Timeline::enqueue_wait(const Device *device, weir_be_stream stream,
                              uint64_t point) noexcept {
  if (passed(point)) return {};
  if (device == nullptr || device->runtime != device_->runtime) return wait(point, UINT64_MAX);
  Pinned *pinned = nullptr;
  const weir_be_fence fence = pin(point, &pinned);
  if (fence == 0) return {};
  if (pinned == nullptr) return wait(point, UINT64_MAX);
  const weir_result result = device->table().stream_wait(device->state(), stream, fence);
  unpin(pinned);
  return device->check(result, "stream_wait");
}

void Timeline::drain() noexcept {
  if (device_ == nullptr) return;
  (void)wait(last(), UINT64_MAX);
  std::lock_guard hold(lock);
  pop_through(count_);
  passed_.store(last_, std::memory_order_release);
}

}  // namespace weir::backend
