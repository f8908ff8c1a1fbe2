// SPDX-License-Identifier: Apache-2.0
//
// Moves down: one page at a time is compressed or written, several writes under way; each is settled as its bytes have arrived.
// Outside the pool's lock, which is taken for places and to settle.

#include "core/move/demoter.hpp"
#include "core/tier/checksum.hpp"
#include "core/tier/codec/narrow.hpp"

#include <algorithm>
#include <cstring>

namespace weir::move {

/// What is listed from `first` on is sent, and settled as it arrives.
void Demoter::send_all(size_t first, Round *round) {
  sync_.points.at("sink");
  // Nobody but the round's thread, this one, adds moves or takes them away.
  size_t sent = first;
  size_t settled = first;
  while (sent < moves_.size() || add_more(first, settled, round)) {
    if (sent < moves_.size()) {
      Move &move = moves_[sent];
      // What was learnt of the page before it is known only when that is settled.
      const Move *before = sent != first ? &moves_[sent - 1] : nullptr;
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
  Status status;
  try {
    const bool awaited = awaited_.load(std::memory_order_relaxed);
    status = !move.from_host
                 ? store_blobs(move)
                 : send_down(move, awaited ? Workers::Urgency::demand : round->urgency());
  } catch (const std::bad_alloc &) {
    status = fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for a place below HOST");
  }
  move.failed = !status.ok();
  round->note(status);
  round->bytes += move.used;
  const bool stored = status.ok() && move.into == cold_.storage() && move.from_host;
  round->all_stored = round->all_stored && stored;
}

/// One page of HOST.
Status Demoter::send_down(Move &move, Workers::Urgency urgency) {
  if (move.checksum == 0 && move.region->rounds == tier::Form::bytes)
    move.checksum = tier::checksum_of(move.bytes, move.used);
  const bool both = cold_.storage() != nullptr && cold_.compressed() != nullptr;
  bool pass = cold_.compressed() == nullptr;
  if (both) {
    const Locked lock(sync_.lock);
    pass = cold_.storage_is_quicker();
  }
  if (!pass) WEIR_TRY(compress(move, urgency, !both));
  if (move.into == nullptr && cold_.storage() != nullptr) WEIR_TRY(store(move));
  if (move.into == nullptr && both) WEIR_TRY(compress(move, urgency, true));
  if (move.into != nullptr) return {};
  const Locked lock(sync_.lock);
  return cold_.fail_full(move.region->client, move.used);
}

/// Into COMPRESSED, if it pays (or must) and has room: move.into tells.
Status Demoter::compress(Move &move, Workers::Urgency urgency, bool must) {
  tier::CompressedStore &store = *cold_.compressed();
  unsigned char *blob = cold_.staging().spare_blob();
  const uint64_t part_bytes = cold_.part_bytes();
  bool placed = true;
  uint32_t record = move.chain;
  tier::PageChecksum sum;
  const tier::Form rounds = move.region->rounds;
  for (uint64_t at = 0; at < move.used && placed; at += part_bytes) {
    const uint64_t raw = std::min(part_bytes, move.used - at);
    const uint64_t start = cold_.now_ns();
    const unsigned char *from = move.bytes + at;
    if (rounds != tier::Form::bytes) {
      tier::round_floats(rounds, from, rounded_.data(), raw);
      from = rounded_.data();
      sum.add(from, raw);
    }
    const uint64_t bytes = cold_.codec().encode(from, raw, blob, must, &move.plan, urgency,
                                                tier::Effort::quick, move.region->scrub);
    placed = bytes != 0;
    if (!placed) break;
    store.pace.went_down(raw, cold_.now_ns() - start);
    tier::UnitSlot slot;
    {
      Locked lock(sync_.lock);
      slot = place_compressed(lock, move.region->client, bytes, true);
      placed = static_cast<bool>(slot);
      if (!placed) break;
      cold_.place(record, store, slot);
      record = cold_.next(record);
    }
    store.put(slot, blob, bytes);
  }
  if (move.region->scrub) {
    std::memset(blob, 0, tier::Codec::bound(part_bytes));
    if (rounds != tier::Form::bytes) rounded_.clear();
  }
  if (placed) {
    move.into = &store;
    if (rounds != tier::Form::bytes) move.checksum = sum.sum();
  } else {
    const Locked lock(sync_.lock);
    tiers_.free_places(*move.region, move.chain, vm::compressed_bit);
  }
  return {};
}

/// Into STORAGE as it is, if there is room: the writes are under way then.
Status Demoter::store(Move &move) {
  if (move.checksum == 0) move.checksum = tier::checksum_of(move.bytes, move.used);
  uint32_t record = move.chain;
  for (uint64_t at = 0; at < move.used; at += cold_.part_bytes()) {
    const uint64_t raw = std::min(cold_.part_bytes(), move.used - at);
    tier::UnitSlot slot;
    {
      Locked lock(sync_.lock);
      slot = place_storage(lock, move.region->client, raw);
      if (!slot) return {};  // places of earlier parts are freed when the page is settled
      cold_.place(record, *cold_.storage(), slot);
      record = cold_.next(record);
    }
    write_part(move, slot, move.bytes + at, raw);
  }
  move.into = cold_.storage();
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
      Locked lock(sync_.lock);
      if (!move.attached) return {};
      const tier::UnitSlot source = from.slot(cold_.record(record).in(from.place));
      count = from.blob_bytes(source);
      slot = place_storage(lock, move.region->client, count);
      if (!slot) return cold_.fail_full(move.region->client, count);
      cold_.place(record, *cold_.storage(), slot);
      cold_.storage()->set_blob_bytes(slot, count);
      bytes = from.address(source);
      record = cold_.next(record);
    }
    write_part(move, slot, bytes, count);
  }
  move.into = cold_.storage();
  return {};
}

void Demoter::write_part(Move &move, tier::UnitSlot slot, const unsigned char *bytes,
                         uint64_t count) noexcept {
  tier::StorageIo &io = ios_[move.first_io + move.ios++];
  io.slot = slot;
  io.memory = const_cast<unsigned char *>(bytes);
  io.bytes = count;
  io.write = true;
  io.background = true;
  cold_.storage()->submit(&io);
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
  sync_.points.at("sunk");
  constexpr uint64_t worth_telling = uint64_t{1} << 20U;
  const Locked lock(sync_.lock);
  const uint64_t freed = settle(move);
  round->freed += freed;
  round->untold += freed;
  if (round->untold < worth_telling) return;
  round->untold = 0;
  sync_.changed.notify_all();
}

/// Under the lock: the page has its new copy, or everything is as it was. Returns the bytes freed where it left.
uint64_t Demoter::settle(Move &move) noexcept {
  Region &region = *move.region;
  uint64_t freed = 0;
  const uint32_t from = move.from_host ? vm::host_bit : vm::compressed_bit;
  const bool attached = tiers_.unpin(move);
  if (attached && move.valid && !move.failed && move.into != nullptr) {
    const uint32_t into = move.into->place.bit();
    events_.tell({What::sunk, 0, Event::nowhere, region.id, move.page, move.used});
    if (move.from_host) {
      region.codec = move.plan;  // else nothing was learnt
      // A first try at another tier may have left places behind.
      tiers_.free_places(region, move.chain, vm::below_host & ~into);
    }
    cold_.set_checksum(move.chain, move.checksum);
    tiers_.publish(region, move.page, move.chain, into);
    if (into == vm::compressed_bit) note_compressed(region, move.page);
    freed = leave(region, move.page, from);
  } else {
    if (move.from_host) {
      tiers_.free_chain(region, move.chain);
    } else if (attached) {
      tiers_.free_places(region, move.chain, vm::storage_bit);
    }
    if (attached) tiers_.note(region, move.page, from);
  }
  regions_.unpin(move.pin);
  return freed;
}

/// The page has another latest copy now. It goes from the tier, unless somebody came to use it there meanwhile.
uint64_t Demoter::leave(Region &region, uint32_t page, uint32_t bit) noexcept {
  const vm::Page &copies = region.pages[page];
  const bool viewed = bit == vm::host_bit && tiers_.aliases().in_use(region);
  if (copies.busy != 0 || copies.leases != 0 || viewed) {
    tiers_.note(region, page, bit);
    return 0;
  }
  tiers_.leave(region, page, bit);
  return region.shape.used_bytes(page);
}

}  // namespace weir::move
