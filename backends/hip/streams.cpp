// SPDX-License-Identifier: Apache-2.0
//
// Wrappers around native streams, their fences and their copies.

#include "backends/hip/streams.hpp"

#include "backends/common/patience.hpp"
#include "backends/common/undo.hpp"

#include <vector>

namespace weir::hip {
namespace {

using Number = unsigned long long;

/// hipStreamLegacy is a value only since this version.
constexpr int legacy_value_since = 70'000'000;

void *pointer(uint64_t address) noexcept {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

weir_result missing(const char *what) noexcept {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s is NULL", what);
}

weir_result no_fence(weir_be_fence fence) noexcept {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%#llx is no fence", static_cast<Number>(fence));
}

weir_result check_copy(const weir_be_copy &copy) noexcept {
  if (copy.source == 0 || copy.destination == 0) {
    return missing(copy.source == 0 ? "a copy's source" : "a copy's destination");
  }
  const uint64_t low = copy.source < copy.destination ? copy.source : copy.destination;
  const uint64_t high = copy.source < copy.destination ? copy.destination : copy.source;
  if (high - low >= copy.bytes) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                "the %llu bytes at %#llx and %#llx are partly the same memory",
                static_cast<Number>(copy.bytes), static_cast<Number>(copy.destination),
                static_cast<Number>(copy.source));
}

}  // namespace

template <class Body>
weir_result Streams::on(weir_be_stream handle, Body body) const {
  if (handle == nullptr) return missing("the stream");
  const Stream &stream = *reinterpret_cast<const Stream *>(handle);
  if (!stream.of_current) return body(stream);
  if (stream.of_thread && stream.thread != std::this_thread::get_id()) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "the per-thread default stream was wrapped by another thread");
  }
  const OnDevice current(runtime_, stream.device);
  WEIR_BACKEND_TRY(current.result());
  return body(stream);
}

template <class Body>
weir_result Streams::unless_recording(weir_be_stream handle, Body body) const {
  return on(handle, [&](const Stream &stream) -> weir_result {
    WEIR_BACKEND_TRY(check_recording(stream));
    return body(stream);
  });
}

weir_result Streams::check_recording(const Stream &stream) const noexcept {
  if (!stream.shared.load(std::memory_order_relaxed)) return WEIR_SUCCESS;
  abi::CaptureStatus status = abi::capture_none;
  const abi::Error error = runtime_.call().hipStreamIsCapturing(stream.native, &status);
  if (error == abi::success && status == abi::capture_none) return WEIR_SUCCESS;
  if (error != abi::success) return checked(error, "hipStreamIsCapturing");
  return refuse(WEIR_ERROR_STREAM_CAPTURING, "stream %p is recording a graph",
                static_cast<void *>(stream.native));
}

// ---- streams

weir_result Streams::add(std::unique_ptr<Stream> stream, weir_be_stream *handle) {
  Stream *made = stream.get();
  const std::lock_guard lock(mutex_);
  reap();
  streams_.emplace(made, std::move(stream));
  *handle = reinterpret_cast<weir_be_stream>(made);
  return WEIR_SUCCESS;
}

weir_result Streams::create(uint32_t device, uint64_t flags, weir_be_stream *stream) {
  WEIR_BACKEND_TRY(devices_.check(device));
  if ((flags & ~WEIR_BE_STREAM_TRANSFER) != 0) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "stream flags %#llx", static_cast<Number>(flags));
  }
  auto made = std::make_unique<Stream>();
  const OnDevice current(runtime_, device);
  WEIR_BACKEND_TRY(current.result());
  abi::Stream native = nullptr;
  WEIR_HIP_TRY(runtime_.call().hipStreamCreateWithFlags(&native, abi::stream_non_blocking),
               "hipStreamCreateWithFlags");
  common::Undo undo([&] { end_quietly([&] { return runtime_.call().hipStreamDestroy(native); }); });
  made->native = native;
  made->device = device;
  made->owned = true;
  WEIR_BACKEND_TRY(add(std::move(made), stream));
  undo.dismiss();
  return WEIR_SUCCESS;
}

weir_result Streams::wrap(uint32_t device, void *native, weir_be_stream *stream) {
  WEIR_BACKEND_TRY(devices_.check(device));
  auto made = std::make_unique<Stream>();
  made->native = reinterpret_cast<abi::Stream>(native);
  made->device = device;
  made->shared = true;
  const uintptr_t value = reinterpret_cast<uintptr_t>(native);
  if (value == 0 || (value == abi::stream_legacy && runtime_.version() >= legacy_value_since)) {
    made->of_current = true;
  } else if (value == abi::stream_per_thread) {
    made->of_current = made->of_thread = true;
    made->thread = std::this_thread::get_id();
  } else if (value < abi::stream_per_thread) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%p is no stream of HIP runtime %s", native,
                  runtime_.version_text().c_str());
  } else {
    abi::Device home = -1;
    WEIR_BACKEND_TRY(checked_argument(runtime_.call().hipStreamGetDevice(made->native, &home),
                                      "hipStreamGetDevice"));
    if (home != static_cast<int>(device)) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "stream %p is of device %d, not %u", native, home,
                    device);
    }
  }
  return add(std::move(made), stream);
}

