// SPDX-License-Identifier: Apache-2.0
//
// Stripes: where a store's line of units lies in its files. The line is cut into stripes that go round the files
// (RAID-0), so that one slot is read from all of them in parallel. Arithmetic only.
//
// Invariants: every byte of the line is in exactly one file; the files are as long as what lies in them, no longer; a
// run() never leaves its stripe, and is in whole units if it is asked for whole units.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir::tier {

class Stripes {
 public:
  /// `width`: bytes of a stripe, whole units.
  Stripes(uint64_t line, uint32_t files, uint64_t width) noexcept
      : line_(line), files_(files), width_(width) {}

  struct Run {
    uint32_t file = 0;
    uint64_t offset = 0;  ///< in the file
    uint64_t bytes = 0;
  };
  /// The front of `bytes` at `at` of the line that lies in one piece in one file.
  Run run(uint64_t at, uint64_t bytes) const noexcept {
    const uint64_t stripe = at / width_;
    const uint64_t within = at % width_;
    return {static_cast<uint32_t>(stripe % files_), stripe / files_ * width_ + within,
            std::min(bytes, width_ - within)};
  }
  uint64_t file_bytes(uint32_t file) const noexcept {
    const uint64_t whole = line_ / width_;
    const uint64_t rest = whole % files_;
    uint64_t bytes = whole / files_ * width_;
    if (file < rest) bytes += width_;
    if (file == rest) bytes += line_ % width_;
    return bytes;
  }
  uint32_t files() const noexcept { return files_; }

 private:
  uint64_t line_;
  uint32_t files_;
  uint64_t width_;
};

}  // namespace weir::tier
