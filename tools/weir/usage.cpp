// SPDX-License-Identifier: Apache-2.0
//
// The nearest word is found by the number of letters inserted, left out, changed or swapped with their neighbour.
#include "tools/weir/usage.hpp"

#include <algorithm>

namespace weir::tool {
namespace {

/// Damerau and Levenshtein's distance, without edits of what was edited already.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> least(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        least[i][j] = i + j;
        continue;
      }
      const bool same = a[i - 1] == b[j - 1];
      least[i][j] = std::min(
          {least[i - 1][j] + 1, least[i][j - 1] + 1, least[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  }
  return least[a.size()][b.size()];
}

size_t letters(std::string_view word) {
  return word.size() - std::min(word.find_first_not_of('-'), word.size());
}

/// "a, b and c".
std::string listed(const Choices &words, std::string_view last, std::string_view quote) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 < words.size() ? ", " : " " + std::string(last) + " ";
    text.append(quote).append(words[i]).append(quote);
  }
  return text;
}

/// "; did you mean 'topo'?", or nothing.
std::string did_you_mean(std::string_view word, const Choices &choices) {
  constexpr size_t most = 2;  // more are no help
  const Choices near = nearest(word, choices);
  if (near.empty() || near.size() > most) return "";
  return "; did you mean " + listed(near, "or", "'") + "?";
}

}  // namespace

Choices nearest(std::string_view word, const Choices &choices) {
  constexpr size_t longest = 32;  // nothing of ours is near to what is longer
  if (letters(word) == 0 || word.size() > longest) return {};
  const size_t allowed = (letters(word) + 2) / 3;
  Choices near;
  size_t least = allowed + 1;
  for (const std::string_view choice : choices) {
    const size_t steps = choice.starts_with(word) ? 0 : distance(word, choice);
    if (steps > allowed || steps > least) continue;
    if (steps < least) near.clear();
    least = steps;
    near.push_back(choice);
  }
  return near;
}

std::string no_such_command(std::string_view word, const Choices &commands) {
  const std::string meant = did_you_mean(word, commands);
  return "there is no command '" + std::string(word) + "'" + (meant.empty() ? "." : meant) +
         " The commands are " + listed(commands, "and", "") + " (see weir --help)";
}

std::string no_such_option(std::string_view command, std::string_view word,
                           const Choices &options) {
  word = word.substr(0, word.find('='));
  const std::string name = command.empty() ? "weir" : "weir " + std::string(command);
  return name + " has no option '" + std::string(word) + "'" + did_you_mean(word, options) +
         " (see " + name + " --help)";
}

std::string no_such_value(std::string_view what, std::string_view word, const Choices &choices,
                          std::string_view otherwise) {
  std::string list = listed(choices, "or", "'");
  if (!otherwise.empty()) list.append(", nor ").append(otherwise);
  return std::string(what) + ": '" + std::string(word) + "' is not " + list +
         did_you_mean(word, choices);
}

}  // namespace weir::tool
