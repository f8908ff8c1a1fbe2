// SPDX-License-Identifier: Apache-2.0
//
// TraceFile: the lines of a .vmt trace after its header, and which version of the format they are of. It is opened once and then
// handed to the reader of that version, so that a pipe can be a trace too. A trace of version 2 may be cut anywhere, as that of a program that
// was killed is: its half line at the end is left out. One of version 1 may not.
#pragma once

#include "line_source.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::tool {

class TraceFile {
 public:
  /// Throws ToolError when the file can't be opened.
  explicit TraceFile(const std::string &path) : source_(path) {}

  /// 1 or 2. Throws ToolError if the first line is that of no trace.
  unsigned version();
  /// The next line that is an event's; false at the end. Throws ToolError at a header's line that is malformed or comes late.
  bool next(std::string_view &line);

  /// Throws ToolError naming the file, the line's number, the reason and the text.
  [[noreturn]] void refuse(std::string_view reason) const;

  uint64_t line_number() const noexcept { return line_number_; }
  const std::string &name() const noexcept { return name_; }  ///< of the header, "" if it has none
  const LineSource &source() const noexcept { return source_; }
  /// Whether the file ended within a line or a compressed frame. Known at its end.
  bool cut() const noexcept { return cut_ || source_.cut(); }

 private:
  bool read_line();
  void header();

  LineSource source_;
  std::string_view line_;
  std::string name_;
  uint64_t line_number_ = 0;
  unsigned version_ = 0;
  bool in_body_ = false;
  bool cut_ = false;
};

/// What of a trace was left out, to stderr: a sentence each.
void say_notes(const std::string &path, const std::vector<std::string> &notes);

/// Text of a file as it may be printed: bounded, without control characters.
std::string printable(std::string_view text);

}  // namespace weir::tool
