// SPDX-License-Identifier: Apache-2.0
//
// Holder: residency without leases: holds. A hold keeps a buffer in place on one device, or a sharded one on all of its devices, and
// its bytes at one address, until the last hold on it ends.
#pragma once

#include "core/residency/env.hpp"
#include "core/residency/cpu_copies.hpp"

namespace weir::residency {

class Acquirer;  // residency/acquirer.hpp
class Grants;    // residency/grants.hpp
class Slabs;     // residency/slabs.hpp

using page::HoldKind;

class Holder {
 public:
  struct Others {
    PageTable &pages;
  };
  Holder(const Env &env, const PageLayer &page, const Others &others, CpuCopies &cpu,
         Claims &claims, Grants &grants, Acquirer &acquirer, Slabs &small) noexcept
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
  void plan_whole(uint32_t index, uint8_t mode, Plan *plan) WEIR_HELD;
  /// Brings the whole buffer to the plan's device and claims it. The bytes are there when it returns, or, with a stream, when
  /// that has come so far. On failure nothing is claimed.
  Status bring_whole(Releasable &lock, Plan &plan) WEIR_HELD;

 private:
  Status take_hold(Releasable &lock, Plan &plan, HoldKind kind) WEIR_HELD;
  Status nest_hold(Plan &plan) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const Others others_;
  CpuCopies &cpu_;
  Claims &claims_;
  Grants &grants_;
  Acquirer &acquirer_;
  Slabs &small_;
};

}  // namespace weir::residency
