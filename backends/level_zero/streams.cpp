// SPDX-License-Identifier: Apache-2.0
//
// Making and ending streams. A list must not be ended while the device works on it; rather than wait, the list
// is parked with an event that is signalled after its last command, and ended by a later call.

#include "backends/level_zero/streams.hpp"

#include "backends/common/grow.hpp"
#include "backends/level_zero/errors.hpp"
#include "backends/level_zero/retry.hpp"

namespace weir::level_zero {
namespace {

/// The flag came after 1.6; drivers from here on know it.
constexpr abi::ApiVersion in_order_since = abi::version(1, 9);

weir_be_stream handle_of(uint64_t number) noexcept {
  return reinterpret_cast<weir_be_stream>(static_cast<uintptr_t>(number));
}
uint64_t number_of(weir_be_stream stream) noexcept { return reinterpret_cast<uintptr_t>(stream); }

}  // namespace

Streams::~Streams() {
  streams_.each([&](const std::shared_ptr<Stream> &stream) {
    if (!stream->own()) return;
    if (stream->synchronize() != WEIR_SUCCESS) (void)stream->synchronize();
    twice([&] { return platform_.api().list_destroy(stream->list()); });
  });
  for (const Parked &parked : parked_) end(parked);
}

void Streams::end(const Parked &parked) noexcept {
  if (parked.end != no_event) {
    events_.settle(events_.slot(parked.end));
    events_.give_back(parked.end);
  }
  twice([&] { return platform_.api().list_destroy(parked.list); });
}

std::shared_ptr<Stream> Streams::make(uint32_t device, bool own) {
  std::lock_guard hold(mutex_);
  return std::make_shared<Stream>(platform_, events_, ++ids_, device, own);
}

weir_result Streams::make_list(Stream *stream, const Device::QueueGroup &group) {
  const Device &device = platform_.devices()[stream->device()];
  abi::CommandQueueDesc description;
  description.ordinal = group.ordinal;
  description.index = queue_turn_.fetch_add(1, std::memory_order_relaxed) % group.queues;
  // A queue is chosen by its index only where the driver is told not to spread the work itself.
  const uint32_t explicit_only = group.queues > 1 ? abi::queue_flag_explicit_only : 0;
  const auto create = [&](bool in_order) {
    description.flags = explicit_only | (in_order ? abi::queue_flag_in_order : 0);
    stream->in_order_ = in_order;
    return platform_.api().list_create_immediate(platform_.context(), device.handle, &description,
                                                 &stream->list_);
  };
  const bool try_in_order = platform_.version() >= in_order_since && !refuses_in_order_;
  abi::Result result = create(try_in_order);
  // An older loader that validates arguments does not know what its driver knows.
  if (try_in_order && result == abi::error_invalid_enumeration) {
    result = create(false);
    if (result == abi::success) refuses_in_order_ = true;
  }
  if (result == abi::success) return WEIR_SUCCESS;
  return runtime_refusal(result, "zeCommandListCreateImmediate, device %u, group %u, queue %u",
                         stream->device(), description.ordinal, description.index);
}

weir_result Streams::create(uint32_t device, uint64_t flags, weir_be_stream *stream) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  const bool transfers = flags == WEIR_BE_STREAM_TRANSFER &&
                         (platform_.capabilities(device) & WEIR_CAP_TRANSFER_STREAM) != 0;
  if (flags != 0 && !transfers) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "stream flags %#llx", static_cast<Number>(flags));
  }
  end_finished();
  const std::shared_ptr<Stream> made = make(device, true);
  uint64_t handle = 0;
  {
    std::lock_guard hold(mutex_);
    handle = streams_.add(made);
  }
  const weir_result result = make_list(made.get(), transfers ? platform_.devices()[device].copiers
                                                             : platform_.devices()[device].queues);
  if (result != WEIR_SUCCESS) {
    std::lock_guard hold(mutex_);
    (void)streams_.remove(handle);
    return result;
  }
  *stream = handle_of(handle);
  return WEIR_SUCCESS;
}

weir_result Streams::wrap(uint32_t device, void *native, weir_be_stream *stream) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  if (native == nullptr) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "the command list is NULL: Level Zero has no default stream");
  }
  const std::shared_ptr<Stream> made = make(device, false);
  made->list_ = static_cast<abi::CommandList>(native);
  std::lock_guard hold(mutex_);
  *stream = handle_of(streams_.add(made));
  return WEIR_SUCCESS;
}

weir_result Streams::find(weir_be_stream stream, std::shared_ptr<Stream> *found) {
  {
    std::shared_lock hold(mutex_);
    const auto *entry = streams_.find(number_of(stream));
    if (entry != nullptr) *found = *entry;
  }
  if (*found != nullptr) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%p is no open stream", static_cast<void *>(stream));
}

weir_result Streams::destroy(weir_be_stream stream) {
  {
    std::lock_guard hold(mutex_);
    const auto *entry = streams_.find(number_of(stream));
    if (entry == nullptr) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%p is no open stream",
                    static_cast<void *>(stream));
    }
    const std::shared_ptr<Stream> ending = *entry;
    common::grow_to(retired_, retired_.size() + 1);
    if (ending->own()) WEIR_BACKEND_TRY(park(*ending));
    retire(*ending);
    (void)streams_.remove(number_of(stream));
  }
  end_finished();
  return WEIR_SUCCESS;
}

weir_result Streams::park(Stream &stream) {
  common::grow_to(parked_, parked_.size() + 1);
  EventIndex end = no_event;
  WEIR_BACKEND_TRY(events_.take(&end));
  const weir_result marked = stream.mark(events_.slot(end).event);
  if (marked != WEIR_SUCCESS) {
    events_.give_back_unused(end);
    end = no_event;
    // On a lost device nothing runs any more.
    if (marked != WEIR_ERROR_DEVICE_LOST) return marked;
  }
  parked_.push_back({stream.list(), end});
  return WEIR_SUCCESS;
}

void Streams::retire(Stream &stream) noexcept {
  if (stream.calls_ == nullptr) return;
  stream.calls_->close();
  retired_.push_back(std::move(stream.calls_));
}

void Streams::end_finished() noexcept {
  std::lock_guard hold(mutex_);
  std::erase_if(retired_, [](const auto &calls) { return calls->left(); });
  std::erase_if(parked_, [&](const Parked &parked) {
    if (parked.end != no_event) {
      const weir_result result = events_.poll(events_.slot(parked.end));
      if (result != WEIR_SUCCESS && result != WEIR_ERROR_DEVICE_LOST) return false;
    }
    if (platform_.api().list_destroy(parked.list) != abi::success) return false;
    if (parked.end != no_event) events_.give_back(parked.end);
    return true;
  });
}

}  // namespace weir::level_zero
