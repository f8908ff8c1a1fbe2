// SPDX-License-Identifier: Apache-2.0
//
// Choosing instants.
#include "tools/weir/frag/instants.hpp"

#include <algorithm>

namespace weir::tool::frag {

std::vector<uint64_t> instants(uint32_t count, uint64_t end,
                               const std::vector<NamedInstant> &named) {
  std::vector<uint64_t> times;
  for (const NamedInstant &instant : named) times.push_back(instant.time);
  const uint64_t steps = std::min<uint64_t>(std::max<uint32_t>(count, 2) - 1, end);
  times.push_back(0);
  for (uint64_t i = 1; i <= steps; ++i) times.push_back(end / steps * i + end % steps * i / steps);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

std::vector<Mark> marks(const std::vector<Frame> &frames, std::vector<NamedInstant> named) {
  std::stable_sort(named.begin(), named.end(),
                   [](const NamedInstant &a, const NamedInstant &b) { return a.time < b.time; });
  std::vector<Mark> list;
  for (const NamedInstant &instant : named) {
    const auto frame =
        std::lower_bound(frames.begin(), frames.end(), instant.time,
                         [](const Frame &one, uint64_t time) { return one.time < time; });
    list.push_back({instant.key, instant.text, static_cast<uint32_t>(frame - frames.begin())});
  }
  return list;
}

uint64_t start_of(const Story &story, uint64_t end) {
  // In a pool memory comes with the first use: before the first phase there is nothing to see.
  if (story.clock == Clock::operations) return end / 20;
  for (const StoryMark &mark : story.phase_marks)
    if (mark.time > 1) return std::min(mark.time - 1, end);
  return end / 20;
}

Frame frame_at(const Story &story, uint64_t time) {
  Frame frame;
  frame.time = time;
  frame.phase = story.phase_at(time);
  frame.operation = story.operation_at(time);
  if (frame.operation != UINT64_MAX)
    frame.operation_name = story.names[story.operation_marks[frame.operation].text];
  return frame;
}

}  // namespace weir::tool::frag
