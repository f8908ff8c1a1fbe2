// SPDX-License-Identifier: Apache-2.0
//
// Commands on one queue. A command is certain to be on its way to the device only after a flush, without which neither
// another queue nor the host may count on it: what others wait for is flushed where it is enqueued.

#include "backends/opencl/errors.hpp"
#include "backends/opencl/streams.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weir::opencl {
namespace {

/// Drivers have been reported to go wrong from 4 GiB on.
constexpr uint64_t largest_command = uint64_t{2} << 30U;
/// The most that a query of a queue that is not ours alone waits for an answer, after several in a row that had none.
constexpr uint64_t most_patience_ns = 8'000'000;
/// The longest pattern that fills use. Its length must divide address and size.
constexpr uint64_t longest_pattern = 16;

void *pointer(uint64_t address) noexcept {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

}  // namespace

cl_command_queue Stream::expose() noexcept {
  const std::lock_guard hold(mutex_);
  shared_ = true;
  return queue_;
}

weir_result Stream::mark(Event *event) noexcept {
  const std::lock_guard hold(mutex_);
  return mark_held(event);
}

weir_result Stream::record(Event *event) noexcept {
  const std::lock_guard hold(mutex_);
  Event marked;
  WEIR_BACKEND_TRY(mark_held(&marked));
  if (!shared_) {
    const cl_int code = platform_.api().clRetainEvent(marked.handle());
    if (code != CL_SUCCESS) return platform_.call_failed(device_, code, "clRetainEvent");
    marker_ = Event(platform_, marked.handle());
    marker_at_ = enqueued_;
  }
  *event = std::move(marked);
  return WEIR_SUCCESS;
}

weir_result Stream::mark_held(Event *event) noexcept {
  if (platform_.lost(device_)) return platform_.refuse_lost(device_);
  cl_event made = nullptr;
  cl_int code = platform_.api().clEnqueueMarkerWithWaitList(queue_, 0, nullptr, &made);
  if (code != CL_SUCCESS)
    return platform_.call_failed(device_, code, "clEnqueueMarkerWithWaitList");
  Event marked(platform_, made);
  code = platform_.api().clFlush(queue_);
  if (code != CL_SUCCESS) return platform_.call_failed(device_, code, "clFlush");
  *event = std::move(marked);
  return WEIR_SUCCESS;
}

weir_result Stream::wait(cl_event awaited) noexcept {
  const std::lock_guard hold(mutex_);
  if (platform_.lost(device_)) return platform_.refuse_lost(device_);
  const cl_int code = platform_.api().clEnqueueBarrierWithWaitList(queue_, 1, &awaited, nullptr);
  if (code != CL_SUCCESS)
    return platform_.call_failed(device_, code, "clEnqueueBarrierWithWaitList");
  ++enqueued_;
  return WEIR_SUCCESS;
}

template <class Enqueue>
weir_result Stream::in_chunks(uint64_t bytes, const char *call, Enqueue enqueue) noexcept {
  const std::lock_guard hold(mutex_);
  if (platform_.lost(device_)) return platform_.refuse_lost(device_);
  for (uint64_t done = 0; done < bytes; done += largest_command) {
    const cl_int code = enqueue(done, std::min(bytes - done, largest_command));
    if (code != CL_SUCCESS) return platform_.call_failed(device_, code, call);
    ++enqueued_;
  }
  return WEIR_SUCCESS;
}

weir_result Stream::copy(uint64_t destination, uint64_t source, uint64_t bytes) noexcept {
  const Api &api = platform_.api();
  const auto enqueue = platform_.usm() ? api.clEnqueueMemcpyINTEL : api.clEnqueueSVMMemcpy;
  const char *call = platform_.usm() ? "clEnqueueMemcpyINTEL" : "clEnqueueSVMMemcpy";
  return in_chunks(bytes, call, [&](uint64_t offset, uint64_t size) {
    return enqueue(queue_, CL_FALSE, pointer(destination + offset), pointer(source + offset), size,
                   0, nullptr, nullptr);
  });
}

weir_result Stream::fill(uint64_t address, uint8_t value, uint64_t bytes) noexcept {
  const Api &api = platform_.api();
  const auto enqueue = platform_.usm() ? api.clEnqueueMemFillINTEL : api.clEnqueueSVMMemFill;
  const char *call = platform_.usm() ? "clEnqueueMemFillINTEL" : "clEnqueueSVMMemFill";
  // The runtime copies the pattern when the command is enqueued.
  unsigned char pattern[longest_pattern];
  std::memset(pattern, value, sizeof pattern);
  uint64_t length = longest_pattern;
  while (address % length != 0 || bytes % length != 0) length /= 2;
  return in_chunks(bytes, call, [&](uint64_t offset, uint64_t size) {
    return enqueue(queue_, pointer(address + offset), pattern, length, size, 0, nullptr, nullptr);
  });
}

weir_result Stream::host_call(weir_host_function function, void *user) {
  if (function == nullptr) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "the host function is NULL");
  const Api &api = platform_.api();
  HostCalls::Call call;
  call.function = function;
  call.user = user;
  cl_int code = CL_SUCCESS;
  call.over = Event(platform_, api.clCreateUserEvent(platform_.context(), &code));
  if (code != CL_SUCCESS || !call.over)
    return platform_.call_failed(device_, code != CL_SUCCESS ? code : CL_OUT_OF_HOST_MEMORY,
                                 "clCreateUserEvent");
  const std::lock_guard hold(mutex_);
  if (calls_ == nullptr) calls_ = std::make_unique<HostCalls>(platform_, device_);
  calls_->prepare();
  WEIR_BACKEND_TRY(mark_held(&call.reached));
  const cl_event over = call.over.handle();
  code = api.clEnqueueBarrierWithWaitList(queue_, 1, &over, nullptr);
  if (code != CL_SUCCESS)
    return platform_.call_failed(device_, code, "clEnqueueBarrierWithWaitList");
  ++enqueued_;
  // From here on the queue waits for the thread, so nothing may fail.
  calls_->push(std::move(call));
  twice([&] { return api.clFlush(queue_); });
  return WEIR_SUCCESS;
}

