// SPDX-License-Identifier: Apache-2.0
//
// Dirty pages are copied ahead, and stay: when they have to leave, nothing is left to be copied.

#include "core/move/evictor.hpp"
#include "core/move/victim.hpp"

#include <algorithm>

namespace weir::move {

bool Evictor::is_dirty(const PoolDevice &device, const PageRef &ref) const noexcept {
  Region *region = page_.regions.find(ref.region, ref.generation);
  const Residence *here = region != nullptr ? region->on(device.place) : nullptr;
  return here != nullptr && here->pages[ref.page].state() == PageState::resident &&
         region->pages[ref.page].latest() == device.bit() && !region->idle(ref.page) &&
         !region->is.secret && !device.integrated;
}

bool Evictor::may_clean(const PoolDevice &device, const PageRef &ref) const noexcept {
  if (!is_dirty(device, ref) || others_.host_room.is_short()) return false;
  Region &region = page_.regions.at(ref.region);
  const uint64_t bytes = tier::HostStore::rounded(region.shape.used_bytes(ref.page));
  const bool room = region.host.registered != nullptr ||
                    (page_.tiers.host().room() >= bytes &&
                     page_.accounts.quota(region.owner.client, Accounts::host).room() >= bytes);
  if (!room) return false;
  bool ended = false;
  if_memory([&]() WEIR_HELD {
    std::pmr::vector<Stamp> fences(env_.memory);
    lease_.history.collect(region, ref.page, &fences);
    ended = std::ranges::all_of(fences, [this](Stamp stamp) { return env_.streams.passed(stamp); });
  });
  return ended;
}

uint64_t Evictor::clean(Releasable &lock, PoolDevice &device,
                        const std::pmr::vector<PageRef> &pages) {
  Drain drain{
      .device = device, .background = true, .wait_ns = idle_.patience(device), .stay = true};
  Status why;  // what can't be copied now leaves with a copy when it has to
  run(lock, drain, pages, &why, nullptr);
  return drain.cleaned;
}

}  // namespace weir::move
