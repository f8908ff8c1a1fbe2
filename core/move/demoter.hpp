// SPDX-License-Identifier: Apache-2.0
//
// Demoter: moves pages down, from HOST to COMPRESSED or STORAGE (demote) and from COMPRESSED to STORAGE (spill), coldest
// first, to make room for what comes after them. One thread at a time does so: pages are chosen and settled under the pool's
// lock, compressed and written outside of it. A page's source stays valid and readable until its new copy is complete; if that
// fails it stays where it is.
//
// Which tier: the first that takes the page of those that policy/destinations.hpp names; room is made in each before the next is tried. Where
// the owner has said so, floats are rounded on their way into COMPRESSED, and the page's checksum is that of the rounded ones.
#pragma once

#include "core/base/scratch.hpp"
#include "core/page/env.hpp"
#include "core/page/tier_copies.hpp"
#include "core/policy/destinations.hpp"

#include <atomic>
#include <deque>

namespace weir::move {

using page::Region;
using page::SourcePin;
using policy::PageRef;

class Recompressor;

/// A page on its way into a cold tier: where its bytes come from, part by part, and where they have got to.
class Outgoing {
 public:
  const Region *of = nullptr;
  uint64_t used = 0;
  uint64_t checksum = 0;  ///< 0: not known yet
  codec::CodecPlan plan;
  uint32_t chain = tier::ColdTiers::none;  ///< of its places there
  tier::ColdStore *into = nullptr;         ///< once it is decided
  unsigned char *blob = nullptr;           ///< room for a part that is compressed ...
  unsigned char *rounded = nullptr;        ///< ... and for one whose floats are rounded

  /// The bytes of a part; they stay until the next is fetched, or for good.
  virtual Status fetch(uint64_t at, uint64_t bytes, const unsigned char **out) = 0;
  /// Of bytes that were fetched, to a place in STORAGE: ends at once, or is waited for before the page is settled.
  virtual Status write(tier::UnitSlot slot, const unsigned char *bytes, uint64_t count) = 0;

 protected:
  ~Outgoing() = default;
};

class Demoter {
 public:
  /// Worth of one round: enough to pay for it, little enough to be waited for.
  static constexpr uint64_t round_bytes = uint64_t{8} << 20U;

  Demoter(const Env &env, tier::ColdTiers &cold, page::TierCopies &tiers,
          page::RegionStore &regions)
      : env_(env),
        cold_(cold),
        tiers_(tiers),
        regions_(regions),
        moves_(env.memory),
        ios_(env.memory) {}

  /// Where there are cold tiers; they have been started. `recompressor`, if any, is told what comes to COMPRESSED.
  Status start(Recompressor *recompressor);

  bool working() const noexcept WEIR_HELD { return working_; }
  /// Waits for work of Weir's own. Who may be waiting for a round is not held to the background's share, and what need not
  /// be done at all is given up.
  void await_change(Releasable &lock) WEIR_HELD;

  /// The same until nobody works on the region outside the lock.
  void await_unpinned(Releasable &lock, const Region &region) WEIR_HELD {
    while (region.pin_count.any()) await_change(lock);
  }

  // Each may drop the lock. True: something changed, it is worth looking again.
  /// Frees room in HOST by about `bytes` (of `client` alone, if one is named). `until`, of work in the background: the round goes
  /// on while HOST has less room than that; 0: somebody waits for it.
  bool demote(Releasable &lock, uint64_t bytes, uint32_t client, uint64_t until,
              Status *why) WEIR_HELD;
  /// These pages of HOST, in the background. Nobody else demotes.
  bool demote(Releasable &lock, const std::pmr::vector<PageRef> &pages) WEIR_HELD;
  /// Drops pages from HOST that lie elsewhere too, coldest first. False: there was none.
  bool drop_clean(uint64_t bytes, uint32_t client) WEIR_HELD;
  /// The same in the background for COMPRESSED, while it has less room than its low watermark.
  bool keep_compressed_free(Releasable &lock) WEIR_HELD;

