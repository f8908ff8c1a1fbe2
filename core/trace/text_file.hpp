// SPDX-License-Identifier: Apache-2.0
//
// TextFile: a file that only grows, of whole lines, plain or compressed by zstd. Text that was flushed can be read whenever the process ends;
// of the text behind it a reader takes what it can.
#pragma once

#include "core/base/own_file.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weir::trace {

class TextFile {
 public:
  /// Takes over the open, empty file. It is to have about that many bytes at most. Throws std::bad_alloc.
  TextFile(OwnFile file, uint64_t most_bytes, bool compressed);
  ~TextFile();
  TextFile(const TextFile &) = delete;
  TextFile &operator=(const TextFile &) = delete;

  void add(std::string_view lines);
  /// Writes what has been appended so far to the file.
  void flush();
  /// Ends the file: no more text comes.
  void finish();

  bool full() const noexcept { return full_; }
  int error() const noexcept { return error_; }
  bool ended() const noexcept { return full_ || error_ != 0; }

 private:
  enum class Push : uint8_t { more, flush, end };
  void push(Push how);
  void write(const void *bytes, size_t count) noexcept;

  const OwnFile file_;
  const uint64_t most_bytes_;
  uint64_t at_ = 0;
  int error_ = 0;
  bool full_ = false;
  void *stream_ = nullptr;  ///< ZSTD_CCtx, if it is compressed
  std::vector<char> text_, coded_;
};

}  // namespace weir::trace
