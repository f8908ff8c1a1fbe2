// SPDX-License-Identifier: Apache-2.0
//
// CpuShare: holds work of one thread's, with pieces of it that others do, to a share of a CPU. Time that is not used is saved up, to a
// bound; time used beyond that has to be earned before the work goes on. It stops no thread: the work asks whether it may go on. What the
// thread uses between two pieces of the work, to sleep and to wake, counts too, and pieces that come again and again are spread out so
// that this leaves half of the share.
//
// What must hold: over any stretch of time the work takes no more CPU time than `percent` of it, what may be saved up, and one piece of
// work of each thread. The clock is read only when CPU time has been used: where computing takes none, as in the virtual time of
// `weir replay --virtual` (tools/virtual_time), the share is never used up, and no clock is read for it.
#pragma once

#include "core/base/clock.hpp"

#include <algorithm>
#include <thread>

namespace weir {

class CpuShare {
 public:
  static constexpr uint64_t saved_ns = 100'000'000;  ///< CPU time that is saved up at most
  static constexpr uint64_t pause_ns =
      saved_ns / 4;  ///< earned before work that had to stop goes on
  static constexpr uint64_t counted_ns =
      1'000'000;  ///< CPU time used between two looks at the clock

  /// `percent` of a CPU, 1 to 100; 100 is no limit.
  CpuShare(const Clock &clock, uint32_t percent) noexcept : clock_(clock), percent_(percent) {}

  /// A piece of work, from where this object is made to where it ends, on a thread that does nothing else.
  class Piece {
   public:
    explicit Piece(CpuShare &own) noexcept : own_(own) {
      if (own_.percent_ == 100 || own_.thread_ == std::this_thread::get_id()) return;
      own_.thread_ = std::this_thread::get_id();
      own_.counted_until_ns_ = own_.clock_.thread_cpu_ns();
    }
    ~Piece() {
      if (own_.percent_ == 100) return;
      const uint64_t used = own_.clock_.thread_cpu_ns() - own_.counted_until_ns_;
      own_.counted_until_ns_ += used;
      own_.add(used);
    }
    Piece(const Piece &) = delete;
    Piece &operator=(const Piece &) = delete;

   private:
    CpuShare &own_;
  };

  /// A piece of the work that another thread does in between, which has work of its own.
  class Visit {
   public:
    explicit Visit(CpuShare &own) noexcept : own_(own) {
      if (own_.percent_ != 100) begun_ns_ = own_.clock_.thread_cpu_ns();
    }
    ~Visit() {
      if (own_.percent_ != 100) own_.add(own_.clock_.thread_cpu_ns() - begun_ns_);
    }
    Visit(const Visit &) = delete;
    Visit &operator=(const Visit &) = delete;

   private:
    CpuShare &own_;
    uint64_t begun_ns_ = 0;
  };

  /// Whether the work has to wait.
  bool used_up() noexcept {
    if (paused_) look();
    return paused_;
  }
  /// How long, if it has to: as things stand.
  uint64_t wait_ns() const noexcept {
    const int64_t missing = in_percents(pause_ns) - left_;
    return paused_ && missing > 0 ? (static_cast<uint64_t>(missing) + percent_ - 1) / percent_ : 0;
  }

  /// There is nothing to do for now. Returns how long the caller should wait for the next pieces, at least: twice as long as it takes to earn
  /// what has been used since the last rest, but not longer than `most_ns`. 0: it need not wait.
  uint64_t rest(uint64_t most_ns) noexcept {
    if (used_since_ns_ != 0) {
      rests_until_ns_ = clock_.now_ns() + std::min(most_ns, used_since_ns_ * 200 / percent_);
      used_since_ns_ = 0;
    }
    if (rests_until_ns_ == 0) return 0;
    const uint64_t now = clock_.now_ns();
    return rests_until_ns_ - std::min(now, rests_until_ns_);
  }
  /// Whether that rest is not over yet.
  bool rests() noexcept {
    if (rests_until_ns_ != 0 && clock_.now_ns() >= rests_until_ns_) rests_until_ns_ = 0;
    return rests_until_ns_ != 0;
  }

 private:
  /// CPU time in hundredths of a nanosecond, so that a share of the shortest time is a whole number.
  static constexpr int64_t in_percents(uint64_t cpu_ns) noexcept {
    constexpr uint64_t most_ns = uint64_t{1} << 50U;  // days
    return static_cast<int64_t>(std::min(cpu_ns, most_ns)) * 100;
  }
  void add(uint64_t used_ns) noexcept {
    used_since_ns_ += used_ns;
    uncounted_ns_ += used_ns;
    if (uncounted_ns_ >= counted_ns) look();
  }
  /// Counts the time earned and used since the last look.
  void look() noexcept {
    const uint64_t now = clock_.now_ns();
    const uint64_t passed = now - std::min(now, seen_ns_);
    seen_ns_ = std::max(now, seen_ns_);
    // All that may be missing is earned in so long.
    constexpr uint64_t most_ns = uint64_t{1} << 56U;
    left_ = std::min(left_ + static_cast<int64_t>(std::min(passed, most_ns) * percent_),
                     in_percents(saved_ns));
    left_ -= in_percents(uncounted_ns_);
    uncounted_ns_ = 0;
    paused_ = left_ < (paused_ ? in_percents(pause_ns) : 0);
  }

  const Clock &clock_;
  const uint32_t percent_;
  uint64_t seen_ns_ = 0;                  ///< at the last look
  std::thread::id thread_;                ///< that does the work
  uint64_t counted_until_ns_ = 0;         ///< by its own clock
  uint64_t used_since_ns_ = 0;            ///< CPU time since the last rest ...
  uint64_t rests_until_ns_ = 0;           ///< ... which is over then; 0: it is over
  uint64_t uncounted_ns_ = 0;             ///< CPU time used since the last look
  int64_t left_ = in_percents(saved_ns);  ///< CPU time; below 0: used in advance
  bool paused_ = false;
};

}  // namespace weir
