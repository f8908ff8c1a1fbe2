// SPDX-License-Identifier: Apache-2.0
//
// Plain and host memory, streams, events and copies. A stream or an event belongs to the device that was current when
// it was made; the default streams are those of the current device. hipFree waits for the whole device.

#include "tests/drivers/hip/hip.hpp"
#include "tests/drivers/hip/ranges.hpp"

#include <shared_mutex>
#include <unordered_map>

namespace {

namespace abi = weir::hip::abi;
namespace cu = weir::cuda::abi;
using namespace weir::hip_over_cuda;

/// Which device each stream and event is of.
class Homes {
 public:
  void add(const void *object, int device) {
    const std::unique_lock lock(mutex_);
    homes_[object] = device;
  }
  void remove(const void *object) {
    const std::unique_lock lock(mutex_);
    homes_.erase(object);
  }
  /// -1 if it is none of ours.
  int find(const void *object) const {
    const std::shared_lock lock(mutex_);
    const auto found = homes_.find(object);
    return found != homes_.end() ? found->second : -1;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void *, int> homes_;
};

Homes &stream_homes() {
  static Homes one;
  return one;
}

Homes &event_homes() {
  static Homes one;
  return one;
}

int home_of(abi::Stream stream) {
  return reinterpret_cast<uintptr_t>(stream) <= abi::stream_per_thread
             ? current_device()
             : stream_homes().find(stream);
}

/// Runs `body` with the CUDA stream, in its device's context.
template <class Body>
abi::Error on(abi::Stream stream, Body body) {
  const int home = home_of(stream);
  if (home < 0) return abi::context_is_destroyed;
  const InContext context(home);
  return context.error() == abi::success ? body(reinterpret_cast<cu::Stream>(stream))
                                         : context.error();
}

template <class Body>
abi::Error on_event(abi::Event event, Body body) {
  const int home = event != nullptr ? event_homes().find(event) : -1;
  if (home < 0) return abi::invalid_handle;
  const InContext context(home);
  return context.error() == abi::success ? body(reinterpret_cast<cu::Event>(event))
                                         : context.error();
}

/// Runs `body` in the current device's context.
template <class Body>
abi::Error here(Body body) {
  const InContext context(current_device());
  return context.error() == abi::success ? body() : context.error();
}

bool copyable(const void *address, size_t bytes) {
  Ranges &all = ranges();
  const std::lock_guard lock(all.mutex);
  return all.copyable(reinterpret_cast<uintptr_t>(address), bytes);
}

cu::DevicePointer pointer(const void *address) { return reinterpret_cast<uintptr_t>(address); }

}  // namespace

abi::Error hipMalloc(void **memory, size_t bytes) {
  if (memory == nullptr) return abi::invalid_value;
  return here([&] {
    cu::DevicePointer found = 0;
    const abi::Error error = call(cuda().cuMemAlloc, &found, bytes);
    if (error == abi::success) *memory = reinterpret_cast<void *>(found);
    return error;
  });
}

abi::Error hipFree(void *memory) {
  if (memory == nullptr) return abi::success;
  return here([&] {
    const abi::Error error = call(cuda().cuCtxSynchronize);
    return error == abi::success ? call(cuda().cuMemFree, pointer(memory)) : error;
  });
}

abi::Error hipHostMalloc(void **memory, size_t bytes, unsigned flags) {
  constexpr unsigned known = abi::host_malloc_portable | abi::host_malloc_coherent;
  if (memory == nullptr || (flags & ~known) != 0) return abi::invalid_value;
  return here([&] {
    return call(cuda().cuMemHostAlloc, memory, bytes,
                cu::host_allocate_portable | cu::host_allocate_device_map);
  });
}

abi::Error hipHostFree(void *memory) {
  if (memory == nullptr) return abi::success;
  return here([&] { return call(cuda().cuMemFreeHost, memory); });
}

abi::Error hipHostRegister(void *memory, size_t bytes, unsigned flags) {
  if (memory == nullptr || bytes == 0 || (flags & ~abi::host_register_portable) != 0)
    return abi::invalid_value;
  return here([&] {
    return call(cuda().cuMemHostRegister, memory, bytes,
                cu::host_register_portable | cu::host_register_device_map);
  });
}

abi::Error hipHostUnregister(void *memory) {
  if (memory == nullptr) return abi::invalid_value;
  return here([&] { return call(cuda().cuMemHostUnregister, memory); });
}

abi::Error hipStreamCreateWithFlags(abi::Stream *stream, unsigned flags) {
  if (stream == nullptr || (flags & ~abi::stream_non_blocking) != 0) return abi::invalid_value;
  return here([&] {
    cu::Stream made = nullptr;
    const abi::Error error = call(cuda().cuStreamCreate, &made, flags);
    if (error != abi::success) return error;
    stream_homes().add(made, current_device());
    *stream = reinterpret_cast<abi::Stream>(made);
    return abi::success;
  });
}

abi::Error hipStreamDestroy(abi::Stream stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= abi::stream_per_thread) return abi::invalid_handle;
  return on(stream, [&](cu::Stream native) {
    // It waits for the work that is left, as AMD's does.
    abi::Error error = call(cuda().cuStreamSynchronize, native);
    if (error == abi::success) error = call(cuda().cuStreamDestroy, native);
    if (error == abi::success) stream_homes().remove(native);
    return error;
  });
}

