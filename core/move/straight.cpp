// SPDX-License-Identifier: Apache-2.0
//
// Straight down: a page leaves a device for a cold tier without a slot in HOST, because it is not expected back soon
// or because HOST can't make room. Part by part through staging, by the thread that evicts it; part of evictor.cpp.

#include "core/move/evictor.hpp"

#include <cstring>

namespace weir::move {

/// The page's parts, each copied from the device when it is wanted. One slot of staging is enough: a part is where it goes to before
/// the next is fetched.
class Evictor::StraightDown final : public Outgoing {
 public:
  StraightDown(tier::ColdTiers &cold, const Drain &drain, const Victim &victim)
      : cold_(cold), drain_(drain), victim_(victim), slot_(cold_.staging().take()) {
    of = victim.region;
    used = victim.used;
    plan = victim.to.plan;
    chain = victim.to.chain;
    blob = slot_->blob;
    rounded = slot_->pinned;  // in place
    slot_->secret = victim.region->is.secret;
  }
  ~StraightDown() { cold_.staging().give(slot_, Stamp{}); }
  StraightDown(const StraightDown &) = delete;
  StraightDown &operator=(const StraightDown &) = delete;

  Status fetch(uint64_t at, uint64_t bytes, const unsigned char **out) override {
    *out = slot_->pinned;
    if (at == in_slot_) return {};  // did not pay to be compressed
    const uint64_t whole = tier::UnitArena::rounded(bytes);
    std::memset(slot_->pinned + bytes, 0, whole - bytes);  // goes along to STORAGE
    transfer::Copier copier(*drain_.device.streams.down());
    Status status =
        copier.copy(reinterpret_cast<uint64_t>(slot_->pinned), victim_.from.address + at, bytes);
    if (status) status = copier.finish();
    if (!status) end_copies(drain_.device);
    const bool intact = status && victim_.region->rounds == codec::Form::bytes;
    in_slot_ = intact ? at : UINT64_MAX;
    return status;
  }
  Status write(tier::UnitSlot slot, const unsigned char *bytes, uint64_t count) override {
    slot_->io.slot = slot;
    slot_->io.memory = const_cast<unsigned char *>(bytes);
    slot_->io.bytes = count;
    slot_->io.write = true;
    slot_->io.background = drain_.background;
    cold_.storage()->submit(&slot_->io);
    return cold_.storage()->wait(&slot_->io);
  }

 private:
  tier::ColdTiers &cold_;
  const Drain &drain_;
  const Victim &victim_;
  tier::StagingSlot *const slot_;
  uint64_t in_slot_ = UINT64_MAX;  ///< where the part begins that is there as it was on the device
};

Status Evictor::send_straight(Drain &drain, Victim &victim) {
  StraightDown page(page_.cold, drain, victim);
  WEIR_TRY(others_.demoter.send(
      page, drain.background ? Workers::Urgency::background : Workers::Urgency::demand, false));
  victim.to.checksum = page.checksum;
  victim.to.plan = page.plan;
  victim.to.bit = page.into->place.bit();
  return {};
}

}  // namespace weir::move
