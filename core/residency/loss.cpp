// SPDX-License-Identifier: Apache-2.0
//
// Loss of a device. The runtime answers DEVICE_LOST to some call; from then on the pool neither asks the device for
// anything nor believes in a copy that lies there. Pages with another latest copy live on; of the others it is
// remembered that they are lost until they are written anew as a whole. All under the pool's lock.

#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {

void Engine::note_loss(PoolDevice &device, const Status &status) noexcept {
  if (status.code() == WEIR_ERROR_DEVICE_LOST && !device.lost) lose(device);
}

void Engine::lose_device(uint8_t place) {
  Lock lock(mutex_);
  lose(device_at(place));
}

/// Outside the lock: whether the device itself says so. A copy between two does not tell which of them is gone.
bool Engine::answers_lost(PoolDevice &device) noexcept {
  const weir_backend_table &table = device.device.table();
  return table.stream_synchronize(device.device.state(), device.down->native) ==
         WEIR_ERROR_DEVICE_LOST;
}

/// Outside the lock: whose loss a plan has met with that failed so.
PoolDevice &Engine::lost_by(Plan &plan, const Status &status) noexcept {
  if (status.code() != WEIR_ERROR_DEVICE_LOST) return *plan.device;
  for (const auto &device : devices_) {
    const bool source = std::any_of(
        plan.pages.begin(), plan.pages.end(),
        [&device](const PlanPage &page) { return page.filling && page.from == device->bit(); });
    if (source && answers_lost(*device)) return *device;
  }
  if (PoolDevice *between = lost_between(plan)) return *between;
  return *plan.device;
}

void Engine::note_loss(const Stream &stream, const Status &status) noexcept {
  if (status.code() != WEIR_ERROR_DEVICE_LOST || stream.device == nullptr) return;
  Lock lock(mutex_);
  for (const auto &device : devices_) {
    if (&device->device == stream.device) note_loss(*device, status);
  }
}

void Engine::lose(PoolDevice &device) noexcept {
  device.lost = true;
  uint64_t lost_bytes = 0;
  for (const auto &region : regions_) {
    if (region == nullptr || region->on(device.place) == nullptr) continue;
    for (uint32_t p = 0; p < region->pages.size(); ++p) {
      Page &copies = region->pages[p];
      if ((copies.latest & device.bit()) == 0) continue;
      copies.latest &= ~device.bit();
      if (copies.latest != 0) continue;
      copies.latest = vm::lost_bit;
      lost_bytes += region->shape.used_bytes(p);
    }
  }
  // Every hit goes the slow way once; buffers that are elsewhere find their way back.
  for (uint32_t i = 0; i < buffers_.end(); ++i) {
    const uint64_t word = buffers_.hot(i).word.load(std::memory_order_relaxed);
    if ((word & Word::alive) != 0 && target(i).region->home == device.place)
      set_flags(i, 0, Word::resident);
  }
  log_(WEIR_LOG_ERROR, "device %u is lost, and with it %llu bytes that were nowhere else",
       device.device.id, static_cast<unsigned long long>(lost_bytes));
  changed_.notify_all();
}

Status Engine::check_device(const Plan &plan) noexcept {
  if (!plan.device->lost) return {};
  return fail(WEIR_ERROR_DEVICE_LOST, "device %u is lost", plan.device->device.id);
}

}  // namespace weir::residency