  /// A failed round is not tried again in the background before; 0: now.
  uint64_t retry_at_ns() const noexcept WEIR_HELD { return retry_at_ns_; }
  void put_off(uint64_t now_ns) noexcept WEIR_HELD { retry_at_ns_ = now_ns + 1'000'000'000; }

  /// Outside the lock: the page goes to a cold tier, for which room is made. `own`: the caller is the round under way. OVER_BUDGET,
  /// and what fetching and writing fail with.
  Status send(Outgoing &page, Workers::Urgency urgency, bool own) WEIR_NOT_HELD;

  // ---- places below HOST, for which room is made; none where neither budget nor quota can be made to have it ----
  /// `own`: the caller is the round under way, else it may have to wait for that one. May drop the lock.
  tier::UnitSlot place_compressed(Releasable &lock, uint32_t client, uint64_t bytes,
                                  bool own) WEIR_HELD;
  /// May drop the lock, to overwrite what stands in the way.
  tier::UnitSlot place_storage(Releasable &lock, uint32_t client, uint64_t bytes) WEIR_HELD;
  /// The page has come to COMPRESSED.
  void note_compressed(Region &region, uint32_t page) noexcept WEIR_HELD;

 private:
  /// A round in the background that goes on while HOST is short ends here.
  static constexpr uint64_t max_round_bytes = uint64_t{256} << 20U;
  static constexpr size_t max_round_pages = 1024;

  /// One page on its way down.
  struct Move final : SourcePin, Outgoing {
    explicit Move(Demoter &demoter_) noexcept : demoter(demoter_) {}
    Status fetch(uint64_t at, uint64_t, const unsigned char **out) override {
      *out = bytes + at;
      return {};
    }
    Status write(tier::UnitSlot to, const unsigned char *from, uint64_t count) override;

    Demoter &demoter;
    const unsigned char *bytes = nullptr;  ///< of the source in HOST
    bool failed = false;
    size_t first_io = 0, ios = 0;
    uint64_t began_ns = 0;
  };
  /// What a round has come to so far.
  struct Round {
    size_t first = 0;    ///< of moves_, of which those from here on are its own
    uint64_t until = 0;  ///< pages are added while HOST has less room
    bool background = false;
    uint64_t bytes = 0;   ///< of pages sent
    uint64_t freed = 0;   ///< in the tier they left ...
    uint64_t untold = 0;  ///< ... of which nobody who waits for room knows yet
    bool all_stored = true;
    Status why{};  ///< the first failure

    void note(const Status &status) noexcept {
      if (why.ok() && !status.ok()) why = status;
    }
    Workers::Urgency urgency() const noexcept {
      return background ? Workers::Urgency::background : Workers::Urgency::demand;
    }
  };

  void begin(Region &region, uint32_t page, bool from_host) WEIR_HELD;
  void list_own(Releasable &lock, uint32_t client, uint32_t bit) WEIR_HELD;
  uint64_t choose(uint64_t bytes, uint32_t client, uint32_t bit, Status *why) WEIR_HELD;
  uint64_t list(const std::pmr::vector<PageRef> &pages, uint32_t bit, Status *why) WEIR_HELD;
  bool carry(Releasable &lock, Round round, Status *why) WEIR_HELD;
  bool spill(Releasable &lock, uint64_t bytes, uint32_t client, bool own, Status *why) WEIR_HELD;

  bool add_more(size_t settled, Round *round) WEIR_NOT_HELD;
  void send_all(Round *round) WEIR_NOT_HELD;
  void send(Move &move, Round *round) WEIR_NOT_HELD;
  /// In the order in which they are tried.
  policy::Destinations cold_places() WEIR_NOT_HELD;
  Status compress(Outgoing &page, Workers::Urgency urgency, bool must, bool own) WEIR_NOT_HELD;
  Status store(Outgoing &page) WEIR_NOT_HELD;
  Status store_blobs(Move &move) WEIR_NOT_HELD;
  bool written(const Move &move) noexcept;
  void finish(Move &move, Round *round) WEIR_NOT_HELD;
  uint64_t settle(Move &move) noexcept WEIR_HELD;
  uint64_t leave(Region &region, uint32_t page, uint32_t bit) noexcept WEIR_HELD;

  const Env &env_;
  tier::ColdTiers &cold_;
  page::TierCopies &tiers_;
  page::RegionStore &regions_;
  Recompressor *recompressor_ = nullptr;
  Scratch rounded_;  ///< a part of a page whose floats are rounded

  bool working_ WEIR_GUARDED = false;
  std::atomic<bool> awaited_{false};  ///< somebody waits for the round, which is urgent then
  std::pmr::deque<Move> moves_;  ///< of rounds under way; the round's thread alone adds and takes
  std::pmr::deque<tier::StorageIo> ios_;  ///< the same, of which ...
  size_t ios_used_ = 0;                   ///< ... so many are under way
  uint64_t retry_at_ns_ WEIR_GUARDED = 0;
};

}  // namespace weir::move
