// SPDX-License-Identifier: Apache-2.0
//
// Claims: what a plan's uses are of, what forbids them, and counting them in and out. All under the pool's lock; the words are
// changed by compare-and-swap all the same, because the hit path does not take it.
#pragma once

#include "core/lease/layer.hpp"
#include "core/move/plan.hpp"
#include "core/move/region_life.hpp"
#include "core/page/env.hpp"

namespace weir::acquire {

class Claims {
 public:
  Claims(const Env &env, const PageLayer &page, const LeaseLayer &lease, page::PageTable &pages,
         move::RegionLife &life) noexcept
      : env_(env), page_(page), lease_(lease), pages_(pages), life_(life) {}

  // ---- what it is about ----
  /// Buffers may have died, moved or changed since the plan was made: everything derived is derived again.
  Status resolve(move::Plan &plan) WEIR_HELD;
  /// Makes the plans for what lies on other devices than the plan's own. The items have been resolved.
  Status spread(move::Plan &plan) WEIR_HELD;
  /// Lists every page of the set once, with what it lacks. True: another thread is working on one of them.
  bool scan_pages(move::Plan &plan) WEIR_HELD;
  /// The same with the plan's others.
  bool scan_all(move::Plan &plan) WEIR_HELD;

  // ---- what forbids it ----
  Status check_conflicts(move::Plan &plan) WEIR_HELD;
  Status check_lost(const move::Plan &plan) WEIR_HELD;

  // ---- leases ----
  /// Counts every item in. The hit path may have granted a conflicting lease since the check: then what was
  /// counted is taken back, as it is before std::bad_alloc leaves here.
  Status take(move::Plan &plan) WEIR_HELD;
  void drop(move::Plan &plan) noexcept WEIR_HELD;

  // ---- after the lock was dropped to make room ----
  static bool still_absent(const move::Plan &plan, const move::PlanPage &page) noexcept;
  /// Whether everything is as it was when the plan was made.
  bool still_stands(move::Plan &plan) WEIR_HELD;

 private:
  Status fail_held(const move::PlanItem &item) noexcept WEIR_HELD;
  Status fail_leased(const move::PlanItem &item,
                     const lease::LeaseTable::Conflict &other) noexcept WEIR_HELD;
  /// The word of a buffer, which stays virgin if it is: the hit path grants its first lease no more.
  uint64_t settled_word(uint32_t index) noexcept;
  /// Whether the plan's device can use the item's bytes wherever they are, or will be.
  Status check_reach(const move::Plan &plan, const move::PlanItem &item);

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  page::PageTable &pages_;
  move::RegionLife &life_;
};

}  // namespace weir::acquire
