// SPDX-License-Identifier: Apache-2.0
//
// Scripts by which shells complete the words of a command line of `weir`. They are written from a table of its commands and options,
// which main.cpp reads off what it parses with, so that a script offers what --help shows and nothing else.
#pragma once

#include "choices.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace weir::tool {

/// What may stand behind an option, or as an argument.
struct ValueKind {
  enum class What { none, text, file, folder };
  What what = What::none;
  std::vector<std::string>
      words;  ///< the set of which it is one, or what may stand beside other text
};

/// By the name that --help shows for it: FILE, DIR, or words in small letters between bars, as in "a100|h100|FLOPS,...".
/// Empty: it is a flag and takes none.
ValueKind value_kind(std::string_view type_name);

struct OptionRow {
  std::vector<std::string> names;  ///< "--colour", "-h"; none: it is an argument
  std::string meaning;
  ValueKind value;
  bool repeats = false;  ///< may be given more than once
};

struct CommandRow {
  std::string name;
  std::string meaning;
  std::vector<OptionRow> options;
};

/// The first command is `weir` itself.
using CommandTable = std::vector<CommandRow>;

std::string bash_completion(const CommandTable &table);
std::string zsh_completion(const CommandTable &table);
std::string fish_completion(const CommandTable &table);

/// For the shell of that name. Throws ToolError with the name if there is none.
std::string completion_script(std::string_view shell, const CommandTable &table);

}  // namespace weir::tool
