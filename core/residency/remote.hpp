// SPDX-License-Identifier: Apache-2.0
//
// Remote: the uses of one acquire that may be granted where the pages are (WEIR_USE_ALLOW_REMOTE), and the plans for those
// that are, one a device. Such a plan brings nothing: all its pages are in place when it is made, and leased before the lock
// is dropped. remote.cpp has the rules.
#pragma once

#include "core/residency/plan.hpp"

namespace weir::residency {

struct Remote {
  explicit Remote(std::pmr::memory_resource *memory) : asked(memory), plans(memory) {}

  /// All items of the set, as they were asked for; divided anew before each try.
  std::pmr::vector<PlanItem> asked;
  std::pmr::vector<Owned<Plan>> plans;
};

/// The claims of the plans beside one that is being tried: taken back on the way out unless they are kept. They are never
/// held while anybody waits for leases.
class RemoteClaims {
 public:
  RemoteClaims(Engine &engine, Plan &plan) noexcept : engine_(engine), plan_(plan) {}
  ~RemoteClaims() WEIR_HELD {
    if (!kept_) engine_.drop_remote(plan_);
  }
  RemoteClaims(const RemoteClaims &) = delete;
  RemoteClaims &operator=(const RemoteClaims &) = delete;

  Status take() WEIR_HELD { return engine_.claim_remote(plan_); }
  /// False: the lock was dropped since, and a page has gone (its device was lost).
  bool keep() noexcept WEIR_HELD { return kept_ = engine_.remote_stands(plan_); }

 private:
  Engine &engine_;
  Plan &plan_;
  bool kept_ = false;
};

}  // namespace weir::residency
