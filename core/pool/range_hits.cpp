// SPDX-License-Identifier: Apache-2.0
//
// A lease of one range, from acquire to release.

#include "core/pool/range_hits.hpp"

#include <mutex>
#include <utility>

namespace weir::pool {

bool RangeHits::acquire(Stream &stream, OwnLeases *own, weir_use &use, weir_lease *out,
                        uint64_t *end) noexcept {
  uint32_t index = 0;
  uint64_t generation = 0;
  if (own == nullptr || own->free.head == nullptr ||
      (use.flags | use.reserved[0] | use.reserved[1] | use.reserved[2]) != 0 ||
      use.mode - 1U > 2U || !buffers_.decode(use.buffer, &index, &generation))
    return false;
  page::Hot &hot = buffers_.hot(index);
  const uint64_t size = hot.size();
  if (use.offset >= size) return false;
  const uint64_t length = use.length != WEIR_WHOLE ? use.length : size - use.offset;
  if (length == 0 || length > size - use.offset || length == size) return false;
  const page::SpanLease range{use.offset, use.offset + length, static_cast<uint8_t>(use.mode)};
  uint64_t address = 0;
  if (!buffers_.spans().try_lease(hot, generation, range, stream.slot, stream.device->id, &address))
    return false;
  use.address = address + range.begin;
  Lease *lease = own->free.pop();
  lease->few[0].be_part(range.begin, range.end, index, range.mode);
  lease->count.store(1, std::memory_order_release);  // who looks at all leases finds the item
  *out = StreamState::handle(pool_id_, stream.slot, *lease);
  *end = range.end;
  return true;
}

void RangeHits::begin_release(Stream &stream, StreamState &state, Lease &lease) noexcept {
  OwnLeases *own = state.of_this_thread();
  const LeaseItem &item = lease.few[0];
  if (own == nullptr || lease.count != 1 || item.kind != LeaseKind::part) return;
  const Stamp seen{buffers_.hot(item.buffer).stamp.load(std::memory_order_relaxed)};
  if ((seen && seen.slot() != stream.slot) || !stream.timeline.begin_record()) return;
  own->ending = &lease;
}

bool RangeHits::end_release(Stream &stream, StreamState &state) noexcept {
  OwnLeases *own = state.of_this_thread();
  Lease *lease = own != nullptr ? std::exchange(own->ending, nullptr) : nullptr;
  if (lease == nullptr) return false;
  const LeaseItem &item = lease->few[0];
  uint64_t point = 0;
  const bool ended = stream.timeline.record_in_turn(&point).ok() &&
                     release(item, Stamp::make(stream.slot, point, item.writes()));
  stream.timeline.end_record();
  return ended;
}

}  // namespace weir::pool
