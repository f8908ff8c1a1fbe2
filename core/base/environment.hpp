// SPDX-License-Identifier: Apache-2.0
//
// What the environment says: sizes and switches. A value that can't be read is logged and counts as not set.
#pragma once

#include "core/base/log.hpp"
#include "core/base/name.hpp"

#include <weir/context.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace weir {

/// A number of bytes, or one with K, M, G or T behind it. None: it is no such text, or more than 64 bits hold.
inline std::optional<uint64_t> read_size(std::string_view text) noexcept {
  constexpr std::string_view units = "KMGT";
  unsigned shift = 0;
  if (!text.empty() && units.find(text.back()) != units.npos) {
    shift = 10 * (static_cast<unsigned>(units.find(text.back())) + 1);
    text.remove_suffix(1);
  }
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  if (number > UINT64_MAX >> shift) return {};
  return number << shift;
}

/// Whether the variable is "1". Ignored under secure execution.
inline bool switched_on(const char *variable, const Log &log) {
  const char *const value = secure_getenv(variable);
  const std::string_view text = value != nullptr ? value : "";
  if (text.empty() || text == "0" || text == "1") return text == "1";
  log(WEIR_LOG_WARNING, "%s is%s, and not read: it is 1 or 0", variable, QuotedName(text).c_str());
  return false;
}

}  // namespace weir
