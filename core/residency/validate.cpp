// SPDX-License-Identifier: Apache-2.0
//
// The invariants of docs/page-states.md, looked up one by one: for tests, which call this whenever they like, also while
// other threads are at work. Changes nothing.

#include "core/residency/plan.hpp"

#include <cstdio>

namespace weir::residency {
namespace {

std::string broken(const Region &region, uint32_t page, const char *what) {
  char text[160];
  std::snprintf(text, sizeof text, "region %u, page %u: %s", region.id, page, what);
  return text;
}

}  // namespace

/// One page across its places, by the table of states.
std::string Engine::validate_page(Region &region, uint32_t page) noexcept {
  const Page &copies = region.pages[page];
  uint32_t moving = 0;
  uint32_t here = 0;
  for (const auto &r : region.residences) {
    const DevicePage &state = r->pages[page];
    const bool granule = state.granule != physical::no_granule;
    if (granule != (state.state() != PageState::absent))
      return broken(region, page, granule ? "ABSENT with a granule" : "in place without a granule");
    if (state.visited && !state.borrowed) return broken(region, page, "visited and not borrowed");
    moving += granule && state.state() != PageState::resident ? 1 : 0;
    if (granule && state.state() != PageState::filling) here |= device_at(r->place).bit();
  }
  for (const auto &r : region.residences) {
    if (region.shards == nullptr || r->place == region.home_of(page)) continue;
    if (r->pages[page].state() != PageState::absent)
      return broken(region, page, "of a sharded buffer, and on another device than its own");
  }
  // A page that is being worked on where it lies is busy too, so this is no equality.
  if (moving > copies.busy) return broken(region, page, "on the move and not marked busy");
  if (copies.lost() && copies.latest() != vm::lost_bit)
    return broken(region, page, "lost, and somewhere");
  if ((copies.latest() & vm::host_bit) != 0 && !tiers_.has_host(region, page))
    return broken(region, page, "latest in HOST without a place there");
  const uint32_t only = region.only_latest(page);
  if (only != 0 && copies.latest() != only && copies.latest() != vm::lost_bit)
    return broken(region, page, "held to be written, and not the only latest copy");
  const char *below = validate_below(region, page);
  if (below != nullptr) return broken(region, page, below);
  const uint32_t devices = copies.latest() & vm::device_bits;
  if ((devices & ~here) != 0) return broken(region, page, "latest on a device it is not on");
  return {};
}

/// What lies below HOST, or is on its way there.
const char *Engine::validate_below(Region &region, uint32_t page) noexcept {
  const Page &copies = region.pages[page];
  const bool below = (copies.latest() & vm::below_host) != 0;
  if (below && copies.lower == tier::ColdTiers::none) return "latest below HOST without a record";
  if (below && tiers_.checksum(copies) == 0) return "latest below HOST without a checksum";
  const page::SourcePin *source = tiers_.source_of(region, page);
  if (copies.sinking != (source != nullptr)) return "sinking, and nobody knows of it";
  for (uint32_t at = copies.lower; at != tier::ColdTiers::none; at = cold_.next(at)) {
    const tier::PartRecord &part = cold_.record(at);
    const bool writing = source != nullptr && !source->from_host;
    const auto is_there = [&](Place tier) {
      return static_cast<bool>(part.in(tier)) == ((copies.latest() & tier.bit()) != 0);
    };
    if (!is_there(Place::compressed)) return "its places in COMPRESSED are not those of its state";
    if (!writing && !is_there(Place::storage))
      return "its places in STORAGE are not those of its state";
  }
  return nullptr;
}

/// What the hit path may rely on.
std::string Engine::validate_word(uint32_t index) noexcept {
  const uint64_t word = buffers_.hot(index).word.load();
  const Target where = buffers_.target(index);
  Region &region = *where.region;
  const bool partials = leases_.on_parts(index);
  if (partials != ((word & Word::partial) != 0))
    return broken(region, 0, "its buffer's flag of leases on parts is wrong");
  // Closed anyway: who has the buffer to himself may be changing it.
  if ((word & Word::resident) == 0 || partials || (word & Word::writer) != 0) return {};
  const ClaimScope home = ClaimScope::on(Place(region.home));
  if (buffers_.hold_forbids(index, false, home) ||
      ((word & Word::sole) != 0 && buffers_.hold_forbids(index, true, home)))
    return broken(region, 0, "open to hits that a hold forbids");
  const uint32_t bit = uint32_t{1} << region.home;
  const uint32_t last = region.shape.page_at(where.base + where.size - 1);
  for (uint32_t p = region.shape.page_at(where.base); p <= last; ++p) {
    const Page &copies = region.pages[p];
    if ((copies.latest() & bit) == 0) return broken(region, p, "open to hits and not the latest");
    if ((word & Word::sole) != 0 && copies.latest() != bit)
      return broken(region, p, "open to writing hits with another latest copy");
  }
  return {};
}

uint64_t Engine::pinned_bytes(const Region &region, const Residence &here) noexcept {
  uint64_t bytes = 0;
  for (uint32_t p = 0; region.pinned && p < here.pages.size(); ++p) {
    if (region.pins(p) && here.pages[p].granule != physical::no_granule)
      bytes += region.shape.granule_bytes(p);
  }
  return bytes;
}

std::string Engine::validate_device(PoolDevice &device) {
  uint64_t held = 0;
  uint64_t occupied = 0;
  // Twice: a shared granule is held if any of those who share it is.
  for (const bool all : {false, true}) {
    begin_count(device);
    for (Region &region : regions_) {
      Residence *here = region.on(device.place);
      if (here == nullptr) continue;
      const bool counts = all || region.held_on(device.place);
      (all ? occupied : held) +=
          counts ? occupied_bytes(region, *here, all) : pinned_bytes(region, *here);
    }
  }
  if (device.sharing != nullptr) {
    std::string wrong = device.sharing->validate();
    if (!wrong.empty()) return wrong;
  }
  char text[160] = "";
  if (held != device.held_bytes) {
    std::snprintf(text, sizeof text, "device %u: %llu bytes are held, %llu counted",
                  device.device.id, llu(held), llu(device.held_bytes));
  } else if (occupied + device.granules->idle() > device.granules->held()) {
    std::snprintf(text, sizeof text, "device %u: pages and what is idle exceed what is held",
                  device.device.id);
  } else if (device.granules->held() > device.granules->budget() && !device.lost()) {
    std::snprintf(text, sizeof text, "device %u: more is held than the budget", device.device.id);
  } else if (const Promise promise = promise_of(device.place); !(promise == device.promise)) {
    std::snprintf(text, sizeof text,
                  "device %u: %llu bytes are promised, %llu counted, or not alike",
                  device.device.id, llu(promise.bytes), llu(device.promise.bytes));
  } else if (const std::string wrong = device.granules->validate(); !wrong.empty()) {
    std::snprintf(text, sizeof text, "device %u: %s", device.device.id, wrong.c_str());
  }
  return text;
}

unsigned char *Engine::compressed_blob(weir_buffer buffer, uint32_t page, uint64_t *bytes) {
  Locked lock(lock_);
  uint32_t index = 0;
  if (!buffers_.find(buffer, &index)) return nullptr;
  const Page &copies = buffers_.target(index).region->pages[page];
  if ((copies.latest() & vm::compressed_bit) == 0) return nullptr;
  const tier::CompressedStore &store = *cold_.compressed();
  const tier::UnitName name = cold_.record(copies.lower).in(store.place);
  *bytes = store.blob_bytes(name);
  return store.address(store.slot(name));
}

uint64_t Engine::borrowed_bytes() noexcept {
  uint64_t bytes = 0;
  for (Region &region : regions_) {
    for (const auto &here : region.residences) {
      for (uint32_t p = 0; p < here->pages.size(); ++p)
        bytes += here->pages[p].borrowed ? region.shape.granule_bytes(p) : 0;
    }
  }
  return bytes;
}

Promise Engine::promise_of(uint8_t place) noexcept {
  Promise sum;
  for (uint32_t i = 0; i < buffers_.end(); ++i) {
    const bool alive = (buffers_.hot(i).word.load(std::memory_order_relaxed) & Word::alive) != 0;
    if (!alive) continue;
    const Region &region = *buffers_.target(i).region;
    if (region.shards != nullptr && region.shards->has(place))
      sum.add(place, region.shards->bytes_on(region.shape, place), Users{});
    if (region.shards != nullptr || region.home != place) continue;
    const Users *users = buffers_.users_of(i);
    sum.add(place, buffers_.hot(i).size(), users != nullptr ? *users : Users{});
  }
  return sum;
}

std::string Engine::validate() {
  Locked lock(lock_);
  std::string wrong;
  for (Region &region : regions_) {
    for (uint32_t p = 0; p < region.pages.size() && wrong.empty(); ++p)
      wrong = validate_page(region, p);
  }
  for (uint32_t id = 0; id < regions_.ids() && wrong.empty(); ++id) {
    const Region *region = regions_.live(id);
    if (!places_.check(id, region)) wrong = "the index of places is not what a recount finds";
    if (region == nullptr || !region->slab || !wrong.empty()) continue;
    uint32_t p = 0;
    wrong = slabs_.validate(*region, &p);
    if (!wrong.empty()) wrong = broken(regions_.at(id), p, wrong.c_str());
  }
  for (uint32_t i = 0; i < buffers_.end() && wrong.empty(); ++i) {
    if ((buffers_.hot(i).word.load() & Word::alive) != 0) wrong = validate_word(i);
  }
  for (const auto &device : devices_) {
    if (wrong.empty()) wrong = validate_device(*device);
  }
  if (wrong.empty() && borrowed_bytes() != gauges_.borrowed)
    wrong = "borrowed bytes are not what is counted";
  return wrong;
}

}  // namespace weir::residency
