// SPDX-License-Identifier: Apache-2.0
//
// Names that programs give to buffers and clients: what is kept of one, and how it is shown. A name is any bytes, UTF-8 if it is to be
// read; it ends up in error texts, logs, snapshots and on terminals, so none of those gets a byte that could break it.
//
// What must hold: nothing here allocates but shown(); where a name is shown, it is shown the same.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace weir {

/// Of one name, without the NUL.
inline constexpr size_t most_name_bytes = 255;

/// How many bytes the character at the start has; 0: what is there is no UTF-8 (too long a form, a surrogate, beyond U+10FFFF, cut).
size_t utf8_character(std::string_view text) noexcept;

/// The part of a name that is kept: at most `most` bytes, which end where a character does. NULL is "".
std::string_view kept_name(const char *name, size_t most = most_name_bytes) noexcept;

/// Writes a name as it is shown, with a NUL, and returns its length: control characters and bytes that are no UTF-8 as \xNN, two hexadecimal
/// digits a byte. A name that does not fit ends in "..."; `capacity` is at least 4.
size_t show_name(std::string_view name, char *text, size_t capacity) noexcept;
/// The same whole.
std::string shown(std::string_view name);

/// A name in an error's sentence, with a blank before it and in quotes; "" for none. Long ones are cut: the sentence has more to say.
class QuotedName {
 public:
  explicit QuotedName(std::string_view name) noexcept;
  const char *c_str() const noexcept { return text_.data(); }

 private:
  std::array<char, 80> text_{};
};

}  // namespace weir
