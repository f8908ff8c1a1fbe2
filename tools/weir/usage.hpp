// SPDX-License-Identifier: Apache-2.0
//
// What is said of a command line that names no command of ours, no option of a command, or no value that an option takes: the wrong
// word, and the nearest right one. Texts only: main.cpp prints them and sets the exit status.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weir::tool {

/// Exit status for a command line that names no command; a command that fails, or that does not understand its own
/// options, has 1.
inline constexpr int usage_status = 2;

/// Its text is the whole sentence the user reads on stderr, as ToolError's is.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string &sentence) : std::runtime_error(sentence) {}
};

/// The words that may stand in a place: commands, options, or the values of an option.
using Choices = std::vector<std::string_view>;

/// The words that were probably meant: those that `word` begins, else those from which it differs least, and by a third of its letters at
/// most (rounded up; hyphens in front do not count).
Choices nearest(std::string_view word, const Choices &choices);

/// "there is no command 'tpoo'; did you mean 'topo'? The commands are ... (see weir --help)".
std::string no_such_command(std::string_view word, const Choices &commands);

/// "weir topo has no option '--jsn'; did you mean '--json'? (see weir topo --help)". `word` may have a value behind "=".
/// `command` empty: the option stands before any.
std::string no_such_option(std::string_view command, std::string_view word, const Choices &options);

/// "--data: 'tensr' is not 'pattern', 'tensor', 'random' or 'zero'; did you mean 'tensor'?". `what` is the option;
/// `otherwise` is what else it takes, such as "a number".
std::string no_such_value(std::string_view what, std::string_view word, const Choices &choices,
                          std::string_view otherwise = {});

}  // namespace weir::tool
