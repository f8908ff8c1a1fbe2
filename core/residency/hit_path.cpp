// SPDX-License-Identifier: Apache-2.0
//
// Acquire and release of resident buffers without the pool's lock. Acquire: one compare-and-swap a buffer;
// release: one fence for all, then a stamp and a decrement a buffer. The rules that make this right:
//  - a lease is counted first and the fences are looked at after it: whoever published a fence did so before
//    dropping its own count, so what is seen then is complete;
//  - release publishes the fence before it drops the count: who claims the page afterwards finds it;
//  - a buffer with anything unusual about it (history, partial leases, copies elsewhere, another stream's
//    fence) says so in its word or stamp, and goes the slow way.

#include "core/residency/plan.hpp"

#include <mutex>

namespace weir::residency {

bool Engine::try_fast(uint32_t index, uint64_t generation, uint8_t mode, const Stream &stream,
                      uint64_t *address) noexcept {
  constexpr uint64_t must = Word::alive | Word::resident;
  constexpr uint64_t must_not = Word::history | Word::partial | Word::closing;
  vm::Hot &hot = buffers_.hot(index);
  uint64_t word = hot.word.load(std::memory_order_relaxed);
  for (;;) {
    if ((word & (Word::generation_mask | must | must_not)) != (generation | must)) return false;
    uint64_t next;
    if (mode == WEIR_READ) {
      if ((word & Word::writer) != 0 || (word & Word::readers_mask) == Word::readers_mask)
        return false;
      next = word + Word::reader;
    } else {
      if (Word::leases(word) != 0 || (word & Word::sole) == 0) return false;
      next = word | Word::writer;
    }
    if (hot.word.compare_exchange_weak(word, next, std::memory_order_acquire,
                                       std::memory_order_relaxed))
      break;
  }
  const Stamp stamp{hot.stamp.load(std::memory_order_relaxed)};
  if ((stamp && stamp.slot() != stream.slot) || hot.home() != stream.device->id) {
    undo_fast(index, mode);
    return false;
  }
  *address = hot.address;
  return true;
}

void Engine::undo_fast(uint32_t index, uint8_t mode) noexcept {
  buffers_.hot(index).word.fetch_sub(mode == WEIR_READ ? Word::reader : Word::writer);
}

Status Engine::acquire_fast(Stream &stream, StreamState &state, weir_use *uses, size_t count,
                            Lease *lease, bool *granted) {
  size_t done = 0;
  for (; done < count; ++done) {
    weir_use &use = uses[done];
    uint32_t index = 0;
    uint64_t generation = 0;
    uint64_t address = 0;
    const bool plain = use.offset == 0 && use.flags == 0 && use.mode - 1U <= 2U &&
                       (use.reserved[0] | use.reserved[1] | use.reserved[2]) == 0 &&
                       buffers_.decode(use.buffer, &index, &generation);
    if (!plain) break;
    if (use.length != WEIR_WHOLE && use.length != buffers_.hot(index).size()) break;
    const auto mode = static_cast<uint8_t>(use.mode);
    if (!try_fast(index, generation, mode, stream, &address)) break;
    use.address = address;
    LeaseItem &item = lease->few[done];
    item.buffer = index;
    item.mode = mode;
    item.kind = LeaseKind::whole;
  }
  if (done == count) {
    lease->count = static_cast<uint32_t>(count);
    state.hits += count;
    *granted = true;
    return {};
  }
  while (done-- > 0) undo_fast(lease->few[done].buffer, lease->few[done].mode);
  return {};
}

bool Engine::release_fast(const LeaseItem &item, Stamp stamp) noexcept {
  vm::Hot &hot = buffers_.hot(item.buffer);
  uint64_t seen = hot.stamp.load(std::memory_order_relaxed);
  if (item.mode != WEIR_READ) {
    const Stamp old{seen};
    if (old && old.slot() != stamp.slot()) return false;
    hot.stamp.store(stamp.bits, std::memory_order_relaxed);  // alone: nobody else publishes
    hot.word.fetch_sub(Word::writer);
    return true;
  }
  for (;;) {
    const Stamp old{seen};
    if (old && old.slot() != stamp.slot()) return false;
    if (old && old.point() >= stamp.point()) break;  // a later reader was faster
    // The write bit stays: it says that a write on this stream is among what the stamp stands for.
    const uint64_t next = stamp.bits | (seen & Stamp::write_bit);
    if (hot.stamp.compare_exchange_weak(seen, next, std::memory_order_relaxed)) break;
  }
  hot.word.fetch_sub(Word::reader);
  return true;
}

Status Engine::stream_state(Stream &stream, StreamState **state) {
  StreamState *found = states_[stream.slot].load(std::memory_order_acquire);
  if (found == nullptr) {
    Lock lock(mutex_);
    found = states_[stream.slot].load(std::memory_order_relaxed);
    if (found == nullptr) {
      owned_states_.reserve(owned_states_.size() + 1);
      Owned<StreamState> fresh = make_owned<StreamState>(&memory_, &memory_);
      fresh->stream = &stream;
      found = fresh.get();
      owned_states_.push_back(std::move(fresh));
      states_[stream.slot].store(found, std::memory_order_release);
    }
  }
  if (found->stream_generation != stream.generation) {
    Lock lock(mutex_);
    if (found->stream_generation != stream.generation) forget_announced(*found);
    found->stream_generation = stream.generation;
  }
  *state = found;
  return {};
}

// The caller holds the stream's timeline lock. nullptr: none is free and none could be made.
Lease *Engine::take_lease(StreamState &state) {
  Lease *lease = state.free_leases;
  if (lease != nullptr) {
    state.free_leases = lease->next_free;
    return lease;
  }
  const size_t index = state.leases.size();
  if (index == StreamState::max_leases) return nullptr;
  state.leases.push_back(make_owned<Lease>(&memory_, &memory_));
  lease = state.leases.back().get();
  lease->index = static_cast<uint32_t>(index);
  return lease;
}

// The caller holds the stream's timeline lock.
void Engine::give_lease(StreamState &state, Lease *lease) noexcept {
  lease->count = 0;
  lease->generation = (lease->generation + 1) & 0x1fffffU;
  if (lease->generation == 0) lease->generation = 1;
  lease->next_free = state.free_leases;
  state.free_leases = lease;
}

// pool 12 | slot 15 | index 16 | generation 21
weir_lease Engine::lease_handle(const Stream &stream, const Lease &lease) const noexcept {
  const uint64_t bits = (uint64_t{config_.pool_id} << 52) | (uint64_t{stream.slot} << 37) |
                        (uint64_t{lease.index} << 21) | lease.generation;
  return reinterpret_cast<weir_lease>(bits);
}

// The caller holds the timeline lock of the handle's slot.
bool Engine::find_lease(weir_lease handle, StreamState **state, Lease **lease) noexcept {
  const auto bits = reinterpret_cast<uint64_t>(handle);
  StreamState *found = *state;
  const auto index = static_cast<uint32_t>((bits >> 21) & 0xffffU);
  if (found == nullptr || index >= found->leases.size()) return false;
  *lease = found->leases[index].get();
  return (*lease)->count != 0 && (*lease)->generation == (bits & 0x1fffffU);
}

Status Engine::acquire(Stream &stream, weir_use *uses, size_t count, const AcquireOptions &options,
                       weir_lease *out) {
  if (count == 0 || count > UINT16_MAX) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "count is %zu; a set has 1 to 65535 uses", count);
  }
  StreamState *state = states_[stream.slot].load(std::memory_order_acquire);
  if (state == nullptr || state->stream_generation != stream.generation)
    WEIR_TRY(stream_state(stream, &state));
  Lease *lease = nullptr;
  {
    std::lock_guard hold(stream.timeline.lock);
    lease = take_lease(*state);
    bool granted = false;
    if (lease != nullptr && count <= Lease::inline_items && stream.device != nullptr &&
        !state->has_announced.load(std::memory_order_relaxed)) {
      WEIR_TRY(acquire_fast(stream, *state, uses, count, lease, &granted));
    }
    if (granted) {
      *out = lease_handle(stream, *lease);
      return {};
    }
  }
  // Counts taken back may have stopped somebody from making room; told here, because the stream's lock comes after
  // the pool's.
  if (waiters_.load() != 0) wake_all();
  if (lease == nullptr) {
    return fail(WEIR_ERROR_NOT_SUPPORTED, "more than %u leases are out on one stream",
                StreamState::max_leases);
  }
  Status status;
  try {
    status = acquire_slow(stream, uses, count, options, lease);
  } catch (const std::bad_alloc &) {
    status = fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the records of this acquire");
  }
  std::lock_guard hold(stream.timeline.lock);
  if (!status) {
    give_lease(*state, lease);
    return status;
  }
  *out = lease_handle(stream, *lease);
  return {};
}

}  // namespace weir::residency
