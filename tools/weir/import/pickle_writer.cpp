// SPDX-License-Identifier: Apache-2.0
//
// Numbers in the shortest of pickle's forms.
#include "tools/weir/import/pickle_writer.hpp"

#include <algorithm>

namespace weir::tool {
namespace {

/// Bytes of the character at the start; 0: it is no UTF-8.
size_t character(std::string_view text) {
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

void PickleWriter::little(uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
}

void PickleWriter::text(std::string_view value) {
  value = value.substr(0, UINT32_MAX);
  bytes_ += 'X';
  little(value.size(), 4);
  while (!value.empty()) {
    const size_t length = character(value);
    if (length == 0) {
      bytes_ += '?';
      value.remove_prefix(1);
      continue;
    }
    bytes_.append(value.substr(0, length));
    value.remove_prefix(length);
  }
}

void PickleWriter::number(uint64_t value) {
  if (value < 0x100) {
    bytes_ += 'K';
    little(value, 1);
  } else if (value < 0x10000) {
    bytes_ += 'M';
    little(value, 2);
  } else if (value < 0x80000000) {
    bytes_ += 'J';
    little(value, 4);
  } else {
    // Two's complement: a ninth byte where the eighth would make it negative.
    const unsigned count = value >> 63 != 0 ? 9 : 8;
    bytes_ += '\x8a';
    bytes_ += static_cast<char>(count);
    little(value, 8);
    if (count == 9) bytes_ += '\0';
  }
}

void PickleWriter::pair(uint64_t first, uint64_t second) {
  number(first);
  number(second);
  bytes_ += '\x86';
}

}  // namespace weir::tool
