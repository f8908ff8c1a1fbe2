// SPDX-License-Identifier: Apache-2.0
//
// Splitting and the shared kinds of values.

#include "backends/common/options.hpp"

#include <algorithm>
#include <charconv>

namespace weir::common {
namespace {

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

}  // namespace

std::string read_options(const char *text, const TakeOption &take) {
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return "option " + quoted(pair) + " has no '='";
    std::string reason = take(pair.substr(0, equals), pair.substr(equals + 1));
    if (!reason.empty()) return reason;
  }
  return {};
}

std::string bad_option(std::string_view key, std::string_view value, std::string_view wanted) {
  return "option " + std::string(key) + "=" + quoted(value) + ": " + std::string(wanted);
}

std::string unknown_option(std::string_view key, std::string_view known) {
  return "unknown option " + quoted(key) + " (known: " + std::string(known) + ")";
}

std::string read_flag(std::string_view key, std::string_view value, bool *out) {
  if (value != "0" && value != "1") return bad_option(key, value, "0 or 1 is needed");
  *out = value == "1";
  return {};
}

bool parse_number(std::string_view text, uint64_t unit, uint64_t *out) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  const std::string_view suffix = text.substr(static_cast<size_t>(end - text.data()));
  uint64_t factor = 1;
  if (suffix == "K") {
    factor = unit;
  } else if (suffix == "M") {
    factor = unit * unit;
  } else if (suffix == "G") {
    factor = unit * unit * unit;
  } else if (!suffix.empty()) {
    return false;
  }
  if (value > UINT64_MAX / factor) return false;
  *out = value * factor;
  return true;
}

}  // namespace weir::common
