// SPDX-License-Identifier: Apache-2.0
//
// Commands on one list. A barrier without events to wait for waits for everything before it and holds up
// everything after it; one with events waits for those only.

#include "backends/common/undo.hpp"
#include "backends/level_zero/errors.hpp"
#include "backends/level_zero/streams.hpp"

#include <algorithm>
#include <array>

namespace weir::level_zero {
namespace {

/// Drivers have been reported to go wrong from 4 GiB on.
constexpr uint64_t largest_command = uint64_t{2} << 30U;
/// The most that a query of a list that is not ours alone waits for an answer, after several in a row that had none, as on a
/// device that another process keeps busy.
constexpr uint64_t most_patience_ns = 8'000'000;
/// Since when zeCommandListHostSynchronize is there.
constexpr abi::ApiVersion synchronize_since = abi::version(1, 6);

void *pointer(uint64_t address) noexcept {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

/// A fill's pattern may be read when the fill runs, so it lies in memory that stays.
const uint8_t *pattern_of(uint8_t value) noexcept {
  static const std::array<uint8_t, 256> bytes = [] {
    std::array<uint8_t, 256> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint8_t>(i);
    return all;
  }();
  return &bytes[value];
}

}  // namespace

Stream::~Stream() {
  if (marker_ != no_event) events_.give_back(marker_);
}

weir_result Stream::expose(abi::CommandList *list) {
  std::lock_guard hold(mutex_);
  // What the program enqueues comes after what is here.
  if (unordered_) WEIR_BACKEND_TRY(barrier(nullptr));
  shared_ = true;
  *list = list_;
  return WEIR_SUCCESS;
}

weir_result Stream::barrier(abi::Event signal) {
  const abi::Result result = platform_.api().append_barrier(list_, signal, 0, nullptr);
  if (result != abi::success) return runtime_refusal(result, "zeCommandListAppendBarrier");
  unordered_ = false;
  return WEIR_SUCCESS;
}

weir_result Stream::before_command() {
  const bool needed = unordered_ || (shared_ && !in_order_);
  return needed ? barrier(nullptr) : WEIR_SUCCESS;
}

// On a list that is ours alone the barrier is put off until something follows.
weir_result Stream::after_command() {
  return shared_ && unordered_ ? barrier(nullptr) : WEIR_SUCCESS;
}

weir_result Stream::mark(abi::Event event) {
  std::lock_guard hold(mutex_);
  return barrier(event);
}

weir_result Stream::record(EventIndex index) {
  EventSlot &slot = events_.slot(index);
  const uint32_t use = events_.use(slot);
  std::lock_guard hold(mutex_);
  WEIR_BACKEND_TRY(barrier(slot.event));
  recorded_ = index;
  recorded_use_ = use;
  recorded_at_ = enqueued_;
  return WEIR_SUCCESS;
}

weir_result Stream::wait(EventSlot &awaited) {
  // What this stream itself signals comes before what it does later anyway.
  if (awaited.recorder == id_) return WEIR_SUCCESS;
  const weir_result now = events_.poll(awaited);
  if (now != WEIR_NOT_READY) return now;
  std::lock_guard hold(mutex_);
  EventIndex done = no_event;
  WEIR_BACKEND_TRY(events_.add_waiter(awaited, id_, &done));
  if (done == no_event) return WEIR_SUCCESS;
  const abi::Result result =
      platform_.api().append_barrier(list_, events_.slot(done).event, 1, &awaited.event);
  if (result != abi::success) {
    events_.remove_waiter(awaited, id_);
    return runtime_refusal(result, "zeCommandListAppendBarrier for an event");
  }
  ++enqueued_;
  return WEIR_SUCCESS;
}

template <class Append>
weir_result Stream::in_chunks(uint64_t bytes, const char *call, Append append) {
  std::lock_guard hold(mutex_);
  WEIR_BACKEND_TRY(before_command());
  for (uint64_t done = 0; done < bytes; done += largest_command) {
    const uint64_t size = std::min(bytes - done, largest_command);
    const abi::Result result = append(done, size);
    if (result != abi::success) {
      return runtime_refusal(result, "%s of %llu bytes", call, static_cast<Number>(size));
    }
    ++enqueued_;
    unordered_ = !in_order_;
  }
  return after_command();
}

weir_result Stream::copy(uint64_t destination, uint64_t source, uint64_t bytes) {
  return in_chunks(bytes, "zeCommandListAppendMemoryCopy", [&](uint64_t offset, uint64_t size) {
    return platform_.api().append_copy(list_, pointer(destination + offset),
                                       pointer(source + offset), size, nullptr, 0, nullptr);
  });
}

weir_result Stream::fill(uint64_t address, uint8_t value, uint64_t bytes) {
  return in_chunks(bytes, "zeCommandListAppendMemoryFill", [&](uint64_t offset, uint64_t size) {
    return platform_.api().append_fill(list_, pointer(address + offset), pattern_of(value), 1, size,
                                       nullptr, 0, nullptr);
  });
}

weir_result Stream::host_call(weir_host_function function, void *user) {
  if (function == nullptr) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "the host function is NULL");
  HostCalls::Call call{function, user, no_event, no_event};
  WEIR_BACKEND_TRY(events_.take(&call.over));
  common::Undo drop([&] { events_.give_back_unused(call.over); });
  WEIR_BACKEND_TRY(events_.take(&call.reached));
  // Once the list may signal it, it is given back as one in use.
  bool marked = false;
  common::Undo forget(
      [&] { marked ? events_.give_back(call.reached) : events_.give_back_unused(call.reached); });
  std::lock_guard hold(mutex_);
  if (calls_ == nullptr) calls_ = std::make_unique<HostCalls>(platform_, events_);
  calls_->prepare();
  WEIR_BACKEND_TRY(barrier(events_.slot(call.reached).event));
  marked = true;
  EventIndex done = no_event;
  WEIR_BACKEND_TRY(events_.add_waiter(events_.slot(call.over), id_, &done));
  const abi::Result result = platform_.api().append_barrier(list_, events_.slot(done).event, 1,
                                                            &events_.slot(call.over).event);
  if (result != abi::success) {
    events_.remove_waiter(events_.slot(call.over), id_);
    return runtime_refusal(result, "zeCommandListAppendBarrier for a host function");
  }
  ++enqueued_;
  calls_->push(call);
  drop.dismiss();
  forget.dismiss();
  return WEIR_SUCCESS;
}

weir_result Stream::synchronize() {
  EventIndex end = no_event;
  WEIR_BACKEND_TRY(events_.take(&end));
  uint64_t covered = 0;
  weir_result result = WEIR_SUCCESS;
  {
    std::lock_guard hold(mutex_);
    covered = enqueued_;
    result = barrier(events_.slot(end).event);
  }
  if (result != WEIR_SUCCESS) {
    events_.give_back_unused(end);
    return result;
  }
  result = events_.finish(events_.slot(end), UINT64_MAX);
  events_.give_back(end);
  if (result != WEIR_SUCCESS) return result;
  std::lock_guard hold(mutex_);
  finished_ = std::max(finished_, covered);
  return WEIR_SUCCESS;
}

weir_result Stream::query() {
  {
    std::lock_guard hold(mutex_);
    if (!shared_) return query_known();
  }
  return query_shared();
}

/// With the lock. Where every command is ours, one marker after the last of them serves all queries, or the last fence: when it has
/// passed the stream's work has finished, and a marker of this moment would not have been signalled yet.
weir_result Stream::query_known() {
  if (finished_ == enqueued_) return WEIR_SUCCESS;
  if (recorded_ != no_event && recorded_at_ == enqueued_) {
    const weir_result recorded = events_.poll_use(recorded_, recorded_use_);
    if (recorded == WEIR_SUCCESS) finished_ = recorded_at_;
    return recorded;
  }
  if (marker_ == no_event || marker_at_ != enqueued_) {
    EventIndex fresh = no_event;
    WEIR_BACKEND_TRY(events_.take(&fresh));
    const weir_result marked = barrier(events_.slot(fresh).event);
    if (marked != WEIR_SUCCESS) {
      events_.give_back_unused(fresh);
      return marked;
    }
    if (marker_ != no_event) events_.give_back(marker_);
    marker_ = fresh;
    marker_at_ = enqueued_;
  }
  const weir_result result = events_.poll(events_.slot(marker_));
  if (result == WEIR_SUCCESS) finished_ = marker_at_;
  return result;
}

// What the program enqueued on its list itself is not known here, so each query asks anew: the driver, or where that
// cannot be asked, a barrier, which an idle queue passes in microseconds. Each query is given twice the time of the one
// before it that got no answer: an idle queue is found to be idle however slow its device is.
weir_result Stream::query_shared() {
  const Api &api = platform_.api();
  if (api.list_synchronize != nullptr && platform_.version() >= synchronize_since) {
    std::lock_guard hold(mutex_);
    const abi::Result result = api.list_synchronize(list_, 0);
    if (result == abi::success || result == abi::not_ready) return result_of(result);
  }
  EventIndex end = no_event;
  WEIR_BACKEND_TRY(events_.take(&end));
  const weir_result marked = mark(events_.slot(end).event);
  if (marked != WEIR_SUCCESS) {
    events_.give_back_unused(end);
    return marked;
  }
  const uint64_t patience = patience_ns_.load(std::memory_order_relaxed);
  const weir_result result = events_.finish(events_.slot(end), patience);
  events_.give_back(end);
  const bool late = result == WEIR_ERROR_TIMEOUT;
  patience_ns_.store(late ? std::min(2 * patience, most_patience_ns) : least_patience_ns,
                     std::memory_order_relaxed);
  return late ? WEIR_NOT_READY : result;
}

}  // namespace weir::level_zero
