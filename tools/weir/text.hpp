// SPDX-License-Identifier: Apache-2.0
//
// Numbers as people write them: sizes with K/M/G/T suffixes (binary), percentages, rates; and words of a shell. Parsing
// is strict: what is not wholly a number is refused, with the text named. Nothing here may depend
// on the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::tool {

/// "4096", "64K", "1.5G" (K = 1024). Throws ToolError naming `what` and the text.
uint64_t parse_size(std::string_view text, std::string_view what);

/// A size, or "50%" of something known later.
struct SizeOrShare {
  uint64_t bytes = 0;
  std::optional<double> percent;
  uint64_t of(uint64_t whole) const;
};
SizeOrShare parse_size_or_share(std::string_view text, std::string_view what);

/// A positive decimal number such as "312e12".
double parse_rate(std::string_view text, std::string_view what);

/// "3.46 GiB".
std::string format_bytes(uint64_t bytes);

/// In single quotes, as one word of a shell, whatever is in it.
std::string shell_quoted(std::string_view text);

/// The same text with a "?" for each byte that is no UTF-8; as many bytes as before.
std::string utf8_text(std::string_view text);

/// Fixed decimals, without the locale.
std::string format_fixed(double value, int decimals);

}  // namespace weir::tool
