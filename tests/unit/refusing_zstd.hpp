// SPDX-License-Identifier: Apache-2.0
//
// libzstd's contexts by functions of the program's own, which refuse to make any when so many have been made. For one source file of
// a program: it defines them.
#pragma once

#include <dlfcn.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <atomic>
#include <cstdint>

namespace weir::test {

inline std::atomic<int> contexts_left{INT32_MAX};  ///< as many may still be made

/// The library's own function, unless none may be made any more.
template <class Make>
Make real_unless_none_left(const char *name) {
  if (contexts_left.fetch_sub(1) <= 0) return nullptr;
  return reinterpret_cast<Make>(dlsym(RTLD_NEXT, name));
}

}  // namespace weir::test

extern "C" {
ZSTD_DCtx *ZSTD_createDCtx_advanced(ZSTD_customMem memory) {
  using Make = ZSTD_DCtx *(*)(ZSTD_customMem);
  auto *real = weir::test::real_unless_none_left<Make>("ZSTD_createDCtx_advanced");
  return real != nullptr ? real(memory) : nullptr;
}
ZSTD_CCtx *ZSTD_createCCtx_advanced(ZSTD_customMem memory) {
  using Make = ZSTD_CCtx *(*)(ZSTD_customMem);
  auto *real = weir::test::real_unless_none_left<Make>("ZSTD_createCCtx_advanced");
  return real != nullptr ? real(memory) : nullptr;
}
}
