// SPDX-License-Identifier: Apache-2.0
//
// The two pieces of a thread's CUDA state that an entry may need otherwise than it found them: the current
// context, and how strict the thread is while a graph is captured somewhere. Both are put back.
//
// Which calls need a current context at all: those whose documentation lists CUDA_ERROR_INVALID_CONTEXT, and those
// on a default stream, which is the current context's. A call on a stream or an event of one's own takes the context
// from its handle and wants only that some context is current, which on a thread that works with CUDA is so. Those
// calls are made as they are, and again with the context if they complain: a thread that has one pays nothing.
#pragma once

#include "backends/cuda/api.hpp"

namespace weir::cuda {

/// Makes a call that ends something where no caller can be told of a failure: while taking back, or at the very end. One
/// that failed is tried once more.
template <class Call>
void end_quietly(Call call) noexcept {
  if (call() != abi::result::success) (void)call();
}

/// Makes a context current for the scope, unless it is already.
class Current {
 public:
  Current(const Api &api, abi::Context context) noexcept : api_(api) {
    abi::Context current = nullptr;
    result_ = api_.cuCtxGetCurrent(&current);
    if (result_ != abi::result::success || current == context) return;
    result_ = api_.cuCtxPushCurrent(context);
    pushed_ = result_ == abi::result::success;
  }
  ~Current() {
    abi::Context popped = nullptr;
    if (pushed_) end_quietly([&] { return api_.cuCtxPopCurrent(&popped); });
  }
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;
  abi::Result result() const noexcept { return result_; }

 private:
  const Api &api_;
  abi::Result result_;
  bool pushed_ = false;
};

/// Lifts the ban on "potentially unsafe" calls for the scope: while any thread captures a graph in the global mode, a
/// call such as cuEventQuery or cuMemAlloc on another thread fails, and spoils that thread's capture. What Weir does
/// has no part in any graph, so that the ban, made for the application's own mistakes, must not meet it.
class Relaxed {
 public:
  explicit Relaxed(const Api &api) noexcept : api_(api) {
    swapped_ = api_.cuThreadExchangeStreamCaptureMode(&mode_) == abi::result::success;
  }
  ~Relaxed() {
    if (swapped_) end_quietly([&] { return api_.cuThreadExchangeStreamCaptureMode(&mode_); });
  }
  Relaxed(const Relaxed &) = delete;
  Relaxed &operator=(const Relaxed &) = delete;

 private:
  const Api &api_;
  int mode_ = abi::capture_mode_relaxed;
  bool swapped_;
};

/// Makes a call with the context current.
template <class Call>
abi::Result in_context(const Api &api, abi::Context context, Call call) noexcept {
  const Current current(api, context);
  return current.result() == abi::result::success ? call() : current.result();
}

/// Makes a call that needs no context by its documentation, or takes it from its handle; with the context if the
/// driver asks for one after all, or does not know the handle where another context is current.
template <class Call>
abi::Result in_any_context(const Api &api, abi::Context context, Call call) noexcept {
  const abi::Result result = call();
  const bool asks = result == abi::result::invalid_context || result == abi::result::invalid_handle;
  return asks ? in_context(api, context, call) : result;
}

}  // namespace weir::cuda
