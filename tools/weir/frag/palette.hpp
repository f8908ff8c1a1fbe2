// SPDX-License-Identifier: Apache-2.0
//
// The colours of both pictures, and the classes they stand for. They can be told apart with any kind of colour
// vision: categories are from Okabe and Ito ("Color universal design", 2008), classes with an order are one hue that grows
// darker. Yellow is kept for the room that is reserved and not used, which is what the pictures are looked at for.
#pragma once

#include "tools/weir/frag/film.hpp"

#include <array>
#include <optional>
#include <string_view>

namespace weir::tool::frag {

enum class ColourMode : uint8_t { tier, tag, size, age };
inline constexpr const char *colour_mode_names[] = {"tier", "tag", "size", "age"};
std::optional<ColourMode> colour_mode_of(std::string_view name);

inline constexpr const char *kind_colours[kind_count] = {"#0072b2", "#d55e00", "#009e73",
                                                         "#cc79a7", "#9aa5b1", "#6b7280"};

inline constexpr size_t tag_colour_count = 8;
/// For the tags with the most bytes; the last is for all others.
inline constexpr const char *tag_colours[tag_colour_count] = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#5b4b8a", "#7fd0f5", "#b8860b", "#8a929c"};

struct Class {
  uint64_t below;  ///< the class's values are less; 0: no bound
  const char *name;
  const char *colour;
};
inline constexpr std::array<Class, 6> size_classes = {{
    {uint64_t{4} << 10, "< 4 KiB", "#c6dbef"},
    {uint64_t{64} << 10, "4 - 64 KiB", "#93c1e0"},
    {uint64_t{1} << 20, "64 KiB - 1 MiB", "#5a9fd0"},
    {uint64_t{16} << 20, "1 - 16 MiB", "#2f79b5"},
    {uint64_t{256} << 20, "16 - 256 MiB", "#1a5290"},
    {0, ">= 256 MiB", "#0b2a5b"},
}};
/// Of the time since a block's birth, in thousandths of the trace.
inline constexpr std::array<Class, 5> age_classes = {{
    {1, "< 0.1 % of the trace", "#fbd0b0"},
    {10, "0.1 - 1 %", "#f29c66"},
    {100, "1 - 10 %", "#d9662f"},
    {500, "10 - 50 %", "#a13d0f"},
    {0, ">= 50 %", "#5c1f05"},
}};

template <size_t count>
constexpr size_t class_of(const std::array<Class, count> &classes, uint64_t value) {
  size_t at = 0;
  while (classes[at].below != 0 && value >= classes[at].below) ++at;
  return at;
}

/// The tags that have a colour of their own, by the bytes of their blocks in the film; at most tag_colour_count - 1.
std::vector<uint32_t> coloured_tags(const Film &film, const Story &story);

}  // namespace weir::tool::frag
