// SPDX-License-Identifier: Apache-2.0
//
// First use: what a new tenant may find on its place, and the short ways to its first lease where that is nothing to wait for,
// bring or zero. Work that may still run there is remembered by the place (History::bury). Where it is all of one stream's past, and the
// pages are there with nothing that a write would make stale, the hit path grants the first lease (Word::virgin); where the
// pages are there but nobody's, one look under the lock does. All else is the slow way's.

#include "core/move/plan.hpp"
#include "core/pool/engine.hpp"

#include <algorithm>

namespace weir::pool {

/// The first lease of a tenant whose place is there, to write all of it: nothing is to be brought, zeroed or waited for. Whoever
/// else comes meanwhile finds it leased. The caller counts the hit. False: it takes the usual way, and nothing has happened.
bool Engine::lease_fresh(const Stream &stream, weir_use &use) noexcept {
  uint32_t index = 0;
  uint64_t generation = 0;
  if (use.mode != WEIR_DISCARD_WRITE || !plain_use(use, &index, &generation)) return false;
  page::Hot &hot = pages_.buffers.hot(index);
  constexpr uint64_t looks_at = Word::generation_mask | Word::alive | Word::virgin |
                                Word::readers_mask | Word::writer | Word::partial | Word::history |
                                Word::closing;
  const auto fresh = [&](uint64_t word) {
    return (word & looks_at) == (generation | Word::alive | Word::virgin);
  };
  uint64_t seen = hot.word.load(std::memory_order_relaxed);
  if (!fresh(seen) || hot.device() != stream.device->id) return false;
  Locked lock(lock_);
  seen = hot.word.load(std::memory_order_relaxed);
  const Stamp past = hot.last_use();
  if (!fresh(seen) || (past && past.slot() != stream.slot)) return false;
  const Target where = pages_.buffers.target(index);
  Region &slab = *where.region;
  PoolDevice &device = *pages_.devices[slab.home];
  if (&device.device != stream.device ||
      !services_.small.in_place(slab, where.base, where.size, device) ||
      !leases_.history.past_ended(slab, where.base, where.base + where.size, &stream))
    return false;
  const uint64_t address = address_of(slab, *slab.on(slab.home)) + where.base;
  if (hot.address != address)
    hot.address = address;  // if the hit path is open it is the same, and being read
  const uint64_t next = (seen | Word::writer | Word::resident | Word::sole) & ~Word::virgin;
  if (!hot.word.compare_exchange_strong(seen, next, std::memory_order_acq_rel)) return false;
  services_.small.write_pages(slab, where.base, where.size, device);
  slab.is.cold = slab.is.streaming;
  slab.past.last_use = std::max(slab.past.last_use, ticks_.now());
  use.address = address;
  return true;
}

}  // namespace weir::pool
