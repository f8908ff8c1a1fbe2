// SPDX-License-Identifier: Apache-2.0
//
// The grammar of the .vmt format, version 1: fields separated by exactly one space, lines ended by
// LF, numbers decimal and unsigned, words of printable ASCII.
#include "trace_reader.hpp"

#include "error.hpp"

namespace weir::tool {
namespace {

using Kind = TraceEvent::Kind;

constexpr uint64_t largest_number = 9'000'000'000'000'000'000u;

/// Walks along one line; every step says whether it found what it wanted.
class Cursor {
 public:
  explicit Cursor(std::string_view line) noexcept
      : at_(line.data()), end_(line.data() + line.size()) {}

  bool at_end() const noexcept { return at_ == end_; }
  bool eat(char c) noexcept {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool take(char &out) noexcept {
    if (at_ == end_) return false;
    out = *at_++;
    return true;
  }
  bool number(uint64_t &out) noexcept {
    const char *start = at_;
    uint64_t value = 0;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') {
      if (value > (largest_number - 9) / 10) return false;
      value = value * 10 + static_cast<uint64_t>(*at_++ - '0');
    }
    out = value;
    return at_ != start;
  }
  bool word(std::string_view &out) noexcept {
    const char *start = at_;
    while (at_ != end_ && *at_ > ' ' && *at_ < 127) ++at_;
    out = std::string_view(start, static_cast<size_t>(at_ - start));
    return at_ != start;
  }

 private:
  const char *at_;
  const char *end_;
};

bool parse_use(Cursor &cursor, TraceEvent &event) {
  if (cursor.eat('@')) event.kind = Kind::use_group;
  if (!cursor.number(event.id) || !cursor.eat(' ') || !cursor.take(event.mode)) return false;
  if (event.mode != 'r' && event.mode != 'w' && event.mode != 'x') return false;
  if (event.kind == Kind::use_group || cursor.at_end()) return true;
  event.span = true;
  if (!cursor.eat(' ') || !cursor.number(event.offset)) return false;
  if (!cursor.eat(' ') || !cursor.number(event.length)) return false;
  event.touched = event.length;
  return cursor.at_end() || (cursor.eat(' ') && cursor.number(event.touched));
}

bool kind_of(char letter, Kind &kind) {
  switch (letter) {
    case 'a':
      kind = Kind::alloc;
      return true;
    case 'f':
      kind = Kind::free;
      return true;
    case 'o':
      kind = Kind::operation;
      return true;
    case 'e':
      kind = Kind::end;
      return true;
    case 'u':
      kind = Kind::use;
      return true;
    case 'g':
      kind = Kind::join;
      return true;
    case 'd':
      kind = Kind::dissolve;
      return true;
    case 'p':
      kind = Kind::phase;
      return true;
    case 't':
      kind = Kind::time;
      return true;
    default:
      return false;
  }
}

/// The line as it may be printed: bounded, without control characters.
std::string printable(std::string_view line) {
  constexpr size_t shown = 80;
  std::string text;
  for (const char c : line.substr(0, shown)) text += (c >= ' ' && c < 127) ? c : '?';
  if (line.size() > shown) text += "...";
  return text;
}

}  // namespace

void TraceReader::refuse(std::string_view reason) const {
  throw ToolError("trace '" + source_.path() + "', line " + std::to_string(line_number_) + ": " +
                  std::string(reason) + ": '" + printable(line_) + "'");
}

bool TraceReader::read_line() {
  bool terminated = false;
  if (!source_.next(line_, terminated)) return false;
  ++line_number_;
  if (!terminated) refuse("the last line has no line end");
  return true;
}

bool TraceReader::next(TraceEvent &event) {
  while (read_line()) {
    if (line_number_ == 1) {
      if (line_ != "#vmt 1") refuse("the first line is not '#vmt 1'");
      continue;
    }
    if (!line_.empty() && line_[0] == '#') {
      header();
      continue;
    }
    in_body_ = true;
    if (!parse(event)) refuse("malformed line");
    return true;
  }
  if (line_number_ == 0) throw ToolError("trace '" + source_.path() + "' is empty");
  return false;
}

void TraceReader::header() {
  if (in_body_) refuse("a header line after the first event");
  const size_t space = line_.find(' ');
  if (space == std::string_view::npos || space == 1) refuse("a header line is not '#key value'");
  if (line_.substr(1, space - 1) == "name") name_ = printable(line_.substr(space + 1));
}

bool TraceReader::parse(TraceEvent &event) const {
  event = TraceEvent{};
  if (line_.empty()) refuse("an empty line");
  if (!kind_of(line_[0], event.kind)) refuse("an unknown kind of line");
  Cursor cursor(line_.substr(1));
  if (event.kind == Kind::end) return cursor.at_end();
  if (!cursor.eat(' ')) return false;
  bool ok = false;
  switch (event.kind) {
    case Kind::alloc:
    case Kind::operation:
      ok = cursor.number(event.id) && cursor.eat(' ') && cursor.number(event.bytes) &&
           cursor.eat(' ') && cursor.word(event.text);
      break;
    case Kind::join:
      ok = cursor.number(event.id) && cursor.eat(' ') && cursor.number(event.bytes);
      break;
    case Kind::use:
      ok = parse_use(cursor, event);
      break;
    case Kind::phase:
      ok = cursor.word(event.text);
      break;
    default:
      ok = cursor.number(event.id);
      break;
  }
  return ok && cursor.at_end();
}

}  // namespace weir::tool
