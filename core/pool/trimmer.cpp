// SPDX-License-Identifier: Apache-2.0
//
// Memory given back because somebody asks for it.

#include "core/pool/trimmer.hpp"

#include <algorithm>

namespace weir::pool {

Status Trimmer::trim(uint32_t device_id, uint32_t level, uint64_t bytes, uint64_t *freed) {
  *freed = 0;
  if (level > WEIR_TRIM_EMERGENCY) return fail(WEIR_ERROR_INVALID_ARGUMENT, "level is %u", level);
  const Scrubbing scrubbing(env_.scrub_turns, true);
  Locked lock(env_.sync.lock);
  if (device_id == WEIR_DEVICE_HOST) {
    while (level != WEIR_TRIM_GRADUAL && others_.demoter.working())
      others_.demoter.await_change(lock);
    others_.host_room.give_chunks_back(lock, bytes, freed);
    const uint64_t held = page_.tiers.host().held();
    if (*freed < bytes && level != WEIR_TRIM_GRADUAL)
      (void)others_.host_room.shrink(lock, bytes - *freed);
    *freed += held - std::min(held, page_.tiers.host().held());
    if (page_.cold.compressed() != nullptr) (void)page_.cold.compressed()->trim();
    const uint64_t pinned = others_.carrier.pinned_bytes();
    if (level == WEIR_TRIM_EMERGENCY && pinned != 0) {
      const uint64_t wait_ns = env_.config.evict_wait_ns;
      if (lock.unlocked([&] { return others_.carrier.close_pinned(wait_ns); })) *freed += pinned;
    }
    return {};
  }
  uint8_t place = 0;
  WEIR_TRY(find_place(page_.devices, device_id, &place));
  PoolDevice &device = *page_.devices[place];
  Status why;
  while (level != WEIR_TRIM_GRADUAL && others_.relocator.await_limbo(lock, device)) {
  }
  if (level == WEIR_TRIM_EMERGENCY) (void)others_.idle.give_bounce_back(lock, device);
  for (uint32_t barren = 0; *freed < bytes && barren < 2 && !device.lost();) {
    *freed += others_.idle.give_idle(lock, device, bytes - *freed);
    if (*freed >= bytes) break;
    std::pmr::vector<PageRef> victims(env_.memory);
    device.policy->choose({.bytes = bytes - *freed, .clean_only = level == WEIR_TRIM_GRADUAL},
                          &victims);
    if (victims.empty()) break;
    if (evictor_.evict(lock, device, victims, false, &why) == 0) ++barren;
  }
  if (level == WEIR_TRIM_EMERGENCY) {
    uint64_t spare = 0;
    others_.host_room.give_chunks_back(lock, UINT64_MAX, &spare);
    if (page_.cold.compressed() != nullptr) (void)page_.cold.compressed()->trim();
  }
  return {};
}

}  // namespace weir::pool
