// SPDX-License-Identifier: Apache-2.0
//
// Numbers in the shortest of pickle's forms.
#include "tools/weir/import/pickle_writer.hpp"

#include "tools/weir/text.hpp"

namespace weir::tool {
void PickleWriter::little(uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
}

void PickleWriter::text(std::string_view value) {
  value = value.substr(0, UINT32_MAX);
  bytes_ += 'X';
  little(value.size(), 4);
  bytes_ += utf8_text(value);
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
