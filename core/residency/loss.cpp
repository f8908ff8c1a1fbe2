// SPDX-License-Identifier: Apache-2.0
//
// Loss of a device. The runtime answers DEVICE_LOST to some call; from then on the pool neither asks the device for
// anything nor believes in a copy that lies there. Pages with another latest copy live on; of the others it is
// remembered that they are lost until they are written anew as a whole. All under the pool's lock.

#include "core/residency/membership.hpp"
#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {

void Engine::note_loss(PoolDevice &device, const Status &status) noexcept {
  if (status.code() == WEIR_ERROR_DEVICE_LOST && !device.lost()) lose(device);
}

void Engine::lose_device(uint8_t place) {
  Locked lock(lock_);
  lose(device_at(place));
}

/// Outside the lock: whether the device itself says so. A copy between two does not tell which of them is gone.
bool Engine::answers_lost(PoolDevice &device) noexcept {
  const weir_backend_table &table = device.device.table();
  return table.stream_synchronize(device.device.state(), device.streams.down()->native) ==
         WEIR_ERROR_DEVICE_LOST;
}

/// Outside the lock: whose loss a plan has met with that failed so.
PoolDevice &Engine::lost_by(Plan &plan, const Status &status) noexcept {
  if (status.code() != WEIR_ERROR_DEVICE_LOST) return *plan.device;
  const uint8_t count = device_count();
  for (uint8_t place = 0; place < count; ++place) {
    PoolDevice &device = device_at(place);
    const auto from_there = [bit = device.bit()](const PlanPage &page) {
      return page.filling && page.from == bit;
    };
    if (std::ranges::any_of(plan.pages, from_there) && answers_lost(device)) return device;
  }
  if (PoolDevice *between = lost_between(plan)) return *between;
  PoolDevice &lost = lost_in(*plan.device);
  plan.rerouted = plan.rerouted || &lost != plan.device;
  return lost;
}

/// Outside the lock: a call of the device's has said that a device is lost. It may be one whose fences were to be waited for.
PoolDevice &Engine::lost_in(PoolDevice &device) noexcept {
  const uint8_t count = device_count();
  if (count == 1 || answers_lost(device)) return device;
  for (uint8_t place = 0; place < count; ++place) {
    PoolDevice &other = device_at(place);
    if (&other != &device && answers_lost(other)) return other;
  }
  return device;
}

void Engine::note_loss(const Stream &stream, const Status &status) noexcept {
  if (status.code() != WEIR_ERROR_DEVICE_LOST || stream.device == nullptr) return;
  Locked lock(lock_);
  for (const auto &device : devices_) {
    if (&device->device == stream.device) note_loss(*device, status);
  }
}

/// Every hit there goes the slow way once.
void Engine::close_at_home(uint8_t place) noexcept {
  for (Region &region : regions_in(page::PlaceIndex::home(place))) {
    region.for_each_buffer([this](uint32_t index) {
      if ((buffers_.hot(index).word.load(std::memory_order_relaxed) & Word::alive) != 0)
        set_flags(index, 0, Word::resident);
    });
  }
}

void Engine::lose(PoolDevice &device) noexcept {
  device.lose();
  uint64_t lost_bytes = lose_carried(device);
  for (Region &region : regions_in(device.pages_there())) {
    // Nothing writes there any more: what is written elsewhere counts.
    if (region.shards == nullptr && region.held_at == device.place) region.held_to_write = false;
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      Page &copies = region.pages[p];
      if ((copies.latest() & device.bit()) == 0) continue;
      places_.note(region, copies.left(device.bit()));
      if (copies.latest() != 0) continue;
      places_.note(region, copies.device_lost());
      lost_bytes += region.shape.used_bytes(p);
    }
  }
  lost_bytes += lose_remote_writes(device);
  close_at_home(device.place);  // buffers that are elsewhere find their way back
  device.count_loss(++generation_, lost_bytes);
  Membership(*this).tell_peers();
  lock_.note(WEIR_LOG_ERROR, "device %u is lost, and with it %llu bytes that were nowhere else",
             device.device.id, llu(lost_bytes));
  changed_.notify_all();
}

/// Waits for the first loss after the one in *loss (generation 0: the first of all). False: `stop` was set.
bool Engine::next_loss(weir_device_loss *loss, const std::atomic<bool> &stop) {
  Locked lock(lock_);
  for (;;) {
    if (stop.load()) return false;
    const PoolDevice *next = nullptr;
    for (const auto &device : devices_) {
      if (device->lost_generation() <= loss->generation) continue;
      if (next == nullptr || device->lost_generation() < next->lost_generation())
        next = device.get();
    }
    if (next != nullptr) {
      loss->device = next->device.id;
      loss->generation = next->lost_generation();
      loss->lost_bytes = next->lost_bytes();
      return true;
    }
    changed_.wait(lock);
  }
}

}  // namespace weir::residency
