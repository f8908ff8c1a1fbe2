// SPDX-License-Identifier: Apache-2.0
//
// Drawing the picture. The only file that knows cairo; WEIR_HAVE_CAIRO is set for it where the build found that. The maps
// use the page's rules: rows of one line, yellow for what is reserved and free, shades for neighbours of one colour.
#include "tools/weir/frag/png.hpp"

#include "tools/weir/error.hpp"
#include "tools/weir/text.hpp"

#ifdef WEIR_HAVE_CAIRO
#include <cairo.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#endif

namespace weir::tool::frag {

#ifndef WEIR_HAVE_CAIRO

std::string png_missing() {
  return "NOT_SUPPORTED: this build of weir found no cairo to draw with (libcairo2-dev)";
}

std::string film_png(const Film &, const Story &, ColourMode) { throw ToolError(png_missing()); }

#else

namespace {

struct Rgb {
  double red, green, blue;
};

Rgb rgb(const char *hex) {
  uint32_t value = 0;
  std::from_chars(hex + 1, hex + 7, value, 16);
  return {static_cast<double>(value >> 16 & 255) / 255, static_cast<double>(value >> 8 & 255) / 255,
          static_cast<double>(value & 255) / 255};
}

/// Neighbours of one colour are told apart by a shade that goes with the block's number.
Rgb shaded(const char *hex, uint32_t block, ColourMode mode) {
  constexpr std::array<double, 4> mixes = {0, -.16, .1, -.3};
  // Less where shades have a meaning of their own.
  const bool ordered = mode == ColourMode::size || mode == ColourMode::age;
  const double mix = mixes[block % 4] * (ordered ? .45 : 1);
  const auto part = [mix](double v) { return mix > 0 ? v + (1 - v) * mix : v * (1 + mix); };
  const Rgb base = rgb(hex);
  return {part(base.red), part(base.green), part(base.blue)};
}

constexpr const char *ink = "#1b2430", *soft = "#566273", *faint = "#d5dbe3", *hole = "#e9edf2",
                     *free_room = "#ffe27a", *live_line = "#0072b2", *reserved_line = "#b34700";

constexpr double width = 1600, margin = 28, gutter = 78;
enum class Align : uint8_t { left, centre, right };

struct Box {
  double x, y, width, height;
};

/// A cairo surface with the few strokes the picture is made of.
class Sheet {
 public:
  explicit Sheet(double height)
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width),
                                            static_cast<int>(height))),
        cairo_(cairo_create(surface_.get())) {
    cairo_select_font_face(cairo_.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           CAIRO_FONT_WEIGHT_NORMAL);
    colour(rgb("#ffffff"));
    cairo_paint(cairo_.get());
  }

  void colour(const Rgb &c, double alpha = 1) {
    cairo_set_source_rgba(cairo_.get(), c.red, c.green, c.blue, alpha);
  }
  void fill(const Box &box) {
    cairo_rectangle(cairo_.get(), box.x, box.y, box.width, box.height);
    cairo_fill(cairo_.get());
  }
  void text(double x, double y, const std::string &words, double size, Align align = Align::left,
            bool bold = false) {
    cairo_select_font_face(cairo_.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo_.get(), size);
    const double wide = width_of(words);
    cairo_move_to(cairo_.get(),
                  x - (align == Align::left     ? 0
                       : align == Align::centre ? wide / 2
                                                : wide),
                  y);
    cairo_show_text(cairo_.get(), words.c_str());
  }
  /// In the font last written in.
  double width_of(const std::string &words) {
    cairo_text_extents_t extents;
    cairo_text_extents(cairo_.get(), words.c_str(), &extents);
    return extents.x_advance;
  }
  void move(double x, double y) { cairo_move_to(cairo_.get(), x, y); }
  void line(double x, double y) { cairo_line_to(cairo_.get(), x, y); }
  void stroke(double thick, bool dashed) {
    constexpr std::array<double, 2> dash = {7, 3};
    cairo_set_dash(cairo_.get(), dash.data(), dashed ? 2 : 0, 0);
    cairo_set_line_width(cairo_.get(), thick);
    cairo_stroke(cairo_.get());
  }
  void fill_path() { cairo_fill(cairo_.get()); }

  std::string png() {
    std::string bytes;
    const auto write = [](void *out, const unsigned char *data, unsigned int length) {
      static_cast<std::string *>(out)->append(reinterpret_cast<const char *>(data), length);
      return CAIRO_STATUS_SUCCESS;
    };
    cairo_surface_flush(surface_.get());
    cairo_status_t status = cairo_status(cairo_.get());
    if (status == CAIRO_STATUS_SUCCESS)
      status = cairo_surface_write_to_png_stream(surface_.get(), write, &bytes);
    if (status != CAIRO_STATUS_SUCCESS)
      throw ToolError(std::string("cannot draw the picture: ") + cairo_status_to_string(status));
    return bytes;
  }

 private:
  struct SurfaceEnd {
    void operator()(cairo_surface_t *surface) const noexcept { cairo_surface_destroy(surface); }
  };
  struct CairoEnd {
    void operator()(cairo_t *cairo) const noexcept { cairo_destroy(cairo); }
  };
  std::unique_ptr<cairo_surface_t, SurfaceEnd> surface_;
  std::unique_ptr<cairo_t, CairoEnd> cairo_;
};

