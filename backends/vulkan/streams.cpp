// SPDX-License-Identifier: Apache-2.0
//
// Handles of streams. No stream's lock, and no queue's, is waited for under the table's.

#include "backends/vulkan/streams.hpp"

#include <iterator>

namespace weir::vulkan {
namespace {

uint64_t number_of(weir_be_stream stream) noexcept { return reinterpret_cast<uintptr_t>(stream); }
weir_be_stream handle_of(uint64_t value) noexcept {
  return reinterpret_cast<weir_be_stream>(static_cast<uintptr_t>(value));
}

weir_result no_stream(weir_be_stream stream) noexcept {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%p is no open stream", static_cast<void *>(stream));
}

}  // namespace

std::vector<std::shared_ptr<Stream>> Streams::all() {
  std::vector<std::shared_ptr<Stream>> streams;
  const std::lock_guard hold(mutex_);
  handles_.each([&](Handle &handle) {
    if (handle.owner) streams.push_back(handle.stream);
  });
  streams.insert(streams.end(), parked_.begin(), parked_.end());
  return streams;
}

Streams::~Streams() {
  std::vector<std::shared_ptr<Stream>> streams;
  handles_.each([&](Handle &handle) { streams.push_back(std::move(handle.stream)); });
  for (auto &stream : parked_) streams.push_back(std::move(stream));
  // All of them first: they may wait for each other.
  for (const auto &stream : streams) stream->close();
  for (const auto &stream : streams) stream->settle();
  for (const auto &stream : streams) stream->forget();
}

weir_result Streams::create(uint32_t device, uint64_t flags, weir_be_stream *stream) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  Device &home = platform_.device(device);
  const bool transfers = flags == WEIR_BE_STREAM_TRANSFER && home.has(WEIR_CAP_TRANSFER_STREAM);
  if (flags != 0 && !transfers)
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "stream flags %#llx", number(flags));
  end_finished();
  std::shared_ptr<Timeline> timeline;
  WEIR_BACKEND_TRY(Timeline::make(home, &timeline));
  Handle made{std::make_shared<Stream>(home, home.pick_queue(transfers), timeline), true};
  const std::lock_guard hold(mutex_);
  *stream = handle_of(handles_.add(std::move(made)));
  return WEIR_SUCCESS;
}

weir_result Streams::wrap(uint32_t device, void *native, weir_be_stream *stream) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  if (native == nullptr) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "the queue is NULL: Vulkan has no default stream");
  }
  weir_vulkan_queue told = WEIR_VULKAN_QUEUE_INIT;
  const auto *given = static_cast<const weir_vulkan_queue *>(native);
  if (given->struct_size < sizeof told || given->kind != WEIR_VULKAN_QUEUE) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "it is no weir_vulkan_queue: struct_size=%u where %zu is needed, kind=%u",
                  given->struct_size, sizeof told, given->kind);
  }
  told = *given;
  Device &home = platform_.device(device);
  {
    const std::lock_guard hold(mutex_);
    std::shared_ptr<Stream> known;
    handles_.each([&](Handle &handle) {
      const auto semaphore = reinterpret_cast<uintptr_t>(handle.stream->timeline()->semaphore());
      if (semaphore == told.semaphore && &handle.stream->device() == &home) known = handle.stream;
    });
    if (known != nullptr) {
      *stream = handle_of(handles_.add({known, false}));
      return WEIR_SUCCESS;
    }
  }
  Queue *queue = home.adopted() ? home.queue_of(static_cast<VkQueue>(told.queue)) : nullptr;
  if (queue == nullptr || queue->family() != told.family) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "queue %p of family %u is none of device %u's: queues can be wrapped that the "
                  "context was made with",
                  told.queue, told.family, device);
  }
  if ((told.semaphore != 0) != (told.value != nullptr))
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "semaphore and value are given both, or none");
  std::shared_ptr<Timeline> timeline;
  WEIR_BACKEND_TRY(Timeline::make(home, &timeline));
  Handle made{std::make_shared<Stream>(home, *queue, timeline), true};
  made.stream->share(told);
  const std::lock_guard hold(mutex_);
  *stream = handle_of(handles_.add(std::move(made)));
  return WEIR_SUCCESS;
}

weir_result Streams::find(weir_be_stream stream, std::shared_ptr<Stream> *found) {
  {
    const std::shared_lock hold(mutex_);
    const Handle *handle = handles_.find(number_of(stream));
    if (handle != nullptr) *found = handle->stream;
  }
  return *found != nullptr ? WEIR_SUCCESS : no_stream(stream);
}

weir_result Streams::destroy(weir_be_stream stream) {
  std::shared_ptr<Stream> ending;
  {
    const std::lock_guard hold(mutex_);
    const Handle *handle = handles_.find(number_of(stream));
    if (handle == nullptr) return no_stream(stream);
    std::list<std::shared_ptr<Stream>> place(1);
    Handle last = handles_.remove(number_of(stream));
    if (last.owner) {
      ending = last.stream;
      place.front() = std::move(last.stream);
      parked_.splice(parked_.end(), place);
    }
  }
  if (ending != nullptr) ending->close();
  ending.reset();
  end_finished();
  return WEIR_SUCCESS;
}

void Streams::end_finished() noexcept {
  // They end without the lock, as a driver may take its time over it.
  std::list<std::shared_ptr<Stream>> finished;
  {
    const std::lock_guard hold(mutex_);
    for (auto each = parked_.begin(); each != parked_.end();) {
      const auto next = std::next(each);
      if ((*each)->over()) finished.splice(finished.end(), parked_, each);
      each = next;
    }
  }
  // Those of a lost device may know each other by work that is never done.
  for (const auto &each : finished) each->forget();
}

void Streams::nudge() noexcept {
  try {
    for (const auto &stream : all()) {
      if (stream->stalled() || stream->queue().stuck()) (void)pump(*stream);
    }
  } catch (const std::bad_alloc &) {
    // The next call tries again.
  }
}

}  // namespace weir::vulkan
