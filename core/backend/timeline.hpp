// SPDX-License-Identifier: Apache-2.0
//
// Timeline: the fences of one stream as a growing number. Streams run in order, so "point 70 has passed"
// implies every earlier one; a buffer therefore remembers a use as a Stamp (stream slot and point), eight
// bytes, with no reference count. The timeline keeps a bounded ring of backend fences: when it is full,
// intermediate ones are dropped, and a thread that waits for a dropped point waits for the next one kept.
//
// Points are logical ticks (base/clock.hpp), so a stamp also tells how recent a use is. A slot is reused
// only after its last point has passed, and the new stream starts beyond it: an old stamp then reads as passed.
//
// Calls of the backend about a stream may block for as long as its channel is full, and those about its fences with them. So no
// lock is held across one. A thread that records has the turn to: only it adds to the ring, and others wait for it asleep. A thread
// that polls or waits pins the fence, so that it lives on without the lock.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/clock.hpp"
#include "core/base/mutex.hpp"
#include "core/base/spin_lock.hpp"
#include "core/base/turn.hpp"

#include <array>

namespace weir::backend {

/// A point in a stream's work. bits: write (1) | slot (15) | point (48); 0 is none.
struct Stamp {
  uint64_t bits = 0;

  static constexpr uint64_t write_bit = uint64_t{1} << 63;
  static constexpr uint64_t point_mask = (uint64_t{1} << 48) - 1;
  static constexpr Stamp make(uint32_t slot, uint64_t point, bool write) noexcept {
    return Stamp{(write ? write_bit : 0) | (uint64_t{slot} << 48) | point};
  }
  constexpr explicit operator bool() const noexcept { return bits != 0; }
  constexpr uint32_t slot() const noexcept { return static_cast<uint32_t>(bits >> 48) & 0x7fffU; }
  constexpr uint64_t point() const noexcept { return bits & point_mask; }
  constexpr bool write() const noexcept { return (bits & write_bit) != 0; }
};

class alignas(64) Timeline {
 public:
  /// Guards the ring's old end, its pins, and what lease/ keeps beside it per stream. Never held across a call
  /// of the backend.
  SpinLock lock;

  /// Attaches to a stream of `device`; device == nullptr is the CPU, whose every point has passed.
  void open(const Device *device, weir_be_stream stream, Ticks *ticks) noexcept;
  /// Takes the turn to record; the caller holds `lock`. False: another thread has it, perhaps for long.
  bool begin_record() noexcept { return turn_.try_take(); }
  /// The same without the lock, and waits for the turn.
  void take_turn() noexcept {
    Guard hold(lock);
    turn_.take(hold);
  }
  /// Records a fence after everything enqueued so far. The caller has the turn, and no lock. On failure nothing is recorded.
  Status record_in_turn(uint64_t *point) noexcept;
  void end_record() noexcept { turn_.give(); }
  /// Takes the turn, records and gives the turn back; waits for the turn, and then for room on the stream.
  Status record(uint64_t *point) noexcept;
  /// Ends a recording that the backend refused: everything enqueued so far has been synchronised by the caller, in the turn that it
  /// still has.
  uint64_t pass_all_in_turn() noexcept;

  uint64_t last() const noexcept { return last_.load(std::memory_order_acquire); }
  /// Returns false rather than ask the backend while another thread is seen to record on this stream, though the point may have passed.
  bool passed(uint64_t point) noexcept;
  /// Blocks until the point has passed; TIMEOUT after timeout_ns.
  Status wait(uint64_t point, uint64_t timeout_ns) noexcept;
  /// Waits for the point, whose work must have been done and not only be over: DEVICE_LOST where the device may have been lost before.
  Status finish(uint64_t point) noexcept;
  /// A fence has said that the device is lost.
  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Of a point that has passed: whether its work was done, as far as is known, and is not only over with the device.
  bool done(uint64_t point) const noexcept {
    return !lost() || point <= sound_.load(std::memory_order_relaxed);
  }
  /// Makes `stream` (of the same runtime) run after the point. If it belongs to another runtime, blocks instead.
  Status enqueue_wait(const Device *device, weir_be_stream stream, uint64_t point) noexcept;
  /// Waits for everything and destroys the fences.
  void drain() noexcept;
  /// After drain(): whether a thread still asks about one of its fences, or has the turn to record. Once false, it stays false
  /// until open().
  bool in_use() noexcept {
    const Guard hold(lock);
    return pins_ != 0 || turn_.taken();
  }

