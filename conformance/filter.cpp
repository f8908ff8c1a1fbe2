// SPDX-License-Identifier: Apache-2.0
//
// Reading filters.
#include "conformance/filter.hpp"

#include "conformance/test.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <sstream>

namespace weir::conformance {
namespace {

bool matches_one_of(const std::vector<std::string> &globs, const std::string &id) {
  return std::any_of(globs.begin(), globs.end(), [&id](const std::string &glob) {
    return fnmatch(glob.c_str(), id.c_str(), 0) == 0;
  });
}

}  // namespace

bool matches_a_requirement(const std::string &glob) {
  const std::vector<Requirement> &all = requirements();
  return std::any_of(all.begin(), all.end(),
                     [&glob](const Requirement &each) { return matches_one_of({glob}, each.id); });
}

std::string Filter::read(const std::string &text) {
  std::string wrong;
  const auto add = [&wrong](const std::string &what) {
    wrong += (wrong.empty() ? "" : "; ") + std::string("--filter: ") + what;
  };
  std::istringstream globs(text);
  for (std::string glob; std::getline(globs, glob, ',');) {
    const bool leaves_out = glob.starts_with("-");
    const std::string pattern = leaves_out ? glob.substr(1) : glob;
    if (!matches_a_requirement(pattern)) add(glob + " matches no requirement");
    (leaves_out ? without_ : with_).push_back(pattern);
  }
  if (!wrong.empty()) return wrong;
  const std::vector<Requirement> &all = requirements();
  if (std::none_of(all.begin(), all.end(),
                   [this](const Requirement &each) { return chooses(each.id); }))
    add(text + " leaves no requirement");
  return wrong;
}

bool Filter::chooses(const std::string &id) const {
  return (with_.empty() || matches_one_of(with_, id)) && !matches_one_of(without_, id);
}

}  // namespace weir::conformance
