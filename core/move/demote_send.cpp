// SPDX-License-Identifier: Apache-2.0
//
// Moves down: one page at a time is compressed or written, several writes under way; each is settled as its bytes have arrived.
// Outside the pool's lock, which is taken for places and to settle.

#include "core/codec/checksum.hpp"
#include "core/codec/narrow.hpp"
#include "core/move/demoter.hpp"
#include "core/move/move_notes.hpp"

#include <algorithm>
#include <cstring>

namespace weir::move {

/// What the round has listed is sent, and settled as it arrives.
void Demoter::send_all(Round *round) {
  env_.sync.points.at("sink");
  // Nobody but the round's thread, this one, adds moves or takes them away.
  size_t sent = round->first;
  size_t settled = sent;
  while (sent < moves_.size() || add_more(settled, round)) {
    if (sent < moves_.size()) {
      Move &move = moves_[sent];
      // What was learnt of the page before it is known only when that is settled.
      const Move *before = sent != round->first ? &moves_[sent - 1] : nullptr;
      if (before != nullptr && before->region == move.region) move.plan = before->plan;
      send(move, round);
      ++sent;
    }
    while (settled < sent && written(moves_[settled])) finish(moves_[settled++], round);
  }
  while (settled < sent) finish(moves_[settled++], round);
}

/// One page on its way.
void Demoter::send(Move &move, Round *round) {
  const bool awaited = awaited_.load(std::memory_order_relaxed);
  const auto urgency = awaited ? Workers::Urgency::demand : round->urgency();
  const Status status = with_memory("for a place below HOST", [&] {
    return move.from_host ? send(move, urgency, true) : store_blobs(move);
  });
  move.failed = !status.ok();
  round->note(status);
  round->bytes += move.used;
  const bool stored = status.ok() && move.into == cold_.storage() && move.from_host;
  round->all_stored = round->all_stored && stored;
}

Status Demoter::send(Outgoing &page, Workers::Urgency urgency, bool own) {
  for (const policy::Destination next : cold_places()) {
    if (next == policy::Destination::storage) {
      WEIR_TRY(store(page));
    } else {
      WEIR_TRY(compress(page, urgency, next == policy::Destination::compressed_must, own));
    }
    if (page.into != nullptr) return {};
  }
  const Locked lock(env_.sync.lock);
  return cold_.fail_full(page.of->owner.client, page.used);
}

policy::Destinations Demoter::cold_places() {
  policy::ColdPlaces there{.compressed = cold_.compressed() != nullptr,
                           .storage = cold_.storage() != nullptr};
  if (there.compressed && there.storage) {
    const Locked lock(env_.sync.lock);
    there.storage_is_quicker = cold_.storage_is_quicker();
  }
  return policy::destinations(there);
}

/// Into COMPRESSED, if it pays (or must) and has room: page.into tells.
Status Demoter::compress(Outgoing &page, Workers::Urgency urgency, bool must, bool own) {
  tier::CompressedStore &store = *cold_.compressed();
  const Region &region = *page.of;
  const bool rounds = region.rounds != codec::Form::bytes;
  const uint64_t part_bytes = cold_.part_bytes();
  codec::PageChecksum sum;
  Status status;
  uint64_t at = 0;
  for (uint32_t record = page.chain; at < page.used; at += part_bytes) {
    const uint64_t raw = std::min(part_bytes, page.used - at);
    const unsigned char *from = nullptr;
    status = page.fetch(at, raw, &from);
    if (!status) break;
    const uint64_t start = cold_.now_ns();
    if (rounds) {
      codec::round_floats(region.rounds, from, page.rounded, raw);
      from = page.rounded;
    }
    const uint64_t bytes = cold_.codec().encode(from, raw, page.blob, must, &page.plan, urgency,
                                                codec::Effort::quick, region.is.secret);
    if (bytes == 0) break;
    store.pace.went_down(raw, cold_.now_ns() - start);
    if (rounds || page.checksum == 0) sum.add(from, raw);
    tier::UnitSlot slot;
    {
      Locked lock(env_.sync.lock);
      slot = place_compressed(lock, region.owner.client, bytes, own);
      if (!slot) break;
      cold_.place(record, store, slot);
      record = cold_.next(record);
    }
    store.put(slot, page.blob, bytes);
  }
  if (region.is.secret) {
    std::memset(page.blob, 0, codec::Codec::bound(part_bytes));
    if (rounds) std::memset(page.rounded, 0, part_bytes);
  }
  if (at >= page.used) {
    page.into = &store;
    if (rounds || page.checksum == 0) page.checksum = sum.sum();
  } else {
    const Locked lock(env_.sync.lock);
    tiers_.free_places(region, page.chain, page::compressed_bit);
  }
  return status;
}

/// Into STORAGE as it is, if there is room: the writes are under way then.
Status Demoter::store(Outgoing &page) {
  const bool sums = page.checksum == 0;
  codec::PageChecksum sum;
  uint32_t record = page.chain;
  for (uint64_t at = 0; at < page.used; at += cold_.part_bytes()) {
    const uint64_t raw = std::min(cold_.part_bytes(), page.used - at);
    const unsigned char *from = nullptr;
    WEIR_TRY(page.fetch(at, raw, &from));
    if (sums) sum.add(from, raw);
    tier::UnitSlot slot;
    {
      Locked lock(env_.sync.lock);
      slot = place_storage(lock, page.of->owner.client, raw);
      if (!slot) return {};  // places of earlier parts are freed when the page is settled
      cold_.place(record, *cold_.storage(), slot);
      record = cold_.next(record);
    }
    WEIR_TRY(page.write(slot, from, raw));
  }
  page.into = cold_.storage();
  if (sums) page.checksum = sum.sum();
  return {};
}

/// A page of COMPRESSED to STORAGE, as it is compressed.
Status Demoter::store_blobs(Move &move) {
  tier::CompressedStore &from = *cold_.compressed();
  for (uint32_t record = move.chain; record != tier::ColdTiers::none;) {
    uint32_t count = 0;
    tier::UnitSlot slot;
    const unsigned char *bytes = nullptr;
    {
      // The chain is the page's own, or was: it is looked at under the lock only.
      Locked lock(env_.sync.lock);
      if (!move.attached) return {};
      const tier::UnitSlot source = from.slot(cold_.record(record).in(from.place));
      count = from.blob_bytes(source);
      slot = place_storage(lock, move.region->owner.client, count);
      if (!slot) return cold_.fail_full(move.region->owner.client, count);
      cold_.place(record, *cold_.storage(), slot);
      cold_.storage()->set_blob_bytes(slot, count);
      bytes = from.address(source);
      record = cold_.next(record);
    }
    WEIR_TRY(move.write(slot, bytes, count));
  }
  move.into = cold_.storage();
  return {};
}

Status Demoter::Move::write(tier::UnitSlot to, const unsigned char *from, uint64_t count) {
  tier::StorageIo &io = demoter.ios_[first_io + ios++];
  io.slot = to;
  io.memory = const_cast<unsigned char *>(from);
  io.bytes = count;
  io.write = true;
  io.background = true;
  demoter.cold_.storage()->submit(&io);
  return {};
}

bool Demoter::written(const Move &move) noexcept {
  for (size_t io = move.first_io; io < move.first_io + move.ios; ++io) {
    if (!cold_.storage()->done(ios_[io])) return false;
  }
  return true;
}

/// Waits for what is being written of a page, and settles it.
void Demoter::finish(Move &move, Round *round) {
  for (size_t io = move.first_io; io < move.first_io + move.ios; ++io) {
    const Status status = cold_.storage()->wait(&ios_[io]);
    move.failed = move.failed || !status.ok();
    round->note(status);
  }
  env_.sync.points.at("sunk");
  constexpr uint64_t worth_telling = uint64_t{1} << 20U;
  const Locked lock(env_.sync.lock);
  const uint64_t freed = settle(move);
  round->freed += freed;
  round->untold += freed;
  if (round->untold < worth_telling) return;
  round->untold = 0;
  env_.sync.changed.notify_all();
}

/// Under the lock: the page has its new copy, or everything is as it was. Returns the bytes freed where it left.
uint64_t Demoter::settle(Move &move) noexcept {
  Region &region = *move.region;
  uint64_t freed = 0;
  const uint32_t from = move.from_host ? page::host_bit : page::compressed_bit;
  const bool attached = tiers_.unpin(move);
  if (attached && move.valid && !move.failed && move.into != nullptr) {
    const uint32_t into = move.into->place.bit();
    env_.events.tell({What::sunk, 0, Event::nowhere, region.id, move.page, move.used});
    MoveNotes(env_, notes::Move::background)
        .add(region, move.page, move.used, from, into, {move.began_ns, steady_ns()});
    if (move.from_host) region.codec.quick = move.plan;  // else nothing was learnt
    cold_.set_checksum(move.chain, move.checksum);
    tiers_.publish(region, move.page, move.chain, into);
    if (into == page::compressed_bit) note_compressed(region, move.page);
    freed = leave(region, move.page, from);
  } else {
    if (move.from_host) {
      tiers_.free_chain(region, move.chain);
    } else if (attached) {
      tiers_.free_places(region, move.chain, page::storage_bit);
    }
    if (attached) tiers_.note(region, move.page, from);
  }
  regions_.unpin(move.pin);
  return freed;
}

/// The page has another latest copy now. It goes from the tier, unless somebody came to use it there meanwhile.
uint64_t Demoter::leave(Region &region, uint32_t page, uint32_t bit) noexcept {
  const page::Page &copies = region.pages[page];
  const bool viewed = bit == page::host_bit && tiers_.aliases().in_use(region);
  if (copies.busy() != 0 || copies.leases != 0 || viewed) {
    tiers_.note(region, page, bit);
    return 0;
  }
  tiers_.leave(region, page, bit);
  return region.shape.used_bytes(page);
}

}  // namespace weir::move
