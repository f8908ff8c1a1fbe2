// SPDX-License-Identifier: Apache-2.0
//
// First use: what a new tenant may find on its place, and the short ways to its first lease where that is nothing to wait for,
// bring or zero. Work that may still run there is remembered by the place (History::bury). Where it is all of one stream's past, and the
// pages are there with nothing that a write would make stale, the hit path grants the first lease (Word::virgin); where the
// pages are there but nobody's, one look under the lock does. All else is the slow way's.

#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {
namespace {

/// Whether the page's copy on the device is its only one, so that a write makes none stale.
bool sole_version(const Page &copies, const PoolDevice &device) noexcept {
  return copies.latest() == device.bit() && copies.lower == tier::ColdTiers::none &&
         !copies.host() && !copies.sinking;
}

}  // namespace

/// Whether the pages under a tenant's place are there, with nobody at work on them.
bool Engine::in_place(Region &slab, uint64_t begin, uint64_t size, PoolDevice &device) noexcept {
  Residence *here = slab.on(device.place);
  if (!device.open() || here == nullptr) return false;
  const uint32_t last = slab.shape.page_at(begin + size - 1);
  for (uint32_t p = slab.shape.page_at(begin); p <= last; ++p) {
    DevicePage &state = here->pages[p];
    const Page &copies = slab.pages[p];
    if (!on_device(slab, *here, p) || (copies.latest() & ~device.bit()) != 0 || !state.queued)
      return false;
    if (!state.ready) continue;
    if (!streams_.passed(state.ready)) return false;
    state.ready = Stamp{};
  }
  return true;
}

/// A range has a new version, on the device alone.
void Engine::write_pages(Region &slab, uint64_t begin, uint64_t size, PoolDevice &device) noexcept {
  const uint32_t last = slab.shape.page_at(begin + size - 1);
  for (uint32_t p = slab.shape.page_at(begin); p <= last; ++p) {
    if (!sole_version(slab.pages[p], device)) tiers_.invalidate(slab, p, device.bit());
  }
}

/// Opens the hit path to the first lease of a new tenant whose place is there; what may still run on it becomes its own past.
/// Returns the flags for its word. What lies beside it must be the latest of its pages already, so that a write makes nothing
/// stale, and a page that nobody has written has nothing to be kept.
uint64_t Engine::open_to_first(uint32_t index, PoolDevice &device) noexcept {
  const Target where = buffers_.target(index);
  Region &slab = *where.region;
  const uint32_t last = slab.shape.page_at(where.base + where.size - 1);
  for (uint32_t p = slab.shape.page_at(where.base); p <= last; ++p) {
    if (!sole_version(slab.pages[p], device)) return 0;
  }
  Stamp past;
  if (slab.cold || !in_place(slab, where.base, where.size, device) ||
      !history_.past_of(slab, where.base, where.base + where.size, &past))
    return 0;
  vm::Hot &hot = buffers_.hot(index);
  hot.stamp.store(past.bits, std::memory_order_relaxed);
  hot.address = address_of(slab, *slab.on(slab.home)) + where.base;
  return Word::resident | Word::sole;
}

/// The first lease of a tenant whose place is there, to write all of it: nothing is to be brought, zeroed or waited for. Whoever
/// else comes meanwhile finds it leased. The caller counts the hit. False: it takes the usual way, and nothing has happened.
bool Engine::lease_fresh(const Stream &stream, weir_use &use) noexcept {
  uint32_t index = 0;
  uint64_t generation = 0;
  if (use.mode != WEIR_DISCARD_WRITE || !plain_use(use, &index, &generation)) return false;
  vm::Hot &hot = buffers_.hot(index);
  constexpr uint64_t looks_at = Word::generation_mask | Word::alive | Word::virgin |
                                Word::readers_mask | Word::writer | Word::partial | Word::history |
                                Word::closing;
  const auto fresh = [&](uint64_t word) {
    return (word & looks_at) == (generation | Word::alive | Word::virgin);
  };
  uint64_t seen = hot.word.load(std::memory_order_relaxed);
  if (!fresh(seen) || hot.home() != stream.device->id) return false;
  Locked lock(lock_);
  seen = hot.word.load(std::memory_order_relaxed);
  const Stamp past = hot.last_use();
  if (!fresh(seen) || (past && past.slot() != stream.slot)) return false;
  const Target where = buffers_.target(index);
  Region &slab = *where.region;
  PoolDevice &device = device_at(slab.home);
  if (&device.device != stream.device || !in_place(slab, where.base, where.size, device) ||
      !history_.past_ended(slab, where.base, where.base + where.size, &stream))
    return false;
  const uint64_t address = address_of(slab, *slab.on(slab.home)) + where.base;
  if (hot.address != address)
    hot.address = address;  // if the hit path is open it is the same, and being read
  const uint64_t next = (seen | Word::writer | Word::resident | Word::sole) & ~Word::virgin;
  if (!hot.word.compare_exchange_strong(seen, next, std::memory_order_acq_rel)) return false;
  write_pages(slab, where.base, where.size, device);
  slab.cold = slab.streaming;
  slab.last_use = std::max(slab.last_use, ticks_.now());
  use.address = address;
  return true;
}

}  // namespace weir::residency
