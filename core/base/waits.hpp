// SPDX-License-Identifier: Apache-2.0
//
// Waits: what the slow acquires of a pool wait for, by reason, and how long they take. A WaitCall is one such acquire, on its thread; a
// WaitScope is a stretch of it that waits. Scopes nest: each counts only what none within it does. A thread without a call counts
// nothing, so what the pool's own threads do is no wait of the program's.
//
// Nothing here decides anything, allocates or takes a lock. A thread's listener (WaitLog) is told of every scope as it ends.
// Within a range (ranges.hpp) a scope is one, too, also on a thread without a call.
#pragma once

#include "core/base/clock.hpp"
#include "core/base/ranges.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weir {

enum class Wait : uint8_t {
  conflict,  ///< others move the same pages, or lease them in a way that excludes this
  room,      ///< others hold the memory, or have asked for it before
  eviction,  ///< pages leave to make room
  copy,      ///< copies on the way
  io,        ///< reads and writes of STORAGE
  decode,    ///< pages of COMPRESSED or STORAGE are decoded
  mapping,   ///< memory is made, mapped or unmapped
  count
};
inline constexpr size_t wait_reasons = static_cast<size_t>(Wait::count);

constexpr const char *wait_name(Wait why) noexcept {
  constexpr std::array<const char *, wait_reasons> names{"conflict", "room",   "eviction", "copy",
                                                         "io",       "decode", "mapping"};
  return names[static_cast<size_t>(why)];
}

/// Durations by powers of four microseconds.
class Durations {
 public:
  static constexpr size_t buckets = 14;  ///< the last has no bound
  /// The bucket has those of at most that many nanoseconds that no bucket before it has.
  static constexpr uint64_t bound_ns(size_t bucket) noexcept {
    return bucket + 1 < buckets ? uint64_t{1000} << 2 * bucket : UINT64_MAX;
  }
  void add(uint64_t ns) noexcept {
    size_t bucket = 0;
    while (ns > bound_ns(bucket)) ++bucket;
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(ns, std::memory_order_relaxed);
  }
  uint64_t count(size_t bucket) const noexcept {
    return counts_[bucket].load(std::memory_order_relaxed);
  }
  uint64_t sum_ns() const noexcept { return sum_ns_.load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<uint64_t>, buckets> counts_{};
  std::atomic<uint64_t> sum_ns_{0};
};

class Waits {
 public:
  /// Nanoseconds so far, of scopes that have ended.
  uint64_t ns(Wait why) const noexcept { return of(why).ns.load(std::memory_order_relaxed); }
  /// Threads that wait now. One that waits within a wait counts for the inner one.
  uint32_t now(Wait why) const noexcept { return of(why).now.load(std::memory_order_relaxed); }
  /// Slow acquires, from their beginning to their end.
  const Durations &acquires() const noexcept { return acquires_; }

  // ---- for WaitScope and WaitCall ----
  void enter(Wait why) noexcept { of(why).now.fetch_add(1, std::memory_order_relaxed); }
  void leave(Wait why) noexcept { of(why).now.fetch_sub(1, std::memory_order_relaxed); }
  void add(Wait why, uint64_t ns) noexcept { of(why).ns.fetch_add(ns, std::memory_order_relaxed); }
  void ended(uint64_t ns) noexcept { acquires_.add(ns); }

 private:
  struct Sum {
    std::atomic<uint64_t> ns{0};
    std::atomic<uint32_t> now{0};
  };
  Sum &of(Wait why) noexcept { return sums_[static_cast<size_t>(why)]; }
  const Sum &of(Wait why) const noexcept { return sums_[static_cast<size_t>(why)]; }

