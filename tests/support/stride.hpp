// SPDX-License-Identifier: Apache-2.0
//
// How many positions of a sweep of failures are tried.
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

}  // namespace weir::test
