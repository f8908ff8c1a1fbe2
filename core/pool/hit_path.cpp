// SPDX-License-Identifier: Apache-2.0
//
// Acquire and release of resident buffers without the pool's lock: one compare-and-swap a buffer to acquire, one
// fence for all, then a stamp and a decrement a buffer to release. page/hot.hpp has the rules that make it right.
// A lease of one whole buffer, by far the commonest, has a way of its own: every locked instruction counts.
//
// A stream that is learned from has ways of its own too, made of the same functions, so that one that is not pays nothing for it. There a
// use costs two stores more, and an acquire a few loads (core/lease/use_log.hpp).

#include "core/lease/use_writer.hpp"
#include "core/move/plan.hpp"
#include "core/pool/engine.hpp"
#include "core/pool/range_hits.hpp"

#include <mutex>

namespace weir::pool {
namespace {

/// `ways`: of the stream's, those that the caller does not follow himself.
Open how_open(const Stream &stream, uint8_t ways) noexcept {
  if (stream.device == nullptr) return Open::shut;
  return ways == 0 ? Open::whole : ways == StreamState::announced ? Open::announced : Open::shut;
}

}  // namespace

/// A use that could be one of a whole buffer.
struct Engine::Whole {
  page::Hot *hot = nullptr;  ///< nullptr: it is none
  uint32_t index = 0;
  uint8_t mode = 0;
  uint64_t generation = 0;

