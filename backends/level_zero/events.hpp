// SPDX-License-Identifier: Apache-2.0
//
// Level Zero's events, handed out one use at a time. An event is signalled once and must be reset before it can
// be signalled again, and it must not be reset while a command still waits for it. So an event that is given
// back knows the commands that wait for it, and comes into use again only when it has been signalled and all of them have
// gone on. Nothing here blocks a thread but finish(). Thread-safe.
#pragma once

#include "backends/level_zero/devices.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace weir::level_zero {

/// An event's place in the table; stays valid, and its Slot in place, until the table ends.
using EventIndex = uint32_t;
inline constexpr EventIndex no_event = UINT32_MAX;

struct EventSlot {
  abi::Event event = nullptr;
  std::atomic<bool> passed{false};  ///< seen signalled since it was handed out
  /// Odd while a fence stands on the event (fences.hpp).
  std::atomic<uint32_t> generation{0};
  uint64_t recorder = 0;  ///< the stream that signals it
  uint32_t uses =
      0;  ///< how often it has been signalled and come into use again; guarded by the table's mutex

  /// A command that waits for this event, on stream `stream`; `done` is signalled when it has gone on.
  struct Waiter {
    uint64_t stream = 0;
    EventIndex done = no_event;
  };
  std::vector<Waiter> waiters;  // guarded by the table's mutex
  EventIndex next = no_event;   // in the list it lies in
};

class Events {
 public:
  explicit Events(const Platform &platform) noexcept : platform_(platform) {}
  /// Waits for what is still to be signalled, within reason, and ends all events.
  ~Events();
  Events(const Events &) = delete;
  Events &operator=(const Events &) = delete;

  /// Hands out an event that is not signalled.
  weir_result take(EventIndex *index) noexcept;
  /// Gives an event back that nothing will signal and nothing waits for.
  void give_back_unused(EventIndex index) noexcept;
  /// Gives an event back. Its signal, and commands that wait for it, may be still to come.
  void give_back(EventIndex index) noexcept;

  EventSlot &slot(EventIndex index) noexcept {
    return chunks_[index / chunk_size].load(std::memory_order_acquire)->slots[index % chunk_size];
  }
  /// nullptr if there is no such place.
  EventSlot *find(uint64_t index) noexcept {
    return index < made_.load(std::memory_order_acquire) ? &slot(static_cast<EventIndex>(index))
                                                         : nullptr;
  }

  /// SUCCESS if it has been signalled, NOT_READY if not.
  weir_result poll(EventSlot &slot) noexcept;
  /// Which use of a slot this is, for poll_use().
  uint32_t use(const EventSlot &slot) noexcept;
  /// The same of that use, which may be over: it was signalled then.
  weir_result poll_use(EventIndex index, uint32_t use) noexcept;
  /// Blocks until it is signalled: SUCCESS, or TIMEOUT after `timeout_ns` (UINT64_MAX = no limit).
  weir_result finish(EventSlot &slot, uint64_t timeout_ns) noexcept;

  /// Blocks until it is signalled or never will be: for ends, where no caller is told of a failure.
  void settle(EventSlot &slot) noexcept;

  /// Notes that a command on `stream` is about to wait for the event. *done is an event for it to signal, or no_event
  /// if the stream has such a command already.
  weir_result add_waiter(EventSlot &slot, uint64_t stream, EventIndex *done);
  /// Takes back the last add_waiter of the stream: the command was not enqueued.
  void remove_waiter(EventSlot &slot, uint64_t stream) noexcept;

 private:
  static constexpr uint32_t chunk_size = 256;
  static constexpr uint32_t most_chunks = 4096;
  struct Chunk {
    abi::EventPool pool = nullptr;
    std::array<EventSlot, chunk_size> slots;
  };
  struct List {  // first in, first out
    EventIndex head = no_event, tail = no_event;
  };

  void push(List *list, EventIndex index) noexcept;
  EventIndex pop(List *list) noexcept;
  weir_result make(EventIndex *index) noexcept;
  weir_result make_chunk(uint32_t number) noexcept;
  void sweep() noexcept;
  bool renew(EventSlot &slot) noexcept;
  void drain() noexcept;

  const Platform &platform_;
  std::array<std::atomic<Chunk *>, most_chunks> chunks_{};
  std::atomic<uint32_t> made_{0};
  std::mutex mutex_;  // the lists, the waiters, and making events
  List free_, returned_;
};

}  // namespace weir::level_zero
