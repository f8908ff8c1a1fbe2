// SPDX-License-Identifier: Apache-2.0
//
// What is said of a command line that names no command of ours, or no option of a command. Texts only: who prints them, and the exit status, are
// main.cpp's.
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

/// The command that was probably meant: the one word was begun with, else the one from which it differs by two letters
/// at most (one, if it has three or fewer). Empty if there is none, or no single nearest one.
std::string_view nearest_command(std::string_view word,
                                 const std::vector<std::string_view> &commands);

/// "there is no command 'tpoo'; did you mean 'topo'? The commands are ... (see weir --help)".
std::string no_such_command(std::string_view word, const std::vector<std::string_view> &commands);

/// "weir topo has no option '--jsn'; did you mean '--json'? (see weir topo --help)". `word` may have a value behind "=".
std::string no_such_option(std::string_view command, std::string_view word,
                           const std::vector<std::string> &options);

}  // namespace weir::tool
