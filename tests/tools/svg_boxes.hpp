// SPDX-License-Identifier: Apache-2.0
//
// The boxes of a picture that Graphviz wrote: where its texts, its nodes and its lines are; and what is wrong with them as a reader
// would see it. Texts are taken to be as wide as in a wide font. It reads what `dot -Tsvg` writes, not any SVG.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::test {

struct SvgPoint {
  double x = 0, y = 0;
};

struct SvgBox {
  double left = 1e9, top = 1e9, right = -1e9, bottom = -1e9;
  std::string text;  ///< of a text; else the colour of its edge
  std::string colour;
  void add(SvgPoint point) {
    left = std::min(left, point.x), right = std::max(right, point.x);
    top = std::min(top, point.y), bottom = std::max(bottom, point.y);
  }
  bool overlaps(const SvgBox &other, double slack) const {
    return left + slack < other.right && other.left + slack < right && top + slack < other.bottom &&
           other.top + slack < bottom;
  }
  bool holds(SvgPoint point, double slack) const {
    return left + slack < point.x && point.x < right - slack && top + slack < point.y &&
           point.y < bottom - slack;
  }
  bool holds(const SvgBox &other, double slack) const {
    return left - slack <= other.left && other.right <= right + slack && top - slack <= other.top &&
           other.bottom <= bottom + slack;
  }
};

struct SvgLine {
  std::vector<SvgPoint> points;  ///< close to each other
  std::string colour;
};

struct SvgPicture {
  double width = 0, height = 0;
  std::vector<SvgBox> texts, nodes;
  std::vector<std::pair<size_t, size_t>> inside;  ///< a text and the node that it is of
  std::vector<SvgLine> lines;
  std::vector<std::string> keys;  ///< the legend's colours
};

class SvgReader {
 public:
  explicit SvgReader(std::string text) : text_(std::move(text)) {}

  SvgPicture read() {
    size_t at = 0;
    while ((at = text_.find('<', at)) != std::string::npos) {
      const size_t end = text_.find('>', at);
      if (end == std::string::npos) break;
      take(text_.substr(at + 1, end - at - 1), end + 1);
      at = end + 1;
    }
    return std::move(picture_);
  }

 private:
  using Attributes = std::map<std::string, std::string>;

  static Attributes attributes_of(const std::string &tag) {
    Attributes all;
    size_t at = 0;
    while ((at = tag.find("=\"", at)) != std::string::npos) {
      const size_t name = tag.find_last_of(" \n", at) + 1, end = tag.find('"', at + 2);
      all[tag.substr(name, at - name)] = tag.substr(at + 2, end - at - 2);
      at = end;
    }
    return all;
  }

  static std::vector<double> numbers_in(const std::string &text) {
    std::vector<double> numbers;
    for (const char *at = text.c_str(); *at != '\0';) {
      char *end = nullptr;
      const double number = std::strtod(at, &end);
      if (end == at) {
        ++at;
        continue;
      }
      numbers.push_back(number);
      at = end;
    }
    return numbers;
  }

  std::vector<SvgPoint> points_in(const std::string &text) const {
    const std::vector<double> numbers = numbers_in(text);
    std::vector<SvgPoint> points;
    for (size_t i = 0; i + 1 < numbers.size(); i += 2)
      points.push_back({numbers[i] + shift_.x, numbers[i + 1] + shift_.y});
    return points;
  }

  void take(const std::string &tag, size_t after) {
    Attributes given = attributes_of(tag);
    if (tag.starts_with("svg")) {
      const auto box = numbers_in(given["viewBox"]);
      if (box.size() == 4) picture_.width = box[2], picture_.height = box[3];
    } else if (tag.starts_with("g ")) {
      part_ = given["class"];
      if (given.count("transform") != 0) {
        const std::string &how = given["transform"];
        const auto numbers = numbers_in(how.substr(how.find("translate")));
        if (numbers.size() == 2) shift_ = {numbers[0], numbers[1]};
      }
      node_ = SIZE_MAX;
    } else if (tag.starts_with("text")) {
      take_text(given, text_.substr(after, text_.find('<', after) - after));
    } else if (tag.starts_with("path") || tag.starts_with("polygon")) {
      take_shape(given, points_in(given[tag.starts_with("path") ? "d" : "points"]));
    }
  }

  /// DejaVu Sans', about.
  static double ems_of(const std::string &text) {
    double ems = 0;
    for (const char c : text) {
      if ((static_cast<unsigned char>(c) & 0xC0) == 0x80) continue;
      const bool narrow = std::string_view(" .,:;'|ijlI()[]/").find(c) != std::string_view::npos,
                 wide = std::string_view("mwMW@%").find(c) != std::string_view::npos;
      ems += narrow ? 0.34 : wide ? 0.93 : c >= 'A' && c <= 'Z' ? 0.67 : 0.61;
    }
    return ems;
  }

