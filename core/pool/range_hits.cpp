// SPDX-License-Identifier: Apache-2.0
//
// Granting a lease of one range.

#include "core/pool/range_hits.hpp"

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
  if (page::Word::span(hot.word.load(std::memory_order_relaxed)) == 0) return false;
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

}  // namespace weir::pool
