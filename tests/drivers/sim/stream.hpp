// SPDX-License-Identifier: Apache-2.0
//
// In-order queues of work, each with a worker of its own, and points in them. A point has passed when the work
// enqueued before it has ended, done or not. Addresses of copies and fills are looked up when they run, not when
// they are enqueued: what is unmapped too early is missed then, which breaks the stream's device. On a device that
// is broken or lost nothing runs any more, and all points pass. Thread-safe.
#pragma once

#include "backends/host/stream.hpp"
#include "tests/drivers/sim/answer.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace weir::sim {

class Machine;
class Stream;

/// A place in a stream. Any thread may ask for it, after its stream's end too.
struct Point {
  weir_be_fence fence = 0;  ///< 0: has passed
  uint32_t device = 0;      ///< the stream's
};

struct Copy {
  uint64_t destination = 0, source = 0, bytes = 0;
  /// The runtime may take this copy through host memory where the device does not reach the other one's plain memory.
  bool staged = false;
};

/// A driver's own kind of work.
class Task {
 public:
  virtual ~Task() = default;
  /// On the stream's worker, in order. `healthy`: the device is neither broken nor lost; else nothing but what
  /// keeps others from waiting for ever should happen.
  virtual void run(Stream &stream, bool healthy) noexcept = 0;

 private:
  friend class Stream;
  static void perform(void *task) noexcept;
  std::shared_ptr<Stream> stream_;  ///< set when it is enqueued; keeps the stream
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  /// Made by Machine::make_stream().
  Stream(Machine &machine, host::Stream *queue, uint32_t device) noexcept
      : machine_(machine), queue_(queue), device_(device) {}
  /// Takes no more work; what is enqueued goes on, and keeps what it needs.
  ~Stream();
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;

  uint32_t device() const noexcept { return device_; }
  Machine &machine() const noexcept { return machine_; }

  /// All or, by throwing bad_alloc, none.
  void copy(const Copy *copies, size_t count);
  /// `width` is 1, 2 or 4: how many bytes of `value` are repeated; `bytes` is a multiple of it.
  void fill(uint64_t address, uint32_t value, uint32_t width, uint64_t bytes);
  void host_call(void (*function)(void *), void *user);
  /// Later work of this stream runs after the point.
  void wait(Point point);
  void task(std::unique_ptr<Task> task);
  /// All or, by throwing bad_alloc, none.
  void tasks(std::vector<std::unique_ptr<Task>> tasks);

  /// The point after everything enqueued so far.
  Point record() const noexcept { return {host::StreamTable::record(*queue_), device_}; }

  /// The point by which no more than so many of the entries there are now are pending.
  Point room_for(uint64_t pending) const noexcept {
    const uint64_t submitted = queue_->submitted();
    if (submitted <= pending) return {};
    return {host::StreamTable::fence(*queue_, submitted - pending), device_};
  }
  bool idle() const noexcept { return queue_->done(queue_->submitted()); }

  /// The same pieces of work at once, for a driver's tasks, on the worker.
  Answer run_copy(const Copy &copy) noexcept;
  Answer run_fill(uint64_t address, uint32_t value, uint32_t width, uint64_t bytes) noexcept;

 private:
  Machine &machine_;
  host::Stream *queue_;
  const uint32_t device_;
  uint64_t link_clock_ = 0;  ///< the worker's: when its last copy ended in simulated time
};

}  // namespace weir::sim
