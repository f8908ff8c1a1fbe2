// SPDX-License-Identifier: Apache-2.0
//
// Pieces of DOT: labels as Graphviz's HTML-like tables, colours, and figures in words. Labels are made at least as wide as the
// text is in a wide font: the viewer may have other fonts than the machine that drew.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::tool::topo {

/// A colour of the picture, on white and on a dark page.
struct Ink {
  const char *light, *dark;
};
inline constexpr Ink page_ink{"#ffffff", "#12161c"}, text_ink{"#1b2430", "#e4e9f0"},
    soft_ink{"#566273", "#a3afbf"}, frame_ink{"#c3cad4", "#3b4655"}, area_ink{"#f5f7fa", "#1a2029"},
    host_ink{"#fdf3dc", "#3a3115"}, host_edge_ink{"#b08a2e", "#cfa94a"},
    device_ink{"#e4eefa", "#1c3350"}, device_edge_ink{"#4a76ab", "#6b9bd6"},
    bridge_ink{"#eceff3", "#2a323d"}, bridge_edge_ink{"#7d8896", "#8794a5"},
    hub_ink{"#fefefe", "#171c24"};

/// What a kind of link is called, and its colour.
struct KindWords {
  const char *kind;  ///< as the JSON has it
  const char *name;
  Ink ink;
};
const KindWords &words_of(std::string_view kind);
/// Of words_of(): all of them.
const std::vector<KindWords> &all_kinds();

struct Line {
  std::string text;
  Ink ink = text_ink;
  int size = 11;
  bool bold = false;
};
/// At most so many characters of UTF-8, the rest as one sign; controls are question marks; without blanks around it.
std::string shortened(std::string_view text, size_t most);
/// An HTML-like label with these lines below each other; empty ones are left out.
std::string label_of(const std::vector<Line> &lines, bool centred = false);
std::string escaped(std::string_view text);
/// Points that the text needs in a wide font.
int width_of(std::string_view text, int size, bool bold);

/// "150", "15.8", "0.25".
std::string gigabytes(uint64_t bandwidth);
/// "32 GiB", as the text of `weir topo` has it.
std::string memory_text(uint64_t bytes);
/// "NVLink 150 GB/s"; both ways where they differ; "PCIe, speed unknown".
std::string link_text(std::string_view kind, uint64_t to, uint64_t back);
/// The width of a line: the wider the faster.
std::string pen_width(uint64_t bandwidth);

}  // namespace weir::tool::topo