class Picture {
 public:
  Picture(const Film &film, const Story &story, ColourMode mode)
      : film_(film),
        story_(story),
        mode_(mode),
        tags_(coloured_tags(film, story)),
        sheet_(curve_top + curve_height + 2 * (map_height + map_gap) + legend_height) {}

  std::string draw() {
    head();
    curves({margin + gutter, curve_top, width - 2 * margin - gutter, curve_height - 56});
    double y = curve_top + curve_height;
    const std::vector<Mark> marks = chosen_marks();
    const double wide = (width - 2 * margin - 36) / 2;
    for (size_t i = 0; i < marks.size(); ++i)
      map(marks[i], {margin + static_cast<double>(i % 2) * (wide + 36),
                     y + static_cast<double>(i / 2) * (map_height + map_gap), wide, map_height});
    legend(y + 2 * (map_height + map_gap) + 14);
    return sheet_.png();
  }

 private:
  static constexpr double curve_top = 146, curve_height = 330, map_height = 300, map_gap = 22,
                          legend_height = 44;

  void head() {
    sheet_.colour(rgb(ink));
    sheet_.text(margin, 38, film_.title + ": how it lies in memory", 24, Align::left, true);
    sheet_.colour(rgb(soft));
    sheet_.text(margin, 60, film_.source, 14);
    double x = margin;
    for (const Figure &figure : film_.figures) {
      sheet_.colour(rgb(soft));
      sheet_.text(x, 84, figure.name + " ", 14);
      const double after = x + sheet_.width_of(figure.name + " ");
      sheet_.colour(rgb(ink));
      sheet_.text(after, 84, figure.value, 15, Align::left, true);
      const double end = after + sheet_.width_of(figure.value);
      sheet_.colour(rgb(soft));
      sheet_.text(x, 102, figure.note, 11);
      x = std::max(end, x + sheet_.width_of(figure.note)) + 32;
    }
  }

  // ---- the curves ----

  Rgb curve_colour(const Curve &curve) const {
    if (curve.name == "live") return rgb(film_.tiers ? ink : live_line);
    if (curve.name == "reserved") return rgb(reserved_line);
    for (size_t i = 0; i < kind_count; ++i)
      if (curve.name == kind_names[i]) return rgb(kind_colours[i]);
    return rgb(ink);
  }

