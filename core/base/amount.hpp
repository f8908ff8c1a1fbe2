// SPDX-License-Identifier: Apache-2.0
//
// Amount: bytes in an error's sentence, for people and to the byte: "16.5 MiB (17301504 bytes)". Without a locale, without memory, and
// without printf: a program may be refused thousands of times a second.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>

namespace weir {

class Amount {
 public:
  explicit Amount(uint64_t bytes) noexcept {
    char *end = text_.data();
    if (bytes >= 1024) {
      end = write(write_rounded(bytes, end), " (");
      end = write(write_number(bytes, end), " bytes)");
    } else {
      end = write(write_number(bytes, end), bytes == 1 ? " byte" : " bytes");
    }
    *end = '\0';
  }
  const char *c_str() const noexcept { return text_.data(); }

  /// For people alone: "16.5 MiB", rounded down.
  static void round(uint64_t bytes, char (&text)[16]) noexcept {
    *write_rounded(bytes, text) = '\0';
  }

 private:
  static char *write(char *to, const char *text) noexcept {
    const size_t length = std::strlen(text);
    std::memcpy(to, text, length);
    return to + length;
  }
  /// There is room for any.
  static char *write_number(uint64_t value, char *to) noexcept {
    return std::to_chars(to, to + 20, value).ptr;
  }
  /// At most 10 characters: "1023.9 EiB" is the longest there could be.
  static char *write_rounded(uint64_t bytes, char *to) noexcept {
    constexpr const char *units[] = {" bytes", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    unsigned unit = 0;
    while (unit < 6 && (bytes >> (10 * (unit + 1))) != 0) ++unit;
    const uint64_t whole = bytes >> (10 * unit);
    const uint64_t tenths = unit == 0 ? 0 : ((bytes >> (10 * (unit - 1))) & 1023U) * 10 / 1024;
    to = std::to_chars(to, to + 4, whole).ptr;  // at most 1023
    if (tenths != 0 && whole < 100) {
      *to++ = '.';
      *to++ = static_cast<char>('0' + tenths);
    }
    return write(to, units[unit]);
  }

  std::array<char, 48> text_;
};

}  // namespace weir
