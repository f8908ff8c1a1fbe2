// SPDX-License-Identifier: Apache-2.0
//
// Parts of pages from the cold tiers, through staging.

#include "core/tier/lift.hpp"

#include "core/base/waits.hpp"
#include "core/codec/checksum.hpp"

#include <algorithm>
#include <cstring>

namespace weir::tier {

Lift::~Lift() {
  while (count_ != 0) {
    StagingSlot *slot = slots_[head_];
    StorageStore *storage = cold_.storage();
    if (storage != nullptr && !storage->done(slot->io)) (void)storage->wait(&slot->io);
    give(backend::Stamp{});
  }
}

void Lift::begin(const std::pmr::vector<LiftPart> &parts) {
  while (next_ < parts.size() && count_ < slots_.size()) {
    StagingSlot *slot = count_ == 0 ? cold_.staging().take() : cold_.staging().try_take();
    if (slot == nullptr) return;
    slots_[(head_ + count_++) % slots_.size()] = slot;
    start(parts[next_++], slot);
  }
}

void Lift::start(const LiftPart &part, StagingSlot *slot) noexcept {
  slot->secret = part.secret;
  if (part.store->place != Place::storage) return;
  const bool blob = part.blob != 0;
  slot->io.slot = part.place;
  slot->io.memory = blob ? slot->blob : slot->pinned;
  slot->io.bytes = blob ? part.blob : part.bytes;
  slot->io.write = false;
  slot->io.background = background_;
  cold_.storage()->submit(&slot->io);
}

Status Lift::finish(const LiftPart &part, StagingSlot **out) {
  StagingSlot *slot = slots_[head_];
  *out = slot;
  const auto urgency = background_ ? Workers::Urgency::background : Workers::Urgency::demand;
  const uint64_t start = cold_.now_ns();
  const bool stored = part.store->place == Place::storage;
  Status status;
  if (stored) status = cold_.storage()->wait(&slot->io);
  if (status && part.blob != 0) {
    const WaitScope waits(Wait::decode);
    const unsigned char *blob = stored ? slot->blob : cold_.compressed()->address(part.place);
    status = cold_.codec().decode(blob, part.blob, slot->pinned, part.bytes, urgency, part.secret);
  }
  // What counts is the time that this thread was held up, so a read that has overlapped with others counts little.
  if (status) part.store->pace.came_up(part.bytes, cold_.now_ns() - start);
  return status;
}

void Lift::give(backend::Stamp busy) noexcept {
  cold_.staging().give(slots_[head_], busy);
  head_ = (head_ + 1) % slots_.size();
  --count_;
}

Status read_parts(ColdTiers &cold, const std::pmr::vector<LiftPart> &parts, uint64_t checksum,
                  uint64_t begin, uint64_t end, unsigned char *out) {
  codec::PageChecksum sum;
  Lift lift(cold, false);
  for (const LiftPart &part : parts) {
    lift.begin(parts);
    StagingSlot *slot = nullptr;
    WEIR_TRY(lift.finish(part, &slot));
    sum.add(slot->pinned, part.bytes);
    const uint64_t from = std::max(begin, part.offset);
    const uint64_t to = std::min(end, part.offset + part.bytes);
    if (from < to)
      std::memcpy(out + (from - begin), slot->pinned + (from - part.offset), to - from);
    lift.give(backend::Stamp{});
  }
  return sum.sum() == checksum ? Status{} : Status(WEIR_ERROR_CORRUPT);
}

}  // namespace weir::tier
