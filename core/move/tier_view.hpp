// SPDX-License-Identifier: Apache-2.0
//
// TierView: the pages of HOST, or of COMPRESSED, as the policy sees them that says which are to leave.
#pragma once

#include "core/lease/lease_table.hpp"
#include "core/page/tier_copies.hpp"
#include "core/page/use_times.hpp"

namespace weir::move {

class TierView final : public policy::View {
 public:
  TierView(uint32_t bit, page::TierCopies &tiers, const lease::LeaseTable &leases,
           const page::UseTimes &uses, const Ticks &ticks) noexcept
      : bit_(bit), tiers_(tiers), leases_(leases), uses_(uses), ticks_(ticks) {}

  bool describe(const policy::PageRef &ref, policy::PageInfo *info) WEIR_HELD override {
    page::Region *const region = tiers_.find(ref, bit_);
    if (region == nullptr) return false;
    const page::Page &copies = region->pages[ref.page];
    info->bytes = region->shape.used_bytes(ref.page);
    info->priority = region->priority;
    info->dirty = (copies.latest() & ~bit_) == 0;
    info->disposable = false;
    info->cold = region->is.cold;
    info->client = region->owner.client;
    info->evictable = !copies.sinking && !leases_.in_use(*region, ref.page) &&
                      (bit_ != page::host_bit || !tiers_.aliases().in_use(*region));
    uses_.describe(*region, info);
    return true;
  }
  bool knows(const policy::PageRef &ref) noexcept WEIR_HELD override {
    return tiers_.find(ref, bit_) != nullptr;
  }
  uint64_t now() const override { return ticks_.now(); }

 private:
  const uint32_t bit_;
  page::TierCopies &tiers_;
  const lease::LeaseTable &leases_;
  const page::UseTimes &uses_;
  const Ticks &ticks_;
};

}  // namespace weir::move