/// Ends natively what was ended with work left and has none now. What can't be ended stays for the next time.
void Streams::reap() noexcept {
  if (ended_ == 0) return;
  const Relaxed relaxed(runtime_);
  for (auto each = streams_.begin(); each != streams_.end();) {
    const Stream &stream = *each->second;
    const bool gone = stream.ended &&
                      runtime_.call().hipStreamQuery(stream.native) != abi::not_ready &&
                      runtime_.call().hipStreamDestroy(stream.native) == abi::success;
    if (gone) --ended_;
    each = gone ? streams_.erase(each) : std::next(each);
  }
}

weir_result Streams::destroy(weir_be_stream stream) {
  if (stream == nullptr) return missing("the stream");
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second->ended) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%p is no stream of this backend",
                  static_cast<void *>(stream));
  }
  if (found->second->owned) {
    found->second->ended = true;
    ++ended_;
  } else {
    streams_.erase(found);
  }
  reap();
  return WEIR_SUCCESS;
}

weir_result Streams::native(weir_be_stream stream, void **native) noexcept {
  if (stream == nullptr) return missing("the stream");
  Stream &found = *reinterpret_cast<Stream *>(stream);
  found.shared.store(true, std::memory_order_relaxed);
  *native = found.native;
  return WEIR_SUCCESS;
}

weir_result Streams::check(weir_be_stream stream) const noexcept {
  return on(stream, [&](const Stream &each) { return check_recording(each); });
}

weir_result Streams::synchronize(weir_be_stream stream) const noexcept {
  return unless_recording(stream, [&](const Stream &each) {
    const Relaxed relaxed(runtime_);
    return checked(runtime_.call().hipStreamSynchronize(each.native), "hipStreamSynchronize");
  });
}

weir_result Streams::query(weir_be_stream stream) const noexcept {
  return unless_recording(stream, [&](const Stream &each) {
    const Relaxed relaxed(runtime_);
    return checked(runtime_.call().hipStreamQuery(each.native), "hipStreamQuery");
  });
}

weir_result Streams::host_call(weir_be_stream stream, weir_host_function function,
                               void *user) const noexcept {
  return unless_recording(stream, [&](const Stream &each) -> weir_result {
    if (!devices_.can(each.device, WEIR_CAP_HOST_CALL)) {
      return refuse(WEIR_ERROR_NOT_SUPPORTED,
                    "host calls are off, or the runtime has no hipLaunchHostFunc");
    }
    if (function == nullptr) return missing("the host function");
    return checked(runtime_.call().hipLaunchHostFunc(each.native, function, user),
                   "hipLaunchHostFunc");
  });
}

// ---- fences

weir_result Streams::record(weir_be_stream stream, weir_be_fence *fence) {
  return unless_recording(stream, [&](const Stream &each) -> weir_result {
    const Functions &call = runtime_.call();
    const auto make = [&](abi::Event *made) -> weir_result {
      const OnDevice current(runtime_, each.device);
      WEIR_BACKEND_TRY(current.result());
      return checked(call.hipEventCreateWithFlags(
                         made, abi::event_disable_timing | abi::event_release_to_system),
                     "hipEventCreateWithFlags");
    };
    const auto unmake = [&](abi::Event made) {
      end_quietly([&] { return call.hipEventDestroy(made); });
    };
    abi::Event event = nullptr;
    weir_be_fence taken = 0;
    WEIR_BACKEND_TRY(fences_.take(each.device, make, unmake, &taken, &event));
    if (const abi::Error error = call.hipEventRecord(event, each.native); error != abi::success) {
      fences_.give(taken);
      return checked(error, "hipEventRecord");
    }
    *fence = taken;
    return WEIR_SUCCESS;
  });
}

weir_result Streams::wait(weir_be_stream stream, weir_be_fence fence) const noexcept {
  return unless_recording(stream, [&](const Stream &each) -> weir_result {
    const auto found = fences_.find(fence);
    if (!found.valid) return no_fence(fence);
    return checked(runtime_.call().hipStreamWaitEvent(each.native, found.event, 0),
                   "hipStreamWaitEvent");
  });
}

weir_result Streams::poll(weir_be_fence fence) const noexcept {
  const auto found = fences_.find(fence);
  if (!found.valid) return no_fence(fence);
  const Relaxed relaxed(runtime_);
  return checked(runtime_.call().hipEventQuery(found.event), "hipEventQuery");
}

