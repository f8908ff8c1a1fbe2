// SPDX-License-Identifier: Apache-2.0
//
// Two clocks. Clock tells nanoseconds, of time and of a thread's CPU time, and can be replaced by a test.
// Ticks is the logical clock that orders uses: every stream counts its own and catches up with the others
// now and then, so that taking a tick costs no shared cache line and recency is still comparable across
// streams to within `batch` uses.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace weir {

/// The system's clock, even where a test has replaced the pool's: for what is measured, never for what decides.
inline uint64_t steady_ns() noexcept {
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(now.count());
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual uint64_t now_ns() const noexcept { return steady_ns(); }
  /// What the calling thread has used of a CPU.
  virtual uint64_t thread_cpu_ns() const noexcept {
    timespec used{};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
  }
};

class Ticks {
 public:
  static constexpr uint64_t batch = 64;

  uint64_t now() const noexcept { return now_.load(std::memory_order_relaxed); }

  /// The next tick of a stream whose last one was `last`: greater than it, and not far behind the others.
  uint64_t next(uint64_t last) noexcept {
    const uint64_t tick = last + 1;
    if ((tick & (batch - 1)) != 0) return tick;
    const uint64_t shared = advance(tick);
    return shared > tick ? shared : tick;
  }

  /// Raises the shared clock to at least `tick` and returns it.
  uint64_t advance(uint64_t tick) noexcept {
    uint64_t seen = now_.load(std::memory_order_relaxed);
    while (seen < tick && !now_.compare_exchange_weak(seen, tick, std::memory_order_relaxed)) {
    }
    return seen > tick ? seen : tick;
  }

 private:
  alignas(64) std::atomic<uint64_t> now_{1};
};

}  // namespace weir
