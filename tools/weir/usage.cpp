// SPDX-License-Identifier: Apache-2.0
//
// The nearest command is found by the number of letters inserted, left out, changed or swapped with their neighbour.
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

}  // namespace

std::string_view nearest_command(std::string_view word,
                                 const std::vector<std::string_view> &commands) {
  constexpr size_t longest = 32;  // no command is near to what is longer
  if (word.empty() || word.size() > longest) return {};
  const size_t allowed = word.size() <= 3 ? 1 : 2;
  std::string_view nearest;
  size_t least = allowed + 1;
  bool several = false;
  for (const std::string_view command : commands) {
    const size_t steps = command.starts_with(word) ? 0 : distance(word, command);
    if (steps > allowed || steps > least) continue;
    several = steps == least;
    least = steps;
    nearest = command;
  }
  return several ? std::string_view{} : nearest;
}

std::string no_such_command(std::string_view word, const std::vector<std::string_view> &commands) {
  std::string sentence = "there is no command '" + std::string(word) + "'";
  const std::string_view nearest = nearest_command(word, commands);
  if (!nearest.empty())
    sentence += "; did you mean '" + std::string(nearest) + "'?";
  else
    sentence += ".";
  sentence += " The commands are ";
  for (size_t i = 0; i < commands.size(); ++i) {
    if (i > 0) sentence += i + 1 < commands.size() ? ", " : " and ";
    sentence += commands[i];
  }
  return sentence + " (see weir --help)";
}

std::string no_such_option(std::string_view command, std::string_view word,
                           const std::vector<std::string> &options) {
  word = word.substr(0, word.find('='));
  const std::string name = "weir " + std::string(command);
  std::string sentence = name + " has no option '" + std::string(word) + "'";
  const std::string_view nearest =
      nearest_command(word, std::vector<std::string_view>(options.begin(), options.end()));
  if (!nearest.empty()) sentence += "; did you mean '" + std::string(nearest) + "'?";
  return sentence + " (see " + name + " --help)";
}

}  // namespace weir::tool
