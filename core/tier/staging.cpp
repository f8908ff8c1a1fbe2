// SPDX-License-Identifier: Apache-2.0
//
// Slots taken and given back.

#include "core/tier/staging.hpp"

#include "core/base/poison.hpp"

#include <cstring>

namespace weir::tier {
Staging::~Staging() {
  if (allocation_ != nullptr)
    (void)runtime_->table().host_free(runtime_->state(), allocation_, bytes() + UnitArena::unit);
}

Status Staging::start(backend::Runtime &runtime, uint32_t slots, uint64_t part_bytes,
                      uint64_t blob_bytes) {
  part_bytes_ = UnitArena::rounded(part_bytes);
  blob_stride_ = UnitArena::rounded(blob_bytes);
  count_ = slots;
  // A unit more than needed: direct I/O wants alignment, which a runtime need not give.
  WEIR_TRY(runtime.check(
      runtime.table().host_allocate(runtime.state(), bytes() + UnitArena::unit, &allocation_),
      "host_allocate"));
  runtime_ = &runtime;
  const auto address = reinterpret_cast<uint64_t>(allocation_);
  pinned_ = reinterpret_cast<unsigned char *>(UnitArena::rounded(address));
  WEIR_TRY(blobs_.start((count_ + 1) * blob_stride_, "compress pages in"));
  for (uint32_t i = 0; i < count_; ++i) {
    slots_[i].pinned = pinned_ + i * part_bytes_;
    slots_[i].blob = blobs_.data() + i * blob_stride_;
  }
  return {};
}

/// What its last holder left goes, once no copy uses it any more.
void Staging::clear(StagingSlot &slot) const noexcept {
  if (slot.secret) {
    std::memset(slot.pinned, 0, part_bytes_);
    std::memset(slot.blob, 0, blob_stride_);
    slot.secret = false;
  }
  poison::fill(slot.pinned, part_bytes_, poison::nobody);
  poison::fill(slot.blob, blob_stride_, poison::nobody);
}

/// A slot that is not taken; `idle`: and that no copy uses any more.
StagingSlot *Staging::claim(bool idle) noexcept {
  for (uint32_t i = 0; i < count_; ++i) {
    StagingSlot &slot = slots_[i];
    if (slot.taken || (idle && !streams_.passed(slot.busy))) continue;
    slot.taken = true;
    return &slot;
  }
  return nullptr;
}

StagingSlot *Staging::try_take() noexcept {
  const Guard hold(mutex_);
  StagingSlot *slot = claim(true);
  if (slot != nullptr) clear(*slot);
  return slot;
}

StagingSlot *Staging::take() noexcept {
  if (StagingSlot *slot = try_take()) return slot;
  StagingSlot *slot = nullptr;
  {
    Guard hold(mutex_);
    for (slot = claim(false); slot == nullptr; slot = claim(false)) given_.wait(hold);
  }
  await(*slot);
  clear(*slot);
  return slot;
}

/// A copy, not compute: it ends soon. Of a lost device it has ended. Where the wait fails all that the stream has is waited for.
void Staging::await(const StagingSlot &slot) noexcept {
  if (!streams_.wait(slot.busy, UINT64_MAX)) streams_.at(slot.busy.slot()).synchronize();
}

bool Staging::scrub(bool wait) noexcept {
  bool all = true;
  for (uint32_t i = 0; i < count_; ++i) {
    StagingSlot &slot = slots_[i];
    {
      const Guard hold(mutex_);
      if (slot.taken || !slot.secret) continue;  // give() clears it, or the next to take it
      if (!wait && !streams_.passed(slot.busy)) {
        all = false;
        continue;
      }
      slot.taken = true;
    }
    await(slot);
    clear(slot);
    give(&slot, backend::Stamp{});
  }
  return all;
}

void Staging::give(StagingSlot *slot, backend::Stamp busy) noexcept {
  if (slot->secret && streams_.passed(busy)) clear(*slot);
  {
    const Guard hold(mutex_);
    slot->busy = busy;
    slot->taken = false;
  }
  given_.notify_one();
}

}  // namespace weir::tier
