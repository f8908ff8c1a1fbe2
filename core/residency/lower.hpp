// SPDX-License-Identifier: Apache-2.0
//
// Lower: what a pool has below HOST, and what the engine remembers while pages are on their way there. The parts
// (stores, codec, staging) take care of themselves; the rest is guarded by the pool's lock.
#pragma once

#include "core/base/memory_limit.hpp"
#include "core/base/pool_lock.hpp"
#include "core/residency/policy.hpp"
#include "core/tier/codec.hpp"
#include "core/tier/compressed_store.hpp"
#include "core/tier/copies.hpp"
#include "core/tier/host_store.hpp"
#include "core/tier/pace.hpp"
#include "core/tier/staging.hpp"
#include "core/tier/storage_store.hpp"
#include "core/virtual/region_pin.hpp"

#include <array>
#include <atomic>
#include <deque>

namespace weir::residency {

/// HOST or COMPRESSED as a policy sees it.
class TierView final : public View {
 public:
  TierView(class Engine &engine, uint32_t bit) noexcept : engine_(engine), bit_(bit) {}
  bool describe(const PageRef &page, PageInfo *info) WEIR_HELD override;
  bool knows(const PageRef &page) noexcept WEIR_HELD override;
  uint64_t now() const override;

 private:
  Engine &engine_;
  const uint32_t bit_;
};

/// The copies up that may still read a slot, one a device at most.
struct PendingCopies {
  std::array<backend::Stamp, vm::max_devices> stamps;
  uint32_t count = 0;

  void add(backend::Stamp stamp) noexcept { stamps[count++] = stamp; }
  /// Forgets those that have passed. True: none is left.
  bool passed(backend::StreamTable &streams) noexcept {
    while (count != 0 && streams.passed(stamps[count - 1])) --count;
    return count == 0;
  }
};

/// One page on its way down from HOST or COMPRESSED. Its source stays where it is and may be read by others meanwhile;
/// nobody overwrites it in place, and who frees it leaves that to the one who copies.
struct Sinking {
  vm::Region *region = nullptr;
  vm::RegionPin pin;  ///< of it
  uint32_t page = 0;
  bool from_host = false;  ///< else from COMPRESSED
  bool attached = true;  ///< the page knows of it; else its source has become this entry's to free
  bool valid = true;     ///< what is being copied is still the latest version
  bool failed = false;
  tier::HostSlot slot;                      ///< the source in HOST ...
  const unsigned char *bytes = nullptr;     ///< ... and its bytes
  PendingCopies busy;                       ///< of the orphaned slot
  uint32_t orphan = tier::CopyTable::none;  ///< the orphaned chain in COMPRESSED
  uint64_t used = 0;
  uint64_t checksum = 0;  ///< 0: not known yet
  tier::CodecPlan plan;
  uint32_t chain = tier::CopyTable::none;  ///< its own records: where it goes
  uint32_t into = 0;  ///< vm::compressed_bit or storage_bit, once it is decided
  size_t first_io = 0, ios = 0;
};

/// One round of moving pages down: what it has come to so far.
struct Round {
  uint64_t bytes = 0;   ///< of pages sent
  uint64_t freed = 0;   ///< in the tier they left ...
  uint64_t untold = 0;  ///< ... of which nobody who waits for room knows yet
  bool all_stored = true;
  Status why;  ///< the first failure

  void note(const Status &status) noexcept {
    if (why.ok() && !status.ok()) why = status;
  }
};

struct Lower {
  Lower(Engine &engine, std::pmr::memory_resource *memory)
      : copies(memory),
        host_view(engine, vm::host_bit),
        compressed_view(engine, vm::compressed_bit),
        sinkings(memory),
        ios(memory) {}

  Owned<Workers> workers;
  Owned<tier::Codec> codec;
  Owned<tier::CompressedStore> compressed;
  Owned<tier::Staging> staging;
  Scratch rounded;                    ///< the sinker's: a part of a page whose floats are rounded
  Owned<tier::StorageStore> storage;  ///< may have staging's memory registered: it goes first
  tier::CopyTable copies;
  Clock clock;  ///< what transfers are timed by
  tier::Pace compressed_pace, storage_pace;
  uint32_t passed_over = 0;  ///< pages in a row that passed COMPRESSED because STORAGE is quicker

  TierView host_view, compressed_view;
  Owned<Policy> host_order, compressed_order;

  /// One thread at a time moves pages down from HOST or COMPRESSED: the sinker.
  bool sinking = false;
  /// Somebody waits for the round under way: it is no background work any more.
  std::atomic<bool> awaited{false};
  std::pmr::deque<Sinking> sinkings;
  std::pmr::deque<tier::StorageIo> ios;  ///< the sinker's, of which ...
  size_t ios_used = 0;                   ///< ... so many are under way

  uint64_t host_low = 0, host_high = 0;              ///< watermarks: bytes of HOST kept free
  uint64_t compressed_low = 0, compressed_high = 0;  ///< and of COMPRESSED
  bool ahead = false;           ///< on the way from HOST's low watermark to the high one
  uint64_t retry_after_ns = 0;  ///< a failed sink is not tried again in the background before

  bool any() const noexcept { return compressed != nullptr || storage != nullptr; }
  /// Whether what compresses should go to STORAGE all the same, because it comes back sooner from there. Now and then
  /// a page goes to COMPRESSED nevertheless, to see whether that still holds.
  bool storage_is_quicker() noexcept {
    const uint64_t compressing = compressed_pace.cost();
    const uint64_t storing = storage_pace.cost();
    const bool room = storage != nullptr && storage->room() > storage->budget() / 8;
    if (!room || compressing == 0 || storing == 0 || compressing <= storing) return false;
    return ++passed_over % 64 != 0;
  }
};

}  // namespace weir::residency
