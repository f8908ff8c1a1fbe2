// SPDX-License-Identifier: Apache-2.0
//
// Alignment: which earlier place of the program a stream is in now. It goes on from operation to operation while they are the same as
// then; where they are not, or where a longer stretch of the past says so, it jumps. Operations that come in another order than then
// are paired one by one for a while, and the place waits for those that are still to come.
//
// Invariants: place and match are none or operations that the log holds, of the same stream. One Alignment a stream; guarded by whoever
// owns it.
#pragma once

#include "core/policy/contexts.hpp"
#include "core/policy/program_log.hpp"

#include <array>

namespace weir::policy {

class Alignment {
 public:
  static constexpr uint32_t none = ProgramLog::none;

  /// An operation of the stream has begun, and has been pushed to the contexts; it is put there by this.
  void observe(const ProgramLog &log, Contexts &contexts, uint32_t operation) noexcept;
  /// Nothing is known.
  void clear() noexcept { *this = Alignment(); }

  /// Up to here the stream does what it did then; none: not known.
  uint32_t place() const noexcept { return place_; }
  /// The operation that was then what the newest is now; none: there is none. The place, unless the order differs.
  uint32_t match() const noexcept { return match_; }
  /// Operations in a row that were the same.
  uint32_t run() const noexcept { return run_; }
  /// An operation behind the place that has come already.
  bool came_early(uint32_t operation) const noexcept {
    for (uint32_t index = 0; index < early_; ++index)
      if (came_early_[index] == operation) return true;
    return false;
  }
  /// The newest operation was found in the log, or waits for its place in it.
  bool aligned() const noexcept { return place_ != none; }
  uint64_t jumps() const noexcept { return jumps_; }

 private:
  static constexpr uint32_t reorder_run =
      16;  ///< operations in a row before another order is believed in
  static constexpr uint32_t reorder_reach = 32;  ///< operations behind the place
  static constexpr uint32_t reorder_strangers =
      24;  ///< unmatched ones are borne below so many mismatches
  static constexpr uint32_t reorder_most = 32;  ///< mismatches before it is given up
  static constexpr uint32_t reorder_drift =
      40;  ///< the longest context points farther away: it is given up at once
  static constexpr uint32_t search_reach = 24;
  static constexpr uint32_t longest_jump_run = 64;

  bool pair_out_of_order(const ProgramLog &log, const Contexts &contexts,
                         uint32_t operation) noexcept;
  uint32_t find_early(const ProgramLog &log, uint32_t operation) const noexcept;
  bool longest_context_is_far(const ProgramLog &log, const Contexts &contexts,
                              uint32_t operation) const noexcept;
  bool is_known_elsewhere(const ProgramLog &log, const Contexts &contexts,
                          uint32_t operation) const noexcept;
  uint32_t place_of(const ProgramLog &log, const Contexts &contexts, uint32_t operation,
                    uint32_t next) const noexcept;
  uint32_t common_run(const ProgramLog &log, uint32_t place, uint32_t operation) const noexcept;
  void pass_early(const ProgramLog &log) noexcept;

  uint32_t place_ = none;
  uint32_t match_ = none;
  uint32_t run_ = 0;
  uint32_t mismatches_ = 0;  ///< since the order differs
  uint32_t early_ = 0;
  std::array<uint32_t, reorder_most + 1> came_early_{};
  uint64_t jumps_ = 0;
};

}  // namespace weir::policy
