// SPDX-License-Identifier: Apache-2.0
//
// The picture: a box a package, in it its NUMA nodes, in those their devices; lines for links, as wide as they are fast, coloured
// by kind. Switches are one box, which all links of their kind go through. It has no scripts and fetches nothing.

#include "core/topology/describe.hpp"
#include "core/topology/text.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <set>

namespace weir::topology {
namespace {

constexpr int device_width = 190, device_height = 54, gap = 24, columns = 4;
constexpr const char *black = "#000000", *grey = "#444444";

const char *colour_of(uint32_t kind) noexcept {
  static constexpr const char *colours[] = {"#999999", "#999999", "#7a7a7a", "#4a8f00", "#c4262e",
                                            "#0068b5", "#8a5a00", "#7b3fa0", "#00807a"};
  return kind < std::size(colours) ? colours[kind] : "#999999";
}

std::string escaped(std::string_view text) {
  static constexpr const char *names[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
  std::string result;
  for (const char c : text) {
    const size_t special = std::string_view("&<>\"").find(c);
    if (special != std::string_view::npos)
      result += names[special];
    else
      result += c >= ' ' && c <= '~' ? c : '?';
  }
  return result;
}

struct Point {
  int x = 0, y = 0;
};

std::string label(Point at, std::string_view text, const char *colour, int size = 12) {
  return printed("<text x=\"%d\" y=\"%d\" fill=\"%s\" font-size=\"%d\">", at.x, at.y, colour,
                 size) +
         escaped(text) + "</text>\n";
}

std::string box(Point at, Point size, const char *fill, const char *edge) {
  return printed(
      "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\" stroke=\"%s\"/>\n",
      at.x, at.y, size.x, size.y, fill, edge);
}

int thickness(uint64_t bandwidth) {
  if (bandwidth == 0) return 1;
  const double gb = static_cast<double>(bandwidth) / 1e9;
  return std::clamp(static_cast<int>(std::lround(std::log2(gb + 1) * 0.75)), 1, 8);
}

/// Where the devices of a group are: at one node; or, of a card, its partitions.
struct Where {
  uint32_t package = none, node = none, card = none;
  auto operator<=>(const Where &) const noexcept = default;
};

class Picture {
 public:
  explicit Picture(const Machine &machine) : machine_(machine), rows_(rows_of(machine)) {
    if (!rows_.empty()) rows_.pop_back();  // the host
  }

  std::string run() {
    place_groups();
    bottom_ = std::max(bottom_, 120);
    add_switch();
    std::string body = boxes_ + lines() + devices_;
    body += legend();  // of the kinds that lines() has drawn
    const std::string_view name = machine_.places()[0].name;
    return printed(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
               "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
               width_, bottom_, width_, bottom_) +
           label({gap, 22}, name.empty() ? "machine" : name, black, 15) + body + "</svg>\n";
  }

 private:
  /// Packages side by side, nodes below each other.
  void place_groups() {
    std::map<Where, std::vector<Row>> all;
    for (const Row &row : rows_) {
      const Place &place = machine_.device(row.device);
      const uint32_t package = machine_.above(machine_.devices()[row.device], PlaceKind::package);
      const uint32_t card = place.kind == PlaceKind::tile ? place.parent : none;
      all[{package, place.numa_node, card}].push_back(row);
    }
    int x = gap;
    for (auto group = all.begin(); group != all.end();) {
      const uint32_t package = group->first.package;
      int y = 72, wide = 0;
      std::string nodes;
      for (; group != all.end() && group->first.package == package; ++group) {
        const Point size = place_group(group->first, group->second, {x + gap / 2, y}, &nodes);
        y += size.y + gap / 2;
        wide = std::max(wide, size.x);
      }
      const uint32_t number = package != none ? machine_.places()[package].number : none;
      const std::string title = package == none  ? "machine"
                                : number == none ? "package ?"
                                                 : "package " + std::to_string(number);
      boxes_ += box({x, 40}, {wide + gap, y - 40}, "#f4f4f2", "#b0b0a8") +
                label({x + 12, 60}, title, grey) + nodes;
      x += wide + 3 * gap;
      bottom_ = std::max(bottom_, y + gap);
    }
    width_ = std::max(x, 420);
  }

  Point place_group(const Where &where, const std::vector<Row> &rows, Point at, std::string *text) {
    const int count = static_cast<int>(rows.size()), across = std::min(count, columns);
    const int down = (count + columns - 1) / columns;
    const Point size{across * (device_width + gap) + gap,
                     down * (device_height + 2 * gap) + 2 * gap};
    std::string title =
        where.node != none ? "NUMA node " + std::to_string(where.node) : "no NUMA node";
    if (where.card != none)
      title += ", card " + std::string(machine_.places()[where.card].pci_address) + " in " +
               std::to_string(count) + " partitions";
    *text += box(at, size, "#ffffff", "#c8c8c0") + label({at.x + 10, at.y + 18}, title, grey);
    for (int i = 0; i < count; ++i)
      place_device(rows[static_cast<size_t>(i)],
                   {at.x + gap + i % columns * (device_width + gap),
                    at.y + 2 * gap + i / columns * (device_height + 2 * gap)});
    return size;
  }

  void place_device(const Row &row, Point at) {
    const Place &place = machine_.device(row.device);
    centres_[row.device] = {at.x + device_width / 2, at.y + device_height / 2};
    const Link host = machine_.link(host_end, row.device);
    const uint32_t shared = machine_.sharing(host_end, row.device);
    std::string way;
    if (host.kind != WEIR_LINK_NONE) {
      way = std::string("host: ") + short_name(host.kind);
      if (host.bandwidth != 0) way += " " + gigabytes(host.bandwidth) + " GB/s";
      if (shared > 1) way += ", shared by " + std::to_string(shared);
    }
    const std::string title = row.label + " " + std::string(place.name.substr(0, 19));
    const std::string memory = place.memory == 0 ? "" : " " + memory_text(place.memory);
    devices_ += box(at, {device_width, device_height}, "#e8f0f8", "#5878a0") +
                label({at.x + 8, at.y + 16}, title, black) +
                label({at.x + 8, at.y + 32}, std::string(place.pci_address) + memory, grey, 11) +
                label({at.x + 8, at.y + 47}, way, colour_of(host.kind), 11);
  }

  void add_switch() {
    for (const Place &place : machine_.places())
      switches_ += place.kind == PlaceKind::switch_port ? 1 : 0;
    if (switches_ == 0) return;
    switch_at_ = {width_ / 2, bottom_ + 30};
    boxes_ += box({switch_at_.x - 90, bottom_ + 10}, {180, 40}, "#eef6e6", "#4a8f00");
    devices_ += label({switch_at_.x - 70, bottom_ + 34},
                      "switches, " + std::to_string(switches_) + " ports", black);
    bottom_ += 50 + gap;
  }

  std::string line(Point from, Point to, const Link &link, const std::string &ends) {
    used_.insert(link.kind);
    // Bent to its side, so that a long line does not run through the boxes between its ends.
    const int across = to.x - from.x, down = to.y - from.y;
    const bool far = std::abs(across) + std::abs(down) > device_width + 2 * gap;
    const int aside = far ? down / 5 : 0, above = far ? -across / 5 : 0;
    std::string about = ends + ": " + link_kind_name(link.kind);
    if (link.bandwidth != 0) about += ", " + gigabytes(link.bandwidth) + " GB/s one way";
    return printed(
               "<path d=\"M%d %d Q%d %d %d %d\" fill=\"none\" stroke=\"%s\" stroke-width=\"%d\" "
               "stroke-opacity=\"0.6\"%s>",
               from.x, from.y, (from.x + to.x) / 2 + aside, (from.y + to.y) / 2 + above, to.x, to.y,
               colour_of(link.kind), thickness(link.bandwidth),
               link.direct ? "" : " stroke-dasharray=\"6 4\"") +
           "<title>" + escaped(about) + "</title></path>\n";
  }

  /// Fabrics only: that every device reaches every other by PCIe somehow is no news, and stands in each box.
  std::string lines() {
    std::string text;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Point here = centres_[rows_[i].device];
      Link best;
      for (size_t k = 0; k < rows_.size(); ++k) {
        const Link link = machine_.link(rows_[i].device, rows_[k].device);
        const bool fabric = link.kind != WEIR_LINK_NONE && link.kind != WEIR_LINK_PCIE &&
                            link.kind != WEIR_LINK_SAME && link.direct;
        if (!fabric) continue;
        if (switches_ != 0 && link.kind == WEIR_LINK_NVLINK) {
          if (link.bandwidth > best.bandwidth) best = link;
        } else if (k > i) {
          text +=
              line(here, centres_[rows_[k].device], link, rows_[i].label + " - " + rows_[k].label);
        }
      }
      if (best.bandwidth != 0) text += line(here, switch_at_, best, rows_[i].label);
    }
    return text;
  }

  std::string legend() {
    std::string text;
    int x = gap;
    for (const uint32_t kind : used_) {
      text += printed("<path d=\"M%d %d h30\" stroke=\"%s\" stroke-width=\"4\"/>\n", x, bottom_,
                      colour_of(kind)) +
              label({x + 36, bottom_ + 4}, link_kind_name(kind), black);
      x += 170;
    }
    constexpr std::string_view note =
        "width: by bandwidth, one way; links of PCIe between devices are not drawn";
    text += label({gap, bottom_ + 24}, note, grey, 11);
    bottom_ += 24 + gap;
    width_ = std::max({width_, x, 2 * gap + 7 * static_cast<int>(note.size())});  // wide fonts, too
    return text;
  }

  const Machine &machine_;
  std::vector<Row> rows_;  // without the host's
  std::map<uint32_t, Point> centres_;
  std::set<uint32_t> used_;
  std::string boxes_, devices_;
  Point switch_at_;
  int switches_ = 0, width_ = 420, bottom_ = 0;
};

}  // namespace

std::string describe_svg(const Machine &machine) { return Picture(machine).run(); }

}  // namespace weir::topology
