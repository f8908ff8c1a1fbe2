// SPDX-License-Identifier: Apache-2.0
//
// Flags of `weir frag`: checking. main.cpp declares them.
#include "frag_options.hpp"

#include "choices.hpp"
#include "error.hpp"
#include "frag/png.hpp"

#include <bit>

namespace weir::tool {
namespace {

constexpr uint64_t most_frames = 5000;
constexpr uint64_t smallest_segment = 4096;

bool wants_pool(const ReplayFlags &flags) {
  return !flags.device_memory.empty() || !flags.host_memory.empty() ||
         !flags.compressed_memory.empty() || !flags.storage.empty();
}

/// "dir/resnet50.vmt.zst" becomes "resnet50.frag.html", in the current directory.
std::string default_page(const std::string &trace) {
  std::string name = trace.substr(trace.find_last_of('/') + 1);
  for (const std::string_view ending : {".zst", ".vmt"})
    if (name.size() > ending.size() && name.ends_with(ending))
      name.resize(name.size() - ending.size());
  return name + ".frag.html";
}

void check_placement(const FragFlags &flags, FragOptions &options) {
  if (!flags.placement.empty()) {
    const auto kind = placement_of(flags.placement);
    if (!kind) throw ToolError(no_such_value("--placement", flags.placement, placement_choices()));
    options.placement.kind = *kind;
  }
  PlacementOptions &placement = options.placement.placement;
  if (!flags.capacity.empty()) {
    placement.capacity = parse_size(flags.capacity, "--capacity");
    if (placement.capacity == 0)
      throw ToolError("--capacity: '" + flags.capacity + "' is no memory at all");
  }
  if (!flags.pool.granule.empty()) {
    placement.granule = parse_size(flags.pool.granule, "--granule");
    if (!std::has_single_bit(placement.granule) || placement.granule < smallest_segment)
      throw ToolError("--granule: '" + flags.pool.granule +
                      "' is not a power of two of 4K or more");
  }
  options.placement.frames = options.frames;
}

void check_pool(const FragFlags &flags, FragOptions &options) {
  const auto refuse = [](const std::string &flag, const std::string &value) {
    if (!value.empty())
      throw ToolError(flag + ": '" + value + "' is for placements, and a budget asks for a pool");
  };
  refuse("--placement", flags.placement);
  refuse("--capacity", flags.capacity);
  options.pool = check_replay_flags(flags.pool);
  if (options.pool->recorded_pace) throw ToolError("--pace: 'recorded' is for weir replay");
}

}  // namespace

Choices colour_choices() {
  return {std::begin(frag::colour_mode_names), std::end(frag::colour_mode_names)};
}

FragOptions check_frag_flags(const FragFlags &flags) {
  FragOptions options;
  options.trace = flags.pool.trace;
  if (flags.frames < 2 || flags.frames > most_frames)
    throw ToolError("--frames: " + std::to_string(flags.frames) + " is not between 2 and " +
                    std::to_string(most_frames));
  options.frames = static_cast<uint32_t>(flags.frames);
  if (flags.pool.scale == 0) throw ToolError("--scale: 0 is not a divisor");
  if (flags.pool.limit == 0) throw ToolError("--limit: 0 operations are nothing to draw");
  options.scale = flags.pool.scale;
  options.limit = flags.pool.limit;
  const bool pool = wants_pool(flags.pool);
  if (pool)
    check_pool(flags, options);
  else
    check_placement(flags, options);
  options.colour = pool ? frag::ColourMode::tier : frag::ColourMode::tag;
  if (!flags.colour.empty()) {
    const auto colour = frag::colour_mode_of(flags.colour);
    if (!colour) throw ToolError(no_such_value("--colour", flags.colour, colour_choices()));
    options.colour = *colour;
  }
  if (!flags.png.empty() && !frag::png_missing().empty())
    throw ToolError("--png: '" + flags.png + "': " + frag::png_missing());
  options.png = flags.png;
  options.html =
      !flags.html.empty() || !flags.png.empty() ? flags.html : default_page(options.trace);
  options.json = flags.json;
  return options;
}

}  // namespace weir::tool
