// SPDX-License-Identifier: Apache-2.0
//
// Streams and fences. A weir_be_stream is the address of a Stream, which lives as long as the backend's state, so that a
// handle that has ended is refused and not followed. Records are used again.
//
// Fences are pooled events. An event may serve the next fence as soon as the last one is destroyed, although work may
// still wait for it on the device: a wait that was enqueued uses what the event had captured at that moment, and is not
// affected by later recordings (the driver's documentation of cuEventRecord). No other fence has the event.
#pragma once

#include "backends/common/fence_pool.hpp"
#include "backends/cuda/context.hpp"
#include "backends/cuda/device.hpp"

#include <deque>
#include <mutex>
#include <vector>

namespace weir::cuda {

struct Stream {
  abi::Stream handle = nullptr;
  void *native = nullptr;  ///< as the caller gave it
  Device *device = nullptr;
  abi::Context context = nullptr;
  uint64_t thread = 0;  ///< the only one that may use it; 0 = any
  bool wrapped = false;
  /// The application has its handle, and may begin a capture at any time: it is wrapped, or was given out.
  mutable std::atomic<bool> shared{false};
  bool of_current = false;  ///< a default stream: it is the current context's
  bool legacy = false;      ///< the legacy default stream
  std::atomic<bool> live{false};
};

/// An event, and the context that it may be recorded in.
struct FenceEvent {
  abi::Event event = nullptr;
  abi::Context context = nullptr;
};

class Streams {
 public:
  Streams(const Api &api, uint32_t devices) : api_(api), fences_(devices) {}

  weir_result create(Device &device, weir_be_stream *stream);
  weir_result wrap(Device &device, void *native, weir_be_stream *stream);
  weir_result destroy(weir_be_stream stream);
  /// The record of a handle that the calling thread may use.
  static weir_result find(weir_be_stream stream, Stream **found) noexcept;

  /// SUCCESS or STREAM_CAPTURING.
  weir_result check(const Stream &stream) const noexcept;
  weir_result synchronize(const Stream &stream) const noexcept;
  weir_result query(const Stream &stream) const noexcept;
  weir_result call(const Stream &stream, weir_host_function function, void *user) const noexcept;

  weir_result record(const Stream &stream, weir_be_fence *fence);
  weir_result wait(const Stream &stream, weir_be_fence fence) const noexcept;
  weir_result poll(weir_be_fence fence) const noexcept;
  weir_result wait_for(weir_be_fence fence, uint64_t timeout_ns) const;
  weir_result destroy_fence(weir_be_fence fence) noexcept;

  /// Makes an enqueueing call on a stream: refused while the stream is recording a graph, where the work would not run
  /// but become part of the graph.
  template <class Call>
  weir_result enqueue(const Stream &stream, const char *what, Call call) const noexcept;

  /// Ends all that is left: the streams made here, with their work done, and the events.
  void clear() noexcept;

 private:
  template <class Call>
  abi::Result on(const Stream &stream, Call call) const noexcept;
  /// `hurried`: of an entry that the core calls with locks held (Witness).
  weir_result failed(const Stream &stream, abi::Result result, const char *what,
                     bool hurried = false) const noexcept;
  weir_result ask(weir_be_fence fence, bool hurried) const noexcept;
  weir_result check_home(const Device &device, abi::Context context, abi::Stream handle) const;
  void destroy(const FenceEvent &event) noexcept;
  Stream *add();
  void remove(Stream &stream) noexcept;

  const Api &api_;
  std::mutex mutex_;
  std::deque<Stream> records_;   ///< guarded by mutex_; never shrinks
  std::vector<Stream *> spare_;  ///< guarded by mutex_; has room for all records
  common::FencePool<FenceEvent> fences_;
};

template <class Call>
abi::Result Streams::on(const Stream &stream, Call call) const noexcept {
  return stream.of_current ? in_context(api_, stream.context, call)
                           : in_any_context(api_, stream.context, call);
}

template <class Call>
weir_result Streams::enqueue(const Stream &stream, const char *what, Call call) const noexcept {
  if (stream.shared.load(std::memory_order_relaxed)) WEIR_BACKEND_TRY(check(stream));
  const abi::Result result = in_context(api_, stream.context, call);
  return result == abi::result::success ? WEIR_SUCCESS : failed(stream, result, what);
}

}  // namespace weir::cuda
