// SPDX-License-Identifier: Apache-2.0
//
// Bringing pages in.

#include "core/move/filler.hpp"

#include "core/codec/checksum.hpp"
#include "core/move/move_notes.hpp"

#include <array>

namespace weir::move {

void Filler::prepare(Plan &plan) {
  plan.fill.before.clear();
  bool into_place = false, from_peer = false;
  uint64_t parts = 0;   // below HOST, at most
  uint64_t copies = 0;  // from places that are written into
  for (const PlanPage &page : plan.pages) {
    const uint32_t latest = page.region->pages[page.page].latest();
    into_place = into_place || page.stale;
    if (page.stale) copies += page.region->residences.size();
    from_peer = from_peer || (page.absent && !page.discard && (latest & page::host_bit) == 0 &&
                              (latest & page::device_bits) != 0);
    if (page_.cold.any()) parts += page_.cold.parts_of(page.region->shape.used_bytes(page.page));
  }
  // What is written where bytes already are must come after everything that may still use them; and a copy from another
  // device after what writes there. All else waits for no work of the caller's, nor does the staging it comes through.
  for (const PlanItem &item : plan.items) {
    if (into_place || from_peer || item.zeroes())
      lease_.history.gather({0, item.size, item.buffer, item.region, item.base}, true,
                            &plan.fill.before);
    // A copy may be under way that touches a tenant's place before its first use.
    for (uint32_t p = item.first; item.zeroes() && p <= item.last; ++p) {
      const Stamp ready = item.region->on(plan.place())->pages[p].ready;
      if (ready) plan.fill.before.push_back(ready);
    }
  }
  plan.fill.before.reserve(plan.fill.before.size() + 3 * plan.pages.size() + copies);
  plan.fill.parts.clear();
  plan.fill.parts.reserve(parts);
  carriage_.prepare(plan);
}

void Filler::mark(Plan &plan) noexcept {
  page::TierCopies &tiers = page_.tiers;
  PoolDevice &device = *plan.device;
  plan.haul.relays = carriage_.usable_relays(device);
  for (PlanPage &page : plan.pages) {
    Region &region = *page.region;
    Residence &here = *region.on(plan.place());
    const Page &copies = region.pages[page.page];
    region.layout.unsettled = 0;
    page.used = region.shape.used_bytes(page.page);
    page.address = address_of(region, here) + region.shape.offset(page.page);
    page.memory.address = page.address - region.shape.before(page.page);
    // Of a set that comes by parts, what has no granule yet is another part's.
    if (page.absent ? page.memory.granule == physical::no_granule : !page.stale) continue;
    page.source = {};
    page.zero = {};
    // As it is now: the hold may have gone when the copy has come. One that comes waits for it.
    const uint32_t only = region.only_latest(page.page);
    page.counts = only == 0 || only == device.bit();
    physical::Segments::Foreign ends;  // of an extent
    bool foreign =
        page.absent && device.memory.foreign(page.memory.granule, region.owner.client, &ends);
    const page::Bundle *bundle = device.memory.bundle_of(region, page.page);
    const bool shared = bundle != nullptr;
    page.memory.shared = shared ? bundle->mapping.get() : nullptr;
    if (shared && page.absent && bundle->wiped) plan.fill.before.push_back(bundle->wiped);
    if (foreign && device.vmm() && (shared || page.used < page.bytes)) {
      // All of it, whatever of it the page has. Once for all who share it: they look at whose it was.
      if (shared) device.memory.at(page.memory.granule).set_client(region.owner.client);
      page.zero.granule = true;
      foreign = false;
    }
    page.zero.rest = (foreign || ends.back != 0) && page.used < page.bytes;
    Residence *other = carriage_.device_source(region, page.page, plan);
    Freight *freight =
        other != nullptr ? &carriage_.freight_from(plan, region, *other, page.page) : nullptr;
    const bool near = freight != nullptr && freight->near;
    if (copies.latest() == 0 || page.discard) {
      page.zero.content = foreign || (!page.discard && !region.is.slab);
      if (!page.zero.content) {
        page.zero.front = ends.front;
        page.zero.back = ends.back;
      }
    } else if (!near && tiers.has_host(region, page.page) &&
               (copies.latest() & page::host_bit) != 0) {
      page.source.bit = page::host_bit;
      page.source.address = reinterpret_cast<uint64_t>(tiers.host_bytes(region, page.page));
      if (tiers.sums_host(region)) page.source.checksum = tiers.checksum(copies);
    } else if ((copies.latest() & page::below_host) != 0 &&
               (freight == nullptr || !freight->past_host)) {
      tiers.list_parts(region, page.page, static_cast<uint32_t>(&page - plan.pages.data()),
                       &plan.fill.parts);
      page.source.bit = plan.fill.parts.back().bit();
      page.source.checksum = tiers.checksum(copies);
    } else if (other != nullptr) {
      const DevicePage &there = other->pages[page.page];
      page.source.bit = other->place_bit();
      page.source.address = freight->source->memory.page_address(region, *other, page.page);
      if (there.ready) plan.fill.before.push_back(there.ready);
      page.source.freight = static_cast<uint32_t>(freight - plan.haul.freights.data());
      freight->bytes += page.used;
      freight->order.secret = freight->order.secret || region.is.secret;
    }
    if (page.absent) page.memory.record = &device.memory.at(page.memory.granule);
    // Its own, and those that others have taken from it, of which no lease may know: prefetches.
    for (size_t i = 0; page.stale && i < region.residences.size(); ++i) {
      const Stamp ready = region.residences[i]->pages[page.page].ready;
      if (ready) plan.fill.before.push_back(ready);
    }
    pages_.begin_fill(region, page.page, device, page.memory.granule);
    page.filling = true;
  }
  for (const PlanItem &item : plan.items) {
    if (item.zeroes()) mark_zeroing(plan, item);
  }
  carriage_.choose_ways(plan);
}

/// The place of a tenant never written is zeroed once, for whoever comes first, also on pages of it that he does not
/// lease: nobody else may do so, use it or move these pages until it is done.
void Filler::mark_zeroing(Plan &plan, const PlanItem &item) noexcept {
  for (PlanPage &page : plan.pages) {
    if (page.region != item.region || page.page < item.first || page.page > item.last) continue;
    if (page.filling || page.zeroing) continue;
    page.zeroing = true;
    pages_.mark_busy(*page.region, page.page, *plan.device);
  }
}

/// Outside the lock: gives the plan's page `first` its memory, and as many after it as lie side by side, up to *longest. That
/// doubles, so that the first copy begins after one page is mapped, and most pages come by few calls.
Status Filler::map_pages(Plan &plan, size_t first, uint32_t *longest) {
  const WaitScope waits(Wait::mapping);
  PoolDevice &device = *plan.device;
  PlanPage &page = plan.pages[first];
  WEIR_TRY(device.memory.granules().materialize(*page.memory.record));
  if (!device.vmm()) {
    page.address = page.memory.record->place;
    return {};
  }
  if (page.memory.shared != nullptr) {
    WEIR_TRY(device.memory.map(page.memory.address, page.bytes, page.memory.record->place,
                               page.memory.shared, &page.memory.opened));
    page.memory.mapped = true;
    return {};
  }
  std::array<weir_be_piece, physical::Mapper::most_in_run> pieces;
  pieces[0] = {page.memory.record->place, 0, page.bytes};
  uint64_t end = page.memory.address + page.bytes;
  uint32_t count = 1;
  for (; count < *longest && first + count < plan.pages.size(); ++count) {
    const PlanPage &next = plan.pages[first + count];
    if (!next.filling || !next.absent || next.region != page.region ||
        next.memory.shared != nullptr || next.memory.address != end)
      break;
    WEIR_TRY(device.memory.granules().materialize(*next.memory.record));
    pieces[count] = {next.memory.record->place, 0, next.bytes};
    end += next.bytes;
  }
  physical::Mapper &mapper = device.memory.mapper();
  uint16_t opened = 0;
  WEIR_TRY(mapper.map_run(page.memory.address, {pieces.data(), count}, &opened));
  for (uint32_t i = 0; i < count; ++i) {
    plan.pages[first + i].memory.opened = opened;
    plan.pages[first + i].memory.mapped = true;
  }
  *longest = std::min(2 * *longest, mapper.longest_run());
  return {};
}

/// Outside the lock, before a copy up: the bytes are those that were demoted.
Status Filler::verify_source(const Plan &plan, PlanPage *page) {
  if (page->source.checksum == 0) return {};
  const auto *bytes = reinterpret_cast<const unsigned char *>(page->source.address);
  if (codec::checksum_of(bytes, page->used) == page->source.checksum) return {};
  page->source.corrupt = true;
  return page::fail_corrupt(plan.items[page->item].use, page->page, page->source.bit);
}

/// Outside the lock: the pages that come from below HOST, through staging. Their reads have begun.
Status Filler::fill_from_below(Plan &plan, tier::Lift &lift, transfer::Copier &copier) {
  codec::PageChecksum sum;
  uint64_t began_ns = 0;  // that the copies wait for the page at hand
  for (size_t i = 0; i < plan.fill.parts.size(); ++i) {
    const tier::LiftPart &part = plan.fill.parts[i];
    PlanPage &page = plan.pages[part.page];
    lift.begin(plan.fill.parts);
    tier::StagingSlot *slot = nullptr;
    if (part.offset == 0) began_ns = steady_ns();
    const Status read = lift.finish(part, &slot);
    if (part.offset == 0) sum.reset();
    if (read) sum.add(slot->pinned, part.bytes);
    const bool last = part.offset + part.bytes == page.used;
    const bool damaged =
        read.ok() ? last && sum.sum() != page.source.checksum : read.code() == WEIR_ERROR_CORRUPT;
    if (damaged) {
      page.source.corrupt = true;
      return page::fail_corrupt(plan.items[page.item].use, page.page, part.bit());
    }
    WEIR_TRY(read);
    if (last) env_.sync.tap.moves().add(part.bit(), plan.device->bit(), steady_ns() - began_ns);
    // If a step fails the slot stays taken until the stream has been synchronized.
    WEIR_TRY(copier.copy(page.address + part.offset, reinterpret_cast<uint64_t>(slot->pinned),
                         part.bytes));
    Stamp copied;
    WEIR_TRY(copier.mark(&copied));
    lift.give(copied);
    if (part.secret) env_.scrub_turns.note();
  }
  return {};
}

/// Outside the lock. Maps as it goes and enqueues page by page, so that mapping overlaps with copying.
Status Filler::fill(Plan &plan) {
  PoolDevice &device = *plan.device;
  Stream &stream = stream_for(plan);
  transfer::Copier copier(stream);
  tier::Lift lift(page_.cold, plan.terms.quiet);
  const auto run = [&]() -> Status {
    if (!plan.fill.parts.empty()) lift.begin(plan.fill.parts);
    for (const Stamp stamp : plan.fill.before) WEIR_TRY(env_.streams.enqueue_wait(stream, stamp));
    uint32_t longest = 1;
    for (size_t i = 0; i < plan.pages.size(); ++i) {
      PlanPage &page = plan.pages[i];
      if (!page.filling) continue;
      if (page.absent && !page.memory.mapped) WEIR_TRY(map_pages(plan, i, &longest));
      if (page.zero.granule) WEIR_TRY(copier.zero(page.memory.address, page.bytes));
      plan.haul.wiping = plan.haul.wiping || page.zero.granule;
      if (page.zero.content) {
        const bool fragment = page.region->shape.fragment(page.page);
        if (!page.zero.granule)
          WEIR_TRY(copier.zero(page.address, fragment ? page.used : page.bytes));
      } else if (page.source.freight != no_freight) {
        WEIR_TRY(carriage_.carry(plan, page, copier));
      } else if (page.source.address != 0) {
        WEIR_TRY(verify_source(plan, &page));
        WEIR_TRY(copier.copy(page.address, page.source.address, page.used));
      }
      WEIR_TRY(copier.zero(page.address, page.zero.front));
      WEIR_TRY(copier.zero(page.address + page.bytes - page.zero.back, page.zero.back));
      if (page.zero.rest && !page.zero.content && page.zero.back == 0)
        WEIR_TRY(copier.zero(page.address + page.used, page.bytes - page.used));
    }
    WEIR_TRY(carriage_.finish(plan, copier));
    WEIR_TRY(fill_from_below(plan, lift, copier));
    for (const PlanItem &item : plan.items) {
      if (!item.zeroes()) continue;
      // A page at a time: a fill, too, stays within one mapping.
      for (uint32_t p = item.first; p <= item.last; ++p) {
        const uint64_t at = item.region->shape.offset(p);
        const uint64_t from = std::max(at, item.base);
        const uint64_t to = std::min(at + item.region->shape.page_bytes(p), item.base + item.size);
        const auto page = std::find_if(
            plan.pages.begin(), plan.pages.end(),
            [&](const PlanPage &of) { return of.region == item.region && of.page == p; });
        WEIR_TRY(copier.zero(page->address + (from - at), to - from));
      }
    }
    return copier.mark(&plan.fill.ready);
  };
  env_.sync.points.at("fill");
  plan.fill.began_ns = steady_ns();
  const Status status = run();
  if (status) return {};
  const KeepError keep;
  // Nothing may still be writing into memory that is about to be someone else's.
  carriage_.end(plan);
  copier.synchronize();
  for (PlanPage &page : plan.pages) {
    if (page.memory.mapped &&
        device.memory.unmap(page.memory.address, page.bytes, page.memory.shared))
      page.memory.mapped = false;
  }
  return status;
}

/// A virgin tenant's place has been zeroed, on pages that may have been resident before: the next use waits for that. The place
/// counts as written now and not at commit(), because pages that the lease does not name may be evicted before that.
void Filler::settle_zeroing(const Plan &plan, const PlanItem &item) noexcept {
  pages_.set_ready(*item.region, item.first, item.last, *plan.device, plan.fill.ready);
  if (!item.claimed) return;
  for (uint32_t p = item.first; p <= item.last; ++p)
    page_.tiers.invalidate(*item.region, p, plan.device->bit());
  page_.buffers.hot(item.buffer).set_flags(0, Word::virgin);
}

/// `how`: what is known of it as bits of Event::how, beside where the bytes came from.
void Filler::tell_filled(const Plan &plan, const PlanPage &page, uint8_t how) noexcept {
  Event event{What::filled, how, plan.device->place, page.region->id, page.page, page.used};
  if ((page.source.bit & page::device_bits) != 0) {
    event.how |= Event::from_device;
  } else if (page.source.bit != 0) {
    event.how |= Event::from_host;
    env_.gauges.promoted += page.used;
  }
  if ((page.source.bit & page::below_host) != 0) event.how |= Event::from_below;
  if (page.source.bit != 0 && plan.terms.quiet) event.how |= Event::ahead;
  if (plan.terms.planned) event.how |= Event::planned;
  env_.events.tell(event);
  if (page.zero.content)
    env_.events.tell({What::zeroed, 0, event.place, event.region, event.page, page.bytes});
}

void Filler::settle(Plan &plan, bool filled) noexcept {
  PoolDevice &device = *plan.device;
  carriage_.settle(plan, filled);
  MoveNotes moves(env_, plan.terms.planned ? notes::Move::plan
                        : plan.terms.quiet ? notes::Move::prefetch
                                           : notes::Move::demand);
  for (PlanPage &page : plan.pages) {
    if (page.zeroing) pages_.unmark_busy(*page.region, page.page, device);
    page.zeroing = false;
    if (!page.filling) continue;
    page.filling = false;
    const Region &region = *page.region;
    if (page.source.corrupt && !region.idle(page.page))
      env_.events.tell({What::corrupt, 0, Event::nowhere, region.id, page.page});
    if (filled) {
      if (page.source.bit != 0 || page.zero.content)
        moves.add(region, page.page, page.used, page.source.bit, device.bit(),
                  {plan.fill.began_ns, 0, plan.fill.ready});
      settle_filled(plan, page);
    } else {
      settle_unfilled(plan, page);
    }
  }
  for (const PlanItem &item : plan.items) {
    if (filled && item.zeroes()) settle_zeroing(plan, item);
  }
  // Some bytes may have come to granules that are nobody's now.
  for (const PlanPage &page : plan.pages) {
    if (!filled && page.memory.granule != physical::no_granule && !page.memory.joined)
      device.memory.at(page.memory.granule).set_client(physical::client_unknown);
  }
  if (!filled) return_granules(plan);
  if (filled) watch_copy(plan);
  forgo(plan);
  env_.sync.changed.notify_all();
}

/// Of what came from HOST alone, once in a while: how long it takes until it is there.
void Filler::watch_copy(const Plan &plan) noexcept {
  CopySamples &copies = env_.sync.tap.copies();
  const uint64_t now = steady_ns();
  if (!plan.fill.ready || !copies.due(now)) return;
  bool host = false;
  for (const PlanPage &page : plan.pages) {
    if (page.source.bit == 0) continue;
    if (page.source.bit != page::host_bit) return;
    host = true;
  }
  if (!host) return;
  copies.watch(plan.fill.began_ns, plan.fill.ready.bits, now);
  env_.sync.wakes.evictor.notify_all();  // it looks, should nobody else
}

void Filler::settle_filled(const Plan &plan, PlanPage &page) noexcept {
  PoolDevice &device = *plan.device;
  Region &region = *page.region;
  Residence &here = *region.on(plan.place());
  const Page &copies = region.pages[page.page];
  const uint32_t evicted = here.pages[page.page].evicted();
  // forget_idle() comes when `ready` is known.
  pages_.end_fill(region, page.page, device, plan.fill.ready,
                  page.absent ? &page.memory.opened : nullptr);
  // Of a page whose owner is gone, the copies may have gone while they were read.
  const bool idle = region.idle(page.page);
  uint8_t how = 0;
  if (page.source.freight != no_freight && page.counts) carriage_.note_carried(plan, page);
  if (region.owner.buffer != page::BufferTable::none)
    page_.buffers.hot(region.owner.buffer).set_flags(0, Word::sole);
  if (page.absent) {
    if (device.evicted_lately(evicted)) how |= Event::refault;
    device.memory.at(page.memory.granule).set_client(region.owner.client);
    if (!device.vmm()) here.range.address = page.address;
    device.memory.end_making(region, page.page, page.zero.granule ? plan.fill.ready : Stamp{});
    if (idle) pages_.uncharge(region, page.page, device.place);  // its tenants have left meanwhile
    if (plan.terms.lends && !idle) {
      pages_.lend(region, page.page, device, true);
      how |= Event::balance;
      env_.gauges.rebalanced += page.used;
    } else {
      pages_.offer(region, page.page, device);
    }
  }
  // The bytes are here; where they came from they still are too. A page to be overwritten, or a slab's
  // untouched one, has no version yet.
  if (idle) {
    page_.tiers.forget_idle(region, page.page);
    pages_.discarded(region, page.page);
  } else if (copies.latest() != 0 && !page.discard) {
    // What has been lost meanwhile (losses.hpp) is not found again.
    if (!copies.lost() && page.counts) pages_.arrived(region, page.page, device.bit());
  } else if (page.zero.content && !page.discard && !region.is.slab) {
    pages_.arrived(region, page.page, device.bit());
  }
  tell_filled(plan, page, how);
  page.memory.granule = physical::no_granule;
  page.absent = page.stale = page.memory.mapped = false;
}

/// It is as it was. A granule that is the plan's still is given back after that.
void Filler::settle_unfilled(const Plan &plan, PlanPage &page) noexcept {
  PoolDevice &device = *plan.device;
  Region &region = *page.region;
  (void)pages_.fail_fill(region, page.page, device, !page.stale, page.memory.mapped);
  if (page.source.corrupt) pages_.forsake_copy(region, page.page, page.source.bit);
  if (!page.stale && page.memory.mapped) {
    // It could not be unmapped: the granule can't be used again. It stays charged, and nobody's.
    // One that others were in before stays as it is: what they have there must not be zeroed for the next.
    if (!device.memory.leave(region, page.page) && !page.memory.joined)
      device.memory.at(page.memory.granule).set_client(physical::client_unknown);
    if (page.memory.shared != nullptr) page.memory.shared->forsake();
    device.memory.note_stuck(page.bytes);
    page.memory.granule = physical::no_granule;
    // At that address nothing else can be, of whichever device.
    if (region.shards != nullptr) region.shards->stranded = true;
  }
  page_.tiers.forget_idle(region, page.page);
}

static void name_fill(const Plan &plan, RangeText &text) noexcept {
  const auto pages = std::ranges::count_if(plan.pages, &PlanPage::filling);
  text.add("fill %zu pages, device %u, %s", static_cast<size_t>(pages), plan.device->device.id,
           plan.terms.planned ? "plan"
           : plan.terms.quiet ? "prefetch"
                              : "demand");
}

Status Filler::bring(Releasable &lock, Plan &plan) {
  PoolDevice *lost = nullptr;
  const Status status = lock.unlocked([&] {
    const RangeScope range(env_.sync.tap.ranges(), RangeKind::move,
                           [&plan](RangeText &text) { name_fill(plan, text); });
    for (const physical::Doomed &old : plan.doomed)
      (void)plan.device->memory.granules().destroy(old);
    const Status filled = with_memory("while filling pages", [&] { return fill(plan); });
    lost = &lost_by(plan, filled);
    return filled;
  });
  for (const physical::Doomed &old : plan.doomed) plan.device->memory.granules().forget(old);
  plan.doomed.clear();
  others_.losses.note(*lost, status);
  if (status && plan.device->lost()) clear_mappings(lock, plan);
  settle(plan, status.ok() && !plan.device->lost());
  return status;
}

/// Outside the lock: whose loss a plan has met with that failed so.
PoolDevice &Filler::lost_by(Plan &plan, const Status &status) noexcept {
  if (status.code() != WEIR_ERROR_DEVICE_LOST) return *plan.device;
  const uint8_t count = others_.losses.device_count();
  for (uint8_t place = 0; place < count; ++place) {
    PoolDevice &device = *page_.devices[place];
    const auto from_there = [bit = device.bit()](const PlanPage &page) {
      return page.filling && page.source.bit == bit;
    };
    if (std::ranges::any_of(plan.pages, from_there) && others_.losses.answers_lost(device))
      return device;
  }
  if (PoolDevice *between = carriage_.lost_between(plan)) return *between;
  PoolDevice &lost = others_.losses.lost_in(*plan.device);
  plan.haul.rerouted = plan.haul.rerouted || &lost != plan.device;
  return lost;
}

/// What a plan has mapped in ranges that others use, on a device that was lost while it did so, is taken out again, once its
/// copies have ended, as far as the device still makes them: their sources may be freed next.
void Filler::clear_mappings(Releasable &lock, Plan &plan) noexcept {
  lock.unlocked([&] {
    PoolDevice &device = *plan.device;
    device.streams.up()->synchronize();
    if (Stream *fills = device.streams.fills(); fills != nullptr) fills->synchronize();
    for (PlanPage &page : plan.pages) {
      if (page.region->shards == nullptr || !page.memory.mapped) continue;
      if (plan.device->memory.mapper().unmap(page.memory.address, page.bytes))
        page.memory.mapped = false;
    }
  });
}

void Filler::return_granules(Plan &plan) noexcept {
  PoolDevice &device = *plan.device;
  for (PlanPage &page : plan.pages) {
    if (page.memory.granule == physical::no_granule || page.filling) continue;
    pages_.uncharge(*page.region, page.page, device.place);
    device.memory.unclaim(*page.region, page.page,
                          std::exchange(page.memory.granule, physical::no_granule));
  }
}

}  // namespace weir::move
