// SPDX-License-Identifier: Apache-2.0
//
// The first lines of a trace, and where its lines end.
#include "trace_file.hpp"

#include "error.hpp"

#include <cstdio>

namespace weir::tool {

std::string printable(std::string_view text) {
  constexpr size_t shown = 80;
  std::string printed;
  for (const char c : text.substr(0, shown)) printed += (c >= ' ' && c < 127) ? c : '?';
  if (text.size() > shown) printed += "...";
  return printed;
}

void say_notes(const std::string &path, const std::vector<std::string> &notes) {
  for (const std::string &note : notes)
    std::fprintf(stderr, "weir: trace '%s': %s\n", path.c_str(), note.c_str());
}

void TraceFile::refuse(std::string_view reason) const {
  throw ToolError("trace '" + source_.path() + "', line " + std::to_string(line_number_) + ": " +
                  std::string(reason) + ": '" + printable(line_) + "'");
}

bool TraceFile::read_line() {
  bool terminated = false;
  if (!source_.next(line_, terminated)) return false;
  if (!terminated && version_ == 2) {
    cut_ = true;
    return false;
  }
  ++line_number_;
  if (!terminated) refuse("the last line has no line end");
  return true;
}

unsigned TraceFile::version() {
  if (version_ != 0) return version_;
  if (!read_line()) throw ToolError("trace '" + source_.path() + "' is empty");
  if (line_ != "#vmt 1" && line_ != "#vmt 2")
    refuse("the first line is not '#vmt 1', nor '#vmt 2'");
  version_ = line_.back() == '1' ? 1 : 2;
  if (version_ == 2) source_.accept_cut();
  return version_;
}

bool TraceFile::next(std::string_view &line) {
  (void)version();
  while (read_line()) {
    if (line_.empty() || line_[0] != '#') {
      in_body_ = true;
      line = line_;
      return true;
    }
    header();
  }
  return false;
}

void TraceFile::header() {
  if (in_body_) refuse("a header line after the first event");
  const size_t space = line_.find(' ');
  if (space == std::string_view::npos || space == 1) refuse("a header line is not '#key value'");
  if (line_.substr(1, space - 1) == "name") name_ = printable(line_.substr(space + 1));
}

}  // namespace weir::tool
