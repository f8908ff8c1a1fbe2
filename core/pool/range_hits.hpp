// SPDX-License-Identifier: Apache-2.0
//
// RangeHits: the hit path for a lease of one range of a buffer, beside that of whole buffers, which must not pay for it. It has the same
// rules (page/hot.hpp), and those of spans (page/spans.hpp).
//
// Why nobody misses such a lease, though it is granted without the pool's lock. It is counted in the buffer's word by the compare-and-swap
// that has found the word open, and the span's lock is held from before that until the span has the range. So whoever looks with
// Spans::look() sees no lease, or the lease with its range; who only looks at the word sees one of the whole, which is more.
//  - LeaseTable::close(page), for eviction, remapping and extents (a region without VMM is one page): closes the path (Word::resident) in the
//    step that sees no lease. If there is one it closes first, and looks then: what was granted before is seen, and nothing after. It may
//    refuse a page for a lease that has just ended, never the other way round.
//  - A lease of the whole: its compare-and-swap on the same word sees the count (LeaseTable::take_whole(), Hot::try_lease()). One of a
//    range under the pool's lock: sets Word::partial, which closes the path, and looks then (LeaseTable::take()).
//  - Discards, holds, the CPU's reads and writes, registered memory: take such leases themselves (Claims, take_alone()).
//  - weir_buffer_destroy: closes the word in the step that sees no lease. Defragmentation: closes pages as above; slabs, whose tenants
//    move, have no spans.
//  - The next user's fences: a release publishes its stamp before it drops the count. Who has counted his own lease, or closed the path
//    and seen none, finds the stamp. It stands for ranges alone while it is the one that the last of them has left; whoever publishes
//    another for the whole, or finds a later one there (Spans::release_whole()), makes it stand for all. Uses leave the stamp for the
//    history only where nobody may be publishing (History::unfold()).
#pragma once

#include "core/backend/stream.hpp"
#include "core/lease/layer.hpp"
#include "core/page/spans.hpp"

namespace weir::pool {

using backend::Stamp;
using backend::Stream;
using lease::OwnLeases;

class RangeHits {
 public:
  RangeHits(page::BufferDirectory &buffers, uint32_t pool_id) noexcept
      : buffers_(buffers), pool_id_(pool_id) {}

  /// A lease with a record of the thread's own (nullptr: it has none). *end: where its range ends. False: it takes another way, and nothing
  /// has happened. The caller counts the hit, or logs it.
  bool acquire(Stream &stream, OwnLeases *own, weir_use &use, weir_lease *out,
               uint64_t *end) noexcept;

 private:
  page::BufferDirectory &buffers_;
  uint32_t pool_id_;
};

}  // namespace weir::pool
