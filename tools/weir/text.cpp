// SPDX-License-Identifier: Apache-2.0
//
// Parsing and printing of sizes and rates; see text.hpp for the rules.
#include "text.hpp"

#include "error.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace weir::tool {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view what, std::string_view wanted) {
  throw ToolError(std::string(what) + ": '" + std::string(text) + "' is not " +
                  std::string(wanted));
}

std::optional<double> to_double(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

/// Bytes of the character at the start; 0: it is no UTF-8.
size_t utf8_character(std::string_view text) {
  const auto at = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  // Longer than needed, a surrogate, or beyond U+10FFFF.
  if ((first == 0xe0 && at(1) < 0xa0) || (first == 0xed && at(1) > 0x9f) ||
      (first == 0xf0 && at(1) < 0x90) || (first == 0xf4 && at(1) > 0x8f))
    return 0;
  return length;
}

}  // namespace

uint64_t parse_size(std::string_view text, std::string_view what) {
  constexpr std::string_view wanted = "a size in bytes (K, M, G and T are powers of 1024)";
  std::string_view number = text;
  unsigned shift = 0;
  if (!number.empty()) {
    switch (number.back()) {
      case 'K':
      case 'k':
        shift = 10;
        break;
      case 'M':
      case 'm':
        shift = 20;
        break;
      case 'G':
      case 'g':
        shift = 30;
        break;
      case 'T':
      case 't':
        shift = 40;
        break;
      default:
        break;
    }
    if (shift != 0) number.remove_suffix(1);
  }
  const auto value = to_double(number);
  if (!value || *value < 0 || std::ldexp(*value, static_cast<int>(shift)) >= 0x1p62)
    refuse(text, what, wanted);
  return static_cast<uint64_t>(std::ldexp(*value, static_cast<int>(shift)));
}

uint64_t SizeOrShare::of(uint64_t whole) const {
  if (!percent) return bytes;
  return static_cast<uint64_t>(static_cast<double>(whole) * *percent / 100.0);
}

SizeOrShare parse_size_or_share(std::string_view text, std::string_view what) {
  SizeOrShare result;
  if (text.empty() || text.back() != '%') {
    result.bytes = parse_size(text, what);
    return result;
  }
  const auto percent = to_double(text.substr(0, text.size() - 1));
  if (!percent || *percent <= 0 || *percent > 10000) refuse(text, what, "a percentage above 0");
  result.percent = percent;
  return result;
}

double parse_rate(std::string_view text, std::string_view what) {
  const auto value = to_double(text);
  if (!value || *value <= 0) refuse(text, what, "a number above 0");
  return *value;
}

std::string shell_quoted(std::string_view text) {
  std::string safe = "'";
  for (const char letter : text) letter == '\'' ? safe += "'\\''" : safe += letter;
  return safe + "'";
}

std::string format_fixed(double value, int decimals) {
  char buffer[64];
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, decimals);
  return error == std::errc{} ? std::string(buffer, end) : std::string("?");
}

std::string format_bytes(uint64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  const int decimals = unit == 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return format_fixed(value, decimals) + " " + units[unit];
}

std::string utf8_text(std::string_view text) {
  std::string clean(text);
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_character(text.substr(at));
    if (length == 0) clean[at] = '?';
    at += length == 0 ? 1 : length;
  }
  return clean;
}

}  // namespace weir::tool
