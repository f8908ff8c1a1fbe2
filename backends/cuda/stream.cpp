// SPDX-License-Identifier: Apache-2.0
//
// Streams: which context their calls need, whether they record a graph, and fences on them. On a stream whose handle the
// application has it may begin a capture at any time, so that is asked before every call that enqueues; on the others
// the application can't.

#include "backends/cuda/stream.hpp"

#include "backends/common/grow.hpp"
#include "backends/common/patience.hpp"
#include "backends/common/undo.hpp"
#include "backends/cuda/fault.hpp"

namespace weir::cuda {
namespace {

using common::Undo;

/// A number of the calling thread's own that no other thread ever has.
uint64_t this_thread() noexcept {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t mine = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return mine;
}

weir_result no_stream(const void *stream) noexcept {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%p is no open stream", stream);
}

weir_result no_fence(weir_be_fence fence) noexcept {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%#llx is no fence", number(fence));
}

}  // namespace

Stream *Streams::add() {
  const std::lock_guard lock(mutex_);
  if (!spare_.empty()) {
    Stream *record = spare_.back();
    spare_.pop_back();
    return record;
  }
  common::grow_to(spare_, records_.size() + 1);
  return &records_.emplace_back();
}

void Streams::remove(Stream &stream) noexcept {
  const std::lock_guard lock(mutex_);
  spare_.push_back(&stream);
}

weir_result Streams::find(weir_be_stream stream, Stream **found) noexcept {
  Stream *record = reinterpret_cast<Stream *>(stream);
  if (record == nullptr || !record->live.load(std::memory_order_acquire)) return no_stream(record);
  if (record->thread != 0 && record->thread != this_thread()) {
    return refuse(
        WEIR_ERROR_INVALID_ARGUMENT,
        "the per-thread default stream was wrapped on another thread, where it is another queue");
  }
  *found = record;
  return WEIR_SUCCESS;
}

weir_result Streams::failed(const Stream &stream, abi::Result result, const char *what,
                            bool hurried) const noexcept {
  return failure(api_, Witness(stream.context, hurried), result, "%s on stream %p of device %u",
                 what, stream.native, stream.device->index());
}

weir_result Streams::create(Device &device, weir_be_stream *stream) {
  abi::Context context = nullptr;
  WEIR_BACKEND_TRY(device.context(&context));
  Stream *record = add();
  Undo forget([&] { remove(*record); });
  const Relaxed relaxed(api_);
  abi::Stream made = nullptr;
  const abi::Result result = in_context(
      api_, context, [&] { return api_.cuStreamCreate(&made, abi::stream_non_blocking); });
  if (result != abi::result::success) {
    return failure(api_, context, result, "cuStreamCreate on device %u", device.index());
  }
  forget.dismiss();
  record->handle = made;
  record->native = made;
  record->device = &device;
  record->context = context;
  record->thread = 0;
  record->wrapped = record->of_current = record->legacy = false;
  record->shared.store(false, std::memory_order_relaxed);
  record->live.store(true, std::memory_order_release);
  *stream = reinterpret_cast<weir_be_stream>(record);
  return WEIR_SUCCESS;
}

// An event can be recorded only on streams of its own context, and plain memory is reached only from its own, so that a
// stream of another context, even of the same device, can't be used.
weir_result Streams::check_home(const Device &device, abi::Context context,
                                abi::Stream handle) const {
  abi::Context home = nullptr;
  const abi::Result result =
      in_any_context(api_, context, [&] { return api_.cuStreamGetCtx(handle, &home); });
  if (result != abi::result::success) {
    const weir_result meaning =
        failure(api_, context, result, "%p is no stream of device %u: cuStreamGetCtx",
                static_cast<void *>(handle), device.index());
    return meaning == WEIR_ERROR_DEVICE_LOST ? meaning : WEIR_ERROR_INVALID_ARGUMENT;
  }
  if (home == context) return WEIR_SUCCESS;
  return refuse(
      WEIR_ERROR_INVALID_ARGUMENT,
      "stream %p is not of device %u's primary context, but of another device or another context",
      static_cast<void *>(handle), device.index());
}

weir_result Streams::wrap(Device &device, void *native, weir_be_stream *stream) {
  abi::Context context = nullptr;
  WEIR_BACKEND_TRY(device.context(&context));
  const abi::Stream handle = static_cast<abi::Stream>(native);
  const bool legacy = handle == nullptr || handle == abi::stream_legacy();
  const bool per_thread = handle == abi::stream_per_thread();
  if (!legacy && !per_thread) WEIR_BACKEND_TRY(check_home(device, context, handle));
  Stream *record = add();
  record->handle = handle;
  record->native = native;
  record->device = &device;
  record->context = context;
  record->thread = per_thread ? this_thread() : 0;
  record->wrapped = true;
  record->shared.store(true, std::memory_order_relaxed);
  record->of_current = legacy || per_thread;
  record->legacy = legacy;
  record->live.store(true, std::memory_order_release);
  *stream = reinterpret_cast<weir_be_stream>(record);
  return WEIR_SUCCESS;
}

// The driver lets the work of a stream that ends go on to its end. Any thread may end a wrapper, that of a per-thread
// stream too: it touches no queue.
weir_result Streams::destroy(weir_be_stream stream) {
  Stream *record = reinterpret_cast<Stream *>(stream);
  bool live = true;
  if (record == nullptr || !record->live.compare_exchange_strong(live, false))
    return no_stream(record);
  if (!record->wrapped) {
    const Relaxed relaxed(api_);
    const abi::Result result = on(*record, [&] { return api_.cuStreamDestroy(record->handle); });
    if (result != abi::result::success) {
      record->live.store(true, std::memory_order_release);
      return failed(*record, result, "cuStreamDestroy");
    }
  }
  remove(*record);
  return WEIR_SUCCESS;
}

weir_result Streams::check(const Stream &stream) const noexcept {
  int status = abi::capture_none;
  const abi::Result result =
      on(stream, [&] { return api_.cuStreamIsCapturing(stream.handle, &status); });
  if (result == abi::result::success && status == abi::capture_none) return WEIR_SUCCESS;
  // While another stream of the context captures, the legacy stream answers with an error of its own: to use it then
  // would make it a part of that capture.
  if (result != abi::result::success) return failed(stream, result, "cuStreamIsCapturing", true);
  return refuse(WEIR_ERROR_STREAM_CAPTURING, "stream %p of device %u is recording a graph",
                stream.native, stream.device->index());
}

weir_result Streams::synchronize(const Stream &stream) const noexcept {
  if (stream.shared.load(std::memory_order_relaxed)) WEIR_BACKEND_TRY(check(stream));
  const Relaxed relaxed(api_);
  const abi::Result result = on(stream, [&] { return api_.cuStreamSynchronize(stream.handle); });
  return result == abi::result::success ? WEIR_SUCCESS
                                        : failed(stream, result, "cuStreamSynchronize");
}

weir_result Streams::query(const Stream &stream) const noexcept {
  if (stream.shared.load(std::memory_order_relaxed)) WEIR_BACKEND_TRY(check(stream));
  const Relaxed relaxed(api_);
  const abi::Result result = on(stream, [&] { return api_.cuStreamQuery(stream.handle); });
  if (result == abi::result::success) return WEIR_SUCCESS;
  return result == abi::result::not_ready ? WEIR_NOT_READY
                                          : failed(stream, result, "cuStreamQuery");
}

weir_result Streams::call(const Stream &stream, weir_host_function function,
                          void *user) const noexcept {
  if (!stream.device->has(WEIR_CAP_HOST_CALL)) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED,
                  "the driver has no host calls, or they are off (host_call=0)");
  }
  if (function == nullptr) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "the host function is NULL");
  return enqueue(stream, "cuLaunchHostFunc",
                 [&] { return api_.cuLaunchHostFunc(stream.handle, function, user); });
}

