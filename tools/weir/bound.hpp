// SPDX-License-Identifier: Apache-2.0
//
// Bound: the least time in which any policy, online or not, can run a plan on a device of so many bytes with one link each way.
// Bytes, not pages or blocks, are what it moves, so no granularity beats it either.
//
// Two bounds. The simple one is max(compute, least bytes in / link): Belady's choice (L. A. Belady, IBM Systems Journal 5(2), 1966)
// gives the least bytes in. The tight one cuts the run into segments and adds up what each of them takes at least, by dynamic
// programming over the cuts:
//
//   T(b) = max over a < b of T(a) + max(compute of [a, b), in(a, b) / link, out(a, b) / link)
//
// in(a, b) are the least bytes that come in for the operations of [a, b) when what is in memory at a may be chosen freely; out(a, b)
// are the bytes written in [a, b) that are read later and have no room at one of its operations. Both have to pass the link in the
// segment's own time, whatever was done before. So a forward pass that can only send down, and a backward pass that can only bring
// up, take their times one after the other, which the simple bound does not see.
//
// What must hold: every choice errs towards less. Where a use takes a part of a block, the bytes of the block that are in memory
// count as those that it takes.
#pragma once

#include "plan.hpp"
#include "replayer.hpp"

#include <cstdint>

namespace weir::tool {

struct Bound {
  uint64_t fetched = 0;       ///< bytes that come in at least, from an empty device on
  double simple_seconds = 0;  ///< max(compute, fetched / link)
  double seconds = 0;         ///< the tight bound; never less than the simple one
};

/// What is there before it is written.
enum class Unwritten : uint8_t {
  zero,    ///< nothing that would have to be kept: it always comes in for nothing
  loaded,  ///< contents from elsewhere, as weights are: they come in for nothing once, and after that as what is written does
};

/// `touch`: each block is written when it is born. At most `cuts` segments; fewer for plans of very many uses.
Bound least_time(const Plan &plan, uint64_t capacity, const Pace &pace, bool touch = false,
                 uint32_t cuts = 256, Unwritten unwritten = Unwritten::zero);

}  // namespace weir::tool
