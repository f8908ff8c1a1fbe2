// SPDX-License-Identifier: Apache-2.0
//
// Reading a backend's options, "key=value;key=value": the pairs, and the values that all backends write
// alike. A bad pair gets a sentence that names key and value; nothing is guessed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace weir::common {

/// Takes one pair; "" if it was understood, else why not.
using TakeOption = std::function<std::string(std::string_view key, std::string_view value)>;

/// Gives every pair of `text` (NULL = none) to `take`, up to the first that is refused. "" or the reason.
std::string read_options(const char *text, const TakeOption &take);

/// "option key="value": wanted".
std::string bad_option(std::string_view key, std::string_view value, std::string_view wanted);
/// "unknown option "key" (known: ...)".
std::string unknown_option(std::string_view key, std::string_view known);
/// "0" or "1". "" or the reason.
std::string read_flag(std::string_view key, std::string_view value, bool *out);
/// A number with K, M or G after it if wanted; K stands for `unit`.
bool parse_number(std::string_view text, uint64_t unit, uint64_t *out);

}  // namespace weir::common