weir_result Streams::record(const Stream &stream, weir_be_fence *fence) {
  if (stream.shared.load(std::memory_order_relaxed)) WEIR_BACKEND_TRY(check(stream));
  const auto make = [&](FenceEvent *made) -> weir_result {
    const Relaxed relaxed(api_);
    made->context = stream.context;
    const abi::Result result = in_context(api_, stream.context, [&] {
      return api_.cuEventCreate(&made->event, abi::event_disable_timing);
    });
    return result == abi::result::success ? WEIR_SUCCESS
                                          : failed(stream, result, "cuEventCreate", true);
  };
  weir_be_fence taken = 0;
  FenceEvent event;
  WEIR_BACKEND_TRY(fences_.take(
      stream.device->index(), make, [&](const FenceEvent &made) { destroy(made); }, &taken,
      &event));
  const abi::Result result =
      on(stream, [&] { return api_.cuEventRecord(event.event, stream.handle); });
  if (result != abi::result::success) {
    fences_.give(taken);
    return failed(stream, result, "cuEventRecord", true);
  }
  *fence = taken;
  return WEIR_SUCCESS;
}

void Streams::destroy(const FenceEvent &event) noexcept {
  end_quietly([&] {
    return in_any_context(api_, event.context, [&] { return api_.cuEventDestroy(event.event); });
  });
}

