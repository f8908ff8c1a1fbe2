// SPDX-License-Identifier: Apache-2.0
//
// Streams, fences and copies. A stream that was made here is non-blocking; ended with work left it is kept aside, and
// ended natively when that work is done, because the runtime's own call would wait for it. Fences are pooled events
// that release to the system, so that what a passed fence covers is visible to the CPU and to other devices.
//
// Recording and polling touch no lock of ours, and not the thread's current device but for the default streams. On a
// stream that the program has, too, it may begin a capture at any time, so that is asked before every call on it.
#pragma once

#include "backends/common/fence_pool.hpp"
#include "backends/hip/devices.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace weir::hip {

struct Stream {
  abi::Stream native = nullptr;
  uint32_t device = 0;
  bool owned = false;       ///< made here, so ended here
  bool of_current = false;  ///< the native value means another queue on every device
  bool of_thread = false;   ///< and another one on every thread
  bool ended = false;       ///< its wrapper is gone, its work is not
  std::atomic<bool> shared{
      false};              ///< the program has the native stream, and may record a graph on it
  std::thread::id thread;  ///< the only one that may use it, where it is of_thread
};

class Streams {
 public:
  Streams(const Runtime &runtime, const Devices &devices)
      : runtime_(runtime), devices_(devices), fences_(devices.count()) {}

  weir_result create(uint32_t device, uint64_t flags, weir_be_stream *stream);
  weir_result wrap(uint32_t device, void *native, weir_be_stream *stream);
  weir_result destroy(weir_be_stream stream);
  weir_result native(weir_be_stream stream, void **native) noexcept;
  weir_result check(weir_be_stream stream) const noexcept;
  weir_result synchronize(weir_be_stream stream) const noexcept;
  weir_result query(weir_be_stream stream) const noexcept;
  weir_result host_call(weir_be_stream stream, weir_host_function function,
                        void *user) const noexcept;

  weir_result record(weir_be_stream stream, weir_be_fence *fence);
  weir_result wait(weir_be_stream stream, weir_be_fence fence) const noexcept;
  weir_result poll(weir_be_fence fence) const noexcept;
  weir_result wait(weir_be_fence fence, uint64_t timeout_ns) const noexcept;
  weir_result destroy(weir_be_fence fence) noexcept;

  weir_result copy(weir_be_stream stream, const weir_be_copy *copy) const noexcept;
  weir_result copy_batch(weir_be_stream stream, const weir_be_copy *copies, uint32_t count) const;
  weir_result fill(weir_be_stream stream, uint64_t address, uint8_t value,
                   uint64_t bytes) const noexcept;

  /// Finishes the streams that were made here, and ends them and every event.
  void clear() noexcept;

 private:
  /// Runs body(stream) where the handle may be used, with the stream's device current if that matters to it.
  template <class Body>
  weir_result on(weir_be_stream handle, Body body) const;
  /// The same, but refused while the stream records a graph: what is enqueued then would not run, but become a part of the
  /// graph, and a question would spoil it.
  template <class Body>
  weir_result unless_recording(weir_be_stream handle, Body body) const;
  weir_result check_recording(const Stream &stream) const noexcept;
  weir_result copy_one(const Stream &stream, const weir_be_copy &copy) const noexcept;
  weir_result copy_one_by_one(const Stream &stream, const weir_be_copy *copies,
                              uint32_t count) const noexcept;
  weir_result add(std::unique_ptr<Stream> stream, weir_be_stream *handle);
  void reap() noexcept;

  const Runtime &runtime_;
  const Devices &devices_;
  common::FencePool<abi::Event> fences_;
  std::mutex mutex_;
  std::unordered_map<const void *, std::unique_ptr<Stream>> streams_;  ///< guarded by mutex_
  uint32_t ended_ = 0;                                                 ///< guarded by mutex_
};

}  // namespace weir::hip
