// SPDX-License-Identifier: Apache-2.0
//
// Bytes without a lease: read and write from the host, discard. A copy claims its range like a lease
// does (ClaimScope::any(): byte by byte), so that neither an eviction nor a conflicting lease gets in its way,
// and goes to whichever copy is the latest; nothing is promoted.

#include "core/residency/plan.hpp"
#include "core/residency/scrub.hpp"

#include <algorithm>
#include <cstring>

namespace weir::residency {

/// Waits, without the lock, for the work that a read (or write) of the range must come after.
Status Engine::wait_range(Releasable &lock, uint32_t index, uint64_t begin, uint64_t end,
                          bool write) {
  std::pmr::vector<Stamp> stamps(&memory_);
  const Target where = buffers_.target(index);
  history_.gather(lease::part_of(where, index, begin, end), write, &stamps);
  const uint32_t last = where.region->shape.page_at(where.base + end - 1);
  for (uint32_t p = where.region->shape.page_at(where.base + begin); p <= last; ++p) {
    for (const auto &r : where.region->residences) {
      if (r->pages[p].ready) stamps.push_back(r->pages[p].ready);
    }
  }
  return lock.unlocked([&] {
    for (const Stamp stamp : stamps) WEIR_TRY(streams_.wait(stamp, UINT64_MAX));
    return Status{};
  });
}

/// Waits until nobody works on the page or copies it down, and the copies that brought its bytes have ended.
Status Engine::settle_page(Releasable &lock, Region &region, uint32_t page) {
  for (;;) {
    Stamp ready;
    for (auto &r : region.residences) {
      DevicePage &state = r->pages[page];
      if (region.pages[page].busy != 0) state.wanted = true;
      if (state.ready && !streams_.passed(state.ready)) ready = state.ready;
    }
    if (region.pages[page].busy != 0 || region.pages[page].sinking) {
      demoter_.await_change(lock);
    } else if (ready) {
      WEIR_TRY(lock.unlocked([&] { return streams_.wait(ready, UINT64_MAX); }));
    } else {
      return {};
    }
  }
}

/// All of them at once: whenever the lock was dropped they are looked at again.
Status Engine::settle_pages(Releasable &lock, Region &region, uint32_t first, uint32_t last) {
  for (uint32_t p = first; p <= last;) {
    const bool still = settled(region, p);
    if (!still) WEIR_TRY(settle_page(lock, region, p));
    p = still ? p + 1 : first;
  }
  return {};
}

/// Nobody works on the page, and its bytes have arrived wherever they are.
bool Engine::settled(Region &region, uint32_t page) noexcept {
  return region.pages[page].busy == 0 && !region.pages[page].sinking &&
         std::all_of(region.residences.begin(), region.residences.end(),
                     [&](const auto &r) { return streams_.passed(r->pages[page].ready); });
}

/// Bytes have been written on a device. A copy in HOST that a lease may be looking at follows, and stays; any other is stale.
void Engine::write_through(const Piece &piece, PoolDevice &device) noexcept {
  Region &region = *piece.where.region;
  Page &copies = region.pages[piece.page];
  if (region.alias == nullptr || !tiers_.has_host(region, piece.page)) {
    tiers_.invalidate(region, piece.page, device.bit());
    return;
  }
  std::memcpy(tiers_.host_bytes(region, piece.page) + piece.within(), piece.in, piece.bytes());
  tiers_.end_version(region, piece.page);
  places_.note(region, copies.written(device.bit() | (copies.latest() & vm::host_bit)));
}

/// The same bytes, where a device has them.
Status Engine::copy_on_device(Releasable &lock, const Piece &piece) {
  Region &region = *piece.where.region;
  const uint32_t page = piece.page;
  const Residence &there = *region.latest_on_device(page);
  PoolDevice &device = *devices_[there.place];
  const uint64_t address = device.memory.page_address(region, there, page) + piece.within();
  // Nobody else takes or changes the page's versions until this one is told.
  begin_work(region, page, device);
  const bool secret = region.scrub;
  const Status status = lock.unlocked([&] {
    points.at("copy");
    backend::Stream &stream = piece.in != nullptr ? *device.streams.up() : *device.streams.down();
    return relay_.copy(stream, address, piece.out, piece.in, piece.bytes(), secret);
  });
  end_work(region, page, device, tiers_);
  changed_.notify_all();
  if (!status) {
    const KeepError keep;
    note_loss(device, status);
  } else if (piece.in != nullptr) {
    write_through(piece, device);
    set_flags(piece.index, 0, Word::sole | Word::resident);
  }
  return status;
}

/// The page is claimed, so it stays where it is.
Status Engine::copy_piece(Releasable &lock, const Piece &piece) {
  WEIR_TRY(settle_page(lock, *piece.where.region, piece.page));
  return copy_settled(lock, piece);
}

/// The same for a page that nobody else is working on.
Status Engine::copy_settled(Releasable &lock, const Piece &piece) {
  Region &region = *piece.where.region;
  const uint32_t page = piece.page;
  unsigned char *const out = piece.out;
  const uint64_t bytes = piece.bytes(), within = piece.within();
  Page &copies = region.pages[page];
  const uint16_t busy = copies.busy;
  if (copies.lost())
    return fail(WEIR_ERROR_DATA_LOST, "bytes of page %u were lost with their device", page);
  if (copies.latest() == 0 && out != nullptr) {
    std::memset(out, 0, bytes);
    return {};
  }
  if (out != nullptr && (copies.latest() & vm::host_bit) != 0)
    WEIR_TRY(verify_host(region, page, 0));
  if (out != nullptr && (copies.latest() & vm::host_bit) != 0) {
    std::memcpy(out, tiers_.host_bytes(region, page) + within, bytes);
    return {};
  }
  const bool below = (copies.latest() & vm::below_host) != 0 &&
                     (copies.latest() & (vm::device_bits | vm::host_bit)) == 0;
  if (below && out != nullptr) return read_below(lock, region, page, within, within + bytes, out);
  if (below) {
    const bool whole = within == 0 && bytes >= region.shape.used_bytes(page);
    WEIR_TRY(host_room_.give_slot(lock, region, page, node_of(region)));
    if (copies.busy != busy || copies.sinking) return copy_piece(lock, piece);
    if ((copies.latest() & (vm::device_bits | vm::host_bit)) == 0 && !whole)
      WEIR_TRY(raise_to_host(lock, region, page));
  }
  Residence *home = region.on(region.home);
  if (copies.latest() == 0 && region.slab && home != nullptr &&
      home->pages[page].state() == PageState::resident) {
    // A slab's untouched page: another tenant may be on its way to be the first to write there. One place for all.
    places_.note(region, copies.written(uint32_t{1} << region.home));
  }
  if (copies.latest() == 0) {
    WEIR_TRY(host_room_.give_slot(lock, region, page, node_of(region)));
    // Another tenant of the page may have been here while the lock was dropped.
    if (copies.busy != busy) return copy_piece(lock, piece);
    if (copies.latest() != 0) return copy_settled(lock, piece);
    std::memset(tiers_.host_bytes(region, page), 0, region.shape.used_bytes(page));
    places_.note(region, copies.written(vm::host_bit));
  }
  // A device's copy first: a lease on other bytes of the page may be using it.
  if (region.latest_on_device(page) != nullptr) return copy_on_device(lock, piece);
  if (piece.in != nullptr) {
    std::memcpy(tiers_.host_bytes(region, page) + within, piece.in, bytes);
    tiers_.end_version(region, page);
    places_.note(region, copies.written(vm::host_bit));
    tiers_.note(region, page, vm::host_bit);
    set_flags(piece.index, 0, Word::resident);
  }
  return {};
}

/// Zeroes the place of a tenant never written, of which a part is about to be. Once: who else comes for it, or for its
/// pages, waits.
Status Engine::zero_place(Releasable &lock, uint32_t index, const Target &where) {
  Region &region = *where.region;
  const vm::Geometry &shape = region.shape;
  const uint32_t first = shape.page_at(where.base);
  const uint32_t last = shape.page_at(where.base + where.size - 1);
  WEIR_TRY(wait_range(lock, index, 0, where.size, true));
  WEIR_TRY(settle_pages(lock, region, first, last));
  if ((buffers_.hot(index).word.load(std::memory_order_relaxed) & Word::virgin) == 0) return {};
  PoolDevice &device = device_at(region.home);
  for (uint32_t p = first; p <= last; ++p) begin_work(region, p, device);
  const Status status = with_memory(lock, "to zero a small buffer", [&]() WEIR_HELD -> Status {
    const std::pmr::vector<unsigned char> zeroes(where.size, 0, &memory_);
    for (uint32_t p = first; p <= last; ++p) {
      const uint64_t begin = std::max(where.base, shape.offset(p));
      const uint64_t end = std::min(where.base + where.size, shape.offset(p) + shape.page_bytes(p));
      WEIR_TRY(copy_settled(lock, {index, where, p, begin, end, nullptr, zeroes.data()}));
    }
    return {};
  });
  for (uint32_t p = first; p <= last; ++p) end_work(region, p, device, tiers_);
  if (status) set_flags(index, 0, Word::virgin);
  changed_.notify_all();
  return status;
}

Status Engine::copy_pieces(Releasable &lock, uint32_t index, const Target &where, uint64_t begin,
                           uint64_t end, unsigned char *out, const unsigned char *in) {
  WEIR_TRY(wait_range(lock, index, begin, end, in != nullptr));
  const vm::Geometry &shape = where.region->shape;
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
Status Engine::claim_range(Plan &plan, weir_buffer buffer, uint64_t offset, uint64_t *length,
                           uint8_t mode) {
  plan.lease = &plan;
  plan.any = true;
  uint32_t index = 0;
  WEIR_TRY(buffers_.find(buffer, &index));
  WEIR_TRY(buffers_.range_of(index, offset, length));
  plan.items.push_back({{offset, offset + *length, index}, buffers_.hot(index).generation(), mode});
  WEIR_TRY(resolve(plan));
  WEIR_TRY(check_conflicts(plan));
  return take_claims(plan);
}

Status Engine::copy_range(weir_buffer buffer, uint64_t offset, uint64_t length, unsigned char *out,
                          const unsigned char *in) {
  const Scrubbing scrubbing(*this);
  Locked lock(lock_);
  Plan plan(&memory_, nullptr, nullptr);
  WEIR_TRY(claim_range(plan, buffer, offset, &length, in != nullptr ? WEIR_READ_WRITE : WEIR_READ));
  const PlanItem &claimed = plan.items[0];
  const Target where = buffers_.target(claimed.buffer);
  // A whole claim is counted in the word alone; the pages must stay put too.
  leases_.count_pages(*where.region, where.base + offset, where.base + offset + length, 1);
  const Status status =
      with_memory(lock, "for the records of this copy", [&]() WEIR_HELD -> Status {
        if (claimed.virgin && out != nullptr) {
          std::memset(out, 0, length);
          return {};
        }
        // The rest of the place must read as zero from now on.
        if (claimed.virgin && !claimed.whole) WEIR_TRY(zero_place(lock, claimed.buffer, where));
        WEIR_TRY(copy_pieces(lock, claimed.buffer, where, offset, offset + length, out, in));
        if (claimed.virgin) set_flags(claimed.buffer, 0, Word::virgin);
        return {};
      });
  const KeepError keep;
  leases_.count_pages(*where.region, where.base + offset, where.base + offset + length, -1);
  drop_claims(plan);
  if (admission_.has_watchers()) changed_.notify_all();
  return status;
}

Status Engine::read(weir_buffer buffer, uint64_t offset, uint64_t length, void *destination) {
  if (destination == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "destination is NULL");
  return copy_range(buffer, offset, length, static_cast<unsigned char *>(destination), nullptr);
}

Status Engine::write(weir_buffer buffer, uint64_t offset, uint64_t length, const void *source) {
  if (source == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "source is NULL");
  return copy_range(buffer, offset, length, nullptr, static_cast<const unsigned char *>(source));
}

/// Discards under a hold: what is held stays the latest version, so it is overwritten there.
Status Engine::zero_held(Releasable &lock, const Plan &plan, const Target &where) {
  const PlanItem &item = plan.items[0];
  Region &region = *where.region;
  const vm::Geometry &shape = region.shape;
  const bool tenant = region.slab;
  if (tenant && !item.whole) return {};
  return with_memory(lock, "to zero what is held", [&]() WEIR_HELD -> Status {
    std::pmr::vector<unsigned char> zeroes(&memory_);
    for (uint32_t p = item.first; p <= item.last; ++p) {
      const uint64_t begin = std::max(shape.offset(p), where.base);
      const uint64_t end = std::min(shape.offset(p) + shape.used_bytes(p), where.base + where.size);
      if (begin < where.base + item.begin || end > where.base + item.end) continue;
      zeroes.resize(end - begin);
      Page &copies = region.pages[p];
      const bool lost = !tenant && copies.lost();
      if (lost)  // its writer was lost, not the device
        places_.note(region, copies.written(region.only_latest(p)));
      const Status status = copy_pieces(lock, item.buffer, where, begin - where.base,
                                        end - where.base, nullptr, zeroes.data());
      if (!status && lost) places_.note(region, copies.forsake());
      WEIR_TRY(status);
    }
    return {};
  });
}

Status Engine::discard(weir_buffer buffer, uint64_t offset, uint64_t length) {
  const Scrubbing scrubbing(*this);
  Locked lock(lock_);
  Plan plan(&memory_, nullptr, nullptr);
  WEIR_TRY(claim_range(plan, buffer, offset, &length, WEIR_DISCARD_WRITE));
  const PlanItem &claimed = plan.items[0];
  const Target where = buffers_.target(claimed.buffer);
  Region &region = *where.region;
  // On a lost device nothing is held any more.
  const bool held = region.slab ? !device_at(region.home).lost() : region.held_to_write;
  if (held && buffers_.hold_of(claimed.buffer) != nullptr) {
    const Status status = zero_held(lock, plan, where);
    const KeepError keep;
    drop_claims(plan);
    return status;
  }
  if (buffers_.tenant(claimed.buffer)) {
    if (claimed.whole) set_flags(claimed.buffer, Word::virgin, Word::resident | Word::sole);
    drop_claims(plan);
    return {};
  }
  for (uint32_t p = claimed.first; p <= claimed.last; ++p) {
    const uint64_t at = region.shape.offset(p);
    if (at < offset || at + region.shape.used_bytes(p) > offset + length) continue;
    // An eviction or a fill under way would bring the old bytes back: it ends first.
    while (region.pages[p].busy != 0) changed_.wait(lock);
    tiers_.free_host(region, p);
    tiers_.end_version(region, p);
    places_.note(region, region.pages[p].discarded());
  }
  // At the end: a prefetch of the buffer may have opened the hit path meanwhile.
  set_flags(claimed.buffer, 0, Word::resident | Word::sole);
  drop_claims(plan);
  return {};
}

Status Engine::advise(weir_buffer buffer, uint64_t offset, uint64_t length, uint32_t advice) {
  Locked lock(lock_);
  uint32_t index = 0;
  WEIR_TRY(buffers_.find(buffer, &index));
  WEIR_TRY(buffers_.range_of(index, offset, &length));
  Region &region = *buffers_.target(index).region;
  const uint64_t generation = buffers_.hot(index).generation();
  switch (advice) {
    case WEIR_ADVISE_NORMAL:
      region.cold = region.streaming = false;
      return {};
    case WEIR_ADVISE_COLD:
      region.cold = true;
      region.streaming = false;
      return {};
    case WEIR_ADVISE_STREAMING:
      region.streaming = true;
      return {};
    case WEIR_ADVISE_WILL_NEED: {
      PrefetchBatch asked(&memory_);
      asked.push_back(
          PrefetchRequest{index, generation, offset, offset + length, WEIR_READ, region.home});
      prefetcher_.ask(lock, asked, 0);
      return {};
    }
    default:
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "advice %u is none of WEIR_ADVISE_*", advice);
  }
}

Status Engine::set_priority(weir_buffer buffer, int32_t priority) {
  if (priority < WEIR_PRIORITY_LOWEST || priority > WEIR_PRIORITY_HIGHEST)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "priority is %d, not %d..%d", priority,
                WEIR_PRIORITY_LOWEST, WEIR_PRIORITY_HIGHEST);
  Locked lock(lock_);
  uint32_t index = 0;
  WEIR_TRY(buffers_.find(buffer, &index));
  Region &region = *buffers_.target(index).region;
  if (!region.slab) region.priority = static_cast<int8_t>(priority);
  return {};
}

}  // namespace weir::residency
