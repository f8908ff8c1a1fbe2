// SPDX-License-Identifier: Apache-2.0
//
// What a lost device takes along.

#include "core/move/losses.hpp"

#include <algorithm>

namespace weir::move {

bool Losses::answers_lost(PoolDevice &device) noexcept {
  const weir_backend_table &table = device.device.table();
  return table.stream_synchronize(device.device.state(), device.streams.down()->native) ==
         WEIR_ERROR_DEVICE_LOST;
}

uint8_t Losses::device_count() const noexcept {
  const Locked lock(env_.sync.lock);
  return static_cast<uint8_t>(page_.devices.size());
}

PoolDevice &Losses::lost_in(PoolDevice &device) noexcept {
  const uint8_t count = device_count();
  if (count == 1 || answers_lost(device)) return device;
  for (uint8_t place = 0; place < count; ++place) {
    PoolDevice &other = *page_.devices[place];
    if (&other != &device && answers_lost(other)) return other;
  }
  return device;
}

void Losses::note(const Stream &stream, const Status &status) noexcept {
  if (status.code() != WEIR_ERROR_DEVICE_LOST || stream.device == nullptr) return;
  Locked lock(env_.sync.lock);
  for (const auto &device : page_.devices) {
    if (&device->device == stream.device) note(*device, status);
  }
}

Status Losses::record_end(Stream &stream, uint64_t *point) {
  Status status = stream.timeline.record(point);
  if (status) return status;
  // No fence: end the work instead of marking its end. If that fails too, the device is gone, and with it
  // everything that a fence could have protected.
  // In one turn: what another thread records after the wait is not over with it.
  const KeepError keep;
  stream.timeline.take_turn();
  if (stream.device != nullptr) stream.synchronize();
  *point = stream.timeline.pass_all_in_turn();
  stream.timeline.end_record();
  note(stream, status);
  return status;
}

void Losses::lose(PoolDevice &device) noexcept {
  device.lose();
  uint64_t lost_bytes = lose_carried(device);
  for (Region &region : page::Walk(page_.places, device.pages_there(), page_.regions)) {
    // Nothing writes there any more: what is written elsewhere counts.
    if (region.shards == nullptr && region.holds.at == device.place) region.holds.to_write = false;
    if (!region.is.slab)
      (void)pages_.close(region);  // its hits may be there and its home elsewhere
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      const Page &copies = region.pages[p];
      if ((copies.latest() & device.bit()) == 0) continue;
      pages_.left(region, p, device.bit());
      if (copies.latest() != 0) continue;
      pages_.device_lost(region, p);
      lost_bytes += region.shape.used_bytes(p);
    }
  }
  lost_bytes += lose_remote_writes(device);
  pages_.close_at_home(device.place);  // buffers that are elsewhere find their way back
  device.count_loss(++generation_, lost_bytes);
  tell_peers();
  env_.events.tell({What::device_lost, 0, device.place, UINT32_MAX, 0, lost_bytes});
  env_.sync.lock.note(WEIR_LOG_ERROR,
                      "device %u is lost, and with it %llu bytes that were nowhere else",
                      device.device.id, llu(lost_bytes));
  env_.sync.changed.notify_all();
}

bool Losses::next(weir_device_loss *loss, const std::atomic<bool> &stop) {
  Locked lock(env_.sync.lock);
  for (;;) {
    if (stop.load()) return false;
    const PoolDevice *next = nullptr;
    for (const auto &device : page_.devices) {
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
    env_.sync.changed.wait(lock);
  }
}

uint64_t Losses::lose_carried(const PoolDevice &device) noexcept {
  uint64_t lost_bytes = 0;
  const auto done = [this](Stamp stamp) { return env_.streams.done(stamp); };
  others_.doubts.lose(device.bit(), done, [&](const page::Doubts::Copy &carried) WEIR_HELD {
    Region *found = page_.regions.find(carried.region, carried.generation);
    if (found == nullptr || found->pages[carried.page].latest() == 0) return;
    Region &region = *found;
    const Page &copies = region.pages[carried.page];
    const bool known = copies.lost();
    const uint32_t bit = uint32_t{1} << carried.place;
    if ((copies.latest() & ~bit) != 0 && (copies.latest() & bit) != 0) {
      pages_.left(region, carried.page, bit);
    } else {
      // It is nowhere else, or has gone on from there: then nobody knows which of its copies is good.
      pages_.forsake(region, carried.page);
      if (!known) lost_bytes += region.shape.used_bytes(carried.page);
    }
    if (region.owner.buffer != page::BufferTable::none)
      page_.buffers.hot(region.owner.buffer).set_flags(0, Word::resident | Word::sole);
  });
  return lost_bytes;
}

uint64_t Losses::lose_remote_writes(const PoolDevice &writer) noexcept {
  uint64_t lost_bytes = 0;
  lease_.remote_writes.lose(writer.device, [&](const lease::RemoteWrite &write) WEIR_HELD {
    if (!page_.buffers.hot(write.buffer).lives(write.generation)) return;
    const page::Target where = page_.buffers.target(write.buffer);
    Region &region = *where.region;
    const uint32_t last = region.shape.page_at(where.base + write.end - 1);
    for (uint32_t p = region.shape.page_at(where.base + write.begin); p <= last; ++p) {
      const Page &copies = region.pages[p];
      if (copies.latest() == 0) continue;
      const bool known = copies.lost();
      pages_.forsake(region, p);
      if (!known) lost_bytes += region.shape.used_bytes(p);
    }
    page_.buffers.hot(write.buffer).set_flags(0, Word::resident | Word::sole);
  });
  return lost_bytes;
}

void Losses::tell_peers() noexcept {
  const auto generation = static_cast<uint16_t>(std::min(generation_, most_generations));
  for (auto &device : page_.devices) {
    physical::Mapper::Peers peers;
    peers.generation = generation;
    for (auto &other : page_.devices) {
      const bool same = other->device.runtime == device->device.runtime;
      if (other == device || !same || other->gone() || other->lost()) continue;
      if (!env_.config.routes.direct(device->place, other->place)) continue;
      peers.devices[peers.count++] = other->device.index;
    }
    device->memory.mapper().set_peers(peers);
  }
}

}  // namespace weir::move
