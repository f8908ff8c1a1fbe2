// SPDX-License-Identifier: Apache-2.0
//
// Stack text: the frames of a stack as they go over the tape, the innermost first: for each a line "OFFSET BUILD_ID FUNCTION PATH", a tab, and
// how people read it. Made on the thread that made the buffer, which holds no lock: to look frames up asks the loader, whose lock a
// thread that waits for a trace may hold.
//
// What must hold: a text has whole lines only, and is bounded; outer frames are what it leaves out.
#pragma once

#include "core/base/stacks.hpp"

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::trace {

inline constexpr size_t most_stack_text = size_t{16} << 10U;

struct StackFrame {
  uint64_t offset = 0;
  std::string_view build_id;  ///< "": none
  std::string_view function;  ///< that the file exports; "": not known
  std::string_view path;      ///< "": of no file
  std::string_view line;
};

inline std::string stack_text(const std::vector<void *> &frames) {
  const auto plain = [](std::string text, char least = ' ') {
    for (char &each : text)
      if ((each >= 0 && each < least) || each == 127) each = '?';
    return text;
  };
  std::string text;
  for (void *const frame : frames) {
    const FrameSight sight = look_up_frame(frame);
    const std::string line = std::to_string(sight.offset) + ' ' + sight.build_id + ' ' +
                             plain(sight.function, '!') + ' ' + plain(sight.file) + '\t' +
                             plain(sight.line) + '\n';
    if (text.size() + line.size() > most_stack_text) break;
    text += line;
  }
  return text;
}

template <class Take>
void each_frame(std::string_view text, Take &&take) {
  while (!text.empty()) {
    const size_t end = text.find('\n'), tab = text.find('\t');
    if (end == text.npos || tab > end) return;
    StackFrame frame;
    const std::string_view head = text.substr(0, tab);
    frame.line = text.substr(tab + 1, end - tab - 1);
    text.remove_prefix(end + 1);
    const size_t first = head.find(' '), second = head.find(' ', first + 1);
    const size_t third = second == head.npos ? second : head.find(' ', second + 1);
    if (third == head.npos) continue;
    (void)std::from_chars(head.data(), head.data() + first, frame.offset);
    frame.build_id = head.substr(first + 1, second - first - 1);
    frame.function = head.substr(second + 1, third - second - 1);
    frame.path = head.substr(third + 1);
    take(frame);
  }
}

}  // namespace weir::trace
