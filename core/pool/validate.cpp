// SPDX-License-Identifier: Apache-2.0
//
// The invariants of docs/page-states.md, looked up one by one: for tests, which ask whenever they like, also while other threads are
// at work. Changes nothing.

#include "core/pool/inspector.hpp"

#include <algorithm>

namespace weir::pool {
namespace {

using Tables = Inspector::Tables;

std::string broken(const Region &region, uint32_t page, const char *what) {
  return "region " + std::to_string(region.id) + ", page " + std::to_string(page) + ": " + what;
}

/// What lies below HOST, or is on its way there.
const char *check_below(const Tables &pool, const Region &region,
                        uint32_t page) noexcept WEIR_HELD {
  const Page &copies = region.pages[page];
  const bool below = (copies.latest() & page::below_host) != 0;
  if (below && copies.lower == tier::ColdTiers::none) return "latest below HOST without a record";
  if (below && pool.page.tiers.checksum(copies) == 0) return "latest below HOST without a checksum";
  const page::SourcePin *source = pool.page.tiers.source_of(region, page);
  if (copies.sinking != (source != nullptr)) return "sinking, and nobody knows of it";
  const bool writing = source != nullptr && !source->from_host;
  for (uint32_t at = copies.lower; at != tier::ColdTiers::none; at = pool.page.cold.next(at)) {
    const tier::PartRecord &part = pool.page.cold.record(at);
    const auto is_there = [&](Place tier) {
      return static_cast<bool>(part.in(tier)) == ((copies.latest() & tier.bit()) != 0);
    };
    if (!is_there(Place::compressed)) return "its places in COMPRESSED are not those of its state";
    if (!writing && !is_there(Place::storage))
      return "its places in STORAGE are not those of its state";
  }
  return nullptr;
}

/// One page across its places, by the table of states; nullptr: all is well.
const char *check_page(const Tables &pool, const Region &region, uint32_t page) noexcept WEIR_HELD {
  const Page &copies = region.pages[page];
  uint32_t moving = 0;
  uint32_t here = 0;
  bool strays = false;
  for (const auto &r : region.residences) {
    const DevicePage &state = r->pages[page];
    const bool granule = state.granule != physical::no_granule;
    if (granule != (state.state() != PageState::absent))
      return granule ? "ABSENT with a granule" : "in place without a granule";
    if (state.visited && !state.borrowed) return "visited and not borrowed";
    moving += granule && state.state() != PageState::resident ? 1 : 0;
    if (granule && state.state() != PageState::filling) here |= pool.page.devices[r->place]->bit();
    strays = strays || (granule && region.shards != nullptr && r->place != region.home_of(page));
  }
  if (strays) return "of a sharded buffer, and on another device than its own";
  // A page that is being worked on where it lies is busy too, so this is no equality.
  if (moving > copies.busy()) return "on the move and not marked busy";
  if (copies.lost() && copies.latest() != page::lost_bit) return "lost, and somewhere";
  if ((copies.latest() & page::host_bit) != 0 && !pool.page.tiers.has_host(region, page))
    return "latest in HOST without a place there";
  const uint32_t only = region.only_latest(page);
  if (only != 0 && copies.latest() != only && copies.latest() != page::lost_bit)
    return "held to be written, and not the only latest copy";
  if (const char *below = check_below(pool, region, page); below != nullptr) return below;
  const bool elsewhere = (copies.latest() & page::device_bits & ~here) != 0;
  return elsewhere ? "latest on a device it is not on" : nullptr;
}

/// What the hit path may rely on.
std::string check_word(const Tables &pool, uint32_t index) noexcept WEIR_HELD {
  const uint64_t word = pool.page.buffers.hot(index).word.load();
  const page::Target where = pool.page.buffers.target(index);
  const Region &region = *where.region;
  const bool partials = pool.lease.leases.on_parts(index);
  if (partials != ((word & Word::partial) != 0))
    return broken(region, 0, "its buffer's flag of leases on parts is wrong");
  // Not looked at where the hit path is closed, nor where a writer has the buffer alone: it may be changing it.
  if ((word & Word::resident) == 0 || partials || (word & Word::writer) != 0) return {};
  const bool sole = (word & Word::sole) != 0;
  const auto device = std::ranges::find_if(pool.page.devices, [&](const auto &each) {
    return each->device.id == pool.page.buffers.hot(index).device();
  });
  if (device == pool.page.devices.end() || !(*device)->open())
    return broken(region, 0, "open to hits on a device that is not there");
  const bool sharded = region.shards != nullptr;
  const Place place((*device)->place);
  const ClaimScope scope = sharded ? ClaimScope::shards() : ClaimScope::on(place);
  if (pool.page.buffers.hold_forbids(index, false, scope) ||
      (sole && pool.page.buffers.hold_forbids(index, true, scope)))
    return broken(region, 0, "open to hits that a hold forbids");
  if (sharded && sole) return broken(region, 0, "sharded, and open to writing hits");
  if (!sharded && place.device() != region.home && Word::span(word) != 0)
    return broken(region, 0, "open to hits on ranges away from home");
  const uint32_t last = region.shape.page_at(where.base + where.size - 1);
  for (uint32_t p = region.shape.page_at(where.base); p <= last; ++p) {
    const uint32_t latest = region.pages[p].latest();
    const uint32_t bit = uint32_t{1} << (sharded ? region.home_of(p) : place.device());
    if ((latest & bit) == 0) return broken(region, p, "open to hits and not the latest");
    if (sole && latest != bit)
      return broken(region, p, "open to writing hits with another latest copy");
  }
  return {};
}

page::Promise promise_of(const Tables &pool, uint8_t place) noexcept WEIR_HELD {
  page::Promise sum;
  for (uint32_t i = 0; i < pool.page.buffers.end(); ++i) {
    if ((pool.page.buffers.hot(i).word.load(std::memory_order_relaxed) & Word::alive) == 0)
      continue;
    const Region &region = *pool.page.buffers.target(i).region;
    if (region.shards != nullptr && region.shards->has(place))
      sum.add(place, region.shards->bytes_on(region.shape, place), page::Users{});
    if (region.shards != nullptr || region.home != place) continue;
    const page::Users *users = pool.page.buffers.users_of(i);
    sum.add(place, pool.page.buffers.hot(i).size(), users != nullptr ? *users : page::Users{});
  }
  return sum;
}

std::string check_device(const Tables &pool, PoolDevice &device) WEIR_HELD {
  std::string wrong = device.memory.validate(pool.page.regions, device.lost());
  if (!wrong.empty()) return wrong;
  const page::Promise promise = promise_of(pool, device.place);
  if (promise == device.promise) return {};
  return "device " + std::to_string(device.device.id) + ": " + std::to_string(promise.bytes) +
         " bytes are promised, " + std::to_string(device.promise.bytes) + " counted, or not alike";
}

}  // namespace

std::string Inspector::validate() const {
  const Locked lock(pool_.env.sync.lock);
  for (const Region &region : pool_.page.regions) {
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      const char *what = check_page(pool_, region, p);
      if (what != nullptr) return broken(region, p, what);
    }
  }
  std::string wrong;
  for (uint32_t id = 0; id < pool_.page.regions.ids() && wrong.empty(); ++id) {
    const Region *region = pool_.page.regions.live(id);
    if (!pool_.page.places.check(id, region))
      return "the index of places is not what a recount finds";
    if (region == nullptr || !region->is.slab) continue;
    uint32_t p = 0;
    wrong = pool_.page.slabs.validate(*region, &p);
    if (!wrong.empty()) wrong = broken(*region, p, wrong.c_str());
  }
  for (uint32_t i = 0; i < pool_.page.buffers.end() && wrong.empty(); ++i) {
    if ((pool_.page.buffers.hot(i).word.load() & Word::alive) != 0) wrong = check_word(pool_, i);
  }
  for (const auto &device : pool_.page.devices) {
    if (wrong.empty()) wrong = check_device(pool_, *device);
  }
  return wrong;
}

}  // namespace weir::pool
