// SPDX-License-Identifier: Apache-2.0
//
// Streams: in-order queues, each served by a worker thread, and fences as plain numbers.
//
// A fence is a stream's slot and the count of operations enqueued when it was recorded; it has passed when
// as many have completed. Recording and polling therefore touch one cache line, take no lock and allocate
// nothing. Slots live as long as the table and their counts never go back, so a fence outlives its stream
// and stays true when the slot serves another one. A fence only ever names operations enqueued before it,
// so waits cannot form a circle. A stream whose work is done sleeps.
#pragma once

#include "backends/host/link.hpp"

#include <weir/backend.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace weir::host {

/// One operation. Addresses are resolved already: views of device memory or the host's own pointers.
struct Operation {
  enum class Kind : uint8_t { copy, fill, call, wait };
  Kind kind = Kind::copy;
  bool with_latency = false;
  uint8_t value = 0;                 // fill
  std::byte *destination = nullptr;  // NULL: nothing is moved, which takes its time
  const std::byte *source = nullptr;
  uint64_t bytes = 0;
  LinkMeter *link = nullptr;  // copy: NULL where nothing is simulated
  uint64_t enqueued_ns = 0;   // copy with a link
  weir_host_function function = nullptr;
  void *user = nullptr;
  weir_be_fence fence = 0;  // wait
};

class StreamTable;

class alignas(64) Stream {
 public:
  explicit Stream(uint64_t slot) noexcept : slot_(slot) {}
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;

  bool done(uint64_t sequence) const noexcept {
    return completed_.load(std::memory_order_acquire) >= sequence;
  }
  uint64_t submitted() const noexcept { return submitted_.load(std::memory_order_acquire); }
  uint32_t device() const noexcept { return device_; }
  uint64_t slot() const noexcept { return slot_; }

  /// Enqueues all or, by throwing bad_alloc, none.
  void enqueue(const Operation *operations, size_t count);
  /// Blocks until the operation has completed; false once `deadline_ns` (UINT64_MAX = none) is past.
  bool wait(uint64_t sequence, uint64_t deadline_ns) noexcept;

 private:
  friend class StreamTable;
  enum class State : uint8_t { unused, open, closing };

  static constexpr uint64_t unknown = UINT64_MAX;

  void serve(StreamTable &table) noexcept;
  bool next_batch() noexcept;
  void perform(const Operation &operation, StreamTable &table) noexcept;
  void copy(const Operation &operation) noexcept;
  void complete(uint64_t sequence) noexcept;

  std::atomic<uint64_t> submitted_{0}, completed_{0};
  std::atomic<uint32_t> waiters_{0};
  uint32_t device_ = 0;
  const uint64_t slot_;
  State state_ = State::unused;        // guarded by the table's mutex
  std::atomic<bool> finished_{false};  // the worker has left; it can be joined without waiting

  alignas(64) std::mutex mutex_;
  std::condition_variable work_, progress_;
  std::vector<Operation> pending_;         // guarded by mutex_
  bool closing_ = false, asleep_ = false;  // guarded by mutex_

  std::vector<Operation> batch_;  // the worker's own
  /// The worker's own: when the previous operation ended in simulated time; `unknown` if it was not simulated.
  uint64_t link_clock_ = 0;
  std::thread worker_;
};

class StreamTable {
 public:
  static constexpr size_t capacity = 1024;

  StreamTable();
  /// Finishes every queue.
  ~StreamTable();
  StreamTable(const StreamTable &) = delete;
  StreamTable &operator=(const StreamTable &) = delete;

  /// NULL when every slot serves a stream. Throws when no thread can be made.
  Stream *open(uint32_t device);
  /// The stream takes no more work; its worker finishes what is queued and leaves. Does not block.
  void close(Stream *stream);
  /// Whether `stream` is one of this table's, and open.
  bool is_open(const void *stream) const noexcept;

  static weir_be_fence fence(const Stream &stream, uint64_t sequence) noexcept {
    return (stream.slot() + 1) << sequence_bits | sequence;
  }
  static weir_be_fence record(const Stream &stream) noexcept {
    return fence(stream, stream.submitted());
  }
  /// The stream a fence was recorded on; NULL if the number was never a fence's.
  Stream *stream_of(weir_be_fence fence) const noexcept {
    const uint64_t slot = (fence >> sequence_bits) - 1;
    return slot < used_.load(std::memory_order_acquire) ? streams_ + slot : nullptr;
  }
  static uint64_t sequence_of(weir_be_fence fence) noexcept { return fence & sequence_mask; }

  /// Blocks until everything enqueued so far on the device's streams has finished.
  void drain_device(uint32_t device) noexcept;

 private:
  static constexpr uint32_t sequence_bits = 48;
  static constexpr uint64_t sequence_mask = (uint64_t{1} << sequence_bits) - 1;

  /// A stream that can be opened, or NULL. The caller holds the mutex.
  Stream *free_slot();

  /// Storage of `capacity` streams. Only the first used_ are constructed: the rest stays untouched memory.
  Stream *streams_;
  std::atomic<size_t> used_{0};
  alignas(64) mutable std::mutex mutex_;  // opening and closing
};

}  // namespace weir::host
