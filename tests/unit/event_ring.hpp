// SPDX-License-Identifier: Apache-2.0
//
// EventRing: the events that a test has asked for, until it takes them. The pool puts them there under its lock, one thread at a time;
// the test takes them without. An event that finds the ring full is lost, and counted.
#pragma once

#include "core/base/events.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::test {

class EventRing final : public EventListener {
 public:
  /// `capacity`: a power of two. Throws std::bad_alloc.
  EventRing(uint64_t mask, size_t capacity, std::pmr::memory_resource *memory)
      : EventListener(mask), ring_(capacity, memory) {}

  bool take(Event *event) noexcept {
    const size_t at = taken_.load(std::memory_order_relaxed);
    if (at == written_.load(std::memory_order_acquire)) return false;
    *event = ring_[at & (ring_.size() - 1)];
    taken_.store(at + 1, std::memory_order_release);
    return true;
  }
  uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

  void put(const Event &event) noexcept override {
    const size_t at = written_.load(std::memory_order_relaxed);
    if (at - taken_.load(std::memory_order_acquire) == ring_.size()) {
      lost_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    ring_[at & (ring_.size() - 1)] = event;
    written_.store(at + 1, std::memory_order_release);
  }

 private:
  std::pmr::vector<Event> ring_;
  std::atomic<size_t> written_{0}, taken_{0};
  std::atomic<uint64_t> lost_{0};
};

}  // namespace weir::test