  void curves(const Box &box) {
    uint64_t most = 1;
    for (const Curve &curve : film_.curves)
      for (const uint64_t value : curve.high) most = std::max(most, value);
    const auto y_of = [&](double bytes) {
      return box.y + box.height * (1 - bytes / (static_cast<double>(most) * 1.05));
    };
    const auto x_of = [&](uint64_t time) {
      return box.x + box.width * static_cast<double>(std::min(time, film_.end)) /
                         static_cast<double>(std::max<uint64_t>(film_.end, 1));
    };
    uint64_t step = 1;
    while (most / step > 6) step *= 2;
    for (uint64_t value = 0; value <= most; value += step) {
      const double y = std::round(y_of(static_cast<double>(value)));
      sheet_.colour(rgb(faint));
      sheet_.fill({box.x, y, box.width, 1});
      sheet_.colour(rgb(soft));
      sheet_.text(box.x - 8, y + 4, format_bytes(value), 12, Align::right);
    }
    time_axis(box, x_of);
    for (const Curve &curve : film_.curves) one_curve(curve, box, x_of, y_of);
    for (const Mark &mark : chosen_marks()) {
      const double x = x_of(film_.frames[mark.frame].time);
      sheet_.colour(rgb(ink), .55);
      sheet_.move(x, box.y - 4);
      sheet_.line(x, box.y + box.height);
      sheet_.stroke(1, true);
    }
    curve_key(box);
    mark_names(box, x_of);
  }