weir_result Stream::synchronize() noexcept {
  Event end;
  uint64_t covered = 0;
  {
    const std::lock_guard hold(mutex_);
    covered = enqueued_;
    WEIR_BACKEND_TRY(mark_held(&end));
  }
  WEIR_BACKEND_TRY(finish(platform_, device_, end.handle(), UINT64_MAX));
  const std::lock_guard hold(mutex_);
  finished_ = std::max(finished_, covered);
  return WEIR_SUCCESS;
}

weir_result Stream::query() noexcept {
  {
    const std::lock_guard hold(mutex_);
    if (!shared_) return query_known();
  }
  return query_shared();
}

/// With the lock. Where every command is ours, one marker after the last of them serves all queries, or the last fence: when
/// it has passed the stream's work has finished, and a marker of this moment would not have been passed yet.
weir_result Stream::query_known() noexcept {
  if (platform_.lost(device_)) return platform_.refuse_lost(device_);
  if (finished_ == enqueued_) return WEIR_SUCCESS;
  if (!marker_ || marker_at_ != enqueued_) {
    WEIR_BACKEND_TRY(mark_held(&marker_));
    marker_at_ = enqueued_;
  }
  const weir_result result = poll(platform_, device_, marker_.handle());
  if (result == WEIR_SUCCESS) finished_ = marker_at_;
  return result;
}

// What the program enqueued itself is not known here, so each query asks anew by a marker, which an idle queue passes in
// microseconds. Each query is given twice the time of the one before it that got no answer.
weir_result Stream::query_shared() noexcept {
  Event end;
  WEIR_BACKEND_TRY(mark(&end));
  const uint64_t patience = patience_ns_.load(std::memory_order_relaxed);
  const weir_result result = finish(platform_, device_, end.handle(), patience);
  const bool late = result == WEIR_ERROR_TIMEOUT;
  patience_ns_.store(late ? std::min(2 * patience, most_patience_ns) : least_patience_ns,
                     std::memory_order_relaxed);
  return late ? WEIR_NOT_READY : result;
}

}  // namespace weir::opencl
