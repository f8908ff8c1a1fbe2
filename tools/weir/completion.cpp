// SPDX-License-Identifier: Apache-2.0
//
// Which shells there are, and what stands behind an option by the name of its value.
#include "completion.hpp"

#include "error.hpp"

#include <algorithm>

namespace weir::tool {
namespace {

constexpr struct {
  const char *name;
  std::string (*write)(const CommandTable &);
} shells[] = {
    {"bash", bash_completion},
    {"zsh", zsh_completion},
    {"fish", fish_completion},
};

/// A word of a set, not what stands for a value, which is in capitals.
bool is_word(std::string_view text) {
  return !text.empty() && std::none_of(text.begin(), text.end(), [](char letter) {
    return (letter >= 'A' && letter <= 'Z') || letter == ' ';
  });
}

}  // namespace

ValueKind value_kind(std::string_view type_name) {
  ValueKind kind;
  if (type_name.empty()) return kind;
  kind.what = type_name == "FILE"  ? ValueKind::What::file
              : type_name == "DIR" ? ValueKind::What::folder
                                   : ValueKind::What::text;
  for (size_t at = 0, end = 0; at <= type_name.size(); at = end + 1) {
    end = std::min(type_name.find('|', at), type_name.size());
    const std::string_view part = type_name.substr(at, end - at);
    if (is_word(part)) kind.words.emplace_back(part);
  }
  return kind;
}

Choices shell_choices() {
  Choices names;
  for (const auto &shell : shells) names.emplace_back(shell.name);
  return names;
}

std::string completion_script(std::string_view shell, const CommandTable &table) {
  for (const auto &known : shells)
    if (shell == known.name) return known.write(table);
  throw ToolError(no_such_value("shell", shell, shell_choices()));
}

}  // namespace weir::tool
