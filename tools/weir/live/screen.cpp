// SPDX-License-Identifier: Apache-2.0
//
// The terminal, by ncurses: what is drawn goes there, keys come from there. The one file that knows ncurses; without it the command
// says so.
#include "frame.hpp"

#include "../error.hpp"

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cstdlib>
#include <cstring>

#if defined(WEIR_HAVE_CURSES)
#include <langinfo.h>
#include <unistd.h>

#define NCURSES_NOMACROS 1
#include <ncurses.h>

namespace weir::tool {
namespace {

using ScreenClock = std::chrono::steady_clock;

constexpr int letter_escape = 27, letter_delete = 127;

class Terminal {
 public:
  Terminal() {
    const char *kind = std::getenv("TERM");
    screen_ = newterm(nullptr, stdout, stdin);
    if (screen_ == nullptr)
      throw ToolError(std::string("weir top: nothing is known of the terminal '") +
                      (kind != nullptr ? kind : "") + "' (TERM); weir top --once prints instead");
    set_escdelay(25);
    (void)cbreak();
    (void)noecho();
    (void)keypad(stdscr, TRUE);
    (void)curs_set(0);
    if (has_colors() && std::getenv("NO_COLOR") == nullptr) add_colours();
  }
  ~Terminal() {
    (void)endwin();
    delscreen(screen_);
  }
  Terminal(const Terminal &) = delete;
  Terminal &operator=(const Terminal &) = delete;

  void show(const std::vector<ScreenLine> &lines) const {
    (void)erase();
    for (size_t y = 0; y < lines.size(); ++y) {
      (void)move(static_cast<int>(y), 0);
      for (const ScreenRun &run : lines[y]) {
        (void)attrset(static_cast<int>(look(run.style)));
        (void)addnstr(run.text.c_str(), static_cast<int>(run.text.size()));
      }
    }
    (void)refresh();
  }

 private:
  enum : short { cyan_pair = 1, green_pair, red_pair, bar_pair };
  void add_colours() {
    (void)start_color();
    (void)use_default_colors();
    (void)init_pair(cyan_pair, COLOR_CYAN, -1);
    (void)init_pair(green_pair, COLOR_GREEN, -1);
    (void)init_pair(red_pair, COLOR_RED, -1);
    (void)init_pair(bar_pair, COLOR_BLACK, COLOR_CYAN);
    colours_ = true;
  }
  chtype look(ScreenStyle style) const {
    const auto pair = [this](short number, chtype otherwise) -> chtype {
      return colours_ ? static_cast<chtype>(COLOR_PAIR(number)) : otherwise;
    };
    switch (style) {
      case ScreenStyle::title:
        return A_BOLD;
      case ScreenStyle::head:
        return pair(green_pair, A_UNDERLINE);
      case ScreenStyle::selected:
        return pair(bar_pair, A_REVERSE);
      case ScreenStyle::bar:
        return pair(cyan_pair, A_NORMAL);
      case ScreenStyle::warning:
        return pair(red_pair, A_BOLD);
      case ScreenStyle::dim:
        return A_DIM;
      case ScreenStyle::key:
        return pair(bar_pair, A_REVERSE);
      case ScreenStyle::plain:
        break;
    }
    return A_NORMAL;
  }

  SCREEN *screen_ = nullptr;
  bool colours_ = false;
};

/// A key while the filter is typed.
void type(int key, TopChoice *choice) {
  std::string &filter = choice->filter;
  if (key == letter_escape) {
    filter.clear();
    choice->typing = false;
  } else if (key == '\n' || key == '\r' || key == KEY_ENTER) {
    choice->typing = false;
  } else if (key == KEY_BACKSPACE || key == letter_delete || key == '\b') {
    if (!filter.empty()) filter.pop_back();
  } else if (key >= ' ' && key < letter_delete && filter.size() < 60) {
    filter += static_cast<char>(key);
  }
}

void choose(int key, size_t rows, TopChoice *choice) {
  constexpr size_t page = 10;
  size_t &at = choice->selected;
  choice->moved = true;
  const size_t last = rows != 0 ? rows - 1 : 0;
  switch (key) {
    case KEY_UP:
    case 'k':
      at -= std::min<size_t>(at, 1);
      break;
    case KEY_DOWN:
    case 'j':
      at = std::min(at + 1, last);
      break;
    case KEY_PPAGE:
      at -= std::min(at, page);
      break;
    case KEY_NPAGE:
      at = std::min(at + page, last);
      break;
    case KEY_HOME:
      at = 0;
      break;
    case KEY_END:
      at = last;
      break;
    default:
      break;
  }
}

/// False: it is to end.
bool press(int key, size_t rows, TopChoice *choice) {
  if (choice->typing) return type(key, choice), true;
  const auto next = [](auto value) {
    using Value = decltype(value);
    return static_cast<Value>((static_cast<unsigned>(value) + 1) %
                              static_cast<unsigned>(Value::count));
  };
  switch (key) {
    case 'q':
    case KEY_F(10):
      return false;
    case KEY_F(1):
    case 'h':
    case '?':
      choice->help = !choice->help;
      break;
    case KEY_F(4):
    case '/':
      choice->typing = true;
      choice->filter.clear();
      break;
    case KEY_F(5):
    case ' ':
      choice->frozen = !choice->frozen;
      break;
    case KEY_F(6):
    case 's':
      choice->sort = next(choice->sort);
      break;
    case '\t':
      choice->tab = next(choice->tab);
      break;
    case '+':
      choice->interval = std::min(choice->interval * 2, 60.0);
      break;
    case '-':
      choice->interval = std::max(choice->interval / 2, 0.1);
      break;
    case letter_escape:
      choice->help = false;
      choice->filter.clear();
      break;
    default:
      choose(key, rows, choice);
  }
  return true;
}

}  // namespace

bool has_top_screen() noexcept { return true; }

void run_top_screen(const LiveReader &reader, pid_t only, TopChoice choice) {
  if (isatty(STDOUT_FILENO) == 0 || isatty(STDIN_FILENO) == 0)
    throw ToolError("weir top: no terminal; weir top --once prints instead");
  (void)std::setlocale(LC_CTYPE, "");
  choice.utf8 = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  const Terminal terminal;
  Top top;
  top.take(reader.look(only));
  ScreenClock::time_point next =
      ScreenClock::now() + std::chrono::milliseconds(200);  // the first rates
  for (;;) {
    const std::vector<TopRow> rows = top.rows(choice.sort, choice.filter);
    terminal.show(draw_top(top, rows, &choice, getmaxy(stdscr), getmaxx(stdscr)));
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(next - ScreenClock::now()).count();
    timeout(static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
    const int key = getch();
    if (key != ERR && !press(key, rows.size(), &choice)) return;
    if (ScreenClock::now() < next) continue;
    if (!choice.frozen) top.take(reader.look(only));
    next = ScreenClock::now() +
           std::chrono::milliseconds(static_cast<int64_t>(choice.interval * 1000));
  }
}

}  // namespace weir::tool

#else

namespace weir::tool {

bool has_top_screen() noexcept { return false; }

void run_top_screen(const LiveReader & /*reader*/, pid_t /*only*/, TopChoice /*choice*/) {
  throw ToolError(
      "weir top: this program was built without ncurses, and has no screen; weir top --once prints "
      "the same");
}

}  // namespace weir::tool

#endif
