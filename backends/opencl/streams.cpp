// SPDX-License-Identifier: Apache-2.0
//
// Making and ending streams. Whether a driver waits for the work of a queue whose last reference ends is not specified; so
// a queue of ours is parked with a marker behind its last command, and ended by a later call.

#include "backends/opencl/streams.hpp"

#include "backends/common/grow.hpp"
#include "backends/opencl/errors.hpp"
#include "backends/opencl/inquiry.hpp"

#include <utility>

namespace weir::opencl {
namespace {

weir_be_stream handle_of(uint64_t value) noexcept {
  return reinterpret_cast<weir_be_stream>(static_cast<uintptr_t>(value));
}
uint64_t value_of(weir_be_stream stream) noexcept { return reinterpret_cast<uintptr_t>(stream); }

}  // namespace

Streams::~Streams() {
  streams_.each([&](const std::shared_ptr<Stream> &stream) {
    if (stream->own() && stream->synchronize() != WEIR_SUCCESS) (void)stream->synchronize();
    stream->calls_.reset();
    release(stream->queue());
  });
  for (const Parked &parked : parked_) {
    if (parked.end) settle(platform_, parked.device, parked.end.handle());
    release(parked.queue);
  }
}

void Streams::release(cl_command_queue queue) const noexcept {
  twice([&] { return platform_.api().clReleaseCommandQueue(queue); });
}

weir_result Streams::add(uint32_t device, cl_command_queue queue, bool own,
                         weir_be_stream *stream) {
  const std::lock_guard hold(mutex_);
  const auto made = std::make_shared<Stream>(platform_, ++ids_, device, queue, own);
  *stream = handle_of(streams_.add(made));
  return WEIR_SUCCESS;
}

weir_result Streams::create(uint32_t device, uint64_t flags, weir_be_stream *stream) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  if (flags != 0) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "stream flags %#llx", number(flags));
  if (platform_.lost(device)) return platform_.refuse_lost(device);
  end_finished();
  cl_int code = CL_SUCCESS;
  const cl_command_queue queue = platform_.api().clCreateCommandQueueWithProperties(
      platform_.context(), platform_.devices()[device].handle, nullptr, &code);
  if (code != CL_SUCCESS || queue == nullptr)
    return platform_.call_failed(device, code != CL_SUCCESS ? code : CL_OUT_OF_HOST_MEMORY,
                                 "clCreateCommandQueueWithProperties");
  try {
    return add(device, queue, true, stream);
  } catch (...) {
    release(queue);
    throw;
  }
}

weir_result Streams::check_wrapped(uint32_t device, cl_command_queue queue) const {
  const auto get = platform_.api().clGetCommandQueueInfo;
  cl_context context = nullptr;
  cl_device_id of = nullptr;
  cl_command_queue_properties properties = 0;
  if (!ask(get, queue, CL_QUEUE_CONTEXT, &context) || !ask(get, queue, CL_QUEUE_DEVICE, &of) ||
      !ask(get, queue, CL_QUEUE_PROPERTIES, &properties)) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%p is no command queue",
                  static_cast<void *>(queue));
  }
  if (context != platform_.context()) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "the queue is of the cl_context %p; Weir's is %p (option context)",
                  static_cast<void *>(context), static_cast<void *>(platform_.context()));
  }
  if (of != platform_.devices()[device].handle)
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "the queue is of another device than device %u",
                  device);
  if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0)
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "the queue is out of order (CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)");
  return WEIR_SUCCESS;
}

weir_result Streams::wrap(uint32_t device, void *native, weir_be_stream *stream) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  if (native == nullptr) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "the command queue is NULL: OpenCL has no default queue");
  }
  const auto queue = static_cast<cl_command_queue>(native);
  WEIR_BACKEND_TRY(check_wrapped(device, queue));
  const cl_int code = platform_.api().clRetainCommandQueue(queue);
  // It may have ended since it was looked at: that is the caller's fault, and no sign of the device's end.
  if (code == CL_INVALID_COMMAND_QUEUE)
    return runtime_refusal(WEIR_ERROR_INVALID_ARGUMENT, code, "clRetainCommandQueue");
  if (code != CL_SUCCESS) return platform_.call_failed(device, code, "clRetainCommandQueue");
  try {
    return add(device, queue, false, stream);
  } catch (...) {
    release(queue);
    throw;
  }
}

weir_result Streams::find(weir_be_stream stream, std::shared_ptr<Stream> *found) {
  {
    const std::shared_lock hold(mutex_);
    const auto *entry = streams_.find(value_of(stream));
    if (entry != nullptr) *found = *entry;
  }
  if (*found != nullptr) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%p is no open stream", static_cast<void *>(stream));
}

weir_result Streams::destroy(weir_be_stream stream) {
  {
    const std::lock_guard hold(mutex_);
    const auto *entry = streams_.find(value_of(stream));
    if (entry == nullptr) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%p is no open stream",
                    static_cast<void *>(stream));
    }
    const std::shared_ptr<Stream> ending = *entry;
    common::grow_to(retired_, retired_.size() + 1);
    if (ending->own()) {
      WEIR_BACKEND_TRY(park(*ending));
    } else {
      release(ending->queue());
    }
    retire(*ending);
    (void)streams_.remove(value_of(stream));
  }
  end_finished();
  return WEIR_SUCCESS;
}

weir_result Streams::park(Stream &stream) {
  common::grow_to(parked_, parked_.size() + 1);
  Parked parked;
  parked.queue = stream.queue();
  parked.device = stream.device();
  const weir_result marked = stream.mark(&parked.end);
  // On a lost device nothing runs any more.
  if (marked != WEIR_SUCCESS && marked != WEIR_ERROR_DEVICE_LOST) return marked;
  parked_.push_back(std::move(parked));
  return WEIR_SUCCESS;
}

void Streams::retire(Stream &stream) noexcept {
  if (stream.calls_ == nullptr) return;
  stream.calls_->close();
  retired_.push_back(std::move(stream.calls_));
}

void Streams::end_finished() noexcept {
  const std::lock_guard hold(mutex_);
  std::erase_if(retired_, [](const auto &calls) { return calls->left(); });
  std::erase_if(parked_, [&](const Parked &parked) {
    if (parked.end) {
      const weir_result result = poll(platform_, parked.device, parked.end.handle());
      if (result != WEIR_SUCCESS && result != WEIR_ERROR_DEVICE_LOST) return false;
    }
    release(parked.queue);
    return true;
  });
}

}  // namespace weir::opencl