  template <class XOf>
  void time_axis(const Box &box, XOf x_of) {
    uint64_t step = 1;
    for (int i = 0; film_.end / step > 12; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    for (uint64_t time = 0; time <= film_.end; time += step) {
      sheet_.colour(rgb(faint));
      sheet_.fill({std::round(x_of(time)), box.y + box.height, 1, 5});
      sheet_.colour(rgb(soft));
      sheet_.text(std::min(x_of(time), width - margin - 20), box.y + box.height + 19,
                  std::to_string(time), 12, Align::centre);
    }
    sheet_.text(box.x + box.width / 2, box.y + box.height + 37, film_.unit, 13, Align::centre);
  }

  template <class XOf, class YOf>
  void one_curve(const Curve &curve, const Box &box, XOf x_of, YOf y_of) {
    if (curve.high.empty()) return;
    const bool live = curve.name == "live";
    const auto trace = [&](const std::vector<uint64_t> &values) {
      for (size_t i = 0; i < values.size(); ++i)
        sheet_.line(x_of(i * film_.bucket), y_of(static_cast<double>(values[i])));
    };
    if (live) {
      sheet_.move(box.x, box.y + box.height);
      trace(curve.high);
      sheet_.line(x_of((curve.high.size() - 1) * film_.bucket), box.y + box.height);
      sheet_.colour(curve_colour(curve), .2);
      sheet_.fill_path();
    }
    sheet_.move(x_of(0), y_of(static_cast<double>(curve.high[0])));
    trace(curve.high);
    sheet_.colour(curve_colour(curve));
    sheet_.stroke(1.6, !live);
  }

  void curve_key(const Box &box) {
    double x = box.x;
    for (const Curve &curve : film_.curves) {
      sheet_.colour(curve_colour(curve));
      sheet_.move(x, box.y - 14);
      sheet_.line(x + 26, box.y - 14);
      sheet_.stroke(2.4, curve.name != "live");
      sheet_.colour(rgb(ink));
      sheet_.text(x + 32, box.y - 10, curve.name, 12.5);
      x += 32 + sheet_.width_of(curve.name) + 22;
    }
  }

  /// Letters that the maps repeat.
  template <class XOf>
  void mark_names(const Box &box, XOf x_of) {
    const std::vector<Mark> list = chosen_marks();
    for (size_t i = 0; i < list.size(); ++i) {
      const double x =
          std::clamp(x_of(film_.frames[list[i].frame].time), box.x + 8, box.x + box.width - 8);
      sheet_.colour(rgb("#ffffff"));
      sheet_.fill({x - 8, box.y + 6 + 19 * static_cast<double>(i % 4), 16, 17});
      sheet_.colour(rgb(ink));
      sheet_.text(x, box.y + 19 + 19 * static_cast<double>(i % 4),
                  std::string(1, static_cast<char>('A' + i)), 14, Align::centre, true);
    }
  }

  // ---- the maps ----

  /// Four of the film's.
  std::vector<Mark> chosen_marks() const {
    std::vector<Mark> list;
    for (const Mark &mark : film_.marks)
      if (mark.key != "reserved" && list.size() < 4) list.push_back(mark);
    return list;
  }

  const char *colour_of(const Span &span, uint64_t time) const {
    if (span.block == no_block) return kind_colours[static_cast<size_t>(Kind::idle)];
    const StoryBlock &block = story_.blocks[span.block];
    switch (mode_) {
      case ColourMode::tier:
        return kind_colours[static_cast<size_t>(span.kind)];
      case ColourMode::size:
        return size_classes[class_of(size_classes, block.bytes)].colour;
      case ColourMode::age:
        return age_classes[class_of(age_classes, 1000 * (time - std::min(time, block.born)) /
                                                     std::max<uint64_t>(film_.end, 1))]
            .colour;
      case ColourMode::tag:
        break;
    }
    const auto tag = std::find(tags_.begin(), tags_.end(), block.tag);
    return tag == tags_.end() ? tag_colours[tag_colour_count - 1]
                              : tag_colours[tag - tags_.begin()];
  }

  struct Rows {
    std::vector<double> tops;  ///< of each lane
    uint64_t bytes = 0;        ///< in a row
    double height = 0;
    double left = 0, width = 0;
  };

  Rows rows_in(const Box &box) const {
    constexpr double lane_head = 18;
    Rows rows;
    const double room = box.height - static_cast<double>(film_.lanes.size()) * lane_head;
    const auto needed = [&](uint64_t bytes) {
      uint64_t count = 0;
      for (const Lane &lane : film_.lanes)
        count += std::max<uint64_t>(1, (lane.end + bytes - 1) / bytes);
      return static_cast<double>(count);
    };
    rows.bytes = 1024;
    for (int i = 0; needed(rows.bytes) * 11 > room && rows.bytes < uint64_t{1} << 50; ++i)
      rows.bytes = i % 2 == 0 ? rows.bytes / 2 * 3 : rows.bytes / 3 * 4;
    rows.height = std::min(24.0, std::floor(room / needed(rows.bytes)));
    rows.left = box.x + gutter;
    rows.width = box.width - gutter;
    double y = box.y;
    for (const Lane &lane : film_.lanes) {
      y += lane_head;
      rows.tops.push_back(y);
      y += std::ceil(static_cast<double>(lane.end) / static_cast<double>(rows.bytes)) * rows.height;
    }
    return rows;
  }

  /// Fills each row's part of a run.
  void run(const Rows &rows, const Span &span, double least) {
    const uint64_t end = span.address + span.bytes;
    const double scale = rows.width / static_cast<double>(rows.bytes);
    for (uint64_t row = span.address / rows.bytes; row * rows.bytes < end; ++row) {
      const uint64_t base = row * rows.bytes;
      const uint64_t from = std::max(span.address, base), to = std::min(end, base + rows.bytes);
      sheet_.fill({rows.left + static_cast<double>(from - base) * scale,
                   rows.tops[span.lane] + static_cast<double>(row) * rows.height,
                   std::max(static_cast<double>(to - from) * scale, least), rows.height - 2});
    }
  }

  void map(const Mark &mark, const Box &box) {
    const Frame &frame = film_.frames[mark.frame];
    const std::vector<Mark> list = chosen_marks();
    size_t letter = 0;
    while (list[letter].key != mark.key) ++letter;
    sheet_.colour(rgb(ink));
    std::string title = std::string(1, static_cast<char>('A' + letter)) + "  " + mark.text;
    sheet_.text(box.x, box.y + 14, title, 15, Align::left, true);
    const double after = box.x + sheet_.width_of(title) + 14;
    title = "after " + std::to_string(frame.time) + " " + film_.unit;
    if (!frame.phase.empty()) title += " (" + frame.phase + ")";
    title += ": live " + format_bytes(frame.live) +
             (film_.tiers ? ", DEVICE held " : ", reserved ") + format_bytes(frame.reserved);
    sheet_.colour(rgb(soft));
    sheet_.text(after, box.y + 14, title, 12.5);
    const Rows rows = rows_in({box.x, box.y + 18, box.width, box.height - 18});
    for (size_t lane = 0; lane < film_.lanes.size(); ++lane) lane_rows(rows, lane);
    sheet_.colour(rgb(free_room));
    for (const Span &span : film_.reserved)
      if (span.first <= mark.frame && mark.frame <= span.last) run(rows, span, .5);
    for (const Span &span : film_.blocks) {
      if (span.first > mark.frame || mark.frame > span.last) continue;
      sheet_.colour(
          shaded(colour_of(span, frame.time), span.block == no_block ? 0 : span.block, mode_));
      run(rows, span, .35);
    }
  }

  void lane_rows(const Rows &rows, size_t index) {
    const Lane &lane = film_.lanes[index];
    sheet_.colour(rgb(soft));
    sheet_.text(
        rows.left, rows.tops[index] - 5,
        lane.name + ": offset of each row at its left, a row is " + format_bytes(rows.bytes), 11);
    const double scale = rows.width / static_cast<double>(rows.bytes);
    const uint64_t count = (lane.end + rows.bytes - 1) / rows.bytes;
    for (uint64_t row = 0; row < count; ++row) {
      const double y = rows.tops[index] + static_cast<double>(row) * rows.height;
      const uint64_t bytes = std::min(rows.bytes, lane.end - row * rows.bytes);
      sheet_.colour(rgb(hole));
      sheet_.fill({rows.left, y, static_cast<double>(bytes) * scale, rows.height - 2});
      sheet_.colour(rgb(soft));
      sheet_.text(rows.left - 6, y + rows.height / 2 + 3, format_bytes(row * rows.bytes),
                  std::min(11.0, rows.height - 1), Align::right);
    }
  }

  // ---- the legend ----

  void key(double *x, double y, const char *colour, const std::string &name) {
    sheet_.colour(rgb(colour));
    sheet_.fill({*x, y, 20, 14});
    sheet_.colour(rgb(ink));
    sheet_.text(*x + 26, y + 12, name, 13);
    *x += 26 + sheet_.width_of(name) + 22;
  }

  void legend(double y) {
    double x = margin;
    switch (mode_) {
      case ColourMode::tier:
        for (size_t i = 0; i < (film_.tiers ? kind_count : 1); ++i)
          key(&x, y, kind_colours[i], kind_names[i]);
        break;
      case ColourMode::size:
        for (const Class &one : size_classes) key(&x, y, one.colour, one.name);
        break;
      case ColourMode::age:
        for (const Class &one : age_classes) key(&x, y, one.colour, one.name);
        break;
      case ColourMode::tag:
        for (size_t i = 0; i < tags_.size(); ++i)
          key(&x, y, tag_colours[i],
              story_.tags[tags_[i]].empty() ? "no tag" : story_.tags[tags_[i]]);
        if (tags_.size() < story_.tags.size())
          key(&x, y, tag_colours[tag_colour_count - 1], "other tags");
        break;
    }
    key(&x, y, free_room, "free, but reserved");
    key(&x, y, hole, "not reserved");
  }

  const Film &film_;
  const Story &story_;
  const ColourMode mode_;
  const std::vector<uint32_t> tags_;
  Sheet sheet_;
};

}  // namespace

std::string png_missing() { return {}; }

std::string film_png(const Film &film, const Story &story, ColourMode mode) {
  return Picture(film, story, mode).draw();
}

#endif

}  // namespace weir::tool::frag