abi::Error hipStreamSynchronize(abi::Stream stream) {
  return on(stream, [](cu::Stream native) { return call(cuda().cuStreamSynchronize, native); });
}

abi::Error hipStreamQuery(abi::Stream stream) {
  return on(stream, [](cu::Stream native) { return call(cuda().cuStreamQuery, native); });
}

abi::Error hipStreamGetDevice(abi::Stream stream, abi::Device *device) {
  if (device == nullptr) return abi::invalid_value;
  const int home = home_of(stream);
  if (home < 0) return abi::context_is_destroyed;
  *device = home;
  return abi::success;
}

abi::Error hipStreamIsCapturing(abi::Stream stream, abi::CaptureStatus *status) {
  if (status == nullptr) return abi::invalid_value;
  return on(stream,
            [&](cu::Stream native) { return call(cuda().cuStreamIsCapturing, native, status); });
}

abi::Error hipThreadExchangeStreamCaptureMode(abi::CaptureMode *mode) {
  if (mode == nullptr) return abi::invalid_value;
  return here([&] { return call(cuda().cuThreadExchangeStreamCaptureMode, mode); });
}

abi::Error hipStreamWaitEvent(abi::Stream stream, abi::Event event, unsigned flags) {
  if (flags != 0) return abi::invalid_value;
  if (event == nullptr || event_homes().find(event) < 0) return abi::invalid_handle;
  return on(stream, [&](cu::Stream native) {
    return call(cuda().cuStreamWaitEvent, native, reinterpret_cast<cu::Event>(event), 0U);
  });
}

abi::Error hipEventCreateWithFlags(abi::Event *event, unsigned flags) {
  constexpr unsigned known = abi::event_disable_timing | abi::event_release_to_system;
  if (event == nullptr || (flags & ~known) != 0) return abi::invalid_value;
  return here([&] {
    cu::Event made = nullptr;
    const bool timing = (flags & abi::event_disable_timing) == 0;
    const abi::Error error =
        call(cuda().cuEventCreate, &made, timing ? cu::event_default : cu::event_disable_timing);
    if (error != abi::success) return error;
    event_homes().add(made, current_device());
    *event = reinterpret_cast<abi::Event>(made);
    return abi::success;
  });
}

abi::Error hipEventRecord(abi::Event event, abi::Stream stream) {
  if (event == nullptr) return abi::invalid_handle;
  // AMD's runtime refuses an event of another device than the stream's.
  if (event_homes().find(event) != home_of(stream)) return abi::invalid_handle;
  return on(stream, [&](cu::Stream native) {
    return call(cuda().cuEventRecord, reinterpret_cast<cu::Event>(event), native);
  });
}

abi::Error hipEventQuery(abi::Event event) {
  return on_event(event, [](cu::Event native) { return call(cuda().cuEventQuery, native); });
}

abi::Error hipEventDestroy(abi::Event event) {
  return on_event(event, [](cu::Event native) {
    const abi::Error error = call(cuda().cuEventDestroy, native);
    if (error == abi::success) event_homes().remove(native);
    return error;
  });
}

abi::Error hipLaunchHostFunc(abi::Stream stream, abi::HostFunction function, void *user) {
  if (function == nullptr) return abi::invalid_value;
  return on(stream, [&](cu::Stream native) {
    return call(cuda().cuLaunchHostFunc, native, function, user);
  });
}

abi::Error hipMemcpyAsync(void *to, const void *from, size_t bytes, abi::CopyKind kind,
                          abi::Stream stream) {
  if (kind != abi::copy_default) return abi::invalid_value;
  if (bytes == 0) return abi::success;
  // A copy across the edge of a mapping or a reservation fails on AMD.
  if (!copyable(to, bytes) || !copyable(from, bytes)) return abi::invalid_value;
  return on(stream, [&](cu::Stream native) {
    return call(cuda().cuMemcpyAsync, pointer(to), pointer(from), bytes, native);
  });
}

abi::Error hipMemcpyBatchAsync(void **to, void **from, size_t *bytes, size_t count,
                               abi::CopyAttributes *attributes, size_t *attribute_indices,
                               size_t attribute_count, size_t *failed, abi::Stream stream) {
  if (to == nullptr || from == nullptr || bytes == nullptr || count == 0 || attributes != nullptr ||
      attribute_indices != nullptr || attribute_count != 0) {
    return abi::invalid_value;
  }
  for (size_t i = 0; i < count; ++i) {
    if (copyable(to[i], bytes[i]) && copyable(from[i], bytes[i])) continue;
    if (failed != nullptr) *failed = i;
    return abi::invalid_value;
  }
  for (size_t i = 0; i < count; ++i) {
    const abi::Error error = hipMemcpyAsync(to[i], from[i], bytes[i], abi::copy_default, stream);
    if (error == abi::success) continue;
    if (failed != nullptr) *failed = i;
    return error;
  }
  return abi::success;
}

abi::Error hipMemsetAsync(void *to, int value, size_t bytes, abi::Stream stream) {
  if (bytes == 0) return abi::success;
  if (!copyable(to, bytes)) return abi::invalid_value;
  return on(stream, [&](cu::Stream native) {
    return call(cuda().cuMemsetD8Async, pointer(to), static_cast<unsigned char>(value), bytes,
                native);
  });
}
