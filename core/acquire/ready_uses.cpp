// SPDX-License-Identifier: Apache-2.0
//
// Looking whether a set is ready, and granting it.

#include "core/acquire/ready_uses.hpp"

#include "core/page/spans.hpp"

#include <algorithm>

namespace weir::acquire {

bool ReadyUses::resolve(const weir_use &use, lease::Range *range) noexcept {
  uint32_t index = 0;
  if ((use.flags | use.reserved[0] | use.reserved[1] | use.reserved[2]) != 0 ||
      use.mode < WEIR_READ || use.mode > WEIR_DISCARD_WRITE ||
      !page_.buffers.find(use.buffer, &index))
    return false;
  const uint64_t size = page_.buffers.hot(index).size();
  if (use.offset >= size) return false;
  const uint64_t length = use.length != WEIR_WHOLE ? use.length : size - use.offset;
  if (length == 0 || length > size - use.offset) return false;
  *range = lease::part_of(page_.buffers.target(index), index, use.offset, use.offset + length);
  return true;
}

bool ReadyUses::ready_on(Region &region, uint32_t page, bool write, const PoolDevice &there,
                         const PoolDevice &device) noexcept {
  Residence *const here = region.on(there.place);
  if (here == nullptr) return false;
  const DevicePage &state = here->pages[page];
  const Page &copies = region.pages[page];
  const bool latest = write ? copies.latest() == there.bit() : (copies.latest() & there.bit()) != 0;
  // One that is borrowed becomes its region's own, and one that no policy knows is offered to it: the Acquirer's.
  return state.state() == PageState::resident && latest && copies.busy() == 0 && state.queued &&
         !state.borrowed && pages_.arrived_at(*here, page) &&
         (&there == &device || pages_.reads_directly(device, *here, page));
}

bool ReadyUses::ready(const lease::Range &range, bool write, const PoolDevice &device) noexcept {
  Region &region = *range.region;
  const bool sharded = region.shards != nullptr;
  // A slab's pages are used at home alone. A layout that may still be another has been told to nobody.
  if ((region.is.slab && region.home != device.place) || region.layout.unsettled != 0) return false;
  if (sharded && region.shards->stranded) return false;
  const uint32_t last = region.shape.page_at(range.base + range.end - 1);
  for (uint32_t p = region.shape.page_at(range.base + range.begin); p <= last; ++p) {
    const PoolDevice &there = sharded ? *page_.devices[region.home_of(p)] : device;
    if (!there.open() || !ready_on(region, p, write, there, device)) return false;
  }
  return true;
}

bool ReadyUses::open_ranges(const Stream &stream, const PoolDevice &device,
                            const lease::Range &range, bool write) {
  page::Hot &hot = page_.buffers.hot(range.buffer);
  Region &region = *range.region;
  constexpr uint64_t unusual = Word::partial | Word::part | Word::closing | Word::virgin;
  const bool sharded = region.shards != nullptr;
  if (region.is.slab || (sharded ? write : region.home != device.place)) return false;
  uint64_t there = 0;
  for (const auto &each : region.residences)
    if (sharded || each->place == region.home) there += each->resident;
  if (there != region.pages.size() || (hot.word.load(std::memory_order_relaxed) & unusual) != 0 ||
      prefetcher_.hinted(range.buffer))
    return false;
  if (hot.device() != device.device.id) hot.set_flags(0, Word::resident);  // the path comes here
  page_.buffers.attach_span(range.buffer);
  const uint64_t word = hot.word.load(std::memory_order_relaxed);
  if (Word::span(word) == 0) return false;
  if ((word & (Word::resident | Word::history)) != Word::resident) {
    if (!lease_.history.fold(range.buffer, stream.slot)) return false;
    pages_.refresh_word(range.buffer, region, range.base, hot.size(), false, {device.place, 0});
  }
  return true;
}

bool ReadyUses::grant_range(const Stream &stream, const PoolDevice &device,
                            const lease::Range &range, weir_use &use, Lease *lease) {
  page::Hot &hot = page_.buffers.hot(range.buffer);
  const auto mode = static_cast<uint8_t>(use.mode);
  if ((range.begin == 0 && range.end == hot.size()) ||
      !open_ranges(stream, device, range, mode != WEIR_READ))
    return false;
  uint64_t address = 0;
  if (!page_.buffers.spans().try_lease(hot, hot.generation(), {range.begin, range.end, mode},
                                       stream.slot, device.device.id, &address))
    return false;
  use.address = address + range.begin;
  lease->few[0].be_part(range.begin, range.end, range.buffer, mode);
  range.region->leased_at(env_.ticks.now());
  env_.events.tell(What::hit);
  ++env_.gauges.granted;
  lease->count.store(1, std::memory_order_release);  // who looks at all leases finds the item
  return true;
}

bool ReadyUses::take(const Stream &stream, const PoolDevice &device, const lease::Range &range,
                     uint8_t mode, const Lease *lease, LeaseItem *item) {
  const bool write = mode != WEIR_READ;
  const page::Hot &hot = page_.buffers.hot(range.buffer);
  if ((hot.word.load(std::memory_order_relaxed) & (Word::virgin | Word::closing)) != 0 ||
      range.region->holds.count != 0 || page_.buffers.hold_of(range.buffer) != nullptr)
    return false;
  // A plan makes one lease of what a set has of one buffer; many of them would be compared with each other here.
  if (lease_.leases.count(range.buffer) > most_leases) return false;
  const bool sharded = range.region->shards != nullptr;
  const ClaimScope scope = sharded ? ClaimScope::shards() : ClaimScope::on(Place(device.place));
  if (lease_.leases.conflicts(range, write, scope) || !ready(range, write, device)) return false;
  env_.sync.points.at("acquire.ready");
  if (!lease_.leases.take(range, mode, scope, lease)) return false;
  // After it is counted: whoever came on the hit path meanwhile has published its fence before its lease was over (page/hot.hpp).
  if (!lease_.history.follows(range, write, stream.slot)) {
    lease_.leases.drop(range, mode, lease);
    env_.sync.changed.notify_all();
    return false;
  }
  const bool whole = range.begin == 0 && range.end == hot.size();
  const LeaseKind kinds[] = {LeaseKind::partial, LeaseKind::whole, LeaseKind::partial_remote,
                             LeaseKind::whole_remote};
  *item = {range.begin, range.end, range.buffer, mode, kinds[(sharded ? 2 : 0) + (whole ? 1 : 0)]};
  return true;
}

void ReadyUses::commit(const Stream &stream, const PoolDevice &device, const Lease *lease,
                       const LeaseItem &item) noexcept {
  const page::Target where = page_.buffers.target(item.buffer);
  Region &region = *where.region;
  region.leased_at(env_.ticks.now());
  prefetcher_.note_use(item.buffer, item.begin, item.end);
  if (item.remote() && item.writes())
    lease_.remote_writes.note({lease, item.buffer, page_.buffers.hot(item.buffer).generation(),
                               item.begin, item.end, &device.device});
  if (item.whole()) {
    lease_.history.grant_whole(item.buffer, item.writes(), &stream);
    // The reason why the hit path did not grant it may be gone: the next lease can be a hit.
    if (region.shards == nullptr || !item.writes())
      pages_.refresh_word(item.buffer, region, where.base, where.size,
                          lease_.history.pending(item.buffer),
                          {device.place, Word::counted(item.mode)});
  }
  env_.events.tell(What::hit);
  ++env_.gauges.granted;
}

bool ReadyUses::grant(const Stream &stream, const PoolDevice &device, std::span<weir_use> uses,
                      Lease *lease) {
  const size_t count = uses.size();
  lease::Range range;
  if (!resolve(uses[0], &range)) return false;
  if (count == 1 && grant_range(stream, device, range, uses[0], lease)) return true;
  if (count > Lease::inline_items) lease->more.resize(count);
  LeaseItem *const items = count > Lease::inline_items ? lease->more.data() : lease->few.data();
  size_t taken = 0;
  bool granted = false;
  const AtEnd undo([&]() WEIR_HELD {
    if (granted || taken == 0) return;
    for (const LeaseItem &item : std::span(items, taken))
      lease_.leases.drop(
          lease::part_of(page_.buffers.target(item.buffer), item.buffer, item.begin, item.end),
          item.mode, lease);
    env_.sync.changed.notify_all();
  });
  while (taken < count && (taken == 0 || resolve(uses[taken], &range)) &&
         take(stream, device, range, static_cast<uint8_t>(uses[taken].mode), lease, &items[taken]))
    ++taken;
  if (taken < count) return false;
  if (std::any_of(items, items + count,
                  [](const LeaseItem &item) { return item.remote() && item.writes(); }))
    lease_.remote_writes.reserve(count);
  granted = true;  // nothing fails from here on
  for (size_t i = 0; i < count; ++i) {
    const page::Target where = page_.buffers.target(items[i].buffer);
    commit(stream, device, lease, items[i]);
    uses[i].address = address_on(*where.region, device.place) + where.base + uses[i].offset;
  }
  lease->count.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
  return true;
}

}  // namespace weir::acquire
