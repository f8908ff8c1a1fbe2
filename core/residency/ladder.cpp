// SPDX-License-Identifier: Apache-2.0
//
// The ladder: pages move down from HOST to COMPRESSED or STORAGE (sink) and from COMPRESSED to STORAGE (spill), coldest
// first, to make room for what comes after them. One thread at a time does so, the sinker: chosen and settled under
// the pool's lock, compressed and written outside of it. A page's source stays valid and readable until its new copy
// is complete; if that fails it stays where it is.
//
// Which tier: COMPRESSED if the page's bytes compress (what was learnt of its region says whether to try) and there is
// room or room can be made there; else STORAGE; else COMPRESSED all the same. Where the owner has said so, floats are
// rounded on their way into COMPRESSED, and the page's checksum is that of the rounded ones.

#include "core/residency/plan.hpp"
#include "core/tier/checksum.hpp"
#include "core/tier/codec/narrow.hpp"

#include <algorithm>
#include <cstring>

namespace weir::residency {
namespace {

Workers::Urgency urgency(bool background) noexcept {
  return background ? Workers::Urgency::background : Workers::Urgency::demand;
}

}  // namespace

/// Puts a page on the list of what is going down. Throws std::bad_alloc with nothing changed.
void Engine::begin_sinking(Region &region, uint32_t page, bool from_host) {
  Page &copies = region.pages[page];
  const uint32_t parts = parts_of(region, page);
  while (lower_.ios.size() < lower_.ios_used + parts) lower_.ios.emplace_back();
  Sinking &entry = lower_.sinkings.emplace_back();
  try {
    entry.chain = from_host ? lower_.copies.take(parts) : tier::CopyTable::none;
  } catch (...) {
    lower_.sinkings.pop_back();
    throw;
  }
  entry.region = &region;
  entry.page = page;
  entry.from_host = from_host;
  entry.used = region.shape.used_bytes(page);
  // What was rounded once may have been written since; and what is in HOST need not be.
  const bool rounds = from_host && region.rounds != tier::Form::bytes;
  entry.checksum = rounds ? 0 : checksum_of_version(copies);
  entry.plan = region.codec;
  entry.first_io = lower_.ios_used;
  if (from_host) {
    entry.slot = copies.host();
    entry.bytes = host_bytes(region, page);
  } else {
    entry.chain = copies.lower;
  }
  lower_.ios_used += parts;
  copies.sinking = true;
  entry.pin = vm::RegionPin(region);
}

/// Chooses what is to leave a tier.
uint64_t Engine::choose_sinking(uint64_t bytes, uint32_t client, uint32_t bit, Status *why) {
  std::pmr::vector<PageRef> refs(&memory_);
  const bool from_host = bit == vm::host_bit;
  Policy &order = from_host ? *lower_.host_order : *lower_.compressed_order;
  Wanted wanted;
  wanted.bytes = bytes;
  wanted.client = client;
  uint64_t dropped = 0;
  const Status listed = with_memory("to choose what is to move down", [&]() WEIR_HELD -> Status {
    order.choose(wanted, &refs);
    if (refs.empty() && requeue(bit)) order.choose(wanted, &refs);
    for (const PageRef &ref : refs) {  // the policy has forgotten them
      Page &copies = regions_.at(ref.region).pages[ref.page];
      (from_host ? copies.in_host_order : copies.in_compressed_order) = false;
    }
    dropped = list_sinking(refs, bit, why);
    return {};
  });
  if (!listed) *why = listed;
  return dropped;
}

/// Drops what lies elsewhere too and lists the rest, to be carried down. Returns the bytes dropped.
uint64_t Engine::list_sinking(const std::pmr::vector<PageRef> &refs, uint32_t bit, Status *why) {
  const bool from_host = bit == vm::host_bit;
  uint64_t dropped = 0;
  for (size_t i = 0; i < refs.size(); ++i) {
    Region &region = regions_.at(refs[i].region);
    Page &copies = region.pages[refs[i].page];
    // A policy may know a page twice, by what was chosen past it.
    if (copies.sinking || (copies.latest() & bit) == 0) continue;
    if ((copies.latest() & ~bit) != 0) {
      dropped += region.shape.used_bytes(refs[i].page);
      leave(region, refs[i].page, bit);
      continue;
    }
    try {
      begin_sinking(region, refs[i].page, from_host);
    } catch (const std::bad_alloc &) {
      *why = fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the records of a demotion");
      for (; i < refs.size(); ++i) note_in_order(regions_.at(refs[i].region), refs[i].page, bit);
      break;
    }
  }
  return dropped;
}

/// Frees room in HOST by dropping pages that lie elsewhere too, coldest first. False: there was none.
bool Engine::drop_from_host(uint64_t bytes, uint32_t client) {
  std::pmr::vector<PageRef> refs(&memory_);
  Wanted wanted;
  wanted.bytes = bytes;
  wanted.clean_only = true;
  wanted.client = client;
  wanted.most_looks = 256;  // for every page that leaves a device
  lower_.host_order->choose(wanted, &refs);
  uint64_t dropped = 0;
  for (const PageRef &ref : refs) {
    Region &region = regions_.at(ref.region);
    Page &copies = region.pages[ref.page];
    copies.in_host_order = false;
    if (copies.sinking || (copies.latest() & vm::host_bit) == 0) continue;
    leave(region, ref.page, vm::host_bit);
    dropped += region.shape.used_bytes(ref.page);
  }
  return dropped != 0;
}

/// Waits for work of Weir's own. Who may be waiting for the sinker is not held to the background's share, and what need not
/// be done at all is given up.
void Engine::await_change(Releasable &lock) {
  if (lower_.sinking) lower_.awaited.store(true, std::memory_order_relaxed);
  if (recompressor_ != nullptr) recompressor_->hurry();
  changed_.wait(lock);
}

/// Waits until nobody works on the region outside the lock.
void Engine::await_operations(Releasable &lock, const Region &region) {
  while (region.pin_count.any()) await_change(lock);
}

void Engine::end_sinking() noexcept {
  lower_.sinking = false;
  lower_.awaited.store(false, std::memory_order_relaxed);
  changed_.notify_all();
}

/// Frees room in HOST, or COMPRESSED, by about `bytes` (of `client` alone, if one is named). `own`: the caller is the round under way.
/// True: something changed, it is worth looking again. May drop the lock.
bool Engine::sink(Releasable &lock, uint64_t bytes, uint32_t client, uint32_t from, bool background,
                  bool own, Status *why) {
  if (!own && lower_.sinking) {
    await_change(lock);
    return true;
  }
  lower_.sinking = true;
  const size_t first = lower_.sinkings.size();
  uint64_t freed = choose_sinking(bytes, client, from, why);
  freed += carry_down(lock, first, background, background && from == vm::host_bit, why);
  if (!own) end_sinking();
  return freed != 0;
}

/// Moves what was listed from `first` on, and settles each page as its bytes have arrived, in order. Returns the bytes freed
/// in the tier it left. `more`: while HOST is short, pages are added to the list, so that the writes never run dry.
uint64_t Engine::carry_down(Releasable &lock, size_t first, bool background, bool more,
                            Status *why) {
  if (first == lower_.sinkings.size()) return 0;
  const uint64_t start = lower_.clock.now_ns();
  Round round;
  lock.unlocked([&] { send_all(first, background, more, &round); });
  if (round.all_stored) lower_.storage_pace.went_down(round.bytes, lower_.clock.now_ns() - start);
  while (lower_.sinkings.size() > first) {
    lower_.ios_used = lower_.sinkings.back().first_io;
    lower_.sinkings.pop_back();
  }
  constexpr size_t kept_ios = 64;  // a long round leaves no more behind
  while (lower_.ios.size() > std::max(lower_.ios_used, kept_ios)) lower_.ios.pop_back();
  if (why->ok()) *why = round.why;
  return round.freed;
}

/// Without the lock: what is listed from `first` on is sent, and settled as it arrives.
void Engine::send_all(size_t first, bool background, bool more, Round *round) {
  points.at("sink");
  // Nobody but the sinker, this thread, adds entries or takes them away.
  size_t sent = first;
  size_t settled = first;
  while (sent < lower_.sinkings.size() || (more && sink_more(first, settled, round))) {
    if (sent < lower_.sinkings.size()) {
      Sinking &entry = lower_.sinkings[sent];
      // What was learnt of the page before it is known only when that is settled.
      const Sinking *before = sent != first ? &lower_.sinkings[sent - 1] : nullptr;
      if (before != nullptr && before->region == entry.region) entry.plan = before->plan;
      send(entry, background, round);
      ++sent;
    }
    while (settled < sent && written(lower_.sinkings[settled]))
      finish_sinking(lower_.sinkings[settled++], round);
  }
  while (settled < sent) finish_sinking(lower_.sinkings[settled++], round);
}

/// Lists more pages of HOST, as long as what is under way does not make room enough. False: there is nothing to add.
bool Engine::sink_more(size_t first, size_t settled, Round *round) {
  const Locked lock(lock_);
  uint64_t under_way = 0;
  for (size_t i = settled; i < lower_.sinkings.size(); ++i) under_way += lower_.sinkings[i].used;
  const uint64_t room = host_->room() + under_way;
  const bool enough = room >= lower_.host_high || round->bytes >= max_round_bytes;
  if (enough || stopping_ || !round->why.ok() || lower_.sinkings.size() - first >= max_round_pages)
    return false;
  const size_t before = lower_.sinkings.size();
  round->freed += choose_sinking(std::min(lower_.host_high - room, spill_bytes), UINT32_MAX,
                                 vm::host_bit, &round->why);
  return lower_.sinkings.size() != before;
}

/// Outside the lock: one page on its way.
void Engine::send(Sinking &entry, bool background, Round *round) {
  const bool alone = background && !lower_.awaited.load(std::memory_order_relaxed);
  const Status status = with_memory("for a place below HOST", [&] {
    return entry.from_host ? send_down(entry, alone) : send_blobs(entry);
  });
  entry.failed = !status.ok();
  round->note(status);
  round->bytes += entry.used;
  const bool stored = status.ok() && entry.into == vm::storage_bit && entry.from_host;
  round->all_stored = round->all_stored && stored;
}

bool Engine::written(const Sinking &entry) noexcept {
  for (size_t io = entry.first_io; io < entry.first_io + entry.ios; ++io) {
    if (!lower_.storage->done(lower_.ios[io])) return false;
  }
  return true;
}

/// Outside the lock: waits for what is being written of a page, and settles it.
void Engine::finish_sinking(Sinking &entry, Round *round) {
  for (size_t io = entry.first_io; io < entry.first_io + entry.ios; ++io) {
    const Status status = lower_.storage->wait(&lower_.ios[io]);
    entry.failed = entry.failed || !status.ok();
    round->note(status);
  }
  points.at("sunk");
  const Locked lock(lock_);
  const uint64_t freed = settle_sinking(entry);
  round->freed += freed;
  round->untold += freed;
  if (round->untold < Drain::worth_telling) return;
  round->untold = 0;
  changed_.notify_all();
}

/// Outside the lock, which it takes for places: one page of HOST on its way.
Status Engine::send_down(Sinking &entry, bool background) {
  if (entry.checksum == 0 && entry.region->rounds == tier::Form::bytes)
    entry.checksum = tier::checksum_of(entry.bytes, entry.used);
  const bool storage = lower_.storage != nullptr;
  bool pass = lower_.compressed == nullptr;
  if (!pass && storage) {
    const Locked lock(lock_);
    pass = lower_.storage_is_quicker();
  }
  if (!pass) {
    WEIR_TRY(send_compressed(entry, background, !storage));
    if (entry.into != 0) return {};
  }
  if (storage) WEIR_TRY(send_stored(entry));
  if (entry.into == 0 && storage && lower_.compressed != nullptr)
    WEIR_TRY(send_compressed(entry, background, true));
  return entry.into != 0 ? Status{} : fail_full(entry.region->client, entry.used);
}

/// Neither tier has room for the bytes, or the client's quotas have not.
Status Engine::fail_full(uint32_t client, uint64_t bytes) {
  const Locked lock(lock_);
  struct Tier {
    uint64_t budget = 0, used = 0;
  } packed, stored;
  if (lower_.compressed != nullptr)
    packed = {lower_.compressed->budget(), lower_.compressed->used()};
  if (lower_.storage != nullptr) stored = {lower_.storage->budget(), lower_.storage->used()};
  const bool last = lower_.storage != nullptr;
  const uint64_t room = last ? stored.budget - stored.used : packed.budget - packed.used;
  const uint64_t allowed =
      accounts_.quota(client, last ? Accounts::storage : Accounts::compressed).room();
  const bool quota = allowed < room;
  ErrorDetail detail;
  detail.tier = last ? WEIR_TIER_STORAGE : WEIR_TIER_COMPRESSED;
  detail.asked = bytes;
  detail.available = std::min(room, allowed);
  return fail(
      WEIR_ERROR_OVER_BUDGET, detail,
      "no room below HOST for %llu bytes: COMPRESSED has %llu of %llu in use, STORAGE %llu of "
      "%llu%s%s",
      llu(bytes), llu(packed.used), llu(packed.budget), llu(stored.used), llu(stored.budget),
      quota ? "; short is the quota of client " : "", quota ? accounts_.name(client) : "");
}

/// Into COMPRESSED, if it pays (or must) and has room: entry.into tells.
Status Engine::send_compressed(Sinking &entry, bool background, bool must) {
  unsigned char *blob = lower_.staging->spare_blob();
  const uint64_t part_bytes = lower_.staging->part_bytes();
  const uint32_t client = entry.region->client;
  bool placed = true;
  uint32_t record = entry.chain;
  tier::PageChecksum sum;
  const tier::Form rounds = entry.region->rounds;
  for (uint64_t at = 0; at < entry.used && placed; at += part_bytes) {
    const uint64_t raw = std::min(part_bytes, entry.used - at);
    const uint64_t start = lower_.clock.now_ns();
    const unsigned char *from = entry.bytes + at;
    if (rounds != tier::Form::bytes) {
      tier::round_floats(rounds, from, lower_.rounded.data(), raw);
      from = lower_.rounded.data();
      sum.add(from, raw);
    }
    const uint64_t bytes =
        lower_.codec->encode(from, raw, blob, must, &entry.plan, urgency(background),
                             tier::Effort::quick, entry.region->scrub);
    placed = bytes != 0;
    if (!placed) break;
    lower_.compressed_pace.went_down(raw, lower_.clock.now_ns() - start);
    tier::UnitSlot slot;
    {
      Locked lock(lock_);
      slot = place_compressed(lock, client, bytes, true);
      placed = static_cast<bool>(slot);
      if (!placed) break;
      tier::LowerCopy &part = lower_.copies[record];
      part.compressed = slot;
      record = part.next;
    }
    lower_.compressed->put(slot, blob, bytes);
  }
  if (entry.region->scrub) {
    std::memset(blob, 0, tier::Codec::bound(part_bytes));
    if (rounds != tier::Form::bytes) std::memset(lower_.rounded.data(), 0, part_bytes);
  }
  if (placed) {
    entry.into = vm::compressed_bit;
    if (rounds != tier::Form::bytes) entry.checksum = sum.sum();
  } else {
    const Locked lock(lock_);
    free_places(*entry.region, entry.chain, vm::compressed_bit);
  }
  return {};
}

/// Into STORAGE as it is, if there is room: the writes are under way then.
Status Engine::send_stored(Sinking &entry) {
  if (entry.checksum == 0) entry.checksum = tier::checksum_of(entry.bytes, entry.used);
  const uint64_t part_bytes = lower_.staging->part_bytes();
  const uint32_t client = entry.region->client;
  uint32_t record = entry.chain;
  for (uint64_t at = 0; at < entry.used; at += part_bytes) {
    const uint64_t raw = std::min(part_bytes, entry.used - at);
    tier::UnitSlot slot;
    {
      Locked lock(lock_);
      slot = place_storage(lock, client, raw);
      if (!slot) return {};  // places of earlier parts are freed when the page is settled
      tier::LowerCopy &part = lower_.copies[record];
      part.storage = slot;
      record = part.next;
    }
    write_part(entry, slot, entry.bytes + at, raw);
  }
  entry.into = vm::storage_bit;
  return {};
}

void Engine::write_part(Sinking &entry, tier::UnitSlot slot, const unsigned char *bytes,
                        uint64_t count) noexcept {
  tier::StorageIo &io = lower_.ios[entry.first_io + entry.ios++];
  io.slot = slot;
  io.memory = const_cast<unsigned char *>(bytes);
  io.bytes = count;
  io.write = true;
  io.background = true;
  lower_.storage->submit(&io);
}

/// A page of COMPRESSED to STORAGE, as it is compressed.
Status Engine::send_blobs(Sinking &entry) {
  for (uint32_t record = entry.chain; record != tier::CopyTable::none;) {
    uint32_t count = 0;
    tier::UnitSlot slot;
    const unsigned char *bytes = nullptr;
    {
      // The chain is the page's own, or was: it is looked at under the lock only.
      Locked lock(lock_);
      if (!entry.attached) return {};
      tier::LowerCopy &part = lower_.copies[record];
      count = lower_.compressed->blob_bytes(part.compressed);
      slot = place_storage(lock, entry.region->client, count);
      part.storage = slot;
      if (slot) {
        lower_.storage->set_blob_bytes(slot, count);
        bytes = lower_.compressed->address(lower_.compressed->slot(part.compressed));
        record = part.next;
      }
    }
    if (!slot) return fail_full(entry.region->client, count);
    write_part(entry, slot, bytes, count);
  }
  entry.into = vm::storage_bit;
  return {};
}

/// Under the lock: the page has its new copy, or everything is as it was. Returns the bytes freed where it left.
uint64_t Engine::settle_sinking(Sinking &entry) noexcept {
  Region &region = *entry.region;
  Page &copies = region.pages[entry.page];
  uint64_t freed = 0;
  const bool good = entry.attached && entry.valid && !entry.failed && entry.into != 0;
  if (entry.attached) copies.sinking = false;
  if (good) {
    events_.tell({What::sunk, 0, Event::nowhere, region.id, entry.page, entry.used});
    if (entry.from_host) region.codec = entry.plan;  // else nothing was learnt
    // A first try at another tier may have left places behind.
    if (entry.from_host) free_places(region, entry.chain, vm::below_host & ~entry.into);
    lower_.copies[entry.chain].set_checksum(entry.checksum);
    publish_lower(region, entry.page, entry.chain, entry.into);
    freed = leave_tier(region, entry.page, entry.from_host ? vm::host_bit : vm::compressed_bit);
  } else if (entry.from_host) {
    free_places(region, entry.chain, vm::below_host);
    lower_.copies.give(entry.chain);
    if (entry.attached) note_in_order(region, entry.page, vm::host_bit);
  } else if (entry.attached) {
    free_places(region, entry.chain, vm::storage_bit);
    note_in_order(region, entry.page, vm::compressed_bit);
  }
  if (!entry.attached && entry.from_host) retire_slot(region, entry.slot, entry.busy);
  if (entry.orphan != tier::CopyTable::none) {
    free_places(region, entry.orphan, vm::below_host);
    lower_.copies.give(entry.orphan);
  }
  entry.attached = false;  // the page may sink again before the round has ended
  unpin(entry.pin);
  return freed;
}

/// The page has another latest copy now. It goes from the tier, unless somebody came to use it there meanwhile.
uint64_t Engine::leave_tier(Region &region, uint32_t page, uint32_t bit) noexcept {
  Page &copies = region.pages[page];
  const bool host = bit == vm::host_bit;
  if (copies.busy != 0 || copies.leases != 0 || (host && alias_in_use(region))) {
    note_in_order(region, page, bit);
    return 0;
  }
  leave(region, page, bit);
  return region.shape.used_bytes(page);
}

}  // namespace weir::residency