  void take_text(Attributes &given, const std::string &raw) {
    std::string text;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] == '&') {  // any entity is one character
        const size_t end = raw.find(';', i);
        text += raw.compare(i, 5, "&#160") == 0 ? ' ' : '?';
        i = end == std::string::npos ? raw.size() : end;
      } else {
        text += raw[i];
      }
    }
    const double size = std::atof(given["font-size"].c_str()),
                 wide = ems_of(text) * size * (given.count("font-weight") != 0 ? 1.1 : 1);
    const double x = std::atof(given["x"].c_str()) + shift_.x,
                 y = std::atof(given["y"].c_str()) + shift_.y;
    const double from = given["text-anchor"] == "middle" ? x - wide / 2 : x;
    SvgBox box;
    box.add({from, y - size * 0.75});
    box.add({from + wide, y + size * 0.2});
    box.text = text;
    box.colour = given["fill"];
    if (node_ != SIZE_MAX) picture_.inside.push_back({picture_.texts.size(), node_});
    picture_.texts.push_back(box);
  }

  void take_shape(Attributes &given, const std::vector<SvgPoint> &points) {
    if (points.empty()) return;
    SvgBox box;
    for (const SvgPoint point : points) box.add(point);
    box.colour = given["stroke"];
    if (part_ == "edge") {
      picture_.lines.push_back({along(points), given["stroke"]});
    } else if (part_ == "node") {
      node_ = picture_.nodes.size();
      picture_.nodes.push_back(box);
    } else if (part_ == "graph" && box.bottom - box.top < 10 && given["fill"] != "none") {
      picture_.keys.push_back(given["fill"]);
    }
  }

  /// Points of a row of cubic curves.
  static std::vector<SvgPoint> along(const std::vector<SvgPoint> &p) {
    std::vector<SvgPoint> all;
    for (size_t i = 0; i + 3 < p.size(); i += 3)
      for (int step = 0; step <= 32; ++step) {
        const double t = step / 32.0, s = 1 - t;
        const double a = s * s * s, b = 3 * s * s * t, c = 3 * s * t * t, d = t * t * t;
        all.push_back({a * p[i].x + b * p[i + 1].x + c * p[i + 2].x + d * p[i + 3].x,
                       a * p[i].y + b * p[i + 1].y + c * p[i + 2].y + d * p[i + 3].y});
      }
    return all;
  }

  const std::string text_;
  SvgPicture picture_;
  SvgPoint shift_;
  std::string part_;
  size_t node_ = SIZE_MAX;
};

/// One sentence for each thing that hides another, is cut off, or that the legend lacks.
inline std::vector<std::string> faults_of(const SvgPicture &picture) {
  std::vector<std::string> faults;
  const auto complain = [&](const std::string &what, const SvgBox &box) {
    faults.push_back(what + ": '" + box.text + "' at " +
                     std::to_string(static_cast<int>(box.left)) + "," +
                     std::to_string(static_cast<int>(box.top)));
  };
  SvgBox view;
  view.add({0, 0});
  view.add({picture.width, picture.height});
  for (const SvgBox &text : picture.texts)
    if (!view.holds(text, 0)) complain("text is cut off", text);
  for (size_t i = 0; i < picture.texts.size(); ++i)
    for (size_t k = i + 1; k < picture.texts.size(); ++k)
      if (picture.texts[i].overlaps(picture.texts[k], 0.5))
        complain("text over '" + picture.texts[k].text + "'", picture.texts[i]);
  for (size_t i = 0; i < picture.nodes.size(); ++i)
    for (size_t k = i + 1; k < picture.nodes.size(); ++k)
      if (picture.nodes[i].overlaps(picture.nodes[k], 0.5))
        complain("box over box", picture.nodes[i]);
  for (const auto &[text, node] : picture.inside)
    if (!picture.nodes[node].holds(picture.texts[text], 1))
      complain("text leaves its box", picture.texts[text]);
  for (const SvgLine &line : picture.lines) {
    const auto hidden = [&](const SvgBox &box, double slack) {
      return std::any_of(line.points.begin(), line.points.end(),
                         [&](SvgPoint point) { return box.holds(point, slack); });
    };
    for (const SvgBox &node : picture.nodes)
      if (hidden(node, 2.5)) complain("line through a box", node);
    for (const SvgBox &text : picture.texts)
      if (hidden(text, 1)) complain("line through text", text);
    if (std::find(picture.keys.begin(), picture.keys.end(), line.colour) == picture.keys.end())
      faults.push_back("the legend has no " + line.colour);
  }
  return faults;
}

}  // namespace weir::test
