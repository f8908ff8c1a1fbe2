// SPDX-License-Identifier: Apache-2.0
//
// TierCopies: the copies of pages in HOST and in the cold tiers: their slots and chains, the order in which they are to leave,
// and the sources of moves down, which outlive the page's interest in them. A page's places in tiers are taken by whoever moves it;
// they become the page's and are given up here alone.
//
// What must hold: a page that says that its latest version is in a tier has its places there, and a chain with a checksum if it is
// a cold one. A slot that a copy up may still read is freed once that has passed. What is to be scrubbed is overwritten before its
// place is anybody else's, or noted in ScrubTurns. Guarded by the pool's lock; nothing here waits for anything but, for want of
// memory, a copy.
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/clock.hpp"
#include "core/base/events.hpp"
#include "core/base/scrub_turns.hpp"
#include "core/page/aliases.hpp"
#include "core/page/page_walk.hpp"
#include "core/page/place_index.hpp"
#include "core/page/region_pin.hpp"
#include "core/policy/policy.hpp"
#include "core/tier/cold_tiers.hpp"
#include "core/tier/lift.hpp"

#include <optional>

namespace weir::page {

using backend::Stamp;
using policy::PageRef;
using policy::Policy;

/// The copies up that may still read a slot, one a device at most.
struct PendingCopies {
  std::array<Stamp, max_devices> stamps;
  uint32_t count = 0;

  void add(Stamp stamp) noexcept { stamps[count++] = stamp; }
  /// One of them, to be waited for; none: there is none.
  Stamp one() const noexcept { return count != 0 ? stamps[count - 1] : Stamp{}; }
  /// Forgets those that have passed. True: none is left.
  bool passed(backend::StreamTable &streams) noexcept {
    while (count != 0 && streams.passed(stamps[count - 1])) --count;
    return count == 0;
  }
};

/// The copy that a move down, or within COMPRESSED, reads. It stays where it is and may be read by others meanwhile; nobody
/// overwrites it in place. Should the page give it up, it is the pin's, which frees it in the end.
struct SourcePin {
  Region *region = nullptr;
  RegionPin pin;  ///< of it
  uint32_t page = 0;
  bool from_host = false;                         ///< else from COMPRESSED
  bool attached = false;                          ///< the page has it
  bool valid = true;                              ///< it is the latest version
  tier::HostSlot slot;                            ///< in HOST
  PendingCopies busy;                             ///< of a slot that the page has given up
  uint32_t orphan = tier::ColdTiers::none;        ///< the chain that it has given up
  SourcePin *before = nullptr, *after = nullptr;  ///< in the list of those attached
};

class TierCopies {
 public:
  struct Tables {
    RegionStore &regions;
    PlaceIndex &places;
    BufferDirectory &buffers;
    Accounts &accounts;
    Gauges &gauges;
  };

  TierCopies(std::pmr::memory_resource *memory, const Tables &tables, tier::ColdTiers &cold,
             ScrubTurns &scrub, backend::StreamTable &streams, Ticks &ticks)
      : tables_(tables),
        cold_(cold),
        scrub_(scrub),
        streams_(streams),
        ticks_(ticks),
        aliases_(tables.buffers),
        retired_(memory) {}
  /// `sums`: pages have checksums in HOST.
  void open(Owned<tier::HostStore> host, bool sums) noexcept {
    host_ = std::move(host);
    sums_host_ = sums;
  }
  /// Of pages that leave HOST and COMPRESSED, where there is a tier below.
  void set_orders(Owned<Policy> host, Owned<Policy> compressed) noexcept WEIR_HELD {
    host_order_ = std::move(host);
    compressed_order_ = std::move(compressed);
  }

  bool is_open() const noexcept { return host_ != nullptr; }
  tier::HostStore &host() const noexcept { return *host_; }
  Aliases &aliases() noexcept { return aliases_; }

