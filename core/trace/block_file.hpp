// SPDX-License-Identifier: Apache-2.0
//
// BlockFile: a file of text that is whole lines at any moment, whenever its process is killed. It is written by blocks of a page, each
// of whole lines and filled up with blanks, so that no write that was cut leaves half a line: the system ends no process within a page
// of a write. Blanks stand behind a line's end, where every reader of such files skips them.
#pragma once

#include "core/base/own_file.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::trace {

class BlockFile {
 public:
  /// Takes over the open, empty file. It is to have at most that many bytes.
  BlockFile(OwnFile file, uint64_t most_bytes) noexcept
      : file_(std::move(file)), most_bytes_(most_bytes) {}
  BlockFile(const BlockFile &) = delete;
  BlockFile &operator=(const BlockFile &) = delete;

  /// Appends a line, given without its end and shorter than a block. False: it does not fit any more, or can't be written; neither can later ones.
  bool line(std::string_view text) noexcept;
  /// Writes what has been appended so far to the file.
  bool flush() noexcept;
  /// Ends the file with a line for which there is always room. The system's error, or 0.
  int finish(std::string_view last) noexcept;

  bool full() const noexcept { return full_; }
  int error() const noexcept { return error_; }

 private:
  static constexpr size_t block = 4096;
  bool write_block() noexcept;
  bool append(std::string_view text) noexcept;

  const OwnFile file_;
  const uint64_t most_bytes_;
  uint64_t at_ = 0;  ///< where the block begins
  size_t used_ = 0;
  bool dirty_ = false, full_ = false;
  int error_ = 0;
  std::array<char, block> text_;
};

}  // namespace weir::trace
