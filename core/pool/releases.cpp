// SPDX-License-Identifier: Apache-2.0
//
// How leases end.

#include "core/pool/releases.hpp"

#include "core/page/spans.hpp"

#include <algorithm>
#include <utility>

namespace weir::pool {
namespace {

/// So many items end in one taking of the pool's lock.
constexpr uint32_t most_listed = 1024;

Stamp stamp_of(const LeaseItem &item, const Stream &stream, uint64_t point) noexcept {
  return Stamp::make(stream.slot, point, item.writes());
}

/// Whether RemoteWrites knows the lease.
bool wrote_elsewhere(Lease &lease) noexcept {
  const LeaseItem *items = lease.items();
  return std::any_of(items, items + lease.count,
                     [](const LeaseItem &item) { return item.remote() && item.writes(); });
}

/// Who waits for room is told what ends without the pool's lock only if he has asked for it.
void wake_watchers(const Env &env, const LeaseLayer &lease) noexcept {
  if (!lease.admission.has_watchers()) return;
  const Locked lock(env.sync.lock);
  env.sync.changed.notify_all();
}

}  // namespace

/// On another stream than it was acquired on, or while another thread records; or there is no such lease.
Status Releases::elsewhere(weir_lease handle, StreamState *state, Stream &stream) {
  if (state == nullptr)
    return fail(WEIR_ERROR_INVALID_HANDLE, "no lease %p on this pool", static_cast<void *>(handle));
  Stream &home = *state->stream;
  Lease *lease = nullptr;
  {
    const Guard hold(home.timeline.lock);
    lease = state->find(handle);
    // Of two threads that release one lease only the first goes on.
    if (lease != nullptr && home.device == stream.device) state->bury(lease);
  }
  if (lease == nullptr)
    return fail(WEIR_ERROR_INVALID_HANDLE, "no unreleased lease %p", static_cast<void *>(handle));
  if (home.device != stream.device)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "the stream given to release is of another device than the lease's");
  return taken(lease, *state, stream);
}

/// Of a lease that no handle names any more, here and below. The caller has the turn of the stream's timeline, which ends here: what is
/// counted in words publishes the fence in the turn that has recorded it.
Status Releases::in_turn(Lease *lease, StreamState &state, Stream &stream) {
  // Of one range, as the hit path grants it: its lease must not take twice what one of the whole does.
  const LeaseItem &first = lease->few[0];
  const bool range = lease->count == 1 && first.kind == LeaseKind::part;
  const bool elsewhere = !range && wrote_elsewhere(*lease);
  uint64_t point = 0;
  bool over = false;
  const bool recorded = stream.timeline.record_in_turn(&point).ok();
  if (recorded && range)
    over = page_.buffers.spans().release(page_.buffers.hot(first.buffer),
                                         {first.begin, first.end, first.mode},
                                         stamp_of(first, stream, point));
  else if (recorded)
    end_counted(*lease, stream, point);
  stream.timeline.end_record();
  if (!recorded) return taken(lease, state, stream);
  if (over) {
    state.give(lease);
    wake_watchers(env_, lease_);
    return {};
  }
  end_listed(lease, state, stream, point, elsewhere);
  return {};
}

/// One of a whole buffer whose stamp is another stream's. `point`: of its fence; 0: that could not be recorded.
Status Releases::unpublished(Lease *lease, StreamState &state, Stream &stream, uint64_t point) {
  if (point == 0) return taken(lease, state, stream);
  end_listed(lease, state, stream, point, false);
  return {};
}

/// Has no turn.
Status Releases::taken(Lease *lease, StreamState &state, Stream &stream) {
  const bool elsewhere = wrote_elsewhere(*lease);
  uint64_t point = 0;
  const Status status = losses_.record_end(stream, &point);
  stream.timeline.take_turn();
  end_counted(*lease, stream, point);
  stream.timeline.end_record();
  end_listed(lease, state, stream, point, elsewhere);
  return status;
}

/// In the turn of the stream's timeline: ends what the words of buffers count, where they have no fence of another stream.
void Releases::end_counted(Lease &lease, const Stream &stream, uint64_t point) noexcept {
  page::Spans &spans = page_.buffers.spans();
  LeaseItem *items = lease.items();
  const uint32_t count = lease.count;
  for (uint32_t i = 0; i < count; ++i) {
    LeaseItem &item = items[i];
    const bool part = item.kind == LeaseKind::part;
    if (!part && !item.whole()) continue;
    page::Hot &hot = page_.buffers.hot(item.buffer);
    const Stamp stamp = stamp_of(item, stream, point);
    if (part ? spans.release(hot, {item.begin, item.end, item.mode}, stamp)
             : spans.release_whole(hot, item.mode, stamp))
      item.be_over();
  }
}

/// Ends what is left, under the pool's lock, and gives the record back.
void Releases::end_listed(Lease *lease, StreamState &state, const Stream &stream, uint64_t point,
                          bool wrote_elsewhere) noexcept {
  LeaseItem *const items = lease->items();
  const uint32_t count = lease->count;
  const auto left = [](const LeaseItem &item) { return item.kind != LeaseKind::none; };
  LeaseItem *next = std::find_if(items, items + count, left);
  while (wrote_elsewhere || next != items + count) {
    const Locked lock(env_.sync.lock);
    if (std::exchange(wrote_elsewhere, false))
      lease_.remote_writes.end(lease, Stamp::make(stream.slot, point, true));
    for (uint32_t done = 0; next != items + count && done < most_listed; ++done) {
      end_item(*next, lease, stamp_of(*next, stream, point));
      next = std::find_if(next + 1, items + count, left);
    }
  }
  state.give(lease);
  wake_watchers(env_, lease_);
}

void Releases::end_item(const LeaseItem &item, const Lease *lease, Stamp stamp) noexcept {
  const Target where = page_.buffers.target(item.buffer);
  const lease::Range range = item.whole()
                                 ? lease::all_of(where, item.buffer)
                                 : lease::part_of(where, item.buffer, item.begin, item.end);
  lease_.history.note(range.buffer, range.begin, range.end, stamp);
  where.region->past.last_use = std::max(where.region->past.last_use, stamp.point());
  // It may have been leased on the hit path.
  if (item.whole() || item.kind == LeaseKind::part)
    prefetcher_.note_use(range.buffer, range.begin, range.end);
  if (item.kind == LeaseKind::part)
    page_.buffers.spans().drop(page_.buffers.hot(item.buffer), item.mode);
  else
    lease_.leases.drop(range, item.mode, lease);
  env_.sync.changed.notify_all();
}

}  // namespace weir::pool
