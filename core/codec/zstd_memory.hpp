// SPDX-License-Identifier: Apache-2.0
//
// Contexts of libzstd whose memory is overwritten as they end: they keep parts of what they have coded. The functions that take
// an allocator are not of libzstd's stable interface, but have been the same since 1.0.
#pragma once

#ifndef ZSTD_STATIC_LINKING_ONLY
#define ZSTD_STATIC_LINKING_ONLY
#endif
#include <zstd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace weir::codec {

/// Before each piece of memory stands how long it is.
inline ZSTD_customMem wiped_memory() noexcept {
  static constexpr size_t before = alignof(std::max_align_t);
  ZSTD_customMem memory{};
  memory.customAlloc = [](void *, size_t bytes) -> void * {
    auto *made = static_cast<unsigned char *>(std::malloc(before + bytes));
    if (made == nullptr) return nullptr;
    std::memcpy(made, &bytes, sizeof bytes);
    return made + before;
  };
  memory.customFree = [](void *, void *address) {
    if (address == nullptr) return;
    auto *made = static_cast<unsigned char *>(address) - before;
    size_t bytes = 0;
    std::memcpy(&bytes, made, sizeof bytes);
    explicit_bzero(made, before + bytes);
    std::free(made);
  };
  return memory;
}

inline ZSTD_CCtx *make_encoder() noexcept { return ZSTD_createCCtx_advanced(wiped_memory()); }
inline ZSTD_DCtx *make_decoder() noexcept { return ZSTD_createDCtx_advanced(wiped_memory()); }

}  // namespace weir::codec
