// SPDX-License-Identifier: Apache-2.0
//
// Release: one fence for the whole lease, published with every item before its count is dropped. It cannot
// fail to end the lease: where a fence can't be recorded the stream is synchronised, where there is no memory to
// remember one it is waited for.

#include "core/move/plan.hpp"
#include "core/pool/engine.hpp"
#include "core/pool/range_hits.hpp"

namespace weir::pool {
namespace {

/// In the turn of the stream's timeline: ends a lease that the word of its buffer counts, if that has no fence of another stream.
bool end_counted(page::BufferDirectory &buffers, RangeHits &ranges, const LeaseItem &item,
                 Stamp stamp) noexcept {
  if (item.kind == LeaseKind::part) return ranges.release(item, stamp);
  // Its fence was recorded in another turn: who has recorded since may have published already.
  return item.whole() &&
         buffers.spans().release_whole(buffers.hot(item.buffer), item.mode, stamp);
}

}  // namespace

/// A lease of several items, of a range, on the CPU, or released on another stream than it was acquired on; or no lease.
Status Engine::release_set(weir_lease handle, StreamState *state, Stream &stream) {
  RangeHits ranges(pages_.buffers, config_.pool_id);
  if (state == nullptr)
    return fail(WEIR_ERROR_INVALID_HANDLE, "no lease %p on this pool", static_cast<void *>(handle));
  Stream &home = *state->stream;
  Lease *lease = nullptr;
  {
    const Guard hold(home.timeline.lock);
    lease = state->find(handle);
    // Of two threads that release one lease only the first goes on.
    if (lease != nullptr && home.device == stream.device) {
      if (&home == &stream) ranges.begin_release(stream, *state, *lease);
      state->bury(lease);
    }
  }
  if (lease == nullptr)
    return fail(WEIR_ERROR_INVALID_HANDLE, "no unreleased lease %p", static_cast<void *>(handle));
  if (home.device != stream.device)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "the stream given to release is of another device than the lease's");
  if (!ranges.end_release(stream, *state)) return release_taken(lease, *state, stream);
  state->give(lease);
  if (leases_.admission.has_watchers()) wake_all();
  return {};
}

/// Of a lease that no handle names any more.
Status Engine::release_taken(Lease *lease, StreamState &state, Stream &stream) {
  uint64_t point = 0;
  const Status status = movers_.losses.record_end(stream, &point);
  const uint32_t count = lease->count;
  LeaseItem *items = lease->items();
  const auto stamp_of = [&](const LeaseItem &item) {
    return Stamp::make(stream.slot, point, item.writes());
  };
  bool counted = false;  // in words
  for (uint32_t i = 0; i < count; ++i) {
    if (items[i].remote() && items[i].writes()) {
      Locked lock(lock_);
      leases_.remote_writes.end(lease, stamp_of(items[i]));
    }
    counted = counted || items[i].whole() || items[i].kind == LeaseKind::part;
  }
  if (counted) {
    stream.timeline.take_turn();
    RangeHits ranges(pages_.buffers, config_.pool_id);
    for (uint32_t i = 0; i < count; ++i) {
      if (end_counted(pages_.buffers, ranges, items[i], stamp_of(items[i]))) items[i].be_over();
    }
    stream.timeline.end_record();
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (items[i].kind != LeaseKind::none) release_slow(items[i], lease, stamp_of(items[i]));
  }
  state.give(lease);
  if (leases_.admission.has_watchers()) wake_all();
  return status;
}

void Engine::release_slow(const LeaseItem &item, const Lease *lease, Stamp stamp) noexcept {
  Locked lock(lock_);
  const Target where = pages_.buffers.target(item.buffer);
  const lease::Range range = item.whole()
                                 ? lease::all_of(where, item.buffer)
                                 : lease::part_of(where, item.buffer, item.begin, item.end);
  leases_.history.note(range.buffer, range.begin, range.end, stamp);
  where.region->past.last_use = std::max(where.region->past.last_use, stamp.point());
  // It may have been leased on the hit path.
  if (item.whole() || item.kind == LeaseKind::part)
    movers_.prefetcher.note_use(range.buffer, range.begin, range.end);
  if (item.kind == LeaseKind::part)
    RangeHits(pages_.buffers, config_.pool_id).drop(item);
  else
    leases_.leases.drop(range, item.mode, lease);
  changed_.notify_all();
}

}  // namespace weir::pool