weir_result Streams::wait(const Stream &stream, weir_be_fence fence) const noexcept {
  const auto found = fences_.find(fence);
  if (!found.valid) return no_fence(fence);
  if (stream.shared.load(std::memory_order_relaxed)) WEIR_BACKEND_TRY(check(stream));
  const abi::Result result =
      on(stream, [&] { return api_.cuStreamWaitEvent(stream.handle, found.event.event, 0); });
  return result == abi::result::success ? WEIR_SUCCESS
                                        : failed(stream, result, "cuStreamWaitEvent", true);
}

weir_result Streams::ask(weir_be_fence fence, bool hurried) const noexcept {
  const auto found = fences_.find(fence);
  if (!found.valid) return no_fence(fence);
  const Relaxed relaxed(api_);
  const abi::Result result = in_any_context(api_, found.event.context,
                                            [&] { return api_.cuEventQuery(found.event.event); });
  if (result == abi::result::success) return WEIR_SUCCESS;
  if (result == abi::result::not_ready) return WEIR_NOT_READY;
  return failure(api_, Witness(found.event.context, hurried), result,
                 "cuEventQuery of a fence of device %u", found.device);
}

weir_result Streams::poll(weir_be_fence fence) const noexcept { return ask(fence, true); }

// cuEventSynchronize keeps a processor busy for as long as it waits, unless the event was made to block, which makes
// every record and query of it dearer; and it has no limit of time. Asking ever more seldom has neither fault. It is late by an
// eighth of the wait, or by two of the shortest sleeps that there are, whichever is more (common/patience.hpp).
weir_result Streams::wait_for(weir_be_fence fence, uint64_t timeout_ns) const {
  return common::poll_until(timeout_ns, [&] { return ask(fence, false); });
}

weir_result Streams::destroy_fence(weir_be_fence fence) noexcept {
  return fences_.give(fence) ? WEIR_SUCCESS : no_fence(fence);
}

void Streams::clear() noexcept {
  const Relaxed relaxed(api_);
  for (Stream &stream : records_) {
    if (!stream.live.load() || stream.wrapped) continue;
    (void)on(stream, [&] { return api_.cuStreamSynchronize(stream.handle); });
    end_quietly([&] { return on(stream, [&] { return api_.cuStreamDestroy(stream.handle); }); });
  }
  fences_.for_each([&](uint32_t, const FenceEvent &event) { destroy(event); });
}

}  // namespace weir::cuda