weir_result Streams::wait(weir_be_fence fence, uint64_t timeout_ns) const noexcept {
  const auto found = fences_.find(fence);
  if (!found.valid) return no_fence(fence);
  const Relaxed relaxed(runtime_);
  return common::poll_until(timeout_ns, [&] {
    return checked(runtime_.call().hipEventQuery(found.event), "hipEventQuery");
  });
}

weir_result Streams::destroy(weir_be_fence fence) noexcept {
  return fences_.give(fence) ? WEIR_SUCCESS : no_fence(fence);
}

// ---- copies

weir_result Streams::copy_one(const Stream &stream, const weir_be_copy &copy) const noexcept {
  return checked_argument(
      runtime_.call().hipMemcpyAsync(pointer(copy.destination), pointer(copy.source), copy.bytes,
                                     abi::copy_default, stream.native),
      "hipMemcpyAsync");
}

weir_result Streams::copy(weir_be_stream stream, const weir_be_copy *copy) const noexcept {
  return unless_recording(stream, [&](const Stream &each) -> weir_result {
    if (copy == nullptr) return missing("the copy");
    if (copy->bytes == 0) return WEIR_SUCCESS;
    WEIR_BACKEND_TRY(check_copy(*copy));
    return copy_one(each, *copy);
  });
}

/// All or none under way: where one is refused, those before it are waited for.
weir_result Streams::copy_one_by_one(const Stream &stream, const weir_be_copy *copies,
                                     uint32_t count) const noexcept {
  for (uint32_t i = 0; i < count; ++i) {
    if (copies[i].bytes == 0) continue;
    const weir_result result = copy_one(stream, copies[i]);
    if (result == WEIR_SUCCESS) continue;
    const Relaxed relaxed(runtime_);
    (void)runtime_.call().hipStreamSynchronize(stream.native);
    return result;
  }
  return WEIR_SUCCESS;
}

// The runtime says which copy of a batch it refused, not that it did none before it. So a batch that fails is done again copy
// by copy, which is harmless: copies of a batch touch nothing of each other's, bring the same bytes twice, and the
// stream orders the second time after the first.
weir_result Streams::copy_batch(weir_be_stream stream, const weir_be_copy *copies,
                                uint32_t count) const {
  return unless_recording(stream, [&](const Stream &each) -> weir_result {
    if (!devices_.can(each.device, WEIR_CAP_BATCH_COPY)) {
      return refuse(WEIR_ERROR_NOT_SUPPORTED,
                    "batches are off, or the runtime has no hipMemcpyBatchAsync");
    }
    if (count == 0) return WEIR_SUCCESS;
    if (copies == nullptr) return missing("the copies");
    std::vector<void *> to, from;
    std::vector<size_t> bytes;
    to.reserve(count);
    from.reserve(count);
    bytes.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
      if (copies[i].bytes == 0) continue;
      WEIR_BACKEND_TRY(check_copy(copies[i]));
      to.push_back(pointer(copies[i].destination));
      from.push_back(pointer(copies[i].source));
      bytes.push_back(copies[i].bytes);
    }
    if (to.empty()) return WEIR_SUCCESS;
    size_t failed = 0;
    const weir_result result = checked_argument(
        runtime_.call().hipMemcpyBatchAsync(to.data(), from.data(), bytes.data(), to.size(),
                                            nullptr, nullptr, 0, &failed, each.native),
        "hipMemcpyBatchAsync");
    if (result == WEIR_SUCCESS || result == WEIR_ERROR_DEVICE_LOST ||
        result == WEIR_ERROR_STREAM_CAPTURING) {
      return result;
    }
    return copy_one_by_one(each, copies, count);
  });
}

weir_result Streams::fill(weir_be_stream stream, uint64_t address, uint8_t value,
                          uint64_t bytes) const noexcept {
  return unless_recording(stream, [&](const Stream &each) -> weir_result {
    if (bytes == 0) return WEIR_SUCCESS;
    return checked_argument(
        runtime_.call().hipMemsetAsync(pointer(address), value, bytes, each.native),
        "hipMemsetAsync");
  });
}

void Streams::clear() noexcept {
  const std::lock_guard lock(mutex_);
  const Relaxed relaxed(runtime_);
  const Functions &call = runtime_.call();
  for (const auto &known : streams_) {
    const auto &stream = known.second;
    if (!stream->owned) continue;
    end_quietly([&] { return call.hipStreamSynchronize(stream->native); });
    end_quietly([&] { return call.hipStreamDestroy(stream->native); });
  }
  streams_.clear();
  ended_ = 0;
  fences_.for_each([&](uint32_t, abi::Event event) {
    end_quietly([&] { return call.hipEventDestroy(event); });
  });
}

}  // namespace weir::hip
