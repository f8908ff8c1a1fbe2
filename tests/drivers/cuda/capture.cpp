// SPDX-License-Identifier: Apache-2.0
//
// Stream capture, as far as a library that minds others' captures meets it: what is captured does not run, what may
// not be done while somebody captures is refused and spoils the capture, and a graph comes out that can be destroyed.

#include "tests/drivers/cuda/driver.hpp"

#include <algorithm>

namespace weir::sim_cuda {
namespace {

Result spoil(Capture &capture, Result code) {
  capture.valid = false;
  return code;
}

}  // namespace

bool Driver::blocking_capture(const ContextObject &context) const {
  return std::any_of(captures_.begin(), captures_.end(), [&](const auto &capture) {
    return std::any_of(capture->streams.begin(), capture->streams.end(), [&](const auto *stream) {
      return stream->context == &context && !stream->non_blocking;
    });
  });
}

Result Driver::capturing(StreamObject &stream, bool *captured) {
  *captured = false;
  if (capture_count_ == 0) return result::success;
  const std::lock_guard hold(capture_mutex_);
  *captured = stream.capture != nullptr;
  if (stream.capture != nullptr) {
    if (!stream.capture->valid) return result::stream_capture_invalidated;
    if (&stream != stream.capture->origin) stream.capture->unjoined.insert(&stream);
    return result::success;
  }
  if (!stream.is_legacy || !blocking_capture(*stream.context)) return result::success;
  // Work in the legacy stream would have to wait for what is captured, and cannot.
  for (const auto &capture : captures_) {
    for (const StreamObject *each : capture->streams) {
      if (each->context == stream.context && !each->non_blocking) capture->valid = false;
    }
  }
  return result::stream_capture_implicit;
}

Result Driver::refuse_capture(StreamObject &stream) {
  if (capture_count_ == 0) return result::success;
  const std::lock_guard hold(capture_mutex_);
  if (stream.capture != nullptr) {
    return spoil(*stream.capture, stream.capture->valid ? result::stream_capture_unsupported
                                                        : result::stream_capture_invalidated);
  }
  if (stream.is_legacy && blocking_capture(*stream.context)) {
    for (const auto &capture : captures_) capture->valid = false;
    return result::stream_capture_implicit;
  }
  return result::success;
}

Result Driver::unsafe() {
  if (capture_count_ == 0) return result::success;
  const int mode = this_thread(*this).capture_mode;
  if (mode == abi::capture_mode_relaxed) return result::success;
  const std::lock_guard hold(capture_mutex_);
  Result code = result::success;
  for (const auto &capture : captures_) {
    const bool own =
        capture->thread == std::this_thread::get_id() && capture->mode != abi::capture_mode_relaxed;
    const bool everybodys =
        mode == abi::capture_mode_global && capture->mode == abi::capture_mode_global;
    if (own || everybodys) code = spoil(*capture, result::stream_capture_unsupported);
  }
  return code;
}

Result Driver::begin_capture(const StreamPointer &stream, int mode) {
  const std::lock_guard hold(capture_mutex_);
  if (mode < abi::capture_mode_global || mode > abi::capture_mode_relaxed) {
    return WEIR_SIM_MISUSE(*this, result::invalid_value, "capture mode %d", mode);
  }
  if (stream->is_legacy) return result::stream_capture_unsupported;
  if (stream->capture != nullptr) return result::illegal_state;
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_capture_;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream.get();
  capture->streams.insert(stream.get());
  captures_.insert(capture);
  ++capture_count_;
  stream->capture = std::move(capture);
  return result::success;
}

Result Driver::end_capture(StreamObject &stream, abi::Graph *graph) {
  const std::lock_guard hold(capture_mutex_);
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return result::illegal_state;
  if (capture->origin != &stream) return spoil(*capture, result::stream_capture_unmatched);
  if (capture->mode != abi::capture_mode_relaxed && capture->thread != std::this_thread::get_id()) {
    return result::stream_capture_wrong_thread;
  }
  for (StreamObject *each : capture->streams) each->capture.reset();
  capture_count_ -= captures_.erase(capture);
  *graph = nullptr;
  if (!capture->valid) return result::stream_capture_invalidated;
  if (!capture->unjoined.empty()) return result::stream_capture_unjoined;
  auto made = std::make_shared<GraphObject>();
  *graph = made.get();
  graphs.add(std::move(made));
  return result::success;
}

Result Driver::capture_status(StreamObject &stream, int *status, uint64_t *id) {
  const std::lock_guard hold(capture_mutex_);
  if (stream.is_legacy && blocking_capture(*stream.context)) return result::stream_capture_implicit;
  const Capture *capture = stream.capture.get();
  *status = capture == nullptr ? abi::capture_none
            : capture->valid   ? abi::capture_active
                               : abi::capture_invalidated;
  if (capture != nullptr && id != nullptr) *id = capture->id;
  return result::success;
}

Result Driver::wait_captured(StreamObject &stream, const Recorded &recorded, bool *captured) {
  const std::lock_guard hold(capture_mutex_);
  *captured = true;
  if (recorded.capture == nullptr && stream.capture == nullptr) {
    *captured = false;
    return result::success;
  }
  // What is captured cannot wait for what runs.
  if (recorded.capture == nullptr) return spoil(*stream.capture, result::stream_capture_isolation);
  if (!recorded.capture->valid) return result::stream_capture_invalidated;
  if (captures_.count(recorded.capture) == 0) return result::captured_event;
  if (stream.is_legacy) return spoil(*recorded.capture, result::stream_capture_implicit);
  if (stream.capture == nullptr) {
    stream.capture = recorded.capture;
    recorded.capture->streams.insert(&stream);
    recorded.capture->unjoined.insert(&stream);
  } else if (stream.capture != recorded.capture) {
    spoil(*recorded.capture, result::stream_capture_merge);
    return spoil(*stream.capture, result::stream_capture_merge);
  }
  recorded.capture->unjoined.erase(recorded.captured_from);
  return result::success;
}

void Driver::forget_captures(StreamObject &stream) {
  const std::lock_guard hold(capture_mutex_);
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return;
  capture->valid = false;
  capture->streams.erase(&stream);
  capture->unjoined.erase(&stream);
  stream.capture.reset();
  if (capture->origin == &stream) {
    for (StreamObject *each : capture->streams) each->capture.reset();
    capture_count_ -= captures_.erase(capture);
  }
}

}  // namespace weir::sim_cuda
