// SPDX-License-Identifier: Apache-2.0
//
// Words, figures and tables.
#include "tools/weir/topo/dot_text.hpp"

#include "tools/weir/text.hpp"

#include <algorithm>
#include <cmath>

namespace weir::tool::topo {

const std::vector<KindWords> &all_kinds() {
  static const std::vector<KindWords> kinds = {
      {"pcie", "PCIe", {"#6b6b70", "#a9adb5"}},
      {"nvlink", "NVLink", {"#3f7d00", "#8fce4a"}},
      {"infinity_fabric", "Infinity Fabric", {"#bb2530", "#ff8087"}},
      {"xe", "Xe Link", {"#0068b5", "#5cb8ff"}},
      {"memory", "memory", {"#8a5a00", "#d9a441"}},
      {"c2c", "chip to chip", {"#7b3fa0", "#cc95ee"}},
      {"network", "network", {"#00807a", "#45c9c1"}},
      {"other", "link", {"#707071", "#b0b0b1"}}};
  return kinds;
}

const KindWords &words_of(std::string_view kind) {
  const auto &kinds = all_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const KindWords &one) { return one.kind == kind; });
  return found == kinds.end() ? kinds.back() : *found;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\\':  // Graphviz would put a node's name for "\N"
        result += "\\\\";
        break;
      default:
        result += c;
    }
  }
  return result;
}

namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

}  // namespace

std::string shortened(std::string_view text, size_t most) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  const bool cut = characters(text) > most;
  std::string result;
  size_t count = 0;
  for (const char c : text) {
    if (begins_character(c) && ++count > most - (cut ? 1 : 0)) break;
    result += static_cast<unsigned char>(c) < ' ' || c == 127 ? '?' : c;
  }
  if (cut) result += "\xE2\x80\xA6";
  return result;
}

int width_of(std::string_view text, int size, bool bold) {
  double ems = 0;
  for (const char c : text) {
    if (!begins_character(c)) continue;
    if (std::string_view(" .,:;'|ijlI()[]/").find(c) != std::string_view::npos)
      ems += 0.38;
    else if (std::string_view("mwMW@%").find(c) != std::string_view::npos)
      ems += 0.98;
    else
      ems += c >= 'A' && c <= 'Z' ? 0.71 : 0.64;
  }
  return static_cast<int>(std::ceil(ems * size * (bold ? 1.12 : 1)));
}

std::string label_of(const std::vector<Line> &lines, bool centred) {
  std::string rows;
  for (const Line &line : lines) {
    if (line.text.empty()) continue;
    const std::string text = escaped(line.text);
    rows += std::string("<TR><TD ALIGN=\"") + (centred ? "CENTER" : "LEFT") + "\" WIDTH=\"" +
            std::to_string(width_of(line.text, line.size, line.bold) + (centred ? 8 : 0)) +
            "\"><FONT POINT-SIZE=\"" + std::to_string(line.size) + "\" COLOR=\"" + line.ink.light +
            "\">" + (line.bold ? "<B>" + text + "</B>" : text) + "</FONT></TD></TR>";
  }
  if (rows.empty()) return "\"\"";
  return "<<TABLE BORDER=\"0\" CELLBORDER=\"0\" CELLPADDING=\"1\" CELLSPACING=\"0\">" + rows +
         "</TABLE>>";
}

std::string gigabytes(uint64_t bandwidth) {
  const double value = static_cast<double>(bandwidth) / 1e9;
  std::string text = format_fixed(value, value >= 999.5 ? 0 : value >= 9.995 ? 1 : 2);
  if (text.find('.') != std::string::npos && text.find_last_not_of('0') == text.find('.'))
    text.resize(text.find('.'));
  return text;
}

std::string memory_text(uint64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  uint64_t tenths = bytes > UINT64_MAX / 10 ? UINT64_MAX : bytes * 10;
  size_t unit = 0;
  for (; tenths >= 10240 && unit + 1 < std::size(units); ++unit) tenths /= 1024;
  std::string text = std::to_string(tenths / 10);
  if (tenths % 10 != 0 && tenths < 1000) text += "." + std::to_string(tenths % 10);
  return text + " " + units[unit];
}

std::string link_text(std::string_view kind, uint64_t to, uint64_t back) {
  const std::string name = words_of(kind).name;
  if (to == 0 && back == 0) return name + ", speed unknown";
  const auto figure = [](uint64_t one) { return one == 0 ? std::string("?") : gigabytes(one); };
  if (figure(to) == figure(back)) return name + " " + figure(to) + " GB/s";
  return name + " \xE2\x86\x92 " + figure(to) + ", \xE2\x86\x90 " + figure(back) + " GB/s";
}

std::string pen_width(uint64_t bandwidth) {
  const double gb = static_cast<double>(bandwidth) / 1e9;
  return format_fixed(std::clamp(std::log2(gb + 1) * 0.55, 1.0, 5.0), 2);
}

}  // namespace weir::tool::topo
