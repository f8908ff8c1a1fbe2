// SPDX-License-Identifier: Apache-2.0
//
// The picture: a box a package, in it its NUMA nodes, in those their devices; lines for links, as wide as they are fast,
// coloured by kind. Where there are switches, links of their kind go through one box that stands for all of them. It has no
// scripts and fetches nothing.

#include "core/topology/describe.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>

namespace weir::topology {
namespace {

constexpr int device_width = 190, device_height = 54, gap = 24, columns = 4;

const char *colour_of(uint32_t kind) noexcept {
  static constexpr const char *colours[] = {"#999999", "#999999", "#7a7a7a", "#4a8f00", "#c4262e",
                                            "#0068b5", "#8a5a00", "#7b3fa0", "#00807a"};
  return kind < std::size(colours) ? colours[kind] : "#999999";
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c >= ' ' && c <= '~' ? c : '?';
  }
  return result;
}

struct Point {
  int x = 0, y = 0;
};

/// Devices that are at one node; or, of a card, its partitions.
struct Group {
  uint32_t package = none, node = none, card = none;
  std::vector<Row> rows;
};

class Picture {
 public:
  explicit Picture(const Machine &machine) : machine_(machine) {}

  std::string run() {
    collect();
    place_groups();
    bottom_ = std::max(bottom_, 120);
    std::string body = boxes_;
    if (switches_ != 0) add_switch(&body);
    body += lines();
    body += devices_;
    body += legend();
    char head[256];
    std::snprintf(head, sizeof head,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                  "viewBox=\"0 0 %d %d\" "
                  "font-family=\"sans-serif\" font-size=\"12\">\n",
                  width_, bottom_, width_, bottom_);
    const std::string name(machine_.places()[0].name);
    return std::string(head) + "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" +
           label(gap, 22, name.empty() ? "machine" : name, "#000000", 15) + body + "</svg>\n";
  }

 private:
  static std::string label(int x, int y, std::string_view text, const char *colour, int size = 12) {
    char start[128];
    std::snprintf(start, sizeof start, "<text x=\"%d\" y=\"%d\" fill=\"%s\" font-size=\"%d\">", x,
                  y, colour, size);
    return start + escaped(text) + "</text>\n";
  }
  static std::string box(int x, int y, int width, int height, const char *fill, const char *edge) {
    char text[192];
    std::snprintf(
        text, sizeof text,
        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\" stroke=\"%s\"/>\n",
        x, y, width, height, fill, edge);
    return text;
  }

  void collect() {
    for (const Place &place : machine_.places())
      switches_ += place.kind == PlaceKind::switch_port ? 1 : 0;
    for (const Row &row : rows_of(machine_)) {
      if (row.device == host_end) continue;
      const uint32_t at = machine_.devices()[row.device];
      const uint32_t package = machine_.above(at, PlaceKind::package);
      const uint32_t node = machine_.device(row.device).numa_node;
      const Place &place = machine_.places()[at];
      const uint32_t card = place.kind == PlaceKind::tile ? place.parent : none;
      const auto same = [=](const Group &g) {
        return g.package == package && g.node == node && g.card == card;
      };
      auto found = std::find_if(groups_.begin(), groups_.end(), same);
      if (found == groups_.end()) found = groups_.insert(found, Group{package, node, card, {}});
      found->rows.push_back(row);
    }
    std::stable_sort(groups_.begin(), groups_.end(), [](const Group &a, const Group &b) {
      return std::tie(a.package, a.node, a.card) < std::tie(b.package, b.node, b.card);
    });
  }

  /// Packages side by side, nodes below each other.
  void place_groups() {
    int x = gap;
    for (size_t begin = 0; begin < groups_.size();) {
      size_t end = begin;
      int y = 72, wide = 0;
      std::string nodes;
      while (end < groups_.size() && groups_[end].package == groups_[begin].package) {
        const Point size = place_group(groups_[end++], x + gap / 2, y, &nodes);
        y += size.y + gap / 2;
        wide = std::max(wide, size.x);
      }
      const uint32_t package = groups_[begin].package;
      const std::string title =
          package == none ? "machine" : "package " + number(machine_.places()[package].number);
      boxes_ += box(x, 40, wide + gap, y - 40, "#f4f4f2", "#b0b0a8") +
                label(x + 12, 60, title, "#444444") + nodes;
      x += wide + 3 * gap;
      bottom_ = std::max(bottom_, y + gap);
      begin = end;
    }
    width_ = std::max(x, 420);
  }

  static std::string number(uint32_t value) { return value != none ? std::to_string(value) : "?"; }

  std::string title_of(const Group &group) const {
    std::string text = group.node != none ? "NUMA node " + number(group.node) : "no NUMA node";
    if (group.card == none) return text;
    const Place &card = machine_.places()[group.card];
    return text + ", card " + std::string(card.pci_address) + " in " +
           std::to_string(group.rows.size()) + " partitions";
  }

  Point place_group(const Group &group, int x, int y, std::string *text) {
    const int count = static_cast<int>(group.rows.size()), across = std::min(count, columns);
    const int down = (count + columns - 1) / columns;
    const Point size{across * (device_width + gap) + gap,
                     down * (device_height + 2 * gap) + 2 * gap};
    *text += box(x, y, size.x, size.y, "#ffffff", "#c8c8c0") +
             label(x + 10, y + 18, title_of(group), "#444444");
    for (int i = 0; i < count; ++i) {
      const Point at{x + gap + i % columns * (device_width + gap),
                     y + 2 * gap + i / columns * (device_height + 2 * gap)};
      place_device(group.rows[static_cast<size_t>(i)], at);
    }
    return size;
  }

