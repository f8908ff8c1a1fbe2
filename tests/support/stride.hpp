// SPDX-License-Identifier: Apache-2.0
//
// How much of a test the slow sanitizers are given: how many positions of a sweep of failures are tried, and what one thread
// does alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace weir::test {

/// Every position, but for the slow sanitizers', which see every few: what they look for is in many of them. All of them
/// with WEIR_FAULT_EVERY=1 in the environment.
inline int64_t stride() {
  const char *every = std::getenv("WEIR_FAULT_EVERY");
  if (every != nullptr) return std::max<int64_t>(std::atoll(every), 1);
#if defined(__SANITIZE_THREAD__)
  return 17;
#elif defined(__SANITIZE_ADDRESS__)
  return 7;
#else
  return 1;
#endif
}

/// How many of the sizes of a sweep are tried, of which each shows the engine's own decisions, the same on every backend: all of
/// them in the plain build, and on the host backend; a sanitizer sees every few on the others, whose every call it sees in each.
inline int64_t size_stride([[maybe_unused]] bool host) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return host ? 1 : 3;
#else
  return 1;
#endif
}

/// The thread sanitizer has nothing to find in what one thread does alone, and takes long over it: such parts of a test are
/// the other builds'. And of many inputs to the same threads it is given some.
inline constexpr bool threads_only =
#if defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

}  // namespace weir::test