  explicit operator bool() const noexcept { return hot != nullptr; }
};

/// Checks all that the word does not tell.
inline Engine::Whole Engine::whole_use(const weir_use &use) noexcept {
  Whole whole;
  const uint32_t mode = use.mode;
  const bool plain =
      (use.offset | use.flags | use.reserved[0] | use.reserved[1] | use.reserved[2]) == 0 &&
      mode - 1U <= 2U && pages_.buffers.decode(use.buffer, &whole.index, &whole.generation);
  if (!plain) return whole;
  page::Hot &hot = pages_.buffers.hot(whole.index);
  if (use.length != WEIR_WHOLE && use.length != hot.size()) return whole;
  whole.hot = &hot;
  whole.mode = static_cast<uint8_t>(mode);
  return whole;
}

/// The same for others than the hit path, into which it is compiled.
bool Engine::plain_use(const weir_use &use, uint32_t *index, uint64_t *generation) noexcept {
  const Whole whole = whole_use(use);
  *index = whole.index;
  *generation = whole.generation;
  return whole.hot != nullptr;
}

/// The record of a lease that has been granted to this thread.
inline weir_lease Engine::record_one(const Stream &stream, OwnLeases &own, uint32_t index,
                                     uint8_t mode) noexcept {
  Lease *lease = own.free.pop();
  lease->few[0].be_whole(index, mode);
  lease->count.store(1, std::memory_order_release);  // Inspector::find_leases acquires it
  return StreamState::handle(config_.pool_id, stream.slot, *lease);
}

/// The first lease of a small buffer, to write all of it. Apart, so that a hit has nothing to keep for it.
[[gnu::noinline]] bool Engine::acquire_first(Stream &stream, OwnLeases &own, weir_use &use,
                                             weir_lease *out) noexcept {
  const Whole whole = whole_use(use);
  if (!whole) return false;
  if (!whole.hot->try_first_lease(whole.generation, stream.slot, stream.device->id, &use.address) &&
      !lease_fresh(stream, use))
    return false;
  *out = record_one(stream, own, whole.index, WEIR_DISCARD_WRITE);
  return true;
}

/// A lease of one whole resident buffer with a record of the thread's own (nullptr: it has none), granted or not even tried. The caller
/// counts the hit, or logs it as *what.
[[gnu::always_inline]] inline bool Engine::acquire_one(Stream &stream, OwnLeases *own,
                                                       weir_use &use, weir_lease *out,
                                                       uint64_t *what) noexcept {
  if (own == nullptr || own->free.head == nullptr) return false;
  const Whole whole = whole_use(use);
  if (!whole) return false;
  *what = UseRecord::what(use.buffer, whole.mode);
  if (!whole.hot->try_lease(whole.generation, whole.mode, stream.slot, stream.device->id,
                            &use.address))
    return whole.mode == WEIR_DISCARD_WRITE && acquire_first(stream, *own, use, out);
  *out = record_one(stream, *own, whole.index, whole.mode);
  return true;
}

// A set is written to the log whole before it is published.
static_assert(Lease::most_logged_hit <= lease::RecordRing<2>::most_unpublished);

/// Under the timeline's lock. The caller counts the hits, or publishes what has been written for him.
template <class Write>
[[gnu::always_inline]] inline bool Engine::acquire_fast(Stream &stream, weir_use *uses,
                                                        size_t count, Lease *lease,
                                                        Write &&write) noexcept {
  LeaseItem *items = lease->room_for(count);
  if (items == nullptr) return false;
  size_t done = 0;
  for (; done < count; ++done) {
    const Whole whole = whole_use(uses[done]);
    LeaseItem &item = items[done];
    // The caller's addresses are written when all are granted; an item of a whole buffer needs no `begin`.
    if (!whole || !whole.hot->try_lease(whole.generation, whole.mode, stream.slot,
                                        stream.device->id, &item.begin))
      break;
    item.buffer = whole.index;
    item.mode = whole.mode;
    item.kind = LeaseKind::whole;
    write(done, UseRecord::what(uses[done].buffer, whole.mode));
  }
  if (done == count) {
    for (size_t i = 0; i < count; ++i) uses[i].address = items[i].begin;
    lease->count = static_cast<uint32_t>(count);
    return true;
  }
  while (done-- > 0) pages_.buffers.hot(items[done].buffer).drop_lease(items[done].mode);
  return false;
}

/// A lone use that is not of a whole buffer, or is an announced operation. As above, and apart from it.
[[gnu::noinline]] bool Engine::acquire_beside(Stream &stream, StreamState &state, OwnLeases &own,
                                              weir_use &use, Open open, weir_lease *out) noexcept {
  uint64_t unused = 0;
  if ((open == Open::whole || !acquire_one(stream, &own, use, out, &unused)) &&
      !RangeHits(pages_.buffers, config_.pool_id).acquire(stream, &own, use, out, &unused))
    return false;
  own.hits.store(own.hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (open == Open::announced) movers_.prefetcher.note_hit(state, &own);
  return true;
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
  const uint8_t ways = state->ways.load(std::memory_order_relaxed);
  const bool fast = stream.device != nullptr && ways == 0;
  if (fast && count == 1) {
    OwnLeases *own = state->of_this_thread();
    uint64_t what = 0;
    if (acquire_one(stream, own, uses[0], out, &what)) {
      own->hits.store(own->hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return {};
    }
  }
  if (fast || (ways & StreamState::learned) == 0)
    return acquire_set(stream, *state, uses, count, options, how_open(stream, ways), out);
  if (ways == StreamState::learned && count == 1) {
    OwnLeases *own = state->in_turn();  // a thread that had its turn has a ring
    uint64_t what = 0;
    if (acquire_one(stream, own, uses[0], out, &what)) {
      own->ring.load(std::memory_order_relaxed)->hit(what, leases_.log.when(options.operation));
      return {};
    }
  }
  const uint8_t others = ways & static_cast<uint8_t>(~StreamState::learned);
  return acquire_logged(stream, *state, uses, count, options, how_open(stream, others), out);
}

Status Engine::acquire_set(Stream &stream, StreamState &state, weir_use *uses, size_t count,
                           const page::AcquireOptions &options, Open open, weir_lease *out) {
  Lease *lease = nullptr;
  bool hit = false;
  OwnLeases *own = count == 1 ? state.of_this_thread() : nullptr;
  if (own != nullptr && own->free.head != nullptr) {
    if (open != Open::shut && acquire_beside(stream, state, *own, uses[0], open, out)) return {};
    lease = own->free.pop();  // for it a hit has been tried
  } else {
    const Guard hold(stream.timeline.lock);
    state.adopt_this_thread();
    lease = state.take(&memory_);
    hit = lease != nullptr && open != Open::shut && count <= Lease::most_hit &&
          acquire_fast(stream, uses, count, lease, [](size_t /*use*/, uint64_t /*what*/) {});
    if (hit) {
      state.hits += count;
      *out = StreamState::handle(config_.pool_id, stream.slot, *lease);
    }
  }
  if (hit) {
    if (open == Open::announced) movers_.prefetcher.note_hit(state, state.of_this_thread());
    return {};
  }
  return acquire_missed(stream, state, uses, count, options, open == Open::whole, lease, out);
}

/// With a record (nullptr: none is left) for a set that the hit path has not granted. `fast`: it was open to the stream as a whole.
Status Engine::acquire_missed(Stream &stream, StreamState &state, weir_use *uses, size_t count,
                              const page::AcquireOptions &options, bool fast, Lease *lease,
                              weir_lease *out) {
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
    *out = StreamState::handle(config_.pool_id, stream.slot, *lease);
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
  *out = StreamState::handle(config_.pool_id, stream.slot, *lease);
  return {};
}

/// As acquire_beside(), of a stream that is learned from. `ring`: the thread's.
[[gnu::noinline]] bool Engine::acquire_beside_logged(Stream &stream, StreamState &state,
                                                     weir_use &use,
                                                     const page::AcquireOptions &options, Open open,
                                                     UseRing *ring, weir_lease *out) noexcept {
  OwnLeases *own = state.in_turn();
  uint64_t what = 0, end = 0;
  if (open == Open::announced && acquire_one(stream, own, use, out, &what))
    ring->hit(what, leases_.log.when(options.operation));
  else if (RangeHits(pages_.buffers, config_.pool_id).acquire(stream, own, use, out, &end))
    ring->hit_part(UseRecord::what(use.buffer, use.mode), use.offset, end,
                   leases_.log.when(options.operation));
  else
    return false;
  if (open == Open::announced) movers_.prefetcher.note_hit(state, own);
  return true;
}

/// The same as acquire_set(), of a stream that is learned from.
Status Engine::acquire_logged(Stream &stream, StreamState &state, weir_use *uses, size_t count,
                              const page::AcquireOptions &options, Open open, weir_lease *out) {
  lease::UseWriter writer(leases_.log, pages_.buffers);
  UseRing *ring = writer.ring(stream, state);
  if (ring == nullptr) return acquire_set(stream, state, uses, count, options, open, out);
  if (count == 1 && open != Open::shut &&
      acquire_beside_logged(stream, state, uses[0], options, open, ring, out))
    return {};
  Lease *lease = nullptr;
  bool hit = false;
  {
    const Guard hold(stream.timeline.lock);
    if (state.take_turn()) leases_.log.next_moment();
    lease = state.take(&memory_);
    const uint64_t head = ring->head(), when = leases_.log.when(options.operation);
    const auto write = [&](size_t use, uint64_t what) {
      const uint64_t ends =
          (use == 0 ? UseRecord::first : 0) | (use == count - 1 ? UseRecord::last : 0);
      ring->put(head + use, what | ends, when);
    };
    hit = lease != nullptr && open != Open::shut && count <= Lease::most_logged_hit &&
          acquire_fast(stream, uses, count, lease, write);
    if (hit) {
      ring->publish_hits(head + count);
      *out = StreamState::handle(config_.pool_id, stream.slot, *lease);
    }
  }
  if (hit) {
    if (open == Open::announced) movers_.prefetcher.note_hit(state, state.of_this_thread());
    return {};
  }
  WEIR_TRY(acquire_missed(stream, state, uses, count, options, open == Open::whole, lease, out));
  writer.add(stream, state, {uses, count}, options.operation);
  return {};
}

/// Under the timeline's lock: takes a lease from whoever else may want to release it, and the turn to record its fence. nullptr: there is no
/// such lease, or another thread has the turn, and nothing has happened.
inline Lease *Engine::take_own(Stream &stream, StreamState &state, weir_lease handle) noexcept {
  Lease *lease = state.find(handle);
  if (lease == nullptr || !stream.timeline.begin_record()) return nullptr;
  state.bury(lease);
  return lease;
}

Status Engine::release(weir_lease handle, Stream &stream) {
  const uint32_t slot = StreamState::slot_of(handle);
  StreamState *state = leases_.states.find(slot);
  if (state == nullptr || slot != stream.slot) return releases().elsewhere(handle, state, stream);
  backend::Timeline &timeline = stream.timeline;
  Lease *lease = nullptr;
  {
    const Guard hold(timeline.lock);
    lease = take_own(stream, *state, handle);
  }
  if (lease == nullptr) return releases().elsewhere(handle, state, stream);
  // No lock is held: the runtime takes as long over it as its channel is full.
  const LeaseItem &item = lease->few[0];
  if (lease->count != 1 || item.kind != LeaseKind::whole)
    return releases().in_turn(lease, *state, stream);
  const uint8_t mode = item.mode;
  page::Hot &hot = pages_.buffers.hot(item.buffer);
  uint64_t point = 0;
  const bool recorded = timeline.record_in_turn(&point).ok();
  const bool published = recorded && hot.publish(Stamp::make(slot, point, mode != WEIR_READ));
  timeline.end_record();
  if (!published) return releases().unpublished(lease, *state, stream, recorded ? point : 0);
  state->give(lease);
  hot.drop_lease(mode);
  if (leases_.admission.has_watchers()) wake_all();
  return {};
}

}  // namespace weir::pool
