// SPDX-License-Identifier: Apache-2.0
//
// Bytes from below HOST: to a device through staging (with fill.cpp), or to the CPU.

#include "core/residency/lift.hpp"

#include "core/residency/plan.hpp"
#include "core/tier/checksum.hpp"

#include <algorithm>
#include <cstring>

namespace weir::residency {

Lift::~Lift() {
  while (count_ != 0) {
    tier::StagingSlot *slot = slots_[head_];
    if (lower_.storage != nullptr && !lower_.storage->done(slot->io))
      (void)lower_.storage->wait(&slot->io);
    give(backend::Stamp{});
  }
}

void Lift::begin(const std::pmr::vector<LiftPart> &parts) {
  while (next_ < parts.size() && count_ < slots_.size()) {
    tier::StagingSlot *slot = count_ == 0 ? lower_.staging->take() : lower_.staging->try_take();
    if (slot == nullptr) return;
    slots_[(head_ + count_++) % slots_.size()] = slot;
    start(parts[next_++], slot);
  }
}

void Lift::start(const LiftPart &part, tier::StagingSlot *slot) noexcept {
  slot->secret = part.secret;
  if (part.bit != vm::storage_bit) return;
  const bool blob = part.blob != 0;
  slot->io.slot = part.place;
  slot->io.memory = blob ? slot->blob : slot->pinned;
  slot->io.bytes = blob ? part.blob : part.bytes;
  slot->io.write = false;
  slot->io.background = background_;
  lower_.storage->submit(&slot->io);
}

Status Lift::finish(const LiftPart &part, tier::StagingSlot **out) {
  tier::StagingSlot *slot = slots_[head_];
  *out = slot;
  const auto urgency = background_ ? Workers::Urgency::background : Workers::Urgency::demand;
  const uint64_t start = lower_.clock.now_ns();
  Status status;
  if (part.bit == vm::compressed_bit) {
    status = lower_.codec->decode(lower_.compressed->address(part.place), part.blob, slot->pinned,
                                  part.bytes, urgency, part.secret);
  } else {
    status = lower_.storage->wait(&slot->io);
    if (status && part.blob != 0) {
      status = lower_.codec->decode(slot->blob, part.blob, slot->pinned, part.bytes, urgency,
                                    part.secret);
    }
  }
  // What somebody is held up for, so a read that has overlapped with others counts little.
  tier::Pace &pace = part.bit == vm::compressed_bit ? lower_.compressed_pace : lower_.storage_pace;
  if (status) pace.came_up(part.bytes, lower_.clock.now_ns() - start);
  return status;
}

void Lift::give(backend::Stamp busy) noexcept {
  lower_.staging->give(slots_[head_], busy);
  head_ = (head_ + 1) % slots_.size();
  --count_;
}

/// What is to be read of a page below HOST. Under the lock.
void Engine::list_parts(const Region &region, uint32_t page, uint32_t tag,
                        std::pmr::vector<LiftPart> *parts) {
  const Page &copies = region.pages[page];
  const uint64_t part_bytes = lower_.staging->part_bytes();
  const uint64_t used = region.shape.used_bytes(page);
  LiftPart part;
  part.bit = (copies.latest() & vm::compressed_bit) != 0 ? vm::compressed_bit : vm::storage_bit;
  part.page = tag;
  part.secret = region.scrub;
  for (uint32_t at = copies.lower; at != tier::CopyTable::none; at = lower_.copies[at].next) {
    const tier::LowerCopy &copy = lower_.copies[at];
    if (part.bit == vm::compressed_bit) {
      part.place = lower_.compressed->slot(copy.compressed);
      part.blob = lower_.compressed->blob_bytes(copy.compressed);
    } else {
      part.place = lower_.storage->slot(copy.storage);
      part.blob = lower_.storage->blob_bytes(copy.storage);
    }
    part.bytes = std::min(part_bytes, used - part.offset);
    parts->push_back(part);
    part.offset += part.bytes;
  }
}

/// Outside the lock: the parts of one page, which must have that checksum, to the CPU; bytes [begin, end) of it.
Status Engine::read_parts(const std::pmr::vector<LiftPart> &parts, uint64_t checksum,
                          uint64_t begin, uint64_t end, unsigned char *out) {
  tier::PageChecksum sum;
  Lift lift(lower_, false);
  for (const LiftPart &part : parts) {
    lift.begin(parts);
    tier::StagingSlot *slot = nullptr;
    WEIR_TRY(lift.finish(part, &slot));
    sum.add(slot->pinned, part.bytes);
    const uint64_t from = std::max(begin, part.offset);
    const uint64_t to = std::min(end, part.offset + part.bytes);
    if (from < to)
      std::memcpy(out + (from - begin), slot->pinned + (from - part.offset), to - from);
    lift.give(Stamp{});
  }
  return sum.sum() == checksum ? Status{} : Status(WEIR_ERROR_CORRUPT);
}

/// Bytes [begin, end) of a page whose latest version lies below HOST. The page is claimed and settled; the lock is
/// dropped meanwhile. A damaged copy is given up where there is another, which is read then.
Status Engine::read_below(Releasable &lock, Region &region, uint32_t page, uint64_t begin,
                          uint64_t end, unsigned char *out) {
  PoolDevice &home = device_at(region.home);
  for (;;) {
    std::pmr::vector<LiftPart> parts(&memory_);
    parts.reserve(parts_of(region, page));
    list_parts(region, page, 0, &parts);
    const uint64_t checksum = checksum_of_version(region.pages[page]);
    const uint32_t bit = parts.front().bit;
    begin_work(region, page, home);
    const Status status =
        lock.unlocked([&] { return read_parts(parts, checksum, begin, end, out); });
    end_work(region, page, home);
    changed_.notify_all();
    if (status) {
      events_.tell({What::raised, 0, Event::nowhere, region.id, page, end - begin});
      return {};
    }
    if (status.code() != WEIR_ERROR_CORRUPT) return status;
    events_.tell({What::corrupt, 0, Event::nowhere, region.id, page});
    const Status corrupt = fail_corrupt(0, page, bit);
    const uint32_t before = region.pages[page].latest();
    forsake_copy(region, page, bit);
    const uint32_t left = region.pages[page].latest();
    if (left == before || (left & vm::below_host) == 0) return corrupt;
  }
}

/// The latest version, which lies below HOST alone, into a slot of HOST. The page is claimed and settled.
Status Engine::raise_to_host(Releasable &lock, Region &region, uint32_t page) {
  Page &copies = region.pages[page];
  WEIR_TRY(
      read_below(lock, region, page, 0, region.shape.used_bytes(page), host_bytes(region, page)));
  places_.note(region, copies.arrived(vm::host_bit));
  note_in_order(region, page, vm::host_bit);
  return {};
}

}  // namespace weir::residency
