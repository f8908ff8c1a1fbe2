// SPDX-License-Identifier: Apache-2.0
//
// The completion of bash: one function over two tables, of the words of each command and of the values of each option. It needs
// nothing of the package bash-completion. bash cuts words at "=", so "--data=te" comes as three of them.
#include "completion.hpp"
#include "text.hpp"

namespace weir::tool {
namespace {

using What = ValueKind::What;

std::string joined(const std::vector<std::string> &words, const char *between) {
  std::string text;
  for (const std::string &word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}

/// What the function does for a value: sets `words`, or `kind` to f (files) or d (folders).
std::string bash_action(const ValueKind &value) {
  std::string text =
      value.words.empty() ? "" : "words=" + shell_quoted(joined(value.words, " ")) + " ";
  if (value.what == What::file) text += "kind=f ";
  if (value.what == What::folder) text += "kind=d ";
  return text.empty() ? ":" : text.substr(0, text.size() - 1);
}

/// "    'replay --data') words='pattern tensor' ;;", one line for each option that takes a value.
std::string value_cases(const CommandTable &table) {
  std::string text;
  for (const CommandRow &command : table) {
    for (const OptionRow &option : command.options) {
      if (option.names.empty() || option.value.what == What::none) continue;
      std::vector<std::string> patterns;
      for (const std::string &name : option.names)
        patterns.push_back(
            shell_quoted((&command == &table.front() ? "" : command.name) + " " + name));
      text += "      " + joined(patterns, "|") + ") " + bash_action(option.value) + " ;;\n";
    }
  }
  return text;
}

std::string options_of(const CommandRow &command) {
  std::vector<std::string> words;
  for (const OptionRow &option : command.options)
    words.insert(words.end(), option.names.begin(), option.names.end());
  return joined(words, " ");
}

std::string command_cases(const CommandTable &table) {
  std::string text;
  for (size_t i = 1; i < table.size(); ++i) {
    ValueKind argument;
    for (const OptionRow &option : table[i].options)
      if (option.names.empty()) argument = option.value;
    text += "      " + shell_quoted(table[i].name) +
            ") options=" + shell_quoted(options_of(table[i])) +
            (argument.what == What::none ? "" : " " + bash_action(argument)) + " ;;\n";
  }
  return text;
}

constexpr const char *bash_begin =
    R"(# Completion of weir(1) for bash, written by `weir completion bash`.
_weir() {
  local word="${COMP_WORDS[COMP_CWORD]}" before='' command='' options='' words='' kind='' value='' i
  [ "$COMP_CWORD" -gt 0 ] && before="${COMP_WORDS[COMP_CWORD - 1]}"
  if [ "$word" = '=' ]; then
    word=''
  elif [ "$before" = '=' ] && [ "$COMP_CWORD" -gt 1 ]; then
    before="${COMP_WORDS[COMP_CWORD - 2]}"
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "${COMP_WORDS[i]}" in
      -* | =) ;;
      *) command="${COMP_WORDS[i]}"; break ;;
    esac
  done
  COMPREPLY=()
  if [[ "$before" == -* ]]; then
    value=yes
    case "$command $before" in
)";
constexpr const char *bash_words = R"(      *) value='' ;;
    esac
  fi
  if [ -z "$value" ]; then
    case "$command" in
)";
constexpr const char *bash_end = R"(    esac
    if [[ "$word" == -* ]]; then
      words="$options" kind=''
    fi
  fi
  mapfile -t COMPREPLY < <(
    compgen -W "$words" -- "$word"
    [ -z "$kind" ] || compgen -"$kind" -- "$word"
  )
  if [ -n "$kind" ]; then
    compopt -o filenames 2>/dev/null
  fi
  return 0
}
complete -F _weir weir
)";

}  // namespace

std::string bash_completion(const CommandTable &table) {
  std::string commands;
  for (size_t i = 1; i < table.size(); ++i)
    commands.append(commands.empty() ? "" : " ").append(table[i].name);
  return bash_begin + value_cases(table) + bash_words +
         "      '') options=" + shell_quoted(options_of(table.front())) +
         " words=" + shell_quoted(commands) + " ;;\n" + command_cases(table) + bash_end;
}

}  // namespace weir::tool
