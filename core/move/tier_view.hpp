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
    return look(ref, info, false);
  }
  bool glance(const policy::PageRef &ref, policy::PageInfo *info) WEIR_HELD override {
    return look(ref, info, true);
  }
  bool knows(const policy::PageRef &ref) noexcept WEIR_HELD override {
    return tiers_.find(ref, bit_) != nullptr;
  }
  uint32_t client_of(const policy::PageRef &ref) const noexcept WEIR_HELD override {
    return tiers_.client_of(ref);
  }
  bool list(uint32_t client, policy::PageCursor *from, const Visit &visit) WEIR_HELD override {
    policy::PageInfo info;
    const auto enter = [&](const page::Region &region) WEIR_HELD {
      if (region.owner.client != client) return false;
      uses_.glance(region, &info);
      return true;
    };
    const auto show = [&](page::Region &, const policy::PageRef &page) WEIR_HELD {
      visit(page, info.last_use);
      return true;
    };
    return tiers_.walk(bit_, from, enter, show);
  }
  uint64_t now() const override { return ticks_.now(); }

 private:
  bool look(const policy::PageRef &ref, policy::PageInfo *info, bool rough) WEIR_HELD {
    visits::count();
    page::Region *const region = tiers_.find(ref, bit_);
    if (region == nullptr) return false;
    const page::Page &copies = region->pages[ref.page];
    info->bytes = region->shape.used_bytes(ref.page);
    info->priority = region->priority;
    info->dirty = (copies.latest() & ~bit_) == 0;
    info->disposable = false;
    info->cold = region->is.cold;
    info->client = region->owner.client;
    const bool by_glance = rough && region->is.slab;
    const bool leased =
        by_glance ? lease::LeaseTable::kept(*region, ref.page) : leases_.in_use(*region, ref.page);
    info->evictable =
        !copies.sinking && !leased && (bit_ != page::host_bit || !tiers_.aliases().in_use(*region));
    rough ? uses_.glance(*region, info) : uses_.describe(*region, info);
    return true;
  }

  const uint32_t bit_;
  page::TierCopies &tiers_;
  const lease::LeaseTable &leases_;
  const page::UseTimes &uses_;
  const Ticks &ticks_;
};

}  // namespace weir::move
