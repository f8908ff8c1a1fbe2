// SPDX-License-Identifier: Apache-2.0
//
// Holder: residency without leases: holds. A hold keeps a buffer in place on one device, or a sharded one on all of its devices, and
// its bytes at one address, until the last hold on it ends.
#pragma once

#include "core/acquire/cpu_copies.hpp"
#include "core/page/env.hpp"

namespace weir::acquire {
class Acquirer;  // acquire/acquirer.hpp
class Grants;    // acquire/grants.hpp
class Slabs;     // acquire/slabs.hpp
}  // namespace weir::acquire

namespace weir::buffer {

class Holder {
 public:
  struct Others {
    page::PageTable &pages;
    lease::History &history;
  };
  Holder(const Env &env, const PageLayer &page, const Others &others, acquire::CpuCopies &cpu,
         acquire::Claims &claims, acquire::Grants &grants, acquire::Acquirer &acquirer,
         acquire::Slabs &small) noexcept
      : env_(env),
        page_(page),
        others_(others),
        cpu_(cpu),
        claims_(claims),
        grants_(grants),
        acquirer_(acquirer),
        small_(small) {}

  // ---- calls ----
  Status hold(weir_buffer buffer, uint32_t device_id, HoldKind kind,
              uint64_t *address) WEIR_NOT_HELD;
  Status unhold(weir_buffer buffer) WEIR_NOT_HELD;

  // ---- a region ----
  /// Held bytes are counted by granules, not by states: a page on the move when a hold comes or goes is counted once all
  /// the same. All holds of a region are on one device, or of a sharded one on all of them.
  void add_hold(Region &region, uint8_t place, bool writes) noexcept WEIR_HELD;
  void drop_hold(Region &region) noexcept WEIR_HELD;

  // ---- a buffer as a whole ----
  /// The plan of a claim on the whole buffer, which lasts until the caller drops it: so that no writer is at work.
  void plan_whole(uint32_t index, uint8_t mode, move::Plan *plan) WEIR_HELD;
  /// Brings the whole buffer to the plan's device and claims it. The bytes are there when it returns, or, with a stream, when
  /// that has come so far. On failure nothing is claimed.
  Status bring_whole(Releasable &lock, move::Plan &plan) WEIR_HELD;

 private:
  Status take_hold(Releasable &lock, move::Plan &plan, HoldKind kind) WEIR_HELD;
  Status nest_hold(move::Plan &plan) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const Others others_;
  acquire::CpuCopies &cpu_;
  acquire::Claims &claims_;
  acquire::Grants &grants_;
  acquire::Acquirer &acquirer_;
  acquire::Slabs &small_;
};

}  // namespace weir::buffer
