// SPDX-License-Identifier: Apache-2.0
//
// What the hit path may rely on. It is open to one device at a time: the buffer's home, or another on which all of it is, with the latest
// version, and has been leased since. To a sharded buffer's readers it is open on any of its devices.
//
// What must hold: it goes to another device only while the word counts no lease but that of the caller that moves it: a hit reads the device
// and the address after it is counted (hot.hpp).

#include "core/page/page_table.hpp"

#include <algorithm>

namespace weir::page {
namespace {

/// Of a page, where it is to be used. Busy: another device is being filled from it, so writers must come the slow way. Borrowed: the next
/// use must keep the page, which the hit path can't (keep_borrowed()).
bool settled(const Residence &here, const Page &copies, uint32_t page) noexcept {
  const DevicePage &state = here.pages[page];
  return state.state() == PageState::resident && copies.busy() == 0 &&
         (copies.latest() & here.place_bit()) != 0 && !state.borrowed;
}

}  // namespace

PageTable::Reach PageTable::reach(Region &region, uint64_t base, uint64_t size,
                                  uint8_t place) noexcept {
  // A device that is to leave takes no hits: what is left of it must not be leased again. A slab's pages are used at home alone.
  if (!page_.devices[place]->open() || (region.is.slab && place != region.home)) return {};
  if (region.shards != nullptr) return reach_shards(region, *page_.devices[place]);
  Residence *here = region.on(place);
  if (here == nullptr) return {};
  Reach reach{true, true, true};
  const uint32_t last = region.shape.page_at(base + size - 1);
  for (uint32_t p = region.shape.page_at(base); reach.open && p <= last; ++p) {
    const Page &copies = region.pages[p];
    reach.open = settled(*here, copies, p);
    reach.sole = reach.sole && copies.latest() == here->place_bit();
    reach.arrived = arrived_at(*here, p) && reach.arrived;
  }
  return reach;
}

/// Writers of a sharded buffer come the slow way: what they write on other devices is listed (lease::RemoteWrites). A device without a page
/// of it has no path: the paths of a device are closed by the pages that are there.
PageTable::Reach PageTable::reach_shards(Region &region, const PoolDevice &device) noexcept {
  Reach reach{!region.shards->stranded, false, true};
  bool own = false;
  for (uint32_t p = 0; reach.open && p < region.pages.size(); ++p) {
    const PoolDevice &there = *page_.devices[region.home_of(p)];
    Residence *here = region.on(there.place);
    own = own || &there == &device;
    reach.open = here != nullptr && there.open() && settled(*here, region.pages[p], p) &&
                 (&there == &device || reads_directly(device, *here, p));
    if (reach.open) reach.arrived = arrived_at(*here, p) && reach.arrived;
  }
  reach.open = reach.open && own;
  return reach;
}

uint8_t PageTable::path_of(const Hot &hot, const Region &region) const noexcept {
  const uint32_t id = hot.device();
  if (page_.devices[region.home]->device.id == id) return region.home;
  const auto found = std::find_if(page_.devices.begin(), page_.devices.end(),
                                  [id](const auto &each) { return each->device.id == id; });
  return found != page_.devices.end() ? (*found)->place : region.home;
}

bool PageTable::move_path(Hot &hot, uint8_t place, uint64_t own) noexcept {
  const uint64_t seen = hot.word.fetch_and(~Word::resident, std::memory_order_acq_rel);
  if (Word::leases(seen) != own || (seen & Word::part) != 0) return false;
  hot.set_size_device(hot.size(), page_.devices[place]->device.id);
  return true;
}

void PageTable::refresh_word(uint32_t index, Region &region, uint64_t base, uint64_t size,
                             bool history, const WordUser &user) noexcept {
  Hot &hot = page_.buffers.hot(index);
  const uint8_t before = path_of(hot, region);
  uint8_t place = user.place.value_or(before);
  Reach there = reach(region, base, size, place);
  if (!there.open && place != region.home) {
    const Reach home = reach(region, base, size, region.home);
    if (home.open) {
      place = region.home;
      there = home;
    }
  }
  if (there.open && place != before && !move_path(hot, place, user.leases)) {
    place = before;  // a lease that is counted may be reading what it is
    there = reach(region, base, size, place);
  }
  const bool pending = history || !there.arrived;
  if ((hot.word.load(std::memory_order_relaxed) & Word::virgin) != 0) there.open = false;
  if (const Hold *hold = page_.buffers.hold_of(index)) {
    there.open = there.open && hold->kind != HoldKind::alone;
    there.sole = there.sole && hold->kind != HoldKind::read;
  }
  // A lease of a range in a word is one at home (lease::LeaseTable). None is out: the path would not have come here.
  if (place != region.home && region.shards == nullptr) page_.buffers.detach_span(index);
  uint64_t set = 0, clear = 0;
  (there.open ? set : clear) |= Word::resident;
  (there.open && there.sole ? set : clear) |= Word::sole;
  (pending ? set : clear) |= Word::history;
  // Where the hit path is open already the address is the same, and being read.
  const uint64_t address = there.open ? address_on(region, place) + base : hot.address;
  if (hot.address != address) hot.address = address;
  hot.set_flags(set, clear);
}

uint64_t PageTable::close(Region &region) noexcept {
  uint64_t buffers = 0;
  region.for_each_buffer([this, &buffers](uint32_t index) {
    ++buffers;
    if ((page_.buffers.hot(index).word.load(std::memory_order_relaxed) & Word::alive) != 0)
      page_.buffers.hot(index).set_flags(0, Word::resident);
  });
  return buffers;
}

void PageTable::close_at_home(uint8_t place) noexcept {
  for (Region &region : Walk(page_.places, PlaceIndex::home(place), page_.regions))
    (void)close(region);
}

}  // namespace weir::page