  // ---- of any tier, by its bit ----
  /// Gives up the page's copy there; it has another. It is not on its way down from there.
  void leave(Region &region, uint32_t page, uint32_t bit) noexcept WEIR_HELD;
  /// Tells the tier's policy of a page that came there. Without memory for that, it is found by requeue().
  void note(Region &region, uint32_t page, uint32_t bit) noexcept WEIR_HELD;
  /// The tier's policy has chosen the page, and knows it no more.
  static void forgotten(Region &region, uint32_t page, uint32_t bit) noexcept {
    known(region.pages.edit(page), bit) = false;
  }
  /// Tells the tier's policy of every page that it was not told of. False: there was none.
  bool requeue(uint32_t bit) noexcept WEIR_HELD;
  /// The page is there, as far as the tier's policy is concerned: else it is known no more.
  Region *find(const PageRef &ref, uint32_t bit) noexcept WEIR_HELD;
  /// Whose page it is; UINT32_MAX: there is none of that name any more.
  uint32_t client_of(const PageRef &ref) const noexcept WEIR_HELD {
    const Region *region = tables_.regions.find(ref.region, ref.generation);
    return region != nullptr ? region->owner.client : UINT32_MAX;
  }
  /// A piece of a walk (page_walk.hpp) over the pages whose latest version is there; of those in HOST that have slots. `visit(region,
  /// ref)` is shown them alone.
  template <class Enter, class Visit>
  bool walk(uint32_t bit, policy::PageCursor *from, Enter &&enter, Visit &&visit) WEIR_HELD {
    const auto show = [&](Region &region, uint32_t page) WEIR_HELD {
      return !there(region.pages[page], bit) ||
             visit(region, PageRef{region.id, page, tables_.regions.generation(region)});
    };
    return walk_pages(tables_.places, PlaceIndex::at(Place::of_bit(bit)), tables_.regions, from,
                      enter, show);
  }
  Policy *order(uint32_t bit) noexcept WEIR_HELD {
    return bit == host_bit ? host_order_.get() : compressed_order_.get();
  }
  /// The page has a new version, on `keep_bit` alone: every other copy is stale.
  void invalidate(Region &region, uint32_t page, uint32_t keep_bit) noexcept WEIR_HELD;
  /// Nobody's, or no more of interest: every copy of it is given up, and it reads as zero.
  void discard(Region &region, uint32_t page) noexcept WEIR_HELD;
  /// A page without tenants has no versions: nothing of it is copied anywhere. While somebody is at work on it it keeps them,
  /// and is looked at again by whoever takes it out.
  void forget_idle(Region &slab, uint32_t page) noexcept WEIR_HELD;

  // ---- HOST ----
  /// In HOST, or in the caller's own memory.
  bool has_host(const Region &region, uint32_t page) const noexcept {
    return region.host.registered != nullptr || region.pages[page].host();
  }
  unsigned char *host_bytes(const Region &region, uint32_t page) const noexcept {
    if (region.host.registered != nullptr)
      return region.host.registered + region.shape.offset(page);
    return static_cast<unsigned char *>(host_->address(region.pages[page].host()));
  }
  /// If neither budget nor quota has to be made to have room. `anywhere`: in another node's chunk if there is no room in one of
  /// this node's. Throws std::bad_alloc with nothing changed.
  tier::HostSlot try_slot(uint32_t client, uint32_t node, uint64_t bytes, bool anywhere) WEIR_HELD;
  void free_slot(uint32_t client, tier::HostSlot slot, bool secret) noexcept WEIR_HELD;
  /// A slot becomes the page's.
  void take_slot(Region &region, uint32_t page, tier::HostSlot slot) noexcept WEIR_HELD {
    tables_.places.note(region, region.pages.edit(page).take_slot(slot));
  }
  /// Gives up a page's slot, if it has one. Who is copying it down meanwhile frees it.
  void free_host(Region &region, uint32_t page) noexcept WEIR_HELD;
  QuotedName quoted_client(uint32_t client) const noexcept WEIR_HELD {
    return tables_.accounts.quoted(client);
  }
  const Budget &host_quota(uint32_t client) const noexcept WEIR_HELD {
    return tables_.accounts.quota(client, Accounts::host);
  }
  /// Frees the slots given up whose copies up have ended. False: there was none.
  bool sweep_retired() noexcept WEIR_HELD;
  /// Of a slot given up (`secret`: of one that is to be scrubbed) the copies up that hold it; none: there is no such slot.
  std::optional<PendingCopies> retired(bool secret) const noexcept WEIR_HELD;

