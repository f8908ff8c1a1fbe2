// SPDX-License-Identifier: Apache-2.0
//
// Cutting and showing names. Well-formed UTF-8 as the table 3-7 of the Unicode Standard has it.

#include "core/base/name.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace weir {
namespace {

bool is_control(unsigned char byte) noexcept { return byte < 0x20 || byte == 0x7f; }

/// The characters U+0080 to U+009F command terminals as those below U+0020 do.
bool is_shown_as_it_is(std::string_view character) noexcept {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return !is_control(first);
  return first != 0xc2 || static_cast<unsigned char>(character[1]) >= 0xa0;
}

/// Calls write(piece) for each character as it is shown, until one returns false.
template <class Write>
void each_shown(std::string_view name, Write &&write) {
  constexpr char digits[] = "0123456789abcdef";
  while (!name.empty()) {
    const size_t length = utf8_character(name);
    const std::string_view character = name.substr(0, std::max<size_t>(length, 1));
    if (length != 0 && is_shown_as_it_is(character)) {
      if (!write(character)) return;
    } else {
      for (const char each : character) {
        const auto byte = static_cast<unsigned char>(each);
        const char escaped[] = {'\\', 'x', digits[byte >> 4U], digits[byte & 15U]};
        if (!write(std::string_view(escaped, sizeof escaped))) return;
      }
    }
    name.remove_prefix(character.size());
  }
}

}  // namespace

size_t utf8_character(std::string_view text) noexcept {
  const auto at = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return 0;
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                        : first >= 0xe0 && first <= 0xef ? 3
                        : first >= 0xf0 && first <= 0xf4 ? 4
                                                         : 0;
  if (length == 0 || text.size() < length) return 0;
  // The second byte tells forms that are too long, surrogates and what is beyond the last character.
  const unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (at(1) < low || at(1) > high) return 0;
  for (size_t i = 2; i < length; ++i)
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  return length;
}

std::string_view kept_name(const char *name, size_t most) noexcept {
  if (name == nullptr) return {};
  const size_t length = strnlen(name, most + 1);
  if (length <= most) return {name, length};
  // A character has four bytes at most: it is cut out if it began before the end and goes on behind it.
  for (size_t back = 1; back <= 3 && back <= most; ++back) {
    const size_t whole = utf8_character({name + most - back, strnlen(name + most - back, 4)});
    if (whole > back) return {name, most - back};
    if (whole != 0) break;
  }
  return {name, most};
}

size_t show_name(std::string_view name, char *text, size_t capacity) noexcept {
  size_t length = 0, last = 0;  // `last`: where "..." has room
  bool cut = false;
  each_shown(name, [&](std::string_view piece) {
    cut = length + piece.size() >= capacity;
    if (cut) return false;
    if (length + 4 <= capacity) last = length;
    std::memcpy(text + length, piece.data(), piece.size());
    length += piece.size();
    return true;
  });
  if (cut) {
    if (length + 4 <= capacity) last = length;
    std::memcpy(text + last, "...", 3);
    length = last + 3;
  }
  text[length] = '\0';
  return length;
}

std::string shown(std::string_view name) {
  std::string text;
  each_shown(name, [&text](std::string_view piece) { return text.append(piece), true; });
  return text;
}

QuotedName::QuotedName(std::string_view name) noexcept {
  if (name.empty()) return;
  text_[0] = ' ';
  text_[1] = '"';
  const size_t length = show_name(name, &text_[2], text_.size() - 3);
  text_[2 + length] = '"';
  text_[3 + length] = '\0';
}

}  // namespace weir
