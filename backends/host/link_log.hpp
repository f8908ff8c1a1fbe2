// SPDX-License-Identifier: Apache-2.0
//
// What a path's link was busy with, as stretches of time, to measure how long both directions were busy at once
// (Options::link_log). Copies that follow each other without a pause are one stretch, so a busy link takes little memory.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace weir::host {

/// From the first byte of a copy to the last of one that followed it, in nanoseconds of CLOCK_MONOTONIC.
struct Stretch {
  uint64_t begin = 0, end = 0, bytes = 0;
};

class LinkLog {
 public:
  /// Thread-safe. Where there is no memory for it the copy is counted as lost.
  void note(uint64_t begin, uint64_t end, uint64_t bytes) noexcept;
  /// Lines "FROM TO BEGIN END BYTES" after `text`, or "FROM TO lost COPIES" where some were lost.
  void print(const std::string &from, const std::string &to, std::string *text) const;

 private:
  mutable std::mutex mutex_;
  std::vector<Stretch> stretches_;
  uint64_t lost_ = 0;
};

}  // namespace weir::host
