// SPDX-License-Identifier: Apache-2.0
//
// Frames are texts, or "@MODULE+OFFSET", with ":FUNCTION" perhaps, of a module that the trace has; what only looks like that is a text. How many frames are shown, and
// how long they are, is bounded: anyone may have written the trace.
#include "tools/weir/recorded/stack_tags.hpp"

#include "tools/weir/text.hpp"
#include "tools/weir/trace_cursor.hpp"

#include <algorithm>
#include <string_view>

namespace weir::tool::recorded {
namespace {

constexpr size_t most_shown_frames = 128;  // the innermost
constexpr size_t longest_frame = 400;
constexpr size_t most_tag_bytes = size_t{256} << 20;  // of all stacks; later ones have none

struct ModuleFrame {
  const CodeFile *file = nullptr;  ///< nullptr: it is a text
  uint64_t offset = 0;
  std::string_view function;
};

ModuleFrame module_frame(const Program &program, std::string_view frame) {
  const size_t colon = std::min(frame.find(':'), frame.size());
  TraceCursor cursor(frame.substr(0, colon));
  uint64_t module = 0, offset = 0;
  if (!cursor.eat('@') || !cursor.whole_number(module) || !cursor.eat('+') ||
      !cursor.whole_number(offset) || !cursor.at_end())
    return {};
  const auto found = program.code_files.find(module);
  if (found == program.code_files.end()) return {};
  return {&found->second, offset, frame.substr(std::min(colon + 1, frame.size()))};
}

/// From the innermost on, as long as `take` is asked for more.
template <class Take>
void each_inner_frame(std::string_view stack, Take &&take) {
  for (size_t count = 0; count < most_shown_frames && !stack.empty(); ++count) {
    const size_t separator = stack.rfind(';');
    const size_t from = separator == stack.npos ? 0 : separator + 1;
    take(stack.substr(from));
    stack = stack.substr(0, separator == stack.npos ? 0 : separator);
  }
}

}  // namespace

std::vector<std::string> stack_tags(const Program &program, std::vector<std::string> *notes) {
  Symbols symbols;
  for (const std::string &stack : program.stacks)
    each_inner_frame(stack, [&](std::string_view frame) {
      const ModuleFrame of = module_frame(program, frame);
      if (of.file != nullptr) symbols.want(*of.file, of.offset);
    });
  symbols.look_up();
  notes->insert(notes->end(), symbols.notes().begin(), symbols.notes().end());
  std::vector<std::string> tags;
  size_t bytes = 0;
  for (const std::string &stack : program.stacks) {
    std::string &tag = tags.emplace_back();
    if (bytes > most_tag_bytes) continue;
    each_inner_frame(stack, [&](std::string_view frame) {
      const ModuleFrame of = module_frame(program, frame);
      std::string text = of.file != nullptr ? symbols.frame(*of.file, of.offset, of.function)
                                            : std::string(frame.substr(0, longest_frame));
      tag = tag.empty() ? std::move(text) : text + ';' + tag;
    });
    bytes += tag.size();
  }
  return tags;
}

}  // namespace weir::tool::recorded
