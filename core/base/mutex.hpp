// SPDX-License-Identifier: Apache-2.0
//
// Locks with a rank. A thread may only take a lock of a higher rank than those it holds (context -> pool ->
// device -> leaf); checked builds abort at the first violation, so a deadlock shows as a stack, not as a hang.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace weir {

enum class Rank : uint8_t { context = 1, pool = 2, device = 3, leaf = 4 };

#if defined(WEIR_DEBUG_CHECKS)
namespace rank_check {
inline thread_local uint64_t held = 0;  // a bit per rank
inline void take(Rank rank) noexcept {
  if ((held >> static_cast<unsigned>(rank)) != 0) {
    std::fprintf(stderr, "weir: lock order violated: rank %u while holding mask %#llx\n",
                 static_cast<unsigned>(rank), static_cast<unsigned long long>(held));
    std::abort();
  }
  held |= uint64_t{1} << static_cast<unsigned>(rank);
}
inline void drop(Rank rank) noexcept { held &= ~(uint64_t{1} << static_cast<unsigned>(rank)); }
}  // namespace rank_check
#endif

template <Rank rank>
class RankedMutex {
 public:
  void lock() {
#if defined(WEIR_DEBUG_CHECKS)
    rank_check::take(rank);
#endif
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
#if defined(WEIR_DEBUG_CHECKS)
    rank_check::drop(rank);
#endif
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
#if defined(WEIR_DEBUG_CHECKS)
    rank_check::take(rank);
#endif
    return true;
  }

 private:
  std::mutex mutex_;
};

}  // namespace weir