  /// Whether the region's copies in HOST have checksums. Not where floats are rounded on the way to COMPRESSED: a page has one
  /// checksum, and there it covers the rounded bytes.
  bool sums_host(const Region &region) const noexcept {
    return sums_host_ && region.rounds == codec::Form::bytes;
  }

  // ---- the cold tiers ----
  /// What is to be read of a page in one of them, the faster.
  void list_parts(const Region &region, uint32_t page, uint32_t tag,
                  std::pmr::vector<tier::LiftPart> *parts) const WEIR_HELD;
  /// Of the page's latest version; 0: none is known.
  uint64_t checksum(const Page &page) const noexcept WEIR_HELD {
    return cold_.checksum(page.lower);
  }
  /// Of its copy in HOST; in `chain`, which becomes the page's or is given back.
  void set_checksum(Region &region, uint32_t page, uint32_t chain, uint64_t sum) noexcept WEIR_HELD;
  /// The version that the page's chain is about is gone: with it go its copies in the cold tiers and its checksum.
  void end_version(Region &region, uint32_t page) noexcept WEIR_HELD;
  /// The page's bytes are in the tier of `bit` now too, at the places of `chain`, which becomes the page's.
  void publish(Region &region, uint32_t page, uint32_t chain, uint32_t bit) noexcept WEIR_HELD;
  /// A chain of a page's that is not the page's, or not any more: the places, and then the records.
  void free_places(const Region &region, uint32_t chain, uint32_t bits) noexcept WEIR_HELD;
  void free_chain(const Region &region, uint32_t chain) noexcept WEIR_HELD {
    free_places(region, chain, below_host);
    cold_.give_chain(chain);
  }
  /// Frees copies in a tier whose page has its latest version in a faster place too (of `client` alone, if one is named),
  /// round the regions from where the last search stopped. What loses its copy in HOST is dirty, not lost. False: there are none.
  bool drop_redundant(uint32_t bit, uint64_t bytes, uint32_t client) noexcept WEIR_HELD;

  // ---- sources of moves down ----
  /// Not to be moved, or freed elsewhere, until unpin().
  void pin(SourcePin &source, Region &region, uint32_t page, bool from_host) noexcept WEIR_HELD;
  /// The move has ended. True: the page had its source all the time, and has it still. Else what it gave up meanwhile is free.
  /// `source.pin` is the caller's to give back.
  bool unpin(SourcePin &source) noexcept WEIR_HELD;
  /// nullptr: the page is not on its way down.
  SourcePin *source_of(const Region &region, uint32_t page) noexcept WEIR_HELD;

 private:
  struct RetiredSlot {
    tier::HostSlot slot;
    uint32_t client;
    bool secret;  ///< of a buffer that is to be scrubbed
    PendingCopies busy;
  };
  void retire_slot(const Region &region, tier::HostSlot slot,
                   PendingCopies busy) noexcept WEIR_HELD;
  void detach(SourcePin &source) noexcept WEIR_HELD;
  void count(const Region &region, uint32_t page, uint32_t bits, bool more) noexcept WEIR_HELD;
  /// Whether the tier's policy knows the page.
  static bool &known(Page &page, uint32_t bit) noexcept {
    return bit == host_bit ? page.in_host_order : page.in_compressed_order;
  }
  /// Its latest version is there; in HOST, in a slot.
  static bool there(const Page &page, uint32_t bit) noexcept {
    return (page.latest() & bit) != 0 && (bit != host_bit || page.host());
  }

  const Tables tables_;
  tier::ColdTiers &cold_;
  ScrubTurns &scrub_;
  backend::StreamTable &streams_;
  Ticks &ticks_;
  Aliases aliases_;
  Owned<tier::HostStore> host_;
  bool sums_host_ = false;
  Owned<Policy> host_order_ WEIR_GUARDED, compressed_order_ WEIR_GUARDED;
  std::pmr::vector<RetiredSlot> retired_ WEIR_GUARDED;
  SourcePin *sources_ WEIR_GUARDED = nullptr;  ///< those attached, a list
};

}  // namespace weir::page
