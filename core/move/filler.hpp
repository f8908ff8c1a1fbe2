// SPDX-License-Identifier: Apache-2.0
//
// Filler: granules become pages with the right bytes in them. Marked under the lock, done outside of it, settled under it again.
// Until it is settled nothing but this plan touches the pages; if any step fails they are as absent (or as stale) as before and
// every older copy is still the latest.
#pragma once

#include "core/lease/layer.hpp"
#include "core/move/carriage.hpp"
#include "core/page/env.hpp"

namespace weir::move {

class Filler {
 public:
  struct Others {
    Losses &losses;
  };
  Filler(const Env &env, const PageLayer &page, const LeaseLayer &lease, const Others &others,
         page::PageTable &pages, Carriage &carriage) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        others_(others),
        pages_(pages),
        carriage_(carriage) {}

  /// What marking needs of memory, so that it can't fail.
  void prepare(Plan &plan) WEIR_HELD;
  /// Prepared, and not marked after all.
  void forgo(Plan &plan) noexcept WEIR_HELD { carriage_.forgo(plan); }
  /// Decides where the bytes come from. The pages are FILLING from now on.
  void mark(Plan &plan) noexcept WEIR_HELD;
  /// Fills and settles what is marked. Drops the lock.
  Status bring(Releasable &lock, Plan &plan) WEIR_HELD;
  /// What is marked is marked no more. Not `filled`: the granules are given back.
  void settle(Plan &plan, bool filled) noexcept WEIR_HELD;
  /// Those that were claimed for pages that are not marked.
  void return_granules(Plan &plan) noexcept WEIR_HELD;

 private:
  void mark_zeroing(Plan &plan, const PlanItem &item) noexcept WEIR_HELD;

  /// Outside the lock.
  Stream &stream_for(const Plan &plan) noexcept;
  Status fill(Plan &plan);
  static Status map_pages(Plan &plan, size_t first, uint32_t *longest);
  static Status verify_source(const Plan &plan, PlanPage *page);
  Status fill_from_below(Plan &plan, tier::Lift &lift, transfer::Copier &copier);
  PoolDevice &lost_by(Plan &plan, const Status &status) noexcept;
  static void clear_mappings(Releasable &lock, Plan &plan) noexcept WEIR_HELD;

  void settle_filled(const Plan &plan, PlanPage &page) noexcept WEIR_HELD;
  void settle_unfilled(const Plan &plan, PlanPage &page) noexcept WEIR_HELD;
  void settle_zeroing(const Plan &plan, const PlanItem &item) noexcept WEIR_HELD;
  void tell_filled(const Plan &plan, const PlanPage &page, uint8_t how) noexcept WEIR_HELD;
  void watch_copy(const Plan &plan) noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  page::PageTable &pages_;
  Carriage &carriage_;
};

}  // namespace weir::move
