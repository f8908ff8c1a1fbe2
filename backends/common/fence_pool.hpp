// SPDX-License-Identifier: Apache-2.0
//
// One-shot fences over a runtime's events that can be recorded again and again (CUDA, HIP). Events are made
// when a device has none spare and live as long as the pool. A fence is an event's slot and the slot's
// generation, so that a fence that was destroyed is recognised although its event already serves another.
//
// Taking, finding and giving back are lock-free: one list of spare slots a device, with a tag against the
// return of the same head. Slots never move. The pool knows nothing of when an event may be recorded again;
// that is the runtime's rule, and the backend's to keep.
#pragma once

#include "backends/common/fault.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace weir::common {

template <class Event>
class FencePool {
 public:
  /// A fence and its event, as long as the fence lives.
  struct Found {
    Event event{};
    uint32_t device = 0;
    bool valid = false;
  };

  explicit FencePool(uint32_t devices) : spare_(devices) {}
  FencePool(const FencePool &) = delete;
  FencePool &operator=(const FencePool &) = delete;

  /// A fence of the device with an event that no other fence has. make(Event *) makes an event where none is
  /// spare, unmake(Event) ends it if it can't be kept.
  template <class Make, class Unmake>
  weir_result take(uint32_t device, Make make, Unmake unmake, weir_be_fence *fence, Event *event) {
    uint32_t index = pop(device);
    if (index == 0) {
      Event made{};
      WEIR_BACKEND_TRY(make(&made));
      try {
        index = grow(device, made);
      } catch (...) {
        unmake(made);
        throw;
      }
      if (index == 0) {
        unmake(made);
        return refuse(WEIR_ERROR_BACKEND, "all %u fences are in use", capacity);
      }
    }
    Slot &slot = slot_of(index);
    const uint64_t life = slot.life.load(std::memory_order_relaxed);
    slot.life.store(life | 1U, std::memory_order_release);
    *fence = fence_of(index, life >> 1U);
    *event = slot.event;
    return WEIR_SUCCESS;
  }

  Found find(weir_be_fence fence) const noexcept {
    const Slot *slot = slot_at(static_cast<uint32_t>(fence & index_mask));
    if (slot == nullptr || slot->life.load(std::memory_order_acquire) != living(fence)) return {};
    return {slot->event, slot->device, true};
  }

  /// Ends a fence; its event is spare from now on. False if the fence lives no more or never did.
  bool give(weir_be_fence fence) noexcept {
    const uint32_t index = static_cast<uint32_t>(fence & index_mask);
    Slot *slot = slot_at(index);
    uint64_t life = living(fence);
    if (slot == nullptr ||
        !slot->life.compare_exchange_strong(life, next_life(life), std::memory_order_acq_rel)) {
      return false;
    }
    push(*slot, index);
    return true;
  }

  /// Every event, spare or not, with its device. No other thread uses the pool meanwhile.
  template <class Visit>
  void for_each(Visit visit) {
    for (uint32_t index = 1; index < used_; ++index) {
      const Slot &slot = slot_of(index);
      visit(slot.device, slot.event);
    }
  }

 private:
  static constexpr uint32_t index_bits = 24, chunk_bits = 12;
  static constexpr uint32_t capacity = (1U << index_bits) - 1, chunk_size = 1U << chunk_bits;
  static constexpr uint64_t index_mask = (uint64_t{1} << index_bits) - 1;
  static constexpr uint64_t generation_mask = (uint64_t{1} << (64 - index_bits)) - 1;

  struct Slot {
    Event event{};
    uint32_t device = 0;
    std::atomic<uint32_t> next{0};  ///< the next spare one; 0 = none
    std::atomic<uint64_t> life{0};  ///< generation * 2, + 1 while a fence lives in it
  };
  struct alignas(64) Spare {
    std::atomic<uint64_t> head{0};  ///< a tag above the slot's index
  };
  using Chunk = std::array<Slot, chunk_size>;

  static weir_be_fence fence_of(uint32_t index, uint64_t generation) noexcept {
    return generation << index_bits | index;
  }
  static uint64_t living(weir_be_fence fence) noexcept { return fence >> index_bits << 1U | 1U; }
  static uint64_t next_life(uint64_t life) noexcept {
    return (((life >> 1U) + 1) & generation_mask) << 1U;
  }

  Slot *slot_at(uint32_t index) const noexcept {
    Chunk *chunk = chunks_[index >> chunk_bits].load(std::memory_order_acquire);
    return chunk != nullptr && index != 0 ? &(*chunk)[index % chunk_size] : nullptr;
  }

  /// The same of an index that was given out.
  Slot &slot_of(uint32_t index) const noexcept {
    return (*chunks_[index >> chunk_bits].load(std::memory_order_acquire))[index % chunk_size];
  }

  uint32_t pop(uint32_t device) noexcept {
    std::atomic<uint64_t> &head = spare_[device].head;
    uint64_t seen = head.load(std::memory_order_acquire);
    while (true) {
      const uint32_t index = static_cast<uint32_t>(seen);
      if (index == 0) return 0;
      const uint32_t next = slot_of(index).next.load(std::memory_order_relaxed);
      const uint64_t wanted = ((seen >> 32U) + 1) << 32U | next;
      if (head.compare_exchange_weak(seen, wanted, std::memory_order_acquire)) return index;
    }
  }

  void push(Slot &slot, uint32_t index) noexcept {
    std::atomic<uint64_t> &head = spare_[slot.device].head;
    uint64_t seen = head.load(std::memory_order_relaxed);
    uint64_t wanted = 0;
    do {
      slot.next.store(static_cast<uint32_t>(seen), std::memory_order_relaxed);
      wanted = ((seen >> 32U) + 1) << 32U | index;
    } while (!head.compare_exchange_weak(seen, wanted, std::memory_order_acq_rel));
  }

  /// A new slot, or 0 when there are too many.
  uint32_t grow(uint32_t device, Event event) {
    const std::lock_guard lock(growing_);
    if (used_ > capacity) return 0;
    if (used_ >> chunk_bits >= owned_.size()) {
      owned_.push_back(std::make_unique<Chunk>());
      chunks_[owned_.size() - 1].store(owned_.back().get(), std::memory_order_release);
    }
    const uint32_t index = used_++;
    Slot &slot = slot_of(index);
    slot.event = event;
    slot.device = device;
    return index;
  }

  std::vector<Spare> spare_;
  std::array<std::atomic<Chunk *>, (1U << (index_bits - chunk_bits))> chunks_{};
  std::mutex growing_;
  std::vector<std::unique_ptr<Chunk>> owned_;  ///< guarded by growing_
  uint32_t used_ = 1;                          ///< guarded by growing_; slot 0 is no fence
};

}  // namespace weir::common
