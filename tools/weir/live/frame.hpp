// SPDX-License-Identifier: Apache-2.0
//
// What stands on the screen of `weir top`, as lines of styled text, for a terminal of some size: drawn without one.
//
// What must hold: no line is wider than the terminal and there are no more than it has, whatever the names and figures are. What is
// drawn of a name can't command the terminal.
#pragma once

#include "top.hpp"

#include <string>
#include <tuple>
#include <vector>

namespace weir::tool {

enum class ScreenStyle : uint8_t { plain, title, head, selected, bar, warning, dim, key };

struct ScreenRun {
  std::string text;
  ScreenStyle style = ScreenStyle::plain;
};
using ScreenLine = std::vector<ScreenRun>;

/// What the user has chosen.
struct TopChoice {
  enum class Tab : uint8_t { overview, clients, devices, count };
  TopSort sort = TopSort::process;
  Tab tab = Tab::overview;
  std::string filter;
  bool typing = false;  ///< the filter, at this moment
  bool frozen = false;
  bool help = false;
  size_t selected = 0;  ///< a row
  bool moved = false;   ///< the user has just chosen that row; else it goes where its pool goes
  std::tuple<pid_t, uint32_t, uint64_t> pool;  ///< that is chosen: process, context, number
  size_t first = 0;                            ///< the first row that is shown
  bool utf8 = true;                            ///< the terminal shows more than ASCII
  double interval = 1;
};

/// Moves the choice to what there is.
std::vector<ScreenLine> draw_top(const Top &top, const std::vector<TopRow> &rows, TopChoice *choice,
                                 int height, int width);

/// The text in so many columns, cut or filled up with blanks.
std::string fitted(const std::string &text, int columns, bool utf8, bool right = false);
/// A bar of so many columns.
std::string bar_text(double share, int columns);
/// The last values, one a column, against the largest of them.
std::string spark_text(const std::deque<float> &past, int columns, bool utf8);

/// Shows it until the user ends it. Throws ToolError where there is no terminal for it.
void run_top_screen(const LiveReader &reader, pid_t only, TopChoice choice);
/// Whether the command was built with what it takes.
bool has_top_screen() noexcept;

}  // namespace weir::tool
