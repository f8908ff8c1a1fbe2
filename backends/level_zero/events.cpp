// SPDX-License-Identifier: Apache-2.0
//
// Pools grow by a chunk of events at a time and never shrink: as many events exist as were in use at once.

#include "backends/level_zero/events.hpp"

#include "backends/level_zero/errors.hpp"
#include "backends/level_zero/retry.hpp"

#include <algorithm>
#include <chrono>
#include <new>

namespace weir::level_zero {
namespace {

/// How many returned events are looked at when one is needed: enough that they come back faster than they go.
constexpr int looks = 16;
/// One wait of the driver. Some convert the time to other units and overflow, and a device that was lost
/// meanwhile is noticed between two.
constexpr uint64_t slice_ns = 500'000'000;
/// How long the end waits for signals that a program's own streams owe. A list that was destroyed with its
/// commands still pending never gives them.
constexpr uint64_t patience_ns = 10'000'000'000;

uint64_t now_ns() noexcept {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

Events::~Events() {
  drain();
  const Api &api = platform_.api();
  const uint32_t made = made_.load();
  for (EventIndex i = 0; i < made; ++i) {
    twice([&] { return api.event_destroy(slot(i).event); });
  }
  for (auto &each : chunks_) {
    const std::unique_ptr<Chunk> chunk(each.load());
    if (chunk == nullptr) break;
    twice([&] { return api.event_pool_destroy(chunk->pool); });
  }
}

void Events::drain() noexcept {
  for (EventIndex i = free_.head; i != no_event; i = slot(i).next) slot(i).passed = true;
  const uint64_t deadline = now_ns() + patience_ns;
  const uint32_t made = made_.load();
  for (EventIndex i = 0; i < made; ++i) {
    const uint64_t now = now_ns();
    if (!slot(i).passed) (void)finish(slot(i), now < deadline ? deadline - now : 0);
  }
}

void Events::push(List *list, EventIndex index) noexcept {
  slot(index).next = no_event;
  if (list->tail != no_event) {
    slot(list->tail).next = index;
  } else {
    list->head = index;
  }
  list->tail = index;
}

EventIndex Events::pop(List *list) noexcept {
  const EventIndex index = list->head;
  if (index == no_event) return no_event;
  list->head = slot(index).next;
  if (list->head == no_event) list->tail = no_event;
  return index;
}

weir_result Events::take(EventIndex *index) noexcept {
  std::lock_guard hold(mutex_);
  if (free_.head == no_event) sweep();
  const EventIndex found = pop(&free_);
  if (found == no_event) return make(index);
  *index = found;
  return WEIR_SUCCESS;
}

weir_result Events::make(EventIndex *index) noexcept {
  const uint32_t next = made_.load(std::memory_order_relaxed);
  if (next == chunk_size * most_chunks) {
    return refuse(WEIR_ERROR_BACKEND, "all %u events are in use", next);
  }
  if (chunks_[next / chunk_size].load(std::memory_order_relaxed) == nullptr) {
    WEIR_BACKEND_TRY(make_chunk(next / chunk_size));
  }
  Chunk *chunk = chunks_[next / chunk_size].load(std::memory_order_relaxed);
  abi::EventDesc description;
  description.index = next % chunk_size;
  EventSlot &made = chunk->slots[next % chunk_size];
  const abi::Result result = platform_.api().event_create(chunk->pool, &description, &made.event);
  if (result != abi::success) return runtime_refusal(result, "zeEventCreate");
  made_.store(next + 1, std::memory_order_release);
  *index = next;
  return WEIR_SUCCESS;
}

weir_result Events::make_chunk(uint32_t number) noexcept {
  std::unique_ptr<Chunk> chunk(new (std::nothrow) Chunk);
  if (chunk == nullptr) return refuse(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for events");
  abi::EventPoolDesc description;
  description.count = chunk_size;
  // No list of devices: the pool is for all of the context's.
  const abi::Result result = platform_.api().event_pool_create(platform_.context(), &description, 0,
                                                               nullptr, &chunk->pool);
  if (result != abi::success) {
    return runtime_refusal(result, "zeEventPoolCreate of %u events", chunk_size);
  }
  chunks_[number].store(chunk.release(), std::memory_order_release);
  return WEIR_SUCCESS;
}

void Events::give_back_unused(EventIndex index) noexcept {
  std::lock_guard hold(mutex_);
  push(&free_, index);
}

void Events::give_back(EventIndex index) noexcept {
  std::lock_guard hold(mutex_);
  EventSlot &returned = slot(index);
  const bool ready = returned.passed.load(std::memory_order_acquire) && renew(returned);
  push(ready ? &free_ : &returned_, index);
}

void Events::sweep() noexcept {
  const EventIndex last = returned_.tail;
  for (int i = 0; i < looks; ++i) {
    const EventIndex index = pop(&returned_);
    if (index == no_event) return;
    push(renew(slot(index)) ? &free_ : &returned_, index);
    if (index == last) return;
  }
}

/// Makes an event fit for its next use, if it and everything that waits for it is through.
bool Events::renew(EventSlot &returned) noexcept {
  if (poll(returned) != WEIR_SUCCESS) return false;
  const Api &api = platform_.api();
  while (!returned.waiters.empty()) {
    EventSlot &done = slot(returned.waiters.back().done);
    if (poll(done) != WEIR_SUCCESS || api.event_reset(done.event) != abi::success) return false;
    done.passed.store(false, std::memory_order_relaxed);
    push(&free_, returned.waiters.back().done);
    returned.waiters.pop_back();
  }
  if (api.event_reset(returned.event) != abi::success) return false;
  returned.passed.store(false, std::memory_order_relaxed);
  ++returned.uses;
  return true;
}

weir_result Events::poll(EventSlot &slot) noexcept {
  if (slot.passed.load(std::memory_order_acquire)) return WEIR_SUCCESS;
  const abi::Result result = platform_.api().event_query(slot.event);
  if (result == abi::not_ready) return WEIR_NOT_READY;
  if (result != abi::success) return runtime_refusal(result, "zeEventQueryStatus");
  slot.passed.store(true, std::memory_order_release);
  return WEIR_SUCCESS;
}

uint32_t Events::use(const EventSlot &slot) noexcept {
  std::lock_guard hold(mutex_);
  return slot.uses;
}

weir_result Events::poll_use(EventIndex index, uint32_t use) noexcept {
  std::lock_guard hold(mutex_);
  EventSlot &found = slot(index);
  return found.uses == use ? poll(found) : WEIR_SUCCESS;
}

weir_result Events::finish(EventSlot &slot, uint64_t timeout_ns) noexcept {
  const weir_result already = poll(slot);
  if (already != WEIR_NOT_READY) return already;
  const uint64_t start = now_ns();
  const uint64_t deadline = timeout_ns < UINT64_MAX - start ? start + timeout_ns : UINT64_MAX;
  for (uint64_t now = start; now < deadline; now = now_ns()) {
    const uint64_t slice = std::min(slice_ns, deadline - now);
    const abi::Result result = platform_.api().event_synchronize(slot.event, slice);
    if (result == abi::success) {
      slot.passed.store(true, std::memory_order_release);
      return WEIR_SUCCESS;
    }
    if (result != abi::not_ready) return runtime_refusal(result, "zeEventHostSynchronize");
  }
  return WEIR_ERROR_TIMEOUT;
}

void Events::settle(EventSlot &slot) noexcept {
  const weir_result result = finish(slot, UINT64_MAX);
  if (result != WEIR_SUCCESS && result != WEIR_ERROR_DEVICE_LOST) (void)finish(slot, UINT64_MAX);
}

weir_result Events::add_waiter(EventSlot &slot, uint64_t stream, EventIndex *done) {
  {
    std::lock_guard hold(mutex_);
    const auto same = [&](const EventSlot::Waiter &waiter) { return waiter.stream == stream; };
    if (std::any_of(slot.waiters.begin(), slot.waiters.end(), same)) {
      *done = no_event;
      return WEIR_SUCCESS;
    }
  }
  EventIndex made = no_event;
  WEIR_BACKEND_TRY(take(&made));
  std::lock_guard hold(mutex_);
  try {
    slot.waiters.push_back({stream, made});
  } catch (...) {
    push(&free_, made);
    throw;
  }
  *done = made;
  return WEIR_SUCCESS;
}

void Events::remove_waiter(EventSlot &slot, uint64_t stream) noexcept {
  std::lock_guard hold(mutex_);
  const auto it = std::find_if(slot.waiters.begin(), slot.waiters.end(),
                               [&](const EventSlot::Waiter &w) { return w.stream == stream; });
  if (it == slot.waiters.end()) return;
  push(&free_, it->done);
  slot.waiters.erase(it);
}

}  // namespace weir::level_zero
