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

}  // namespace weir::tool
