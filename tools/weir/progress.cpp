// SPDX-License-Identifier: Apache-2.0
//
// Progress: wording and timing of the bar and the lines.
#include "progress.hpp"

#include "job.hpp"
#include "text.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace weir::tool {
namespace {

constexpr uint64_t bar_period_ns = 100'000'000;
constexpr uint64_t line_period_ns = 5'000'000'000;
constexpr size_t bar_cells = 30;

}  // namespace

Progress::Style Progress::choose(bool quiet) {
  if (isatty(STDERR_FILENO) != 0) return Style::bar;
  return quiet ? Style::none : Style::lines;
}

void Progress::start(std::string step, std::string unit, uint64_t total) {
  done();
  step_ = std::move(step);
  unit_ = std::move(unit);
  total_ = total;
  started_ns_ = now_ns();
  if (style_ != Style::none)
    next_ns_ = started_ns_ + (style_ == Style::bar ? bar_period_ns : line_period_ns);
}

void Progress::update(uint64_t count) {
  if (style_ == Style::none) return;
  const uint64_t now = now_ns();
  if (now < next_ns_) return;
  show(now, count);
  next_ns_ = now + (style_ == Style::bar ? bar_period_ns : line_period_ns);
}

std::string Progress::rate_text(uint64_t now, uint64_t count) const {
  const double elapsed = static_cast<double>(now - started_ns_) * 1e-9;
  const double rate = static_cast<double>(count) / elapsed;
  std::string text = unit_ == "bytes" ? format_bytes(static_cast<uint64_t>(rate)) + "/s"
                                      : format_fixed(rate, rate < 100 ? 1 : 0) + " " + unit_ + "/s";
  if (total_ != 0 && count != 0 && count <= total_)
    text += ", " + format_fixed(static_cast<double>(total_ - count) / rate, 0) + " s left";
  return text;
}

void Progress::show(uint64_t now, uint64_t count) {
  const double share = total_ != 0 ? static_cast<double>(count) / static_cast<double>(total_) : 0;
  const std::string percent =
      total_ != 0 ? format_fixed(100 * share, 1) + " %" : std::to_string(count);
  const std::string tail = percent + ", " + rate_text(now, count);
  if (style_ == Style::lines) {
    std::fprintf(stderr, "%s: %s\n", step_.c_str(), tail.c_str());
    return;
  }
  const auto filled = static_cast<size_t>(share * static_cast<double>(bar_cells));
  const std::string bar = std::string(std::min(filled, bar_cells), '#') +
                          std::string(bar_cells - std::min(filled, bar_cells), '.');
  std::fprintf(stderr, "\r\033[K%-12s [%s] %s", step_.c_str(), bar.c_str(), tail.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::done() {
  if (shown_) {
    std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
  }
  shown_ = false;
  next_ns_ = UINT64_MAX;
}

}  // namespace weir::tool
