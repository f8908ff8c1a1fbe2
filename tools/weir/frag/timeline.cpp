// SPDX-License-Identifier: Apache-2.0
//
// Live bytes by time are sums of what is gained and lost; nothing is walked but blocks and times, each a few times.
#include "tools/weir/frag/timeline.hpp"

#include <algorithm>
#include <tuple>

namespace weir::tool::frag {
namespace {

/// Live bytes at each time; differences may wrap, their sums do not.
class LiveBytes {
 public:
  explicit LiveBytes(uint64_t end) : gained_(end + 2, 0) {}
  void add(const StoryBlock &block) {
    const uint64_t past = gained_.size() - 1;
    if (block.born >= past) return;
    gained_[block.born] += block.bytes;
    gained_[std::min(block.dies, past)] -= block.bytes;
  }
  std::vector<uint64_t> sums() && {
    gained_.pop_back();
    for (size_t i = 1; i < gained_.size(); ++i) gained_[i] += gained_[i - 1];
    return std::move(gained_);
  }

 private:
  std::vector<uint64_t> gained_;
};

std::vector<uint64_t> fullest_times(const std::vector<uint64_t> &live, uint64_t bucket) {
  std::vector<uint64_t> times;
  for (uint64_t from = 0; from < live.size(); from += bucket) {
    const auto begin = live.begin() + static_cast<std::ptrdiff_t>(from);
    const auto end =
        begin + static_cast<std::ptrdiff_t>(std::min<uint64_t>(bucket, live.size() - from));
    times.push_back(static_cast<uint64_t>(std::max_element(begin, end) - live.begin()));
  }
  return times;
}

}  // namespace

Timeline timeline_of(const Story &story, uint64_t end, uint64_t bucket, size_t most_blocks) {
  Timeline timeline;
  LiveBytes all(end);
  for (const StoryBlock &block : story.blocks) all.add(block);
  const std::vector<uint64_t> live = std::move(all).sums();
  timeline.times = fullest_times(live, bucket);

  std::vector<uint32_t> &told = timeline.blocks;
  for (uint32_t i = 0; i < story.blocks.size(); ++i) {
    const auto next = std::ranges::lower_bound(timeline.times, story.blocks[i].born);
    if (next != timeline.times.end() && story.blocks[i].live_at(*next)) told.push_back(i);
  }
  if (told.size() > most_blocks) {
    timeline.left_out = told.size() - most_blocks;
    // The largest; of equals the longest-lived, then the oldest.
    const auto weight = [&](uint32_t i) {
      const StoryBlock &block = story.blocks[i];
      return std::tuple(UINT64_MAX - block.bytes, UINT64_MAX - (block.dies - block.born), i);
    };
    std::nth_element(told.begin(), told.begin() + static_cast<std::ptrdiff_t>(most_blocks),
                     told.end(), [&](uint32_t a, uint32_t b) { return weight(a) < weight(b); });
    told.resize(most_blocks);
    std::ranges::sort(told);
  }

  LiveBytes drawn(end);
  for (const uint32_t block : told) drawn.add(story.blocks[block]);
  const std::vector<uint64_t> sums = std::move(drawn).sums();
  for (const uint64_t time : timeline.times) timeline.others.push_back(live[time] - sums[time]);
  return timeline;
}

}  // namespace weir::tool::frag
