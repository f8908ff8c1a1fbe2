// SPDX-License-Identifier: Apache-2.0
//
// The numbers in use, as bits. They are the process's, because a thread is.

#include "core/base/thread_id.hpp"

#include <array>
#include <atomic>
#include <bit>

namespace weir {

namespace detail {
thread_local uint32_t thread_number __attribute__((tls_model("initial-exec"))) = 0;
}

namespace {

constexpr uint32_t bits = 64;
std::array<std::atomic<uint64_t>, 16> taken{};

uint32_t take() noexcept {
  for (uint32_t i = 0; i < taken.size(); ++i) {
    uint64_t seen = taken[i].load(std::memory_order_relaxed);
    while (seen != UINT64_MAX) {
      const auto bit = static_cast<uint32_t>(std::countr_one(seen));
      if (taken[i].compare_exchange_weak(seen, seen | uint64_t{1} << bit, std::memory_order_acquire,
                                         std::memory_order_relaxed))
        return i * bits + bit + 1;
    }
  }
  return 0;
}

/// Gives the number back when the thread ends. What runs later in its end finds it without one.
struct Holder {
  bool ended = false;
  ~Holder() {
    ended = true;
    const uint32_t number = detail::thread_number;
    detail::thread_number = 0;
    if (number == 0) return;
    const uint32_t bit = (number - 1) % bits;
    taken[(number - 1) / bits].fetch_and(~(uint64_t{1} << bit), std::memory_order_release);
  }
};
thread_local Holder holder;

}  // namespace

uint32_t number_thread() noexcept {
  if (detail::thread_number == 0 && !holder.ended) detail::thread_number = take();
  return detail::thread_number;
}

}  // namespace weir
