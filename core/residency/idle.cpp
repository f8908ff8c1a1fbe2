// SPDX-License-Identifier: Apache-2.0
//
// Idle: device memory back to the system. Asked for (a trim, a runtime that has no more), all that nobody uses; by itself
// what nobody needed for a grace period: pages of dead buffers that nobody took over, granules that stayed in the free
// lists, segments that stayed empty. The demoter looks several times a grace period and gives back a part at each
// look, because giving back may stall the device and what comes next may want it again; while there is nothing to
// give it sleeps. A reserve as large as the high watermark stays.

#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {

/// What was taken out of the device's pool; the lock is dropped meanwhile.
void Engine::give_to_system(Releasable &lock, PoolDevice &device,
                            physical::DoomedList &doomed) noexcept {
  if (doomed.empty()) return;
  ++device.in_flight;  // who needs room waits for it: it is charged until the system has it
  lock.unlocked([&] {
    for (const physical::Doomed &old : doomed) (void)device.memory.granules().destroy(old);
  });
  for (const physical::Doomed &old : doomed) device.memory.granules().forget(old);
  doomed.clear();
  --device.in_flight;
  changed_.notify_all();
}

/// Up to `bytes` that are idle, however long; returns how many.
uint64_t Engine::give_idle(Releasable &lock, PoolDevice &device, uint64_t bytes) {
  physical::DoomedList doomed(&memory_);
  const uint64_t taken = device.memory.granules().take_idle(bytes, &doomed);
  give_to_system(lock, device, doomed);
  return taken;
}

bool Engine::worth_watching(const PoolDevice &device) const {
  return device.open() && (device.memory.granules().returnable(device.memory.high_water()) ||
                           device.policy->any_disposable() || device.bounce->claimed());
}

/// Something may have become idle.
void Engine::watch_idle() noexcept {
  if (!idle_scan_.watching() && idle_scan_.watch(true)) work_.notify_all();
}

void Engine::give_unneeded_back(Releasable &lock) {
  if (!idle_scan_.begin(now_ns())) return;
  const AtEnd looked([this]() WEIR_HELD {
    idle_scan_.end();
    changed_.notify_all();
  });
  for (size_t i = 0; i < devices_.size(); ++i) {  // one may come while the lock is dropped
    if (devices_[i]->open() && !lock_.stopping()) give_unneeded_back(lock, *devices_[i]);
  }
}

void Engine::give_unneeded_back(Releasable &lock, PoolDevice &device) {
  constexpr uint64_t least_step = uint64_t{64} << 20U;
  physical::GranulePool &granules = device.memory.granules();
  const uint64_t step = std::max(least_step, granules.held() / 8);
  granules.look_at_idle();
  if (++device.bounce->looks > physical::looks_a_grace && give_bounce_back(lock, device))
    device.memory.note_returned(give_idle(lock, device, transfer::Bounce::bytes_on(granules)));
  if (const uint64_t before = idle_scan_.unneeded_before(); before != 0)
    (void)evict_chosen(lock, device, {.bytes = step, .dead_before = before}, true);
  physical::DoomedList doomed(&memory_);
  device.memory.note_returned(granules.take_unneeded(device.memory.high_water(), step, &doomed));
  give_to_system(lock, device, doomed);
}

/// Keeps granules free between the watermarks, so that demand rarely meets a dirty victim; grows HOST before it is full;
/// gives back to the system what nobody needs.
void Engine::evictor_loop() {
  Locked lock(lock_);
  while (!lock_.stopping()) {
    scrub_turns_.finish_behind(lock);
    bool worked = false;
    try {
      host_room_.grow_ahead(lock);
      give_unneeded_back(lock);
      for (size_t i = 0; i < devices_.size(); ++i) {  // one may come while the lock is dropped
        PoolDevice *device = devices_[i].get();
        if (!device->vmm() || !device->open() || lock_.stopping()) continue;
        const uint64_t room = device->memory.room();
        if (room >= device->memory.low_water() &&
            !(device->draining_ahead && room < device->memory.high_water())) {
          device->draining_ahead = false;
          continue;
        }
        device->draining_ahead = true;
        const Wanted wanted{
            .bytes = std::min(device->memory.high_water() - room, uint64_t{64} << 20U),
            .not_before = 8,
            .keep_prefetched = true};
        device->draining_ahead = evict_chosen(lock, *device, wanted, true) != 0;
        worked = worked || device->draining_ahead;
      }
    } catch (const std::bad_alloc &) {
      worked = false;
    }
    if (worked || lock_.stopping()) continue;
    // Nothing to do until it is told, or until the next look.
    const bool any = std::any_of(devices_.begin(), devices_.end(),
                                 [this](const auto &device) { return worth_watching(*device); });
    sync().await_work(lock, idle_scan_.watch(any) ? idle_scan_.rest_ns(now_ns()) : UINT64_MAX);
  }
}

void Engine::look_at_idle() {
  Locked lock(lock_);
  (void)idle_scan_.watch(true);
  while (idle_scan_.looking()) changed_.wait(lock);  // the demoter was faster
  give_unneeded_back(lock);
}

}  // namespace weir::residency
