// SPDX-License-Identifier: Apache-2.0
//
// Instants: the times a film has frames of: evenly spread ones, and those with a name. Fewer frames where the trace is
// short; never two of one time.
#pragma once

#include "tools/weir/frag/film.hpp"

namespace weir::tool::frag {

struct NamedInstant {
  const char *key;
  std::string text;
  uint64_t time;
};

/// Ascending. The named ones come on top of `count` that are spread over [0, end].
std::vector<uint64_t> instants(uint32_t count, uint64_t end,
                               const std::vector<NamedInstant> &named);

/// The film's marks, in order of time. Each must be the time of a frame.
std::vector<Mark> marks(const std::vector<Frame> &frames, std::vector<NamedInstant> named);

/// What a picture of the start shows: memory as it is when the first phase begins; else, and in a pool, a twentieth into
/// the trace.
uint64_t start_of(const Story &story, uint64_t end);

/// The frame's words; its numbers are the caller's.
Frame frame_at(const Story &story, uint64_t time);

}  // namespace weir::tool::frag
