// SPDX-License-Identifier: Apache-2.0
//
// The completion of fish: a line for each command and for each option.
#include "completion.hpp"

namespace weir::tool {
namespace {

using What = ValueKind::What;

/// In single quotes, in which fish knows two escapes.
std::string fish_quoted(std::string_view text) {
  std::string safe = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') safe += '\\';
    safe += letter;
  }
  return safe + "'";
}

/// What may stand there: words, files, folders, or text that nothing is known of.
std::string value_words(const ValueKind &value, bool option) {
  std::string words;
  for (const std::string &word : value.words) words += (words.empty() ? "" : " ") + word;
  std::string text = option ? " -r" : "";
  if (value.what == What::file) text += " -F";
  if (value.what == What::folder) text += " -f -a '(__fish_complete_directories)'";
  if (value.what == What::text) text += " -f";
  return words.empty() ? text : text + " -a " + fish_quoted(words);
}

std::string option_line(const OptionRow &option, const std::string &when) {
  std::string line = "complete -c weir -n " + fish_quoted(when);
  for (const std::string &name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.value.what != What::none) line += value_words(option.value, !option.names.empty());
  return line + " -d " + fish_quoted(option.meaning) + "\n";
}

}  // namespace

std::string fish_completion(const CommandTable &table) {
  std::string text =
      "# Completion of weir(1) for fish, written by `weir completion fish`.\n"
      "complete -c weir -f\n";
  for (const OptionRow &option : table.front().options)
    text += option_line(option, "__fish_use_subcommand");
  for (size_t i = 1; i < table.size(); ++i) {
    const CommandRow &command = table[i];
    text += "complete -c weir -n '__fish_use_subcommand' -a " + fish_quoted(command.name) + " -d " +
            fish_quoted(command.meaning) + "\n";
    for (const OptionRow &option : command.options)
      text += option_line(option, "__fish_seen_subcommand_from " + command.name);
  }
  return text;
}

}  // namespace weir::tool
