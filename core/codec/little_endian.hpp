// SPDX-License-Identifier: Apache-2.0
//
// Numbers in coded bytes are little-endian and lie at any address, whatever the machine is.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace weir::codec {

template <class Word>
constexpr Word swap_unless_little(Word word) noexcept {
  if constexpr (std::endian::native == std::endian::little || sizeof(Word) == 1) {
    return word;
  } else if constexpr (sizeof(Word) == 2) {
    return __builtin_bswap16(word);
  } else if constexpr (sizeof(Word) == 4) {
    return __builtin_bswap32(word);
  } else {
    return __builtin_bswap64(word);
  }
}

template <class Word>
inline Word load_little(const unsigned char *from) noexcept {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return swap_unless_little(word);
}

template <class Word>
inline void store_little(unsigned char *to, Word word) noexcept {
  word = swap_unless_little(word);
  std::memcpy(to, &word, sizeof word);
}

}  // namespace weir::codec