  void place_device(const Row &row, Point at) {
    const Place &place = machine_.device(row.device);
    centres_[row.device] = {at.x + device_width / 2, at.y + device_height / 2};
    const Link host = machine_.link(host_end, row.device);
    std::string second = std::string(place.pci_address), third;
    if (host.kind != WEIR_LINK_NONE)
      third = std::string("host: ") + short_name(host.kind) +
              (host.bandwidth != 0 ? " " + gigabytes(host.bandwidth) + " GB/s" : "");
    const uint32_t shared = machine_.sharing(host_end, row.device);
    if (!third.empty() && shared > 1) third += ", shared by " + std::to_string(shared);
    devices_ += box(at.x, at.y, device_width, device_height, "#e8f0f8", "#5878a0") +
                label(at.x + 8, at.y + 16, row.label + " " + std::string(place.name.substr(0, 19)),
                      "#000000") +
                label(at.x + 8, at.y + 32, second, "#444444", 11) +
                label(at.x + 8, at.y + 47, third, colour_of(host.kind), 11);
  }

  void add_switch(std::string *body) {
    switch_at_ = {width_ / 2, bottom_ + 30};
    *body += box(switch_at_.x - 90, bottom_ + 10, 180, 40, "#eef6e6", "#4a8f00");
    devices_ += label(switch_at_.x - 70, bottom_ + 34,
                      "switches, " + std::to_string(switches_) + " ports", "#000000");
    bottom_ += 50 + gap;
  }

  static int thickness(uint64_t bandwidth) {
    if (bandwidth == 0) return 1;
    const double gb = static_cast<double>(bandwidth) / 1e9;
    return std::clamp(static_cast<int>(std::lround(std::log2(gb + 1) * 0.75)), 1, 8);
  }

  std::string line(Point from, Point to, const Link &link, std::string_view about) {
    used_[link.kind] = true;
    // Bent to its side, so that a long line does not run through the boxes between its ends.
    const int across = to.x - from.x, down = to.y - from.y;
    const bool far = std::abs(across) + std::abs(down) > device_width + 2 * gap;
    const int aside = far ? down / 5 : 0, above = far ? -across / 5 : 0;
    char text[320];
    std::snprintf(text, sizeof text,
                  "<path d=\"M%d %d Q%d %d %d %d\" fill=\"none\" stroke=\"%s\" stroke-width=\"%d\" "
                  "stroke-opacity=\"0.6\"%s>",
                  from.x, from.y, (from.x + to.x) / 2 + aside, (from.y + to.y) / 2 + above, to.x,
                  to.y, colour_of(link.kind), thickness(link.bandwidth),
                  link.direct ? "" : " stroke-dasharray=\"6 4\"");
    return std::string(text) + "<title>" + escaped(about) + "</title></path>\n";
  }

  static std::string about(const Link &link) {
    return std::string(link_kind_name(link.kind)) +
           (link.bandwidth != 0 ? ", " + gigabytes(link.bandwidth) + " GB/s one way" : "");
  }

  /// Fabrics only: that every device reaches every other by PCIe somehow is no news, and stands in each box.
  std::string lines() {
    std::string text;
    const std::vector<Row> rows = rows_of(machine_);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].device == host_end) continue;
      Link best;
      for (size_t k = 0; k < rows.size(); ++k) {
        if (k == i || rows[k].device == host_end) continue;
        const Link link = machine_.link(rows[i].device, rows[k].device);
        const bool fabric = link.kind != WEIR_LINK_NONE && link.kind != WEIR_LINK_PCIE &&
                            link.kind != WEIR_LINK_SAME && link.direct;
        if (!fabric) continue;
        if (switches_ != 0 && link.kind == WEIR_LINK_NVLINK) {
          if (link.bandwidth > best.bandwidth) best = link;
        } else if (k > i) {
          text += line(centres_[rows[i].device], centres_[rows[k].device], link,
                       rows[i].label + " - " + rows[k].label + ": " + about(link));
        }
      }
      if (best.bandwidth != 0)
        text +=
            line(centres_[rows[i].device], switch_at_, best, rows[i].label + ": " + about(best));
    }
    return text;
  }

  std::string legend() {
    std::string text;
    int x = gap;
    for (const auto &[kind, used] : used_) {
      char stroke[160];
      std::snprintf(stroke, sizeof stroke,
                    "<path d=\"M%d %d h30\" stroke=\"%s\" stroke-width=\"4\"/>\n", x, bottom_,
                    colour_of(kind));
      text += stroke + label(x + 36, bottom_ + 4, link_kind_name(kind), "#000000");
      x += 170;
    }
    text += label(gap, bottom_ + 24,
                  "width: by bandwidth, one way; links of PCIe between devices are not drawn",
                  "#444444", 11);
    bottom_ += 24 + gap;
    width_ = std::max(width_, x);
    return text;
  }

  const Machine &machine_;
  std::vector<Group> groups_;
  std::map<uint32_t, Point> centres_;
  std::map<uint32_t, bool> used_;
  std::string boxes_, devices_;
  Point switch_at_;
  int switches_ = 0, width_ = 420, bottom_ = 0;
};

}  // namespace

std::string describe_svg(const Machine &machine) { return Picture(machine).run(); }

}  // namespace weir::topology
