// SPDX-License-Identifier: Apache-2.0
//
// RangeHits: the hit path for a lease of one range of a buffer, beside that of whole buffers, which must not pay for it. It has the same
// rules (page/hot.hpp), and those of spans (page/spans.hpp).
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
  /// The first step of a release, under the timeline's lock: if it is a lease that acquire() has granted, and can end as it began, it becomes the
  /// thread's `ending`, which has the turn to record its fence.
  void begin_release(Stream &stream, StreamState &state, Lease &lease) noexcept;
  /// The second, without it. False: there was no first, or it has to end another way.
  bool end_release(Stream &stream, StreamState &state) noexcept;

  /// In the turn of the stream's timeline. False: there is a fence of another stream, so this one belongs into the history.
  bool release(const LeaseItem &item, Stamp stamp) noexcept {
    return buffers_.spans().release(buffers_.hot(item.buffer), {item.begin, item.end, item.mode},
                                    stamp);
  }
  /// Ends one whose fence is there.
  void drop(const LeaseItem &item) noexcept {
    buffers_.spans().drop(buffers_.hot(item.buffer), item.mode);
  }

 private:
  page::BufferDirectory &buffers_;
  uint32_t pool_id_;
};

}  // namespace weir::pool
