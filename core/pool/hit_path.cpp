// SPDX-License-Identifier: Apache-2.0
//
// Acquire and release of resident buffers without the pool's lock: one compare-and-swap a buffer to acquire, one
// fence for all, then a stamp and a decrement a buffer to release. page/hot.hpp has the rules that make it right.
// A lease of one whole buffer, by far the commonest, has a way of its own: every locked instruction counts.

#include "core/move/plan.hpp"
#include "core/pool/engine.hpp"

#include <mutex>

namespace weir::pool {

/// Whether the use could be one of a whole buffer; checks all that the word does not tell.
inline bool Engine::whole_use(const weir_use &use, uint32_t *index, uint64_t *generation) noexcept {
  const bool plain =
      (use.offset | use.flags | use.reserved[0] | use.reserved[1] | use.reserved[2]) == 0 &&
      use.mode - 1U <= 2U && pages_.buffers.decode(use.buffer, index, generation);
  return plain && (use.length == WEIR_WHOLE || use.length == pages_.buffers.hot(*index).size());
}

/// The same for others than the hit path, into which it is compiled.
bool Engine::plain_use(const weir_use &use, uint32_t *index, uint64_t *generation) noexcept {
  return whole_use(use, index, generation);
}

/// The record of a lease that has been granted to this thread.
inline weir_lease Engine::record_one(StreamState &state, OwnLeases &own, uint32_t index,
                                     uint8_t mode) noexcept {
  Lease *lease = own.free.pop();
  lease->few[0].buffer = index;
  lease->few[0].mode = mode;
  lease->few[0].kind = LeaseKind::whole;
  lease->count.store(1, std::memory_order_relaxed);
  own.hits.store(own.hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return state.handle(config_.pool_id, *lease);
}

/// The first lease of a small buffer, to write all of it. Apart, so that a hit has nothing to keep for it.
[[gnu::noinline]] bool Engine::acquire_first(Stream &stream, StreamState &state, weir_use &use,
                                             weir_lease *out) noexcept {
  uint32_t index = 0;
  uint64_t generation = 0;
  if (!whole_use(use, &index, &generation)) return false;
  page::Hot &hot = pages_.buffers.hot(index);
  if (!hot.try_first_lease(generation, stream.slot, stream.device->id, &use.address) &&
      !lease_fresh(stream, use))
    return false;
  *out = record_one(state, *state.of_this_thread(), index, WEIR_DISCARD_WRITE);
  return true;
}

/// A lease of one whole resident buffer with a record of the thread's own, granted or not even tried.
inline bool Engine::acquire_one(Stream &stream, StreamState &state, weir_use &use,
                                weir_lease *out) noexcept {
  uint32_t index = 0;
  uint64_t generation = 0;
  OwnLeases *own = state.of_this_thread();
  if (own == nullptr || own->free.head == nullptr) return false;
  if (!whole_use(use, &index, &generation)) return false;
  const auto mode = static_cast<uint8_t>(use.mode);
  if (!pages_.buffers.hot(index).try_lease(generation, mode, stream.slot, stream.device->id,
                                           &use.address))
    return mode == WEIR_DISCARD_WRITE && acquire_first(stream, state, use, out);
  *out = record_one(state, *own, index, mode);
  return true;
}

bool Engine::acquire_fast(Stream &stream, StreamState &state, weir_use *uses, size_t count,
                          Lease *lease) noexcept {
  size_t done = 0;
  std::array<uint64_t, Lease::inline_items>
      addresses;  // the caller's are written when all are granted
  for (; done < count; ++done) {
    const weir_use &use = uses[done];
    uint32_t index = 0;
    uint64_t generation = 0;
    if (!whole_use(use, &index, &generation)) break;
    const auto mode = static_cast<uint8_t>(use.mode);
    if (!pages_.buffers.hot(index).try_lease(generation, mode, stream.slot, stream.device->id,
                                             &addresses[done]))
      break;
    LeaseItem &item = lease->few[done];
    item.buffer = index;
    item.mode = mode;
    item.kind = LeaseKind::whole;
  }
  if (done == count) {
    for (size_t i = 0; i < count; ++i) uses[i].address = addresses[i];
    lease->count = static_cast<uint32_t>(count);
    state.hits += count;
    return true;
  }
  while (done-- > 0) pages_.buffers.hot(lease->few[done].buffer).drop_lease(lease->few[done].mode);
  return false;
}

Status Engine::acquire(Stream &stream, weir_use *uses, size_t count,
                       const page::AcquireOptions &options, weir_lease *out) {
  if (count == 0 || count > UINT16_MAX)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "count is %zu; a set has 1 to 65535 uses", count);
  WEIR_TRY(stream.check_capture());
  StreamState *state = leases_.states.find(stream.slot);
  if (state == nullptr ||
      state->stream_generation.load(std::memory_order_relaxed) != stream.generation)
    WEIR_TRY(services_.acquirer.stream_state(stream, &state));
  const bool fast =
      stream.device != nullptr && !state->has_announced.load(std::memory_order_relaxed);
  if (fast && count == 1 && acquire_one(stream, *state, uses[0], out)) return {};
  return acquire_set(stream, *state, uses, count, options, fast, out);
}

Status Engine::acquire_set(Stream &stream, StreamState &state, weir_use *uses, size_t count,
                           const page::AcquireOptions &options, bool fast, weir_lease *out) {
  Lease *lease = nullptr;
  {
    const Guard hold(stream.timeline.lock);
    state.adopt_this_thread();
    lease = state.take(&memory_);
    if (lease != nullptr && fast && count <= Lease::inline_items &&
        acquire_fast(stream, state, uses, count, lease)) {
      *out = state.handle(config_.pool_id, *lease);
      return {};
    }
  }
  // Counts taken back may have stopped somebody from making room; told here, because the stream's lock comes after
  // the pool's.
  if (leases_.admission.has_watchers()) wake_all();
  if (lease == nullptr)
    return fail(WEIR_ERROR_NOT_SUPPORTED, "more than %u leases are out on one stream",
                StreamState::max_leases);
  if (fast && count == 1 && lease_fresh(stream, uses[0])) {
    uint32_t index = 0;
    uint64_t generation = 0;
    (void)pages_.buffers.decode(uses[0].buffer, &index, &generation);
    const Guard hold(stream.timeline.lock);
    LeaseItem &item = lease->few[0];
    item.buffer = index;
    item.mode = WEIR_DISCARD_WRITE;
    item.kind = LeaseKind::whole;
    lease->count = 1;
    ++state.hits;
    *out = state.handle(config_.pool_id, *lease);
    return {};
  }
  Status status;
  try {
    status = services_.acquirer.acquire(stream, uses, count, options, lease);
  } catch (const std::bad_alloc &) {
    status = fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the records of this acquire");
  }
  if (!status) {
    state.give(lease);  // no handle has named it
    return status;
  }
  *out = state.handle(config_.pool_id, *lease);
  return {};
}

/// Under the timeline's lock: takes a lease of one whole buffer from whoever else may want to release it, and the turn to record
/// its fence. nullptr: it is not of this kind, or another thread has the turn, and nothing has happened.
inline Lease *Engine::take_one(Stream &stream, StreamState &state, weir_lease handle) noexcept {
  Lease *lease = state.find(handle);
  if (lease == nullptr || lease->count != 1) return nullptr;
  const LeaseItem &item = lease->few[0];
  if (item.kind != LeaseKind::whole) return nullptr;
  const Stamp seen{pages_.buffers.hot(item.buffer).stamp.load(std::memory_order_relaxed)};
  if ((seen && seen.slot() != stream.slot) || !stream.timeline.begin_record()) return nullptr;
  state.bury(lease);
  return lease;
}

Status Engine::release(weir_lease handle, Stream &stream) {
  const uint32_t slot = StreamState::slot_of(handle);
  StreamState *state = leases_.states.find(slot);
  if (state == nullptr || slot != stream.slot) return release_set(handle, state, stream);
  backend::Timeline &timeline = stream.timeline;
  Lease *lease = nullptr;
  {
    const Guard hold(timeline.lock);
    lease = take_one(stream, *state, handle);
  }
  if (lease == nullptr) return release_set(handle, state, stream);
  // No lock is held: the runtime takes as long over it as its channel is full.
  const uint8_t mode = lease->few[0].mode;
  page::Hot &hot = pages_.buffers.hot(lease->few[0].buffer);
  uint64_t point = 0;
  const bool published = timeline.record_in_turn(&point).ok() &&
                         hot.publish(Stamp::make(stream.slot, point, mode != WEIR_READ));
  timeline.end_record();
  if (!published) return release_taken(lease, *state, stream);
  state->give(lease);
  hot.drop_lease(mode);
  if (leases_.admission.has_watchers()) wake_all();
  return {};
}

}  // namespace weir::pool
