// SPDX-License-Identifier: Apache-2.0
//
// Progress: how far a long step is, on stderr: a bar with rate and time left on a terminal, a line
// every five seconds elsewhere, nothing when told so. It never writes to stdout.
#pragma once

#include <cstdint>
#include <string>

namespace weir::tool {

class Progress {
 public:
  enum class Style : uint8_t { none, lines, bar };

  /// The style for stderr as it is: a bar on a terminal; else lines, or none if `quiet`.
  static Style choose(bool quiet);

  explicit Progress(Style style) : style_(style) {}
  ~Progress() { done(); }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// Begins a step of `total` units (0 = unknown); ends the one before.
  void start(std::string step, std::string unit, uint64_t total);
  /// Cheap unless something is due to be shown.
  void update(uint64_t count);
  /// Ends the step; a bar is wiped out.
  void done();

 private:
  void show(uint64_t now, uint64_t count);
  std::string rate_text(uint64_t now, uint64_t count) const;

  Style style_;
  std::string step_;
  std::string unit_;
  uint64_t total_ = 0;
  uint64_t started_ns_ = 0;
  uint64_t next_ns_ = UINT64_MAX;
  bool shown_ = false;
};

}  // namespace weir::tool