  std::array<Sum, wait_reasons> sums_;
  Durations acquires_;
};

/// A scope that has ended, for the listener.
struct WaitSpan {
  uint64_t begin_ns = 0, end_ns = 0;
  uint64_t cause =
      0;  ///< the number of the round of evictions that was waited for; 0: none, or not known
  Wait why = Wait::count;
};

/// What a thread's calls have waited for, in the order in which the waits ended. More than there is room for are only counted.
struct WaitLog {
  std::array<WaitSpan, 32> spans;
  uint32_t count = 0, lost = 0;

  void add(const WaitSpan &span) noexcept {
    if (count == spans.size()) {
      ++lost;
    } else {
      spans[count++] = span;
    }
  }
};

class WaitCall;
class WaitScope;

/// What this thread is in.
struct ThreadWaits {
  WaitCall *call = nullptr;
  WaitScope *innermost = nullptr;
  WaitLog *log = nullptr;
};
namespace detail {
// Initial-exec, as thread_id.hpp has it.
extern thread_local ThreadWaits thread_waits __attribute__((tls_model("initial-exec")));
}  // namespace detail

/// A slow acquire of this thread, until it goes. One within another (a callback) counts by itself.
class WaitCall {
 public:
  explicit WaitCall(Waits &waits) noexcept
      : waits_(waits), outer_(detail::thread_waits), begin_ns_(steady_ns()) {
    detail::thread_waits = {this, nullptr, outer_.log};
  }
  ~WaitCall() {
    detail::thread_waits = outer_;
    waits_.ended(steady_ns() - begin_ns_);
  }
  WaitCall(const WaitCall &) = delete;
  WaitCall &operator=(const WaitCall &) = delete;

  Waits &waits() noexcept { return waits_; }

 private:
  Waits &waits_;
  const ThreadWaits outer_;
  const uint64_t begin_ns_;
};

class WaitScope {
 public:
  explicit WaitScope(Wait why, uint64_t cause = 0) noexcept
      : range_(RangeKind::wait, wait_name(why)), why_(why), cause_(cause) {
    ThreadWaits &here = detail::thread_waits;
    if (here.call == nullptr) return;
    outer_ = here.innermost;
    here.innermost = this;
    waits_ = &here.call->waits();
    if (outer_ != nullptr) waits_->leave(outer_->why_);
    waits_->enter(why_);
    begin_ns_ = steady_ns();
  }
  ~WaitScope() {
    if (waits_ == nullptr) return;
    const uint64_t end_ns = steady_ns(), all_ns = end_ns - begin_ns_;
    ThreadWaits &here = detail::thread_waits;
    here.innermost = outer_;
    waits_->leave(why_);
    waits_->add(why_, all_ns - within_ns_);
    if (outer_ != nullptr) {
      waits_->enter(outer_->why_);
      outer_->within_ns_ += all_ns;
    }
    if (here.log != nullptr) here.log->add({begin_ns_, end_ns, cause_, why_});
  }
  WaitScope(const WaitScope &) = delete;
  WaitScope &operator=(const WaitScope &) = delete;

  /// What this thread waits for just now is that round of evictions.
  static void because_of(uint64_t round) noexcept {
    if (WaitScope *const here = detail::thread_waits.innermost; here != nullptr)
      here->cause_ = round;
  }

 private:
  const RangeScope range_;
  Waits *waits_ = nullptr;      ///< nullptr: the thread is in no call
  WaitScope *outer_ = nullptr;  ///< of the same call
  const Wait why_;
  uint64_t cause_;
  uint64_t begin_ns_ = 0, within_ns_ = 0;
};

/// Everything that this thread waits for goes to the log, too, until this goes.
class ListenToWaits {
 public:
  explicit ListenToWaits(WaitLog *log) noexcept : before_(detail::thread_waits.log) {
    detail::thread_waits.log = log;
  }
  ~ListenToWaits() { detail::thread_waits.log = before_; }
  ListenToWaits(const ListenToWaits &) = delete;
  ListenToWaits &operator=(const ListenToWaits &) = delete;

 private:
  WaitLog *const before_;
};

}  // namespace weir
