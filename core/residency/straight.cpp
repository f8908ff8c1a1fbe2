// SPDX-License-Identifier: Apache-2.0
//
// Straight down: a page leaves a device for a tier below HOST without a slot there, because it is not expected back soon
// or because HOST can't make room. Part by part through staging, by the thread that evicts it; part of drain.cpp.

#include "core/residency/plan.hpp"
#include "core/tier/checksum.hpp"
#include "core/tier/codec/narrow.hpp"
#include "core/transfer/copier.hpp"

#include <algorithm>
#include <cstring>

namespace weir::residency {

/// Outside the lock: a page from a device past HOST to a tier below, part by part through staging.
Status Engine::send_straight(Drain &drain, Victim &victim) {
  tier::PageChecksum sum;
  const uint64_t part_bytes = cold_.part_bytes();
  uint32_t record = victim.chain;
  uint32_t full = 0;  // tiers that did not have room for all of it
  for (uint64_t at = 0; at < victim.used;) {
    const uint64_t raw = std::min(part_bytes, victim.used - at);
    tier::StagingSlot *slot = cold_.staging().take();
    slot->secret = victim.region->scrub;
    Status status = copy_part(drain.device, victim.address + at, slot->pinned, raw);
    if (status) {
      if (victim.region->rounds != tier::Form::bytes && cold_.compressed() != nullptr)
        tier::round_floats(victim.region->rounds, slot->pinned, slot->pinned, raw);
      sum.add(slot->pinned, raw);
      try {
        status = store_part(victim, drain.background, record, slot, raw);
      } catch (...) {
        cold_.staging().give(slot, Stamp{});
        throw;
      }
    }
    cold_.staging().give(slot, Stamp{});
    if (status.code() == WEIR_NOT_READY) {
      const bool compressed = victim.into == vm::compressed_bit;
      full |= compressed ? vm::compressed_bit : vm::storage_bit;
      victim.into = compressed ? vm::storage_bit : vm::compressed_bit;
      const bool none = compressed ? cold_.storage() == nullptr : cold_.compressed() == nullptr;
      const Locked lock(lock_);
      if (none || (full & victim.into) != 0)
        return cold_.fail_full(victim.region->client, victim.used);
      // From the start.
      tiers_.free_places(*victim.region, victim.chain, vm::below_host);
      record = victim.chain;
      at = 0;
      sum.reset();
      continue;
    }
    WEIR_TRY(status);
    at += raw;
    const Locked lock(lock_);
    record = cold_.next(record);
  }
  victim.checksum = sum.sum();
  return {};
}

/// From the device into pinned memory, and waits for it.
Status Engine::copy_part(PoolDevice &device, uint64_t address, unsigned char *out, uint64_t bytes) {
  transfer::Copier copier(*device.streams.down());
  Status status = copier.copy(reinterpret_cast<uint64_t>(out), address, bytes);
  if (status) status = copier.flush();
  uint64_t point = 0;
  if (status) status = device.streams.down()->timeline.record(&point);
  if (status) status = device.streams.down()->timeline.finish(point);
  if (!status) end_copies(device);
  return status;
}

/// One part, in staging, to COMPRESSED or STORAGE; all parts of a page go to the same. NOT_READY: it has no room.
Status Engine::store_part(Victim &victim, bool background, uint32_t record, tier::StagingSlot *slot,
                          uint64_t raw) {
  const uint32_t client = victim.region->client;
  const bool storage = cold_.storage() != nullptr && victim.into != vm::compressed_bit;
  if (cold_.compressed() != nullptr && victim.into != vm::storage_bit) {
    const uint64_t bytes =
        cold_.codec().encode(slot->pinned, raw, slot->blob, !storage, &victim.plan,
                             background ? Workers::Urgency::background : Workers::Urgency::demand,
                             tier::Effort::quick, slot->secret);
    tier::UnitSlot place;
    {
      Locked lock(lock_);
      if (bytes != 0) place = demoter_.place_compressed(lock, client, bytes, false);
      if (place) cold_.place(record, *cold_.compressed(), place);
    }
    if (place) {
      cold_.compressed()->put(place, slot->blob, bytes);
      victim.into = vm::compressed_bit;
      return {};
    }
  }
  if (!storage) return Status(WEIR_NOT_READY);
  tier::UnitSlot place;
  {
    Locked lock(lock_);
    place = demoter_.place_storage(lock, client, raw);
    if (place) cold_.place(record, *cold_.storage(), place);
  }
  if (!place) return Status(WEIR_NOT_READY);
  victim.into = vm::storage_bit;
  std::memset(slot->pinned + raw, 0, tier::UnitArena::rounded(raw) - raw);  // goes along
  slot->io.slot = place;
  slot->io.memory = slot->pinned;
  slot->io.bytes = raw;
  slot->io.write = true;
  slot->io.background = background;
  cold_.storage()->submit(&slot->io);
  return cold_.storage()->wait(&slot->io);
}

}  // namespace weir::residency
