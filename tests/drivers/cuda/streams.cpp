// SPDX-License-Identifier: Apache-2.0
//
// Streams, host functions, and the calls about capture.

#include "tests/drivers/cuda/driver.hpp"

using namespace weir::sim_cuda;
namespace sim = weir::sim;

namespace {

/// A host function may not call the driver; the thread remembers that it is in one. One that does not return keeps those of other
/// streams from running, as cuda.h allows ("may be serialized") and drivers do.
class HostFunction final : public sim::Task {
 public:
  HostFunction(Driver &driver, abi::HostFunction function, void *user) noexcept
      : driver_(driver), function_(function), user_(user) {}
  /// Not called in a context that is in trouble, as documented.
  void run(sim::Stream &stream, bool healthy) noexcept override {
    if (!healthy) return;
    std::unique_lock turn(driver_.host_calls[stream.device()], std::defer_lock);
    if (driver_.machine.options().serial_host_calls) turn.lock();
    this_thread(driver_).in_host_function = true;
    function_(user_);
    this_thread(driver_).in_host_function = false;
  }

 private:
  Driver &driver_;
  abi::HostFunction function_;
  void *user_;
};

Result create(const char *name, abi::Stream *stream, unsigned flags) noexcept {
  return in_context(name, [&](Driver &driver, ContextObject &context) -> Result {
    if (stream == nullptr || (flags & ~abi::stream_non_blocking) != 0) {
      return WEIR_SIM_MISUSE(driver, result::invalid_value, "a stream with flags %#x", flags);
    }
    StreamPointer made;
    const bool non_blocking = (flags & abi::stream_non_blocking) != 0;
    WEIR_SIM_TRY(driver.make_stream(context, non_blocking, true, &made));
    driver.streams.add(made);
    if (!non_blocking) {
      const std::lock_guard hold(context.mutex);
      context.blocking.insert(made.get());
    }
    *stream = made.get();
    return result::success;
  });
}

template <class Body>
Result on_stream(const char *name, abi::Stream handle, Body body) noexcept {
  return initialized(name, [&](Driver &driver) -> Result {
    StreamPointer stream;
    WEIR_SIM_TRY(driver.stream_of(handle, &stream));
    return body(driver, stream);
  });
}

}  // namespace

Result cuStreamCreate(abi::Stream *stream, unsigned flags) {
  return create("cuStreamCreate", stream, flags);
}

Result cuStreamCreateWithPriority(abi::Stream *stream, unsigned flags, int) {
  return create("cuStreamCreateWithPriority", stream, flags);
}

/// Returns at once; what is enqueued goes on.
Result cuStreamDestroy_v2(abi::Stream handle) {
  return initialized("cuStreamDestroy", [&](Driver &driver) -> Result {
    const StreamPointer stream = driver.streams.remove(handle);
    if (stream == nullptr) {
      return WEIR_SIM_MISUSE(driver, result::invalid_handle, "destroying %p, which is no stream",
                             static_cast<const void *>(handle));
    }
    driver.forget_captures(*stream);
    {
      const std::lock_guard hold(stream->context->mutex);
      stream->context->blocking.erase(stream.get());
    }
    return driver.health(*stream->context);
  });
}

Result cuStreamQuery(abi::Stream handle) {
  return on_stream("cuStreamQuery", handle, [](Driver &driver, StreamPointer &stream) -> Result {
    WEIR_SIM_TRY(driver.refuse_capture(*stream));
    if (stream->is_legacy) driver.order(*stream);
    if (!driver.machine.passed(stream->queue->record())) return result::not_ready;
    return driver.health(*stream->context);
  });
}

Result cuStreamSynchronize(abi::Stream handle) {
  return on_stream(
      "cuStreamSynchronize", handle, [](Driver &driver, StreamPointer &stream) -> Result {
        WEIR_SIM_TRY(driver.refuse_capture(*stream));
        if (stream->is_legacy) driver.order(*stream);
        return driver.code_on(stream->context->device,
                              driver.machine.wait(stream->queue->record(), UINT64_MAX));
      });
}

Result cuStreamGetFlags(abi::Stream handle, unsigned *flags) {
  return on_stream("cuStreamGetFlags", handle, [&](Driver &, StreamPointer &stream) -> Result {
    if (flags == nullptr) return result::invalid_value;
    *flags = stream->non_blocking ? abi::stream_non_blocking : abi::stream_default;
    return result::success;
  });
}

Result cuStreamGetCtx(abi::Stream handle, abi::Context *context) {
  return on_stream("cuStreamGetCtx", handle, [&](Driver &, StreamPointer &stream) -> Result {
    if (context == nullptr) return result::invalid_value;
    *context = stream->context;
    return result::success;
  });
}

Result cuStreamGetDevice(abi::Stream handle, abi::Device *device) {
  return on_stream("cuStreamGetDevice", handle, [&](Driver &, StreamPointer &stream) -> Result {
    if (device == nullptr) return result::invalid_value;
    *device = stream->context->device;
    return result::success;
  });
}

Result cuLaunchHostFunc(abi::Stream handle, abi::HostFunction function, void *user) {
  return on_stream("cuLaunchHostFunc", handle,
                   [&](Driver &driver, StreamPointer &stream) -> Result {
                     if (!driver.machine.options().host_call) return result::not_supported;
                     if (function == nullptr) return result::invalid_value;
                     bool captured = false;
                     WEIR_SIM_TRY(driver.capturing(*stream, &captured));
                     if (captured) return result::success;
                     driver.order(*stream);
                     stream->queue->task(std::make_unique<HostFunction>(driver, function, user));
                     return result::success;
                   });
}

Result cuStreamIsCapturing(abi::Stream handle, int *status) {
  return on_stream("cuStreamIsCapturing", handle,
                   [&](Driver &driver, StreamPointer &stream) -> Result {
                     if (status == nullptr) return result::invalid_value;
                     return driver.capture_status(*stream, status, nullptr);
                   });
}

Result cuStreamGetCaptureInfo(abi::Stream handle, int *status, uint64_t *id) {
  return on_stream("cuStreamGetCaptureInfo", handle,
                   [&](Driver &driver, StreamPointer &stream) -> Result {
                     if (status == nullptr) return result::invalid_value;
                     return driver.capture_status(*stream, status, id);
                   });
}

Result cuStreamBeginCapture_v2(abi::Stream handle, int mode) {
  return on_stream("cuStreamBeginCapture", handle, [&](Driver &driver, StreamPointer &stream) {
    return driver.begin_capture(stream, mode);
  });
}

Result cuStreamEndCapture(abi::Stream handle, abi::Graph *graph) {
  return on_stream("cuStreamEndCapture", handle,
                   [&](Driver &driver, StreamPointer &stream) -> Result {
                     if (graph == nullptr) return result::invalid_value;
                     return driver.end_capture(*stream, graph);
                   });
}

Result cuThreadExchangeStreamCaptureMode(int *mode) {
  return initialized("cuThreadExchangeStreamCaptureMode", [&](Driver &driver) -> Result {
    if (mode == nullptr || *mode < abi::capture_mode_global || *mode > abi::capture_mode_relaxed) {
      return WEIR_SIM_MISUSE(driver, result::invalid_value, "a capture mode that is none");
    }
    std::swap(*mode, this_thread(driver).capture_mode);
    return result::success;
  });
}

Result cuGraphDestroy(abi::Graph graph) {
  return initialized("cuGraphDestroy", [&](Driver &driver) -> Result {
    if (driver.graphs.remove(graph) != nullptr) return result::success;
    return WEIR_SIM_MISUSE(driver, result::invalid_value, "destroying a graph that is none");
  });
}
