// SPDX-License-Identifier: Apache-2.0
//
// Bytes that a rule gives, written and compared. The bytes under test are accessed a block at a time, and the rule is
// not instrumented: the thread sanitizer, to which every single access is a call, sees the same ranges at a tenth of
// the cost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_THREAD__)
#define WEIR_UNSEEN __attribute__((no_sanitize("thread")))
#else
#define WEIR_UNSEEN
#endif

namespace weir::test {

constexpr uint64_t block_of_bytes = 4096;

/// `rule(i)` is the byte at i; it must be WEIR_UNSEEN too. A rule that can make many bytes at once has `make`.
template <typename Rule>
WEIR_UNSEEN void make_block(uint8_t *block, uint64_t from, uint64_t count, const Rule &rule) {
  if constexpr (requires { rule.make(block, from, count); }) {
    rule.make(block, from, count);
  } else {
    for (uint64_t i = 0; i < count; ++i) block[i] = rule(from + i);
  }
}

template <typename Rule>
void write_bytes(uint8_t *to, uint64_t bytes, const Rule &rule) {
  uint8_t block[block_of_bytes];
  for (uint64_t at = 0; at < bytes; at += block_of_bytes) {
    const uint64_t count = std::min(block_of_bytes, bytes - at);
    make_block(block, at, count, rule);
    std::memcpy(to + at, block, count);
  }
}

/// How many bytes are not what the rule says.
template <typename Rule>
uint64_t wrong_bytes(const uint8_t *from, uint64_t bytes, const Rule &rule) {
  uint8_t block[block_of_bytes];
  uint64_t wrong = 0;
  for (uint64_t at = 0; at < bytes; at += block_of_bytes) {
    const uint64_t count = std::min(block_of_bytes, bytes - at);
    make_block(block, at, count, rule);
    if (std::memcmp(from + at, block, count) == 0) continue;
    for (uint64_t i = 0; i < count; ++i) wrong += from[at + i] != block[i];
  }
  return wrong;
}

}  // namespace weir::test
