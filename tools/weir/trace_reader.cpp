// SPDX-License-Identifier: Apache-2.0
//
// The grammar of the .vmt format, version 1: fields separated by exactly one space, lines ended by
// LF, numbers decimal and unsigned, words of printable ASCII.
#include "trace_reader.hpp"

#include "recorded/program_blocks.hpp"
#include "trace_cursor.hpp"

#include <utility>

namespace weir::tool {
namespace {

using Kind = TraceEvent::Kind;

bool parse_use(TraceCursor &cursor, TraceEvent &event) {
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

}  // namespace

TraceReader::TraceReader(std::unique_ptr<TraceFile> file, Tags tags)
    : file_(std::move(file)), tags_(tags) {}
TraceReader::~TraceReader() = default;

bool TraceReader::next(TraceEvent &event) {
  if (file_->version() == 2) {
    if (!blocks_)
      blocks_ = std::make_unique<recorded::ProgramBlocks>(recorded::read_program(*file_, {}),
                                                          tags_ == Tags::stacks);
    return blocks_->next(event);
  }
  std::string_view line;
  if (!file_->next(line)) return false;
  if (!parse(line, event)) refuse("malformed line");
  return true;
}

std::vector<std::string> TraceReader::notes() const {
  return blocks_ ? blocks_->notes() : std::vector<std::string>{};
}

bool TraceReader::parse(std::string_view line, TraceEvent &event) const {
  event = TraceEvent{};
  if (line.empty()) refuse("an empty line");
  if (!kind_of(line[0], event.kind)) refuse("an unknown kind of line");
  TraceCursor cursor(line.substr(1));
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
