// SPDX-License-Identifier: Apache-2.0
//
// What the prefetchers are asked for, by whoever asks: bytes of a buffer that are to come to a device for nobody's lease; and what is
// remembered of a call that asked: until they are used, these bytes count as needed next (hints.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::residency {

struct PrefetchRequest {
  uint32_t buffer;
  uint64_t generation;
  uint64_t begin, end;
  uint8_t mode, place;
  uint32_t slot = 0;    ///< of the stream that announced it; 0: asked for by a call ...
  size_t use = 0;       ///< ... as this use ...
  uint64_t number = 0;  ///< ... of this operation
  bool remote = false;  ///< not if the use can be granted where the bytes are
  bool lend = false;    ///< to a neighbour that has memory to spare (rebalance.hpp)
  uint64_t call = 0;    ///< of the Hint that goes with it; 0: none does
  uint32_t asker = 0;   ///< the slot of the stream of that call
  uint64_t bytes = 0;   ///< of the pages that it is on ...
  uint64_t until = 0;   ///< ... and of all that calls have asked for, up to it and with it
  uint64_t refused =
      0;  ///< the round in which there was no room for it, nor for its asker's later ones
};
using PrefetchBatch = std::pmr::vector<PrefetchRequest>;

/// How far a stream has come: two counts, neither less than the acquires it has made.
struct Progress {
  uint64_t uses = 0;   ///< granted; an acquire has one at least
  uint64_t point = 0;  ///< of its timeline; a release takes one at least
};

/// A prefetch that nobody has used yet, of bytes of a buffer.
struct Hint {
  uint64_t generation;  ///< of the buffer
  uint64_t begin, end;
  uint64_t call;          ///< the later, the later needed
  uint64_t bytes, until;  ///< as in its request
  uint64_t
      stamp;  ///< of the buffer's last whole use by then: another one says that it has been used since
  Progress then;  ///< of the stream
  uint32_t slot;  ///< of the stream; 0: asked for without one, and the whole pool counts
  uint32_t stream_generation;
  uint8_t place;
};

}  // namespace weir::residency
