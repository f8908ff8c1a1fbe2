// SPDX-License-Identifier: Apache-2.0
//
// Streams: command queues in order, our own and the program's.
//
// Queues are thread-safe, so any thread may enqueue on any. Each stream has a lock around what it enqueues all the same:
// a host function is two commands that nothing of ours may come between, and a query counts what it covers. A queue of
// ours that the program has been given may hold commands of its own from then on, and is treated like one that was wrapped.
#pragma once

#include "backends/common/handle_table.hpp"
#include "backends/opencl/devices.hpp"
#include "backends/opencl/events.hpp"
#include "backends/opencl/host_calls.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace weir::opencl {

class Stream {
 public:
  /// Takes over a reference to the queue.
  Stream(const Platform &platform, uint64_t id, uint32_t device, cl_command_queue queue,
         bool own) noexcept
      : platform_(platform), id_(id), device_(device), queue_(queue), own_(own), shared_(!own) {}
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;

  uint64_t id() const noexcept { return id_; }
  uint32_t device() const noexcept { return device_; }
  bool own() const noexcept { return own_; }
  cl_command_queue queue() const noexcept { return queue_; }
  /// The queue for the program's own use.
  cl_command_queue expose() noexcept;

  /// An event that is complete when everything enqueued so far is. It is on its way to the device.
  weir_result mark(Event *event) noexcept;
  /// The same for a fence, whose event later answers a query of the stream.
  weir_result record(Event *event) noexcept;
  /// Commands enqueued from now on run after `awaited`, a command of any stream.
  weir_result wait(cl_event awaited) noexcept;
  weir_result copy(uint64_t destination, uint64_t source, uint64_t bytes) noexcept;
  weir_result fill(uint64_t address, uint8_t value, uint64_t bytes) noexcept;
  weir_result host_call(weir_host_function function, void *user);
  weir_result query() noexcept;
  weir_result synchronize() noexcept;

 private:
  friend class Streams;
  /// How long a query of a queue that is not ours alone gives an idle queue to answer, at least.
  static constexpr uint64_t least_patience_ns = 1'000'000;

  weir_result mark_held(Event *event) noexcept;
  weir_result query_known() noexcept;
  weir_result query_shared() noexcept;
  template <class Enqueue>
  weir_result in_chunks(uint64_t bytes, const char *call, Enqueue enqueue) noexcept;

  const Platform &platform_;
  const uint64_t id_;
  const uint32_t device_;
  const cl_command_queue queue_;
  const bool own_;

  std::mutex mutex_;       // what follows, and the order of what we enqueue
  bool shared_ = false;    // the program may enqueue on the queue as well
  uint64_t enqueued_ = 0;  // commands of ours, but for markers
  uint64_t finished_ = 0;  // so many of them are known to be done
  Event marker_;           // complete after the first marker_at_ of them
  uint64_t marker_at_ = 0;
  std::unique_ptr<HostCalls> calls_;
  std::atomic<uint64_t> patience_ns_{least_patience_ns};  // what the next query_shared() waits
};

class Streams {
 public:
  explicit Streams(const Platform &platform) noexcept : platform_(platform) {}
  /// Waits for our own queues to finish and ends them.
  ~Streams();
  Streams(const Streams &) = delete;
  Streams &operator=(const Streams &) = delete;

  weir_result create(uint32_t device, uint64_t flags, weir_be_stream *stream);
  weir_result wrap(uint32_t device, void *native, weir_be_stream *stream);
  /// Does not wait: a queue with unfinished work is parked and ended later, and so is a thread of host functions.
  weir_result destroy(weir_be_stream stream);
  /// INVALID_ARGUMENT if there is no such stream.
  weir_result find(weir_be_stream stream, std::shared_ptr<Stream> *found);

 private:
  struct Parked {
    cl_command_queue queue = nullptr;
    uint32_t device = 0;
    Event end;  ///< none: nothing is left to wait for
  };

  weir_result add(uint32_t device, cl_command_queue queue, bool own, weir_be_stream *stream);
  weir_result check_wrapped(uint32_t device, cl_command_queue queue) const;
  weir_result park(Stream &stream);
  void retire(Stream &stream) noexcept;
  void end_finished() noexcept;
  void release(cl_command_queue queue) const noexcept;

  const Platform &platform_;
  std::shared_mutex mutex_;
  common::HandleTable<std::shared_ptr<Stream>> streams_;
  std::vector<Parked> parked_;
  std::vector<std::unique_ptr<HostCalls>>
      retired_;  // of streams that are gone; their threads leave by themselves
  uint64_t ids_ = 0;
};

}  // namespace weir::opencl
