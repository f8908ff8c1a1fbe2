// SPDX-License-Identifier: Apache-2.0
//
// The ring of fences. Nothing here allocates, and the backend is called with no lock held.

#include "core/backend/timeline.hpp"

#include <algorithm>
#include <chrono>

namespace weir::backend {

/// Collects fences under the lock, and destroys them when it ends. It is declared before the lock's guard, so that the lock has been
/// released by then.
class Timeline::Dropped {
 public:
  explicit Dropped(const Timeline &timeline) noexcept : timeline_(timeline) {}
  ~Dropped() {
    for (uint32_t i = 0; i < count_; ++i)
      (void)device_->table().fence_destroy(device_->state(), fences_[i]);
  }
  Dropped(const Dropped &) = delete;
  Dropped &operator=(const Dropped &) = delete;
  /// With the lock held. The device is noted here: once the lock is released, the slot may be another stream's.
  void add(weir_be_fence fence) noexcept {
    device_ = timeline_.device_;
    fences_[count_++] = fence;
  }

 private:
  const Timeline &timeline_;
  const Device *device_ = nullptr;
  uint32_t count_ = 0;
  std::array<weir_be_fence, capacity + 1> fences_;  // a ring's, and one that was pinned
};

void Timeline::open(const Device *device, weir_be_stream stream, Ticks *ticks) noexcept {
  const Guard hold(lock);
  device_ = device;
  stream_ = stream;
  ticks_ = ticks;
  // Beyond every point of the slot's earlier life, which has passed altogether.
  const uint64_t last = std::max(last_.load(std::memory_order_relaxed), ticks->now());
  last_.store(last, std::memory_order_relaxed);
  passed_.store(last, std::memory_order_release);
  lost_.store(false, std::memory_order_relaxed);
}

Status Timeline::record(uint64_t *point) noexcept {
  take_turn();
  const Status status = record_in_turn(point);
  end_record();
  return status;
}

uint64_t Timeline::pass_all_in_turn() noexcept {
  Dropped dropped(*this);
  const Guard hold(lock);
  const uint64_t last = ticks_->next(last_.load(std::memory_order_relaxed));
  last_.store(last, std::memory_order_release);
  pass(last, &dropped);
  return last;
}

void Timeline::retire(weir_be_fence fence, Dropped *dropped) noexcept {
  for (Pinned &pin : pinned_) {
    if (pins_ == 0) break;
    if (pin.waiters != 0 && pin.fence == fence) {
      pin.dropped = true;
      return;
    }
  }
  dropped->add(fence);
}

void Timeline::pop_through(uint32_t end, Dropped *dropped) noexcept {
  for (uint32_t i = head_.load(std::memory_order_relaxed); i != end; ++i)
    retire(at(i).fence, dropped);
  head_.store(end, std::memory_order_release);
}

/// Everything up to the point has passed.
void Timeline::pass(uint64_t point, Dropped *dropped) noexcept {
  if (passed_.load(std::memory_order_relaxed) < point)
    passed_.store(point, std::memory_order_release);
  uint32_t end = head_.load(std::memory_order_relaxed);
  const uint32_t tail = tail_.load(std::memory_order_acquire);
  while (end != tail && at(end).point <= point) ++end;
  pop_through(end, dropped);
}

Timeline::Pinned *Timeline::pin(uint64_t point, bool to_wait, Entry *entry) noexcept {
  *entry = {};
  uint32_t i = head_.load(std::memory_order_relaxed);
  const uint32_t tail = tail_.load(std::memory_order_acquire);
  for (uint32_t left = tail - i; left != 0;) {  // points grow
    const uint32_t half = left / 2;
    const bool before = at(i + half).point < point;
    if (before) i += half + 1;
    left = before ? left - half - 1 : half;
  }
  if (i == tail) return nullptr;
  *entry = at(i);
  Pinned *unused = pins_ == 0 ? pinned_.data() : nullptr;
  for (Pinned &slot : pinned_) {
    if (pins_ == 0) break;
    if (slot.waiters != 0 && slot.fence == entry->fence) {
      ++slot.waiters;
      return &slot;
    }
    if (slot.waiters == 0) unused = &slot;
  }
  if (unused == nullptr || (to_wait && pins_ >= most_waited_for)) return nullptr;
  *unused = Pinned{entry->fence, 1, false};
  ++pins_;
  return unused;
}

void Timeline::unpin(Pinned *pin, Dropped *dropped) noexcept {
  if (--pin->waiters != 0) return;
  --pins_;
  if (pin->dropped) dropped->add(pin->fence);
}

// Called by the thread that has the turn. Half of the ring at a time, so that the cost is spread over many records.
void Timeline::make_room() noexcept {
  constexpr uint32_t middle = capacity / 2;
  Dropped dropped(*this);
  Guard hold(lock);
  uint32_t head = head_.load(std::memory_order_relaxed);
  const uint32_t tail = tail_.load(std::memory_order_relaxed);
  if (tail - head != capacity) return;
  Entry half;
  if (Pinned *pinned = pin(at(head + middle - 1).point, false, &half); pinned != nullptr) {
    const bool over = hold.unlocked(
        [&] { return device_->table().fence_poll(device_->state(), half.fence) == WEIR_SUCCESS; });
    unpin(pinned, &dropped);  // first: while nothing is pinned the ring is emptied faster
    if (over) pass(half.point, &dropped);
  }
  head = head_.load(std::memory_order_relaxed);
  if (tail - head != capacity) return;
  // Nothing has passed: keep every other fence of the older half. The later of a pair stands for both.
  uint32_t kept = head;
  for (uint32_t i = head; i != tail; ++i) {
    if (i - head < middle && ((i - head) & 1U) == 0) {
      retire(at(i).fence, &dropped);
    } else {
      at(kept++) = at(i);
    }
  }
  tail_.store(kept, std::memory_order_release);
}

void Timeline::note_loss() noexcept {
  if (lost_.load(std::memory_order_relaxed)) return;
  sound_.store(passed_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  lost_.store(true, std::memory_order_release);
}

bool Timeline::passed(uint64_t point) noexcept {
  if (passed_.load(std::memory_order_acquire) >= point) return true;
  if (device_ == nullptr) return true;
  Dropped dropped(*this);
  Pinned *pinned = nullptr;
  Entry entry;
  const Device *device = nullptr;
  {
    const Guard hold(lock);
    pinned = pin(point, false, &entry);
    if (entry.fence == 0) return true;
    if (pinned == nullptr) return false;
    device = device_;  // a slot with a pinned fence is not reused
    // The thread that records may be stuck in the backend, and a poll of the fence could get stuck there too.
    if (turn_.taken()) {
      unpin(pinned, &dropped);
      return false;
    }
  }
  const weir_result result = device->table().fence_poll(device->state(), entry.fence);
  // Nothing runs on a lost device any more, so nothing has to be waited for.
  const bool over = result == WEIR_SUCCESS || result == WEIR_ERROR_DEVICE_LOST;
  const Guard hold(lock);
  if (result == WEIR_ERROR_DEVICE_LOST) note_loss();
  unpin(pinned, &dropped);
  if (over) pass(entry.point, &dropped);
  return over;
}

Status Timeline::wait(uint64_t point, uint64_t timeout_ns) noexcept {
  const auto start = std::chrono::steady_clock::now();
  while (!passed(point)) {
    Dropped dropped(*this);
    Pinned *pinned = nullptr;
    Entry entry;
    const Device *device = nullptr;
    {
      const Guard hold(lock);
      pinned = pin(point, true, &entry);
      device = device_;  // a slot with a pinned fence is not reused
    }
    if (entry.fence == 0) return {};
    if (pinned == nullptr) {  // sixteen other points are being waited for: take turns
      const auto waited = std::chrono::steady_clock::now() - start;
      if (timeout_ns != UINT64_MAX && waited >= std::chrono::nanoseconds(timeout_ns))
        return Status(WEIR_ERROR_TIMEOUT);
      std::this_thread::yield();
      continue;
    }
    const weir_result result = device->table().fence_wait(device->state(), entry.fence, timeout_ns);
    {
      const Guard hold(lock);
      if (result == WEIR_ERROR_DEVICE_LOST) note_loss();
      unpin(pinned, &dropped);
      if (result == WEIR_SUCCESS || result == WEIR_ERROR_DEVICE_LOST) pass(entry.point, &dropped);
    }
    if (result == WEIR_ERROR_DEVICE_LOST) return {};
    return result == WEIR_SUCCESS ? Status{} : device->check(result, "fence_wait");
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
  const Device *own = device_;
  if (own == nullptr) return {};  // it has passed by now, and the slot is the CPU's
  if (device == nullptr || device->runtime != own->runtime) return wait(point, UINT64_MAX);
  Dropped dropped(*this);
  Pinned *pinned = nullptr;
  Entry entry;
  {
    const Guard hold(lock);
    pinned = pin(point, true, &entry);
  }
  if (entry.fence == 0) return {};
  if (pinned == nullptr) return wait(point, UINT64_MAX);
  const weir_result result = device->table().stream_wait(device->state(), stream, entry.fence);
  {
    const Guard hold(lock);
    unpin(pinned, &dropped);
  }
  return device->check(result, "stream_wait");
}

void Timeline::drain() noexcept {
  if (device_ == nullptr) return;
  (void)wait(last(), UINT64_MAX);
  Dropped dropped(*this);
  const Guard hold(lock);
  pass(last(), &dropped);
}

}  // namespace weir::backend
