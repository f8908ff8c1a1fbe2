// SPDX-License-Identifier: Apache-2.0
//
// `weir top`: what running programs show of their pools, on a screen or printed once. It changes nothing, and no program notices.
#include "choices.hpp"
#include "commands.hpp"
#include "error.hpp"
#include "live/frame.hpp"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <thread>

namespace weir::tool {
namespace {

std::string why_not_shown(pid_t process) {
  if (kill(process, 0) == 0) return "it has no context of Weir's, or WEIR_LIVE=0";
  return errno == EPERM ? "it is another user's" : "there is no such process";
}

}  // namespace

int run_top(const TopFlags &flags) {
  constexpr double least_s = 0.1, most_s = 3600;
  if (!(flags.interval >= least_s && flags.interval <= most_s))
    throw ToolError("--interval: " + std::to_string(flags.interval) +
                    " is not from 0.1 to 3600 seconds");
  if (flags.process < 0)
    throw ToolError("--pid: " + std::to_string(flags.process) + " is no process");
  if (flags.json && !flags.once) throw ToolError("--json goes with --once");
  TopChoice choice;
  choice.filter = flags.filter;
  choice.interval = flags.interval;
  bool known = false;
  for (unsigned i = 0; i < static_cast<unsigned>(TopSort::count); ++i) {
    if (flags.sort != sort_name(static_cast<TopSort>(i))) continue;
    choice.sort = static_cast<TopSort>(i);
    known = true;
  }
  if (!known) throw ToolError(no_such_value("--sort", flags.sort, sort_choices()));
  const LiveReader reader;
  if (!flags.once) {
    run_top_screen(reader, flags.process, choice);
    return 0;
  }
  Top top;
  top.take(reader.look(flags.process));
  std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval));
  top.take(reader.look(flags.process));
  if (flags.process != 0 && top.view().programs.empty())
    throw ToolError("process " + std::to_string(flags.process) +
                    " shows no pools: " + why_not_shown(flags.process) + " (docs/live.md)");
  const std::vector<TopRow> rows = top.rows(choice.sort, choice.filter);
  const std::string text = flags.json ? top_json(top, rows) : top_text(top, rows);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    throw ToolError("cannot write to standard output");
  return 0;
}

Choices sort_choices() {
  Choices names;
  for (unsigned i = 0; i < static_cast<unsigned>(TopSort::count); ++i)
    names.emplace_back(sort_name(static_cast<TopSort>(i)));
  return names;
}

}  // namespace weir::tool
