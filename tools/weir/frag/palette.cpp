// SPDX-License-Identifier: Apache-2.0
//
// Which tags are told apart: those whose blocks hold the most, over the frames; then those that only the timeline shows.
#include "tools/weir/frag/palette.hpp"

#include <algorithm>

namespace weir::tool::frag {

std::optional<ColourMode> colour_mode_of(std::string_view name) {
  for (size_t i = 0; i < std::size(colour_mode_names); ++i)
    if (name == colour_mode_names[i]) return static_cast<ColourMode>(i);
  return {};
}

std::vector<uint32_t> coloured_tags(const Film &film, const Story &story) {
  std::vector<double> weight(story.tags.size(), 0);
  for (const Span &span : film.blocks)
    if (span.block != no_block)
      weight[story.blocks[span.block].tag] +=
          static_cast<double>(span.bytes) * (span.last - span.first + 1);
  for (const uint32_t block : film.timeline.blocks)
    weight[story.blocks[block].tag] += static_cast<double>(story.blocks[block].bytes) * 1e-9;
  std::vector<uint32_t> tags(story.tags.size());
  for (uint32_t i = 0; i < tags.size(); ++i) tags[i] = i;
  std::stable_sort(tags.begin(), tags.end(),
                   [&](uint32_t a, uint32_t b) { return weight[a] > weight[b]; });
  std::erase_if(tags, [&](uint32_t tag) { return !(weight[tag] > 0); });
  // One left over would be "others" of one kind: it keeps its name.
  if (tags.size() > tag_colour_count) tags.resize(tag_colour_count - 1);
  return tags;
}

}  // namespace weir::tool::frag
