// SPDX-License-Identifier: Apache-2.0
//
// Recompressor: pages that lie idle in COMPRESSED are coded again, densely, before the tier is so full that they would
// have to go on to STORAGE. What FAST leaves on the table is worth the time only for bytes that nobody waits for, so
// this is a task of its own, within the pool's share for compression; nobody waits for it, and it takes neither staging
// nor the demoter's turn.
//
// What waits are regions: whether bytes lie idle is known of a buffer, not of a page, and so a page costs nothing here. A region's
// turn walks its pages; what comes to COMPRESSED behind the walk, and what can't be coded just then, gives it another turn.
//
// What must hold: the page's old blobs stay readable until the new ones are complete, and are freed only while nobody
// reads them; until then the page is marked `sinking`, as one that is on its way to STORAGE. A page is tried once for
// each version of its bytes. Everything is guarded by the pool's lock but raw_ and blob_, which are the worker's.
#pragma once

#include "core/base/scratch.hpp"
#include "core/base/task.hpp"
#include "core/page/env.hpp"
#include "core/page/tier_copies.hpp"

#include <atomic>
#include <deque>

namespace weir::move {

using page::Region;
using page::SourcePin;

class Recompressor final : public Task {
 public:
  Recompressor(const Env &env, tier::ColdTiers &cold, page::TierCopies &tiers,
               page::RegionStore &regions, const page::UseTimes &uses)
      : env_(env),
        cold_(cold),
        tiers_(tiers),
        regions_(regions),
        uses_(uses),
        waiting_(env.memory),
        parts_(env.memory),
        wake_(env.sync.lock) {}

  /// Reserves what it works in, once the tiers have been started. OUT_OF_HOST_MEMORY.
  Status start(uint64_t idle_ns);
  PoolSignal &wake() noexcept { return wake_; }  ///< of its thread

  // ---- under the pool's lock ----
  /// A page came to COMPRESSED. Without memory to remember its region, it stays as it is coded.
  void note(Region &region, uint32_t page) noexcept WEIR_HELD;
  bool working() const noexcept { return working_; }
  /// Somebody waits for the page at work.
  void hurry() noexcept { hurried_.store(true, std::memory_order_relaxed); }
  /// Codes what is due, as far as it is; drops the lock meanwhile. Returns when there will be more, in nanoseconds of the
  /// engine's clock; UINT64_MAX: nobody knows.
  uint64_t work(Releasable &lock) WEIR_HELD;

  bool step(Releasable &lock) override WEIR_HELD {
    due_ns_ = work(lock);
    return false;
  }
  uint64_t rest_ns() noexcept override WEIR_HELD;
  const char *name() const noexcept override { return "the recompressor's thread"; }

 private:
  /// A region that waits; `since` and `use` are what was known when it was put here, to tell whether it was used since. Twelve
  /// bytes: of generation and use the low bits, which are the same for another once in 65536 times. Then it is looked at early.
  struct Entry {
    uint32_t region = 0;
    uint32_t since = 0;  ///< in ticks of about a millisecond
    uint16_t generation = 0;
    uint16_t use = 0;
  };
  static_assert(sizeof(Entry) == 12);
  /// Of a page: nothing is to be done, it can't be done now, or it can.
  enum class Verdict : uint8_t { pass, put_off, go };
  /// Of coding a page: to be tried again later, or never with this version of its bytes.
  enum class Outcome : uint8_t { later, never, done };

  Region *find(const Entry &entry) const noexcept WEIR_HELD;
  void queue(Region &region) noexcept WEIR_HELD;
  void end_turn(Region *region, bool again) noexcept WEIR_HELD;
  void tidy() noexcept WEIR_HELD;
  Verdict judge(const Region &region, uint32_t page) const noexcept WEIR_HELD;
  bool pressed() const noexcept;
  uint16_t last_use(Region &region) const WEIR_HELD;
  void recode(Releasable &lock, Region &region, uint32_t page) WEIR_HELD;
  Outcome recode_parts(uint64_t *won);
  void settle(Outcome outcome, uint64_t won) noexcept WEIR_HELD;

  const Env &env_;
  tier::ColdTiers &cold_;
  page::TierCopies &tiers_;
  page::RegionStore &regions_;
  const page::UseTimes &uses_;
  static constexpr size_t least_tidy = 64;
  std::pmr::deque<Entry> waiting_;  ///< longest first; the first has its turn
  size_t tidy_at_ = least_tidy;     ///< at so many, those of dead regions are removed
  struct {
    uint32_t next = 0;   ///< page
    bool again = false;  ///< the region is to have another turn
  } walk_;               ///< of the region that has its turn
  std::pmr::vector<tier::LiftPart> parts_;
  struct Job : SourcePin {
    uint64_t used = 0;
    codec::CodecPlan plan;
    uint32_t chain = tier::ColdTiers::none;  ///< of the new blobs
  } job_;                                    ///< the page at work
  bool working_ = false;
  std::atomic<bool> hurried_{false};
  uint64_t due_ns_ = 0;  ///< when the thread looks again; UINT64_MAX: when it is woken
  uint32_t idle_ = 0;    ///< of Entry::since
  Scratch raw_, blob_;   ///< room for a part, and for its blob
  PoolSignal wake_;
};

}  // namespace weir::move
