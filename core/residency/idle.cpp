// SPDX-License-Identifier: Apache-2.0
//
// Idle: device memory back to the system. Asked for (a trim, a runtime that has no more), all that nobody uses; by itself
// what nobody needed for a grace period: pages of dead buffers that nobody took over, granules that stayed in the free
// lists, segments that stayed empty. The demoter looks several times a grace period and gives back a part at each
// look, because giving back may stall the device and what comes next may want it again; while there is nothing to
// give it sleeps. A reserve as large as the high watermark stays.

#include "core/residency/plan.hpp"

#include <algorithm>
#include <chrono>

namespace weir::residency {

/// What was taken out of the device's pool; the lock is dropped meanwhile.
void Engine::give_to_system(Releasable &lock, PoolDevice &device,
                            const physical::DoomedList &doomed) noexcept {
  if (doomed.empty()) return;
  ++device.in_flight;  // who needs room waits for it: it is charged until the system has it
  lock.unlocked([&] {
    for (const physical::Doomed &old : doomed) (void)device.granules->destroy(old);
  });
  for (const physical::Doomed &old : doomed) device.granules->forget(old);
  --device.in_flight;
  changed_.notify_all();
}

/// Up to `bytes` that are idle, however long; returns how many.
uint64_t Engine::give_idle(Releasable &lock, PoolDevice &device, uint64_t bytes) {
  physical::DoomedList doomed(&memory_);
  const uint64_t taken = device.granules->take_idle(bytes, &doomed);
  give_to_system(lock, device, doomed);
  return taken;
}

bool Engine::worth_watching(const PoolDevice &device) const {
  return device.open() && (device.granules->returnable(device.high_water) ||
                           device.policy->any_disposable() || device.bounce->claimed());
}

/// Something may have become idle.
void Engine::watch_idle() noexcept {
  if (!idle_scan_.watching() && idle_scan_.watch(true)) work_.notify_all();
}

void Engine::give_unneeded_back(Releasable &lock) {
  if (!idle_scan_.begin(now_ns())) return;
  struct Look {
    Engine &engine;
    ~Look() {
      engine.idle_scan_.end();
      engine.changed_.notify_all();
    }
  } const look{*this};
  for (size_t i = 0; i < devices_.size(); ++i) {  // one may come while the lock is dropped
    if (devices_[i]->open() && !lock_.stopping()) give_unneeded_back(lock, *devices_[i]);
  }
}

void Engine::give_unneeded_back(Releasable &lock, PoolDevice &device) {
  constexpr uint64_t least_step = uint64_t{64} << 20U;
  const uint64_t step = std::max(least_step, device.granules->held() / 8);
  device.granules->look_at_idle();
  if (++device.bounce->looks > physical::looks_a_grace && give_bounce_back(lock, device))
    device.returned_bytes += give_idle(lock, device, transfer::Bounce::bytes_on(*device.granules));
  if (idle_scan_.unneeded_before() != 0) {
    Wanted wanted;
    wanted.bytes = step;
    wanted.dead_before = idle_scan_.unneeded_before();
    std::pmr::vector<PageRef> victims(&memory_);
    device.policy->choose(wanted, &victims);
    Status why;
    if (!victims.empty()) (void)evict(lock, device, victims, true, &why);
  }
  physical::DoomedList doomed(&memory_);
  device.returned_bytes += device.granules->take_unneeded(device.high_water, step, &doomed);
  give_to_system(lock, device, doomed);
}

/// The demoter has nothing to do until it is told, or until the next look; and it rests before that even if the look is
/// due by now: who only ever holds the lock leaves none for those whose work it waits for.
void Engine::wait_for_work(Releasable &lock) {
  constexpr uint64_t least_rest_ns = 100'000;
  const bool any = std::any_of(devices_.begin(), devices_.end(),
                               [this](const auto &device) { return worth_watching(*device); });
  if (!idle_scan_.watch(any)) return work_.wait(lock);
  const uint64_t rest = std::max(idle_scan_.rest_ns(now_ns()), least_rest_ns);
  work_.wait_for(lock, std::chrono::nanoseconds(rest));
}

void Engine::look_at_idle() {
  Locked lock(lock_);
  (void)idle_scan_.watch(true);
  while (idle_scan_.looking()) changed_.wait(lock);  // the demoter was faster
  give_unneeded_back(lock);
}

}  // namespace weir::residency
