// SPDX-License-Identifier: Apache-2.0
//
// Rounds of moves down: which pages, room for them below, and how each round ends. demote_send.cpp has how a page gets there.

#include "core/move/demoter.hpp"

#include "core/move/move_notes.hpp"
#include "core/move/own_pages.hpp"
#include "core/move/recompressor.hpp"

#include <algorithm>
#include <utility>

namespace weir::move {

using page::Page;

Status Demoter::start(Recompressor *recompressor) {
  recompressor_ = recompressor;
  if (cold_.compressed() == nullptr) return {};
  return rounded_.start(cold_.part_bytes(), "round floats in");
}

void Demoter::await_change(Releasable &lock) {
  if (working_) awaited_.store(true, std::memory_order_relaxed);
  if (recompressor_ != nullptr) recompressor_->hurry();
  env_.sync.changed.wait(lock);
}

// ---- which pages ----

/// Puts a page on the list of what is going down. Throws std::bad_alloc with nothing changed.
void Demoter::begin(Region &region, uint32_t page, bool from_host) {
  const Page &copies = region.pages[page];
  const uint64_t used = region.shape.used_bytes(page);
  const uint32_t parts = cold_.parts_of(used);
  while (ios_.size() < ios_used_ + parts) ios_.emplace_back();
  Move &move = moves_.emplace_back(*this);
  move.began_ns = steady_ns();
  try {
    move.chain = from_host ? cold_.take_chain(used) : copies.lower;
  } catch (...) {
    moves_.pop_back();
    throw;
  }
  move.of = &region;
  move.used = used;
  move.blob = cold_.staging().spare_blob();
  move.rounded = rounded_.data();
  // What was rounded once may have been written since; and what is in HOST need not be.
  const bool rounds = from_host && region.rounds != codec::Form::bytes;
  move.checksum = rounds ? 0 : tiers_.checksum(copies);
  move.plan = region.codec.quick;
  move.first_io = ios_used_;
  if (from_host) move.bytes = tiers_.host_bytes(region, page);
  ios_used_ += parts;
  tiers_.pin(move, region, page, from_host);
}

/// Before choose(): which pages of the tier are the client's. May drop the lock. Without memory for it choose() says so.
void Demoter::list_own(Releasable &lock, uint32_t client, uint32_t bit) {
  if (client == UINT32_MAX) return;
  if_memory([&]() WEIR_HELD { (void)move::list_own(env_, lock, *tiers_.order(bit), client); });
}

/// Chooses what is to leave a tier.
uint64_t Demoter::choose(uint64_t bytes, uint32_t client, uint32_t bit, Status *why) {
  std::pmr::vector<PageRef> refs(env_.memory);
  policy::Policy &order = *tiers_.order(bit);
  const policy::Wanted wanted{.bytes = bytes, .client = client};
  uint64_t dropped = 0;
  const Status listed = with_memory("to choose what is to move down", [&]() WEIR_HELD -> Status {
    order.choose(wanted, &refs);
    if (refs.empty() && tiers_.requeue(bit)) order.choose(wanted, &refs);
    for (const PageRef &ref : refs)  // the policy has forgotten them
      page::TierCopies::forgotten(regions_.at(ref.region), ref.page, bit);
    dropped = list(refs, bit, why);
    return {};
  });
  if (!listed) *why = listed;
  return dropped;
}

/// Drops what lies elsewhere too and lists the rest, to be carried down. Returns the bytes dropped.
uint64_t Demoter::list(const std::pmr::vector<PageRef> &refs, uint32_t bit, Status *why) {
  uint64_t dropped = 0;
  for (size_t i = 0; i < refs.size(); ++i) {
    Region &region = regions_.at(refs[i].region);
    const uint32_t page = refs[i].page;
    const Page &copies = region.pages[page];
    // A policy may know a page twice, by what was chosen past it.
    if (copies.sinking || (copies.latest() & bit) == 0) continue;
    if ((copies.latest() & ~bit) != 0) {
      dropped += region.shape.used_bytes(page);
      tiers_.leave(region, page, bit);
      continue;
    }
    try {
      begin(region, page, bit == page::host_bit);
    } catch (const std::bad_alloc &) {
      *why = fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the records of a demotion");
      for (; i < refs.size(); ++i) tiers_.note(regions_.at(refs[i].region), refs[i].page, bit);
      break;
    }
  }
  return dropped;
}

bool Demoter::drop_clean(uint64_t bytes, uint32_t client) {
  std::pmr::vector<PageRef> refs(env_.memory);
  constexpr size_t most_looks = 256;  // for every page that leaves a device
  const policy::Wanted wanted{
      .bytes = bytes, .client = client, .clean_only = true, .most_looks = most_looks};
  policy::Policy &order = *tiers_.order(page::host_bit);
  // Nobody here can drop the lock. Until the client's pages are listed, piece by piece, nothing is dropped for it.
  if (client != UINT32_MAX && !order.list_own(client)) return false;
  order.choose(wanted, &refs);
  bool dropped = false;
  for (const PageRef &ref : refs) {
    Region &region = regions_.at(ref.region);
    const Page &copies = region.pages[ref.page];
    page::TierCopies::forgotten(region, ref.page, page::host_bit);
    if (copies.sinking || (copies.latest() & page::host_bit) == 0) continue;
    tiers_.leave(region, ref.page, page::host_bit);
    dropped = true;
  }
  return dropped;
}

// ---- rounds ----

bool Demoter::demote(Releasable &lock, uint64_t bytes, uint32_t client, uint64_t until,
                     Status *why) {
  list_own(lock, client, page::host_bit);
  if (working_) {
    await_change(lock);
    return true;
  }
  Round round{.first = moves_.size(), .until = until, .background = until != 0};
  round.freed = choose(bytes, client, page::host_bit, why);
  return carry(lock, round, why);
}

bool Demoter::demote(Releasable &lock, const std::pmr::vector<PageRef> &pages) {
  Status why;
  Round round{.first = moves_.size(), .background = true};
  round.freed = list(pages, page::host_bit, &why);
  return carry(lock, round, &why);
}

/// Frees room in COMPRESSED by moving pages on to STORAGE.
bool Demoter::spill(Releasable &lock, uint64_t bytes, uint32_t client, bool own, Status *why) {
  list_own(lock, client, page::compressed_bit);
  if (!own && working_) {
    await_change(lock);
    return true;
  }
  Round round{.first = moves_.size(), .background = true};
  round.freed = choose(bytes, client, page::compressed_bit, why);
  return carry(lock, round, why);
}

bool Demoter::keep_compressed_free(Releasable &lock) {
  const tier::CompressedStore *store = cold_.compressed();
  if (store == nullptr || cold_.storage() == nullptr) return false;
  if (env_.now_ns() < retry_at_ns_ || store->room() >= cold_.low_water(store->budget()))
    return false;
  Status why;
  const uint64_t raw = 2 * cold_.low_water(store->budget()) - store->room();
  const bool moved = spill(lock, std::min(raw, round_bytes), UINT32_MAX, false, &why);
  if (!why) put_off(env_.now_ns());
  return moved && why.ok();
}

/// Moves what was listed for the round, and settles each page as its bytes have arrived, in order. True: something was freed in the
/// tier they left, be it as they were listed.
bool Demoter::carry(Releasable &lock, Round round, Status *why) {
  const bool within = std::exchange(working_, true);  // a round that makes room for its own pages
  if (round.first != moves_.size()) {
    const uint64_t start = cold_.now_ns();
    lock.unlocked([&] {
      const RangeScope range(env_.sync.tap.ranges(), RangeKind::move, [&](RangeText &text) {
        text.add("demote %zu pages", moves_.size() - round.first);
      });
      send_all(&round);
    });
    if (round.all_stored) cold_.storage()->pace.went_down(round.bytes, cold_.now_ns() - start);
    while (moves_.size() > round.first) {
      ios_used_ = moves_.back().first_io;
      moves_.pop_back();
    }
    constexpr size_t kept_ios = 64;  // a long round leaves no more behind
    while (ios_.size() > std::max(ios_used_, kept_ios)) ios_.pop_back();
    if (why->ok()) *why = round.why;
  }
  if (!within) {
    working_ = false;
    awaited_.store(false, std::memory_order_relaxed);
    env_.sync.changed.notify_all();
  }
  return round.freed != 0;
}

/// Lists more pages of HOST, as long as what is under way does not make room enough. False: there is nothing to add.
bool Demoter::add_more(size_t settled, Round *round) {
  if (round->until == 0) return false;
  const Locked lock(env_.sync.lock);
  uint64_t room = tiers_.host().room();
  for (size_t i = settled; i < moves_.size(); ++i) room += moves_[i].used;
  const bool enough = room >= round->until || round->bytes >= max_round_bytes;
  if (enough || env_.sync.lock.stopping() || !round->why.ok() ||
      moves_.size() - round->first >= max_round_pages)
    return false;
  const size_t before = moves_.size();
  Status why;
  round->freed +=
      choose(std::min(round->until - room, round_bytes), UINT32_MAX, page::host_bit, &why);
  round->note(why);
  return moves_.size() != before;
}

// ---- room below HOST ----

tier::UnitSlot Demoter::place_compressed(Releasable &lock, uint32_t client, uint64_t bytes,
                                         bool own) {
  tier::CompressedStore &store = *cold_.compressed();
  const uint64_t size = tier::UnitArena::rounded(bytes);
  const Budget &quota = cold_.quota(client, store);
  for (uint32_t barren = 0; size <= store.budget();) {
    const tier::UnitSlot slot = cold_.try_place(store, client, bytes);
    if (slot) {
      const bool low = store.room() < cold_.low_water(store.budget());
      if (low && cold_.storage() != nullptr) env_.sync.wakes.host_room.notify_all();
      return slot;
    }
    if (quota.limit() < size) break;
    const uint32_t of_client = quota.room() < size ? client : UINT32_MAX;
    if (tiers_.drop_redundant(page::compressed_bit, size, of_client)) continue;
    Status why;
    if (cold_.storage() == nullptr ||
        !spill(lock, std::max(size, round_bytes), of_client, own, &why))
      break;
    if (++barren > 64) break;  // what was freed does not add up to one range
  }
  return {};
}

tier::UnitSlot Demoter::place_storage(Releasable &lock, uint32_t client, uint64_t bytes) {
  tier::StorageStore &store = *cold_.storage();
  const uint64_t size = tier::UnitArena::rounded(bytes);
  for (bool scrubbed = false;;) {
    const tier::UnitSlot slot = cold_.try_place(store, client, size);
    if (slot) return slot;
    const bool within = cold_.quota(client, store).room() >= size;
    if (within && !scrubbed && env_.scrub_turns.noted() != 0) {
      scrubbed = true;
      lock.unlocked([this] {
        env_.scrub_turns.finish(false, true);
        env_.scrub_turns.await();  // another may be at it: that has to end
      });
      continue;
    }
    if (!tiers_.drop_redundant(page::storage_bit, size, within ? UINT32_MAX : client)) return {};
    scrubbed = false;
  }
}

void Demoter::note_compressed(Region &region, uint32_t page) noexcept {
  if (recompressor_ != nullptr) recompressor_->note(region, page);
}

}  // namespace weir::move
