// SPDX-License-Identifier: Apache-2.0
//
// build_id_of_notes: which build of a file it is, by the notes of an ELF file (NT_GNU_BUILD_ID). The library says with it what a stack's offsets
// are of, and the tool asks the file on the disk the same, so that a file which was built anew is not taken for the one that ran.
//
// What must hold: notes that are no notes are none; nothing is read beyond them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace weir {

/// In hexadecimal digits; "" where there is none.
inline std::string build_id_of_notes(std::span<const std::byte> notes) {
  constexpr uint32_t build_id_type = 3;
  constexpr size_t longest = 64;
  static constexpr char digits[] = "0123456789abcdef";
  struct Head {
    uint32_t name_bytes, id_bytes, type;
  };
  const auto rounded = [](size_t bytes) { return (bytes + 3) & ~size_t{3}; };
  while (notes.size() >= sizeof(Head)) {
    Head head;
    std::memcpy(&head, notes.data(), sizeof head);
    notes = notes.subspan(sizeof head);
    if (head.name_bytes > notes.size() || head.id_bytes > notes.size() ||
        rounded(head.name_bytes) > notes.size() ||
        head.id_bytes > notes.size() - rounded(head.name_bytes))
      return {};
    const std::span<const std::byte> id =
        notes.subspan(rounded(head.name_bytes)).first(head.id_bytes);
    if (head.type == build_id_type && head.name_bytes == 4 &&
        std::memcmp(notes.data(), "GNU", 4) == 0 && id.size() <= longest) {
      std::string text;
      for (const std::byte each : id) {
        text += digits[std::to_integer<unsigned>(each) >> 4U];
        text += digits[std::to_integer<unsigned>(each) & 15U];
      }
      return text;
    }
    const size_t whole = rounded(head.name_bytes) + rounded(head.id_bytes);
    if (whole > notes.size()) return {};
    notes = notes.subspan(whole);
  }
  return {};
}

}  // namespace weir
