// SPDX-License-Identifier: Apache-2.0
//
// The completion of zsh: _arguments, once for `weir` itself and once for the command that was named. What its specifications give a
// meaning of their own to (brackets, colons, backslashes) is escaped.
#include "completion.hpp"
#include "text.hpp"

namespace weir::tool {
namespace {

using What = ValueKind::What;

/// A part of a specification: `special` letters get a backslash.
std::string escaped(std::string_view text, std::string_view special) {
  std::string safe;
  for (const char letter : text) {
    if (special.find(letter) != std::string_view::npos) safe += '\\';
    safe += letter;
  }
  return safe;
}

/// ":message:action" of a value; "" for a flag.
std::string zsh_action(const ValueKind &value) {
  if (value.what == What::none) return "";
  if (!value.words.empty()) {
    std::string list;
    for (const std::string &word : value.words)
      list += (list.empty() ? "" : " ") + escaped(word, "\\:()[]{} '\"$`*?~#;&|<>");
    return ":value:(" + list + ")";
  }
  if (value.what == What::file) return ":file:_files";
  if (value.what == What::folder) return ":folder:_files -/";
  return ":value: ";
}

std::string specifications(const CommandRow &command, const std::string &indent) {
  std::string text;
  for (const OptionRow &option : command.options) {
    if (option.names.empty()) {
      text +=
          indent + shell_quoted((option.repeats ? "*" : "1") + zsh_action(option.value)) + " \\\n";
      continue;
    }
    for (const std::string &name : option.names) {
      const bool equals = option.value.what != What::none && name.starts_with("--");
      text += indent +
              shell_quoted((option.repeats ? "*" : "") + name + (equals ? "=" : "") + "[" +
                           escaped(option.meaning, "\\[]:") + "]" + zsh_action(option.value)) +
              " \\\n";
    }
  }
  return text;
}

}  // namespace

std::string zsh_completion(const CommandTable &table) {
  std::string text =
      "#compdef weir\n"
      "# Completion of weir(1) for zsh, written by `weir completion zsh`.\n"
      "_weir() {\n"
      "  local curcontext=\"$curcontext\" state line\n"
      "  typeset -A opt_args\n"
      "  local -a commands=(\n";
  for (size_t i = 1; i < table.size(); ++i)
    text += "    " +
            shell_quoted(escaped(table[i].name, "\\:") + ":" + escaped(table[i].meaning, "\\:")) +
            "\n";
  text +=
      "  )\n"
      "  _arguments -C \\\n" +
      specifications(table.front(), "    ") +
      "    '1:command:->command' \\\n"
      "    '*::argument:->argument'\n"
      "  case \"$state\" in\n"
      "    command) _describe command commands ;;\n"
      "    argument)\n"
      "      case \"$line[1]\" in\n";
  for (size_t i = 1; i < table.size(); ++i)
    text += "        " + table[i].name + ")\n          _arguments \\\n" +
            specifications(table[i], "            ") + "            && return\n          ;;\n";
  return text +
         "      esac\n"
         "      ;;\n"
         "  esac\n"
         "}\n"
         // Read from the folder of functions it is the function's own file, and else what defines it.
         "if [ \"$funcstack[1]\" = _weir ]; then\n"
         "  _weir \"$@\"\n"
         "elif (( $+functions[compdef] )); then\n"
         "  compdef _weir weir\n"
         "fi\n";
}

}  // namespace weir::tool
