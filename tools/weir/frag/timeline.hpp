// SPDX-License-Identifier: Apache-2.0
//
// Timeline: the blocks that make up the live bytes over a whole trace, at the time of each bucket at which most was live. So many
// of the largest are told one by one as a page may carry; the others are sums. Invariant: at each time the sizes of the told
// blocks that are live then and the sums of the others are exactly what is live.
#pragma once

#include "tools/weir/frag/story.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::tool::frag {

struct Timeline {
  std::vector<uint64_t> times;   ///< one a bucket
  std::vector<uint32_t> blocks;  ///< told, in order of birth
  uint64_t left_out = 0;         ///< blocks that are live at one of the times, and not told
};

inline constexpr size_t most_told_blocks = 12000;

/// Of the times 0 to `end`, in buckets of `bucket` times.
Timeline timeline_of(const Story &story, uint64_t end, uint64_t bucket,
                     size_t most_blocks = most_told_blocks);

/// By class and time: live bytes of blocks that are not told. The class of a block is that of its tag, and less than `classes`.
std::vector<std::vector<uint64_t>> others_of(const Story &story, const Timeline &timeline,
                                             const std::vector<size_t> &class_of_tag,
                                             size_t classes);

}  // namespace weir::tool::frag