 private:
  static constexpr uint32_t capacity = 64;
  static constexpr uint32_t most_waited_for = 16;
  struct Entry {
    uint64_t point = 0;
    weir_be_fence fence = 0;
  };
  /// A fence that threads are waiting on, or asking, outside the lock: it is destroyed by the last of them if the ring has
  /// dropped it meanwhile.
  struct Pinned {
    weir_be_fence fence = 0;
    uint32_t waiters = 0;
    bool dropped = false;
  };
  /// Fences that the ring has dropped, to be destroyed when the lock has been.
  class Dropped;

  Entry &at(uint32_t i) noexcept { return ring_[i & (capacity - 1)]; }
  [[gnu::cold]] void make_room() noexcept;
  // With `lock` held:
  void pop_through(uint32_t end, Dropped *dropped) noexcept;
  void retire(weir_be_fence fence, Dropped *dropped) noexcept;
  void note_loss() noexcept;
  void pass(uint64_t point, Dropped *dropped) noexcept;
  /// Pins the first kept fence at or after the point, which is *entry; nullptr with no fence in it if the point has passed, else no
  /// slot is left.
  Pinned *pin(uint64_t point, bool to_wait, Entry *entry) noexcept;
  void unpin(Pinned *pin, Dropped *dropped) noexcept;

  const Device *device_ = nullptr;
  weir_be_stream stream_ = nullptr;
  Ticks *ticks_ = nullptr;
  Turn turn_;                      ///< to record; taken under `lock`
  std::atomic<uint64_t> last_{0};  ///< written by the thread that has the turn
  std::atomic<uint64_t> passed_{0};
  std::atomic<bool> lost_{false};   ///< a fence said so; set before its point counts as passed
  std::atomic<uint64_t> sound_{0};  ///< what had passed by then
  /// The ring is [head, tail), numbers that only grow but where make_room() thins it out. The thread that has the turn adds at the tail
  /// without the lock; everything else is done under it.
  std::atomic<uint32_t> head_{0}, tail_{0};
  std::array<Entry, capacity> ring_{};
  /// More entries than may be waited for at a time, so that a thread that only asks whether a point has passed finds a free one soon.
  std::array<Pinned, most_waited_for + 4> pinned_{};
  uint32_t pins_ = 0;  ///< entries of pinned_ in use
};

// On the hit path.
[[gnu::always_inline]] inline Status Timeline::record_in_turn(uint64_t *point) noexcept {
  if (device_ == nullptr) {
    const uint64_t next = ticks_->next(last_.load(std::memory_order_relaxed));
    last_.store(next, std::memory_order_release);
    passed_.store(next, std::memory_order_release);
    *point = next;
    return {};
  }
  if (tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire) == capacity)
    make_room();
  weir_be_fence fence = 0;
  const weir_result result = device_->table().fence_record(device_->state(), stream_, &fence);
  if (result != WEIR_SUCCESS) return device_->check(result, "fence_record");
  const uint64_t next = ticks_->next(last_.load(std::memory_order_relaxed));
  const uint32_t tail = tail_.load(std::memory_order_relaxed);
  at(tail) = Entry{next, fence};
  tail_.store(tail + 1, std::memory_order_release);
  last_.store(next, std::memory_order_release);  // a thread that knows the point finds its fence
  *point = next;
  return {};
}

}  // namespace weir::backend
