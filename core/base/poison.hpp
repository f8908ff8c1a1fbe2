// SPDX-License-Identifier: Apache-2.0
//
// Poison: a pattern that host memory is filled with as it stops being a client's, so that a test can tell bytes that were left there
// from bytes that belong there. The pattern names the client: the same client may read it again, no other may.
// On in builds with WEIR_DEBUG_CHECKS; a test switches it on elsewhere, before it makes a pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace weir::poison {

#if defined(WEIR_DEBUG_CHECKS)
inline constexpr bool built_in = true;
#else
inline constexpr bool built_in = false;
#endif

inline std::atomic<bool> &enabled() noexcept {
  static std::atomic<bool> on{built_in};
  return on;
}
inline bool on() noexcept { return enabled().load(std::memory_order_relaxed); }

/// Of memory that no client had, or several.
inline constexpr uint32_t nobody = UINT16_MAX;
inline constexpr uint32_t mark = 0xdb5a0000U;

/// The pattern is this word over and over, from the first byte filled on.
inline uint32_t word(uint32_t client) noexcept { return mark | (client & UINT16_MAX); }

inline void fill(void *memory, uint64_t bytes, uint32_t client) noexcept {
  if (!on() || bytes == 0) return;
  const uint32_t pattern = word(client);
  auto *to = static_cast<unsigned char *>(memory);
  uint64_t done = std::min<uint64_t>(sizeof pattern, bytes);
  std::memcpy(to, &pattern, done);
  while (done < bytes) {  // twice as much each time: what is there is whole words
    const uint64_t more = std::min(done, bytes - done);
    std::memcpy(to + done, to, more);
    done += more;
  }
}

}  // namespace weir::poison
