// SPDX-License-Identifier: Apache-2.0
//
// Live bytes by time are sums of what is gained and lost; nothing is walked but blocks and times, each a few times.
#include "tools/weir/frag/timeline.hpp"

#include <algorithm>
#include <tuple>

namespace weir::tool::frag {
namespace {

/// Live bytes at each time. Differences may wrap, their sums do not.
std::vector<uint64_t> live_by_time(const Story &story, uint64_t end) {
  std::vector<uint64_t> live(end + 2, 0);
  for (const StoryBlock &block : story.blocks) {
    if (block.born > end) continue;
    live[block.born] += block.bytes;
    live[std::min(block.dies, end + 1)] -= block.bytes;
  }
  live.pop_back();
  for (size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
  return live;
}

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
  timeline.times = fullest_times(live_by_time(story, end), bucket);

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
  return timeline;
}

std::vector<std::vector<uint64_t>> others_of(const Story &story, const Timeline &timeline,
                                             const std::vector<size_t> &class_of_tag,
                                             size_t classes) {
  const auto &times = timeline.times;
  const auto index = [&times](uint64_t time) {
    return static_cast<size_t>(std::ranges::lower_bound(times, time) - times.begin());
  };
  std::vector<std::vector<uint64_t>> sums(classes, std::vector<uint64_t>(times.size() + 1, 0));
  auto told = timeline.blocks.begin();
  for (uint32_t i = 0; i < story.blocks.size(); ++i) {
    if (told != timeline.blocks.end() && *told == i) {
      ++told;
      continue;
    }
    const StoryBlock &block = story.blocks[i];
    std::vector<uint64_t> &sum = sums[class_of_tag[block.tag]];
    sum[index(block.born)] += block.bytes;
    sum[index(block.dies)] -= block.bytes;
  }
  for (std::vector<uint64_t> &sum : sums) {
    sum.pop_back();
    for (size_t k = 1; k < sum.size(); ++k) sum[k] += sum[k - 1];
  }
  return sums;
}

}  // namespace weir::tool::frag
