// SPDX-License-Identifier: Apache-2.0
//
// Bytes between pages and the CPU's memory.

#include "core/acquire/cpu_copies.hpp"

#include "core/acquire/claims.hpp"
#include "core/move/move_notes.hpp"

#include "core/codec/checksum.hpp"

#include <algorithm>
#include <cstring>

namespace weir::acquire {

Status CpuCopies::wait_range(Releasable &lock, uint32_t index, uint64_t begin, uint64_t end,
                             bool write) {
  std::pmr::vector<Stamp> stamps(env_.memory);
  const Target where = page_.buffers.target(index);
  lease_.history.gather(lease::part_of(where, index, begin, end), write, &stamps);
  const uint32_t last = where.region->shape.page_at(where.base + end - 1);
  for (uint32_t p = where.region->shape.page_at(where.base + begin); p <= last; ++p) {
    for (const auto &r : where.region->residences) {
      if (r->pages[p].ready) stamps.push_back(r->pages[p].ready);
    }
  }
  return lock.unlocked([&] {
    for (const Stamp stamp : stamps) WEIR_TRY(env_.streams.wait(stamp, UINT64_MAX));
    return Status{};
  });
}

Status CpuCopies::settle_page(Releasable &lock, Region &region, uint32_t page) {
  for (;;) {
    Stamp ready;
    for (const auto &r : region.residences) {
      const Stamp coming = r->pages[page].ready;
      if (coming && !env_.streams.passed(coming)) ready = coming;
    }
    if (pages_.note_waiter(region, page) || region.pages[page].sinking) {
      const WaitScope waits(Wait::conflict);
      others_.demoter.await_change(lock);
    } else if (ready) {
      const WaitScope waits(Wait::copy);
      WEIR_TRY(lock.unlocked([&] { return env_.streams.wait(ready, UINT64_MAX); }));
    } else {
      return {};
    }
  }
}

Status CpuCopies::settle_pages(Releasable &lock, Region &region, uint32_t first, uint32_t last) {
  for (uint32_t p = first; p <= last;) {
    const bool still = settled(region, p);
    if (!still) WEIR_TRY(settle_page(lock, region, p));
    p = still ? p + 1 : first;
  }
  return {};
}

bool CpuCopies::settled(Region &region, uint32_t page) noexcept {
  return region.pages[page].busy() == 0 && !region.pages[page].sinking &&
         std::all_of(region.residences.begin(), region.residences.end(),
                     [&](const auto &r) { return env_.streams.passed(r->pages[page].ready); });
}

/// Bytes have been written on a device. A copy in HOST that a lease may be looking at follows, and stays; any other is stale.
void CpuCopies::write_through(const Piece &piece, PoolDevice &device) noexcept {
  Region &region = *piece.where.region;
  const Page &copies = region.pages[piece.page];
  if (region.host.alias == nullptr || !page_.tiers.has_host(region, piece.page)) {
    page_.tiers.invalidate(region, piece.page, device.bit());
    return;
  }
  std::memcpy(page_.tiers.host_bytes(region, piece.page) + piece.within(), piece.in, piece.bytes());
  page_.tiers.end_version(region, piece.page);
  pages_.written(region, piece.page, device.bit() | (copies.latest() & page::host_bit));
}

/// The same bytes, where a device has them.
Status CpuCopies::copy_on_device(Releasable &lock, const Piece &piece) {
  Region &region = *piece.where.region;
  const uint32_t page = piece.page;
  const Residence &there = *region.latest_on_device(page);
  PoolDevice &device = *page_.devices[there.place];
  const uint64_t address = device.memory.page_address(region, there, page) + piece.within();
  // No other thread takes or changes the page's versions until this one is told.
  pages_.mark_busy(region, page, device);
  const bool secret = region.is.secret;
  const Status status = lock.unlocked([&] {
    env_.sync.points.at("copy");
    backend::Stream &stream = piece.in != nullptr ? *device.streams.up() : *device.streams.down();
    return relay_.copy(stream, address, piece.out, piece.in, piece.bytes(), secret);
  });
  pages_.unmark_busy(region, page, device);
  env_.sync.changed.notify_all();
  if (!status) {
    const KeepError keep;
    losses_.note(device, status);
  } else if (piece.in != nullptr) {
    write_through(piece, device);
    page_.buffers.hot(piece.index).set_flags(0, Word::sole | Word::resident);
  }
  return status;
}

/// The page is claimed, so it stays where it is.
Status CpuCopies::copy_piece(Releasable &lock, const Piece &piece) {
  WEIR_TRY(settle_page(lock, *piece.where.region, piece.page));
  return copy_settled(lock, piece);
}

Status CpuCopies::copy_settled(Releasable &lock, const Piece &piece) {
  Region &region = *piece.where.region;
  const uint32_t page = piece.page;
  unsigned char *const out = piece.out;
  const uint64_t bytes = piece.bytes(), within = piece.within();
  const Page &copies = region.pages[page];
  const uint16_t busy = copies.busy();
  if (copies.lost()) return page_.buffers.fail_lost(piece.index, page);
  if (copies.latest() == 0 && out != nullptr) {
    std::memset(out, 0, bytes);
    return {};
  }
  if (out != nullptr && (copies.latest() & page::host_bit) != 0)
    WEIR_TRY(pages_.verify_host(region, page, 0));
  if (out != nullptr && (copies.latest() & page::host_bit) != 0) {
    std::memcpy(out, page_.tiers.host_bytes(region, page) + within, bytes);
    return {};
  }
  const bool below = (copies.latest() & page::below_host) != 0 &&
                     (copies.latest() & (page::device_bits | page::host_bit)) == 0;
  if (below && out != nullptr) return read_below(lock, region, page, within, within + bytes, out);
  if (below) {
    const bool whole = within == 0 && bytes >= region.shape.used_bytes(page);
    WEIR_TRY(others_.host_room.give_slot(lock, region, page, page_.devices[region.home]->node));
    if (copies.busy() != busy || copies.sinking) return copy_piece(lock, piece);
    if ((copies.latest() & (page::device_bits | page::host_bit)) == 0 && !whole)
      WEIR_TRY(raise_to_host(lock, region, page));
  }
  Residence *home = region.on(region.home);
  if (copies.latest() == 0 && region.is.slab && home != nullptr &&
      home->pages[page].state() == PageState::resident) {
    // A slab's untouched page: another tenant may be on its way to be the first to write there. One place for all.
    pages_.written(region, page, uint32_t{1} << region.home);
  }
  if (copies.latest() == 0) {
    WEIR_TRY(others_.host_room.give_slot(lock, region, page, page_.devices[region.home]->node));
    // Another tenant of the page may have been here while the lock was dropped.
    if (copies.busy() != busy) return copy_piece(lock, piece);
    if (copies.latest() != 0) return copy_settled(lock, piece);
    std::memset(page_.tiers.host_bytes(region, page), 0, region.shape.used_bytes(page));
    pages_.written(region, page, page::host_bit);
  }
  // A device's copy first: a lease on other bytes of the page may be using it.
  if (region.latest_on_device(page) != nullptr) return copy_on_device(lock, piece);
  if (piece.in != nullptr) {
    std::memcpy(page_.tiers.host_bytes(region, page) + within, piece.in, bytes);
    page_.tiers.end_version(region, page);
    pages_.written(region, page, page::host_bit);
    page_.tiers.note(region, page, page::host_bit);
    page_.buffers.hot(piece.index).set_flags(0, Word::resident);
  }
  return {};
}

/// Zeroes the place of a tenant never written, of which a part is about to be. Once: who else comes for it, or for its
/// pages, waits.
Status CpuCopies::zero_place(Releasable &lock, uint32_t index, const Target &where) {
  Region &region = *where.region;
  const page::Geometry &shape = region.shape;
  const uint32_t first = shape.page_at(where.base);
  const uint32_t last = shape.page_at(where.base + where.size - 1);
  WEIR_TRY(wait_range(lock, index, 0, where.size, true));
  WEIR_TRY(settle_pages(lock, region, first, last));
  if ((page_.buffers.hot(index).word.load(std::memory_order_relaxed) & Word::virgin) == 0)
    return {};
  PoolDevice &device = *page_.devices[region.home];
  for (uint32_t p = first; p <= last; ++p) pages_.mark_busy(region, p, device);
  const Status status = with_memory(lock, "to zero a small buffer", [&]() WEIR_HELD -> Status {
    const std::pmr::vector<unsigned char> zeroes(where.size, 0, env_.memory);
    for (uint32_t p = first; p <= last; ++p) {
      const uint64_t begin = std::max(where.base, shape.offset(p));
      const uint64_t end = std::min(where.base + where.size, shape.offset(p) + shape.page_bytes(p));
      WEIR_TRY(copy_settled(lock, {index, where, p, begin, end, nullptr, zeroes.data()}));
    }
    return {};
  });
  for (uint32_t p = first; p <= last; ++p) pages_.unmark_busy(region, p, device);
  if (status) page_.buffers.hot(index).set_flags(0, Word::virgin);
  env_.sync.changed.notify_all();
  return status;
}

Status CpuCopies::copy_pieces(Releasable &lock, uint32_t index, const Target &where, uint64_t begin,
                              uint64_t end, unsigned char *out, const unsigned char *in) {
  WEIR_TRY(wait_range(lock, index, begin, end, in != nullptr));
  const page::Geometry &shape = where.region->shape;
  for (uint64_t at = where.base + begin; at < where.base + end;) {
    const uint32_t page = shape.page_at(at);
    const uint64_t stop = std::min(where.base + end, shape.offset(page) + shape.page_bytes(page));
    WEIR_TRY(copy_piece(lock, {index, where, page, at, stop, out, in}));
    if (out != nullptr) out += stop - at;
    if (in != nullptr) in += stop - at;
    at = stop;
  }
  return {};
}

/// Claims a range for one call, as a lease would, byte by byte against every place. Under the lock.
Status CpuCopies::claim_range(move::Plan &plan, weir_buffer buffer, uint64_t offset,
                              uint64_t *length, uint8_t mode) {
  plan.lease = &plan;
  plan.terms.every_place = true;
  uint32_t index = 0;
  WEIR_TRY(page_.buffers.find(buffer, &index));
  WEIR_TRY(page_.buffers.range_of(index, offset, length));
  plan.items.push_back(
      {{offset, offset + *length, index}, page_.buffers.hot(index).generation(), mode});
  WEIR_TRY(claims_.resolve(plan));
  WEIR_TRY(claims_.check_conflicts(plan));
  return claims_.take(plan);
}

Status CpuCopies::copy_range(weir_buffer buffer, uint64_t offset, uint64_t length,
                             unsigned char *out, const unsigned char *in) {
  const Scrubbing scrubbing(env_.scrub_turns);
  Locked lock(env_.sync.lock);
  move::Plan plan(env_.memory, nullptr, nullptr);
  WEIR_TRY(claim_range(plan, buffer, offset, &length, in != nullptr ? WEIR_READ_WRITE : WEIR_READ));
  const move::PlanItem &claimed = plan.items[0];
  const Target where = page_.buffers.target(claimed.buffer);
  // A whole claim is counted in the word alone; the pages must stay put too.
  lease_.leases.count_pages(*where.region, where.base + offset, where.base + offset + length, 1);
  const Status status =
      with_memory(lock, "for the records of this copy", [&]() WEIR_HELD -> Status {
        if (claimed.virgin && out != nullptr) {
          std::memset(out, 0, length);
          return {};
        }
        // The rest of the place must read as zero from now on.
        if (claimed.virgin && !claimed.whole) WEIR_TRY(zero_place(lock, claimed.buffer, where));
        WEIR_TRY(copy_pieces(lock, claimed.buffer, where, offset, offset + length, out, in));
        if (claimed.virgin) page_.buffers.hot(claimed.buffer).set_flags(0, Word::virgin);
        return {};
      });
  const KeepError keep;
  lease_.leases.count_pages(*where.region, where.base + offset, where.base + offset + length, -1);
  claims_.drop(plan);
  if (lease_.admission.has_watchers()) env_.sync.changed.notify_all();
  return status;
}

Status CpuCopies::read(weir_buffer buffer, uint64_t offset, uint64_t length, void *destination) {
  if (destination == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "destination is NULL");
  return copy_range(buffer, offset, length, static_cast<unsigned char *>(destination), nullptr);
}

Status CpuCopies::write(weir_buffer buffer, uint64_t offset, uint64_t length, const void *source) {
  if (source == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "source is NULL");
  return copy_range(buffer, offset, length, nullptr, static_cast<const unsigned char *>(source));
}

/// Discards under a hold: what is held stays the latest version, so it is overwritten there.
Status CpuCopies::zero_held(Releasable &lock, const move::Plan &plan, const Target &where) {
  const move::PlanItem &item = plan.items[0];
  Region &region = *where.region;
  const page::Geometry &shape = region.shape;
  const bool tenant = region.is.slab;
  if (tenant && !item.whole) return {};
  return with_memory(lock, "to zero what is held", [&]() WEIR_HELD -> Status {
    std::pmr::vector<unsigned char> zeroes(env_.memory);
    for (uint32_t p = item.first; p <= item.last; ++p) {
      const uint64_t begin = std::max(shape.offset(p), where.base);
      const uint64_t end = std::min(shape.offset(p) + shape.used_bytes(p), where.base + where.size);
      if (begin < where.base + item.begin || end > where.base + item.end) continue;
      zeroes.resize(end - begin);
      const bool lost = !tenant && region.pages[p].lost();
      if (lost)  // its writer was lost, not the device
        pages_.written(region, p, region.only_latest(p));
      const Status status = copy_pieces(lock, item.buffer, where, begin - where.base,
                                        end - where.base, nullptr, zeroes.data());
      if (!status && lost) pages_.forsake(region, p);
      WEIR_TRY(status);
    }
    return {};
  });
}

Status CpuCopies::discard(weir_buffer buffer, uint64_t offset, uint64_t length) {
  const Scrubbing scrubbing(env_.scrub_turns);
  Locked lock(env_.sync.lock);
  move::Plan plan(env_.memory, nullptr, nullptr);
  WEIR_TRY(claim_range(plan, buffer, offset, &length, WEIR_DISCARD_WRITE));
  const move::PlanItem &claimed = plan.items[0];
  const Target where = page_.buffers.target(claimed.buffer);
  Region &region = *where.region;
  // On a lost device nothing is held any more.
  const bool held = region.is.slab ? !page_.devices[region.home]->lost() : region.holds.to_write;
  if (held && page_.buffers.hold_of(claimed.buffer) != nullptr) {
    const Status status = zero_held(lock, plan, where);
    const KeepError keep;
    claims_.drop(plan);
    return status;
  }
  if (page_.buffers.tenant(claimed.buffer)) {
    if (claimed.whole)
      page_.buffers.hot(claimed.buffer).set_flags(Word::virgin, Word::resident | Word::sole);
    claims_.drop(plan);
    return {};
  }
  for (uint32_t p = claimed.first; p <= claimed.last; ++p) {
    const uint64_t at = region.shape.offset(p);
    if (at < offset || at + region.shape.used_bytes(p) > offset + length) continue;
    // An eviction or a fill under way would bring the old bytes back: it ends first.
    while (region.pages[p].busy() != 0) env_.sync.changed.wait(lock);
    page_.tiers.discard(region, p);
  }
  // At the end: a prefetch of the buffer may have opened the hit path meanwhile.
  page_.buffers.hot(claimed.buffer).set_flags(0, Word::resident | Word::sole);
  claims_.drop(plan);
  return {};
}

/// Bytes [begin, end) of a page whose latest version lies below HOST. The page is claimed and settled; the lock is
/// dropped meanwhile. A damaged copy is given up where there is another, which is read then.
Status CpuCopies::read_below(Releasable &lock, Region &region, uint32_t page, uint64_t begin,
                             uint64_t end, unsigned char *out) {
  PoolDevice &home = *page_.devices[region.home];
  for (;;) {
    std::pmr::vector<tier::LiftPart> parts(env_.memory);
    parts.reserve(page_.cold.parts_of(region.shape.used_bytes(page)));
    page_.tiers.list_parts(region, page, 0, &parts);
    const uint64_t checksum = page_.tiers.checksum(region.pages[page]);
    const uint32_t bit = parts.front().bit();
    pages_.mark_busy(region, page, home);
    const uint64_t began_ns = steady_ns();
    const Status status = lock.unlocked(
        [&] { return tier::read_parts(page_.cold, parts, checksum, begin, end, out); });
    pages_.unmark_busy(region, page, home);
    env_.sync.changed.notify_all();
    if (status) {
      env_.events.tell({What::raised, 0, Event::nowhere, region.id, page, end - begin});
      move::MoveNotes(env_, notes::Move::demand)
          .add(region, page, end - begin, bit, page::host_bit, {began_ns, steady_ns()});
      return {};
    }
    if (status.code() != WEIR_ERROR_CORRUPT) return status;
    env_.events.tell({What::corrupt, 0, Event::nowhere, region.id, page});
    const Status corrupt = page::fail_corrupt(0, page, bit);
    const uint32_t before = region.pages[page].latest();
    pages_.forsake_copy(region, page, bit);
    const uint32_t left = region.pages[page].latest();
    if (left == before || (left & page::below_host) == 0) return corrupt;
  }
}

/// The latest version, which lies below HOST alone, into a slot of HOST. The page is claimed and settled.
Status CpuCopies::raise_to_host(Releasable &lock, Region &region, uint32_t page) {
  WEIR_TRY(read_below(lock, region, page, 0, region.shape.used_bytes(page),
                      page_.tiers.host_bytes(region, page)));
  pages_.arrived(region, page, page::host_bit);
  page_.tiers.note(region, page, page::host_bit);
  return {};
}

}  // namespace weir::acquire
