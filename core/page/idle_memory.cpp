// SPDX-License-Identifier: Apache-2.0
//
// Idle memory of devices.

#include "core/page/idle_memory.hpp"

#include <algorithm>

namespace weir::page {

void IdleMemory::give_to_system(Releasable &lock, PoolDevice &device,
                                physical::DoomedList &doomed) noexcept {
  if (doomed.empty()) return;
  ++device.in_flight;  // callers that need room wait for it: it is charged until the system has it
  lock.unlocked([&] {
    for (const physical::Doomed &old : doomed) (void)device.memory.granules().destroy(old);
  });
  for (const physical::Doomed &old : doomed) device.memory.granules().forget(old);
  doomed.clear();
  --device.in_flight;
  env_.sync.changed.notify_all();
}

uint64_t IdleMemory::give_idle(Releasable &lock, PoolDevice &device, uint64_t bytes) {
  physical::DoomedList doomed(env_.memory);
  const uint64_t taken = device.memory.granules().take_idle(bytes, &doomed);
  give_to_system(lock, device, doomed);
  return taken;
}

bool IdleMemory::worth_watching(const PoolDevice &device) {
  return device.open() && (device.memory.granules().returnable(device.memory.high_water()) ||
                           device.policy->any_disposable() || device.bounce->claimed());
}

void IdleMemory::watch() noexcept {
  if (!scan_.watching() && scan_.watch(true)) env_.sync.wakes.evictor.notify_all();
}

uint64_t IdleMemory::patience(const PoolDevice &device) const noexcept {
  if (!device.leaving()) return env_.config.evict_wait_ns;
  const uint64_t now = env_.now_ns();
  return std::min(env_.config.evict_wait_ns,
                  device.leave_by_ns() - std::min(now, device.leave_by_ns()));
}

bool IdleMemory::give_bounce_back(Releasable &lock, PoolDevice &device) noexcept {
  if (device.bounce == nullptr) return false;  // the pool's start has failed before that
  transfer::Bounce &bounce = *device.bounce;
  if (!bounce.claimed() || bounce.users != 0 || bounce.closing) return false;
  bounce.closing = true;
  ++device.in_flight;
  const uint64_t wait_ns = patience(device);
  const bool closed = lock.unlocked([&] { return carrier_.close(bounce, wait_ns); });
  if (closed) device.memory.note_stuck(bounce.release());
  bounce.closing = false;
  --device.in_flight;
  env_.sync.changed.notify_all();
  return closed;
}

}  // namespace weir::page
