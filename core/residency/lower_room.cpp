// SPDX-License-Identifier: Apache-2.0
//
// Room below HOST: places for pages' parts in COMPRESSED and STORAGE, their records, and how both are given up. Under
// the pool's lock; only making room in COMPRESSED by moving pages on to STORAGE drops it.

#include "core/residency/plan.hpp"

#include <algorithm>
#include <cstring>

namespace weir::residency {

/// As many records has a page's chain, whether it tells of places below HOST or of a checksum alone.
uint32_t Engine::parts_of(const Region &region, uint32_t page) const noexcept {
  if (!lower_.any()) return 1;
  const uint64_t part = lower_.staging->part_bytes();
  return static_cast<uint32_t>((region.shape.used_bytes(page) + part - 1) / part);
}

uint64_t Engine::checksum_of_version(const Page &copies) noexcept {
  return copies.lower != tier::CopyTable::none ? lower_.copies[copies.lower].checksum() : 0;
}

/// Frees what the chain's records point to in the tiers of `bits`. Bytes that are to be scrubbed are overwritten first: in
/// COMPRESSED here, in STORAGE by whoever scrubs next (scrub.cpp); until then the place is nobody's to have.
void Engine::free_places(const Region &region, uint32_t chain, uint32_t bits) noexcept {
  const uint32_t client = region.client;
  for (uint32_t at = chain; at != tier::CopyTable::none; at = lower_.copies[at].next) {
    tier::LowerCopy &part = lower_.copies[at];
    if ((bits & vm::compressed_bit) != 0 && part.compressed) {
      const tier::UnitSlot slot = lower_.compressed->slot(part.compressed);
      const uint64_t bytes = lower_.compressed->bytes(slot);
      accounts_.freed(client, Accounts::compressed, bytes);
      if (region.scrub) std::memset(lower_.compressed->address(slot), 0, bytes);
      lower_.compressed->free(slot, client);
      part.compressed = {};
    }
    if ((bits & vm::storage_bit) != 0 && part.storage) {
      const tier::UnitSlot slot = lower_.storage->slot(part.storage);
      accounts_.freed(client, Accounts::storage, lower_.storage->bytes(slot));
      if (region.scrub) {
        lower_.storage->retire(slot);
        scrub_turns_.note();
      } else {
        lower_.storage->free(slot, client);
      }
      part.storage = {};
    }
  }
}

void Engine::count_below(const Region &region, uint32_t page, uint32_t bits, bool more) noexcept {
  const uint64_t used = region.shape.used_bytes(page);
  const uint64_t change = more ? used : uint64_t{0} - used;
  if ((bits & vm::compressed_bit) != 0) gauges_.compressed_raw += change;
  if ((bits & vm::storage_bit) != 0) gauges_.storage_raw += change;
}

Sinking *Engine::sinking_of(const Region &region, uint32_t page) noexcept {
  for (Sinking &entry : lower_.sinkings) {
    if (entry.attached && entry.region == &region && entry.page == page) return &entry;
  }
  Sinking *job = recompressor_ != nullptr ? recompressor_->working_on() : nullptr;
  return job != nullptr && job->region == &region && job->page == page ? job : nullptr;
}

/// The version that the page's records are about is gone: with it go its copies below HOST and its checksum.
void Engine::free_lower(Region &region, uint32_t page) noexcept {
  Page &copies = region.pages[page];
  if (copies.sinking) {
    Sinking &entry = *sinking_of(region, page);
    entry.valid = false;
    // Its compressed parts are being read: written to STORAGE, or coded again.
    if (!entry.from_host) {
      entry.attached = false;
      entry.orphan = copies.lower;
      copies.lower = tier::CopyTable::none;
      copies.sinking = false;
    }
  }
  count_below(region, page, copies.latest() & vm::below_host, false);
  const bool compressed = (copies.latest() & vm::compressed_bit) != 0;
  places_.note(region, copies.left(vm::below_host));
  if (compressed) lower_.compressed_order->forget_some();
  if (copies.lower == tier::CopyTable::none) return;
  free_places(region, copies.lower, vm::below_host);
  lower_.copies.give(copies.lower);
  copies.lower = tier::CopyTable::none;
}

/// Gives up the page's copy in one tier; it has another latest copy. The page is not sinking from there.
void Engine::leave(Region &region, uint32_t page, uint32_t bit) noexcept {
  Page &copies = region.pages[page];
  if (bit == vm::host_bit) {
    places_.note(region, copies.left(bit));
    free_host(region, page);
    return;
  }
  count_below(region, page, copies.latest() & bit, false);
  places_.note(region, copies.left(bit));
  if (bit == vm::compressed_bit) lower_.compressed_order->forget_some();
  free_places(region, copies.lower, bit);
  const bool lower = (copies.latest() & (vm::below_host | vm::host_bit)) != 0;
  if (lower || copies.sinking) return;  // the checksum is still of use
  lower_.copies.give(copies.lower);
  copies.lower = tier::CopyTable::none;
}

/// Frees copies in a tier whose page has its latest version in a faster place too (of `client` alone, if one is named),
/// round the regions from where the last search stopped. False: there are none.
bool Engine::drop_redundant(uint32_t bit, uint64_t bytes, uint32_t client) noexcept {
  const uint32_t faster = bit == vm::compressed_bit
                              ? vm::device_bits | vm::host_bit
                              : vm::device_bits | vm::host_bit | vm::compressed_bit;
  uint64_t freed = 0;
  const Place tier = Place::of_bit(bit);
  for (size_t left = places_.count(tier); left != 0 && freed < bytes; --left) {
    Region &region = regions_.at(places_.next_around(tier));
    if (client != UINT32_MAX && region.client != client) continue;
    for (uint32_t p = 0; p < region.pages.size() && freed < bytes; ++p) {
      const Page &copies = region.pages[p];
      const bool redundant = (copies.latest() & bit) != 0 && (copies.latest() & faster) != 0;
      if (!redundant || copies.busy != 0 || copies.sinking) continue;
      freed += region.shape.used_bytes(p);
      leave(region, p, bit);
    }
  }
  return freed != 0;
}

/// A place for a blob in COMPRESSED, if neither budget nor quota has to be made to have room.
tier::UnitSlot Engine::try_place_compressed(uint32_t client, uint64_t bytes) {
  const uint64_t size = tier::UnitArena::rounded(bytes);
  Charge charge = accounts_.charge(client, Accounts::compressed, size);
  if (!charge) return {};
  return charge.pay_for([&] { return lower_.compressed->allocate(bytes); });
}

/// A place for a blob in COMPRESSED; none where neither budget nor quota can be made to have room. May drop the lock.
/// `sinker`: the caller is the one who moves pages down, else it may have to wait for that one.
tier::UnitSlot Engine::place_compressed(Releasable &lock, uint32_t client, uint64_t bytes,
                                        bool sinker) {
  const uint64_t size = tier::UnitArena::rounded(bytes);
  const Budget &quota = accounts_.quota(client, Accounts::compressed);
  for (uint32_t barren = 0; size <= lower_.compressed->budget();) {
    const tier::UnitSlot slot = try_place_compressed(client, bytes);
    if (slot) {
      const bool low = lower_.compressed->room() < lower_.compressed_low;
      if (config_.background && low && lower_.storage != nullptr) work_.notify_all();
      return slot;
    }
    if (quota.limit() < size) break;
    const uint32_t of_client = quota.room() < size ? client : UINT32_MAX;
    if (drop_redundant(vm::compressed_bit, size, of_client)) continue;
    Status why;
    if (lower_.storage == nullptr ||
        !sink(lock, std::max(size, spill_bytes), of_client, vm::compressed_bit, true, sinker, &why))
      break;
    if (++barren > 64) break;  // what was freed does not add up to one range
  }
  return {};
}

/// May drop the lock, to overwrite what stands in the way.
tier::UnitSlot Engine::place_storage(Releasable &lock, uint32_t client, uint64_t bytes) {
  const uint64_t size = tier::UnitArena::rounded(bytes);
  for (bool scrubbed = false;;) {
    Charge charge = accounts_.charge(client, Accounts::storage, size);
    const bool within = static_cast<bool>(charge);
    if (within) {
      const auto slot = charge.pay_for([&] { return lower_.storage->allocate(size); });
      if (slot) return slot;
    }
    if (within && !scrubbed && scrub_turns_.noted() != 0) {
      scrubbed = true;
      lock.unlocked([this] {
        finish_scrubbing(false, true);
        scrub_turns_.await();  // another may be at it: that has to end
      });
      continue;
    }
    if (!drop_redundant(vm::storage_bit, size, within ? UINT32_MAX : client)) return {};
    scrubbed = false;
  }
}

/// The page's bytes lie below HOST now too, in the tier of `bit`, at the places of `chain`, which becomes the page's.
void Engine::publish_lower(Region &region, uint32_t page, uint32_t chain, uint32_t bit) noexcept {
  Page &copies = region.pages[page];
  if (copies.lower == tier::CopyTable::none) {
    copies.lower = chain;
  } else if (copies.lower != chain) {
    lower_.copies[copies.lower].set_checksum(lower_.copies[chain].checksum());
    for (uint32_t to = copies.lower, from = chain; from != tier::CopyTable::none;) {
      tier::LowerCopy &own = lower_.copies[to];
      const tier::LowerCopy &other = lower_.copies[from];
      if (bit == vm::compressed_bit) {
        own.compressed = other.compressed;
      } else {
        own.storage = other.storage;
      }
      to = own.next;
      from = other.next;
    }
    lower_.copies.give(chain);
  }
  if ((copies.latest() & bit) == 0) count_below(region, page, bit, true);
  places_.note(region, copies.arrived(bit));
  if (bit != vm::compressed_bit) return;
  note_in_order(region, page, vm::compressed_bit);
  if (recompressor_ != nullptr) recompressor_->note(region, page);
}

/// Tells a tier's policy of a page that came there. Without memory for that, it is found by requeue().
void Engine::note_in_order(Region &region, uint32_t page, uint32_t bit) noexcept {
  if (!lower_.any()) return;
  Page &copies = region.pages[page];
  bool &known = bit == vm::host_bit ? copies.in_host_order : copies.in_compressed_order;
  Policy *order = bit == vm::host_bit ? lower_.host_order.get() : lower_.compressed_order.get();
  if (known || order == nullptr) return;
  known = order->give_back(PageRef{region.id, page, regions_.generation(region)}, tick());
}

/// Tells a tier's policy of every page that it was not told of. False: there was none.
bool Engine::requeue(uint32_t bit) noexcept {
  bool found = false;
  for (Region &region : regions_in(page::PlaceIndex::at(Place::of_bit(bit)))) {
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      const Page &copies = region.pages[p];
      const bool known = bit == vm::host_bit ? copies.in_host_order : copies.in_compressed_order;
      const bool here = (copies.latest() & bit) != 0 && (bit != vm::host_bit || copies.host());
      if (known || copies.sinking || !here) continue;
      note_in_order(region, p, bit);
      found = true;
    }
  }
  return found;
}

// ---- what the policies of the tiers see ----

uint64_t TierView::now() const { return engine_.ticks_.now(); }

/// Of a page that is not there any more the policy forgets what it knew, and is told when it comes again.
bool TierView::knows(const PageRef &ref) noexcept {
  Region *region = engine_.regions_.find(ref.region, ref.generation);
  if (region == nullptr || ref.page >= region->pages.size()) return false;
  Page &copies = region->pages[ref.page];
  bool &known = bit_ == vm::host_bit ? copies.in_host_order : copies.in_compressed_order;
  if ((copies.latest() & bit_) == 0 || (bit_ == vm::host_bit && !copies.host())) {
    known = false;
    return false;
  }
  return true;
}

bool TierView::describe(const PageRef &ref, PageInfo *info) {
  if (!knows(ref)) return false;
  Region &region = engine_.regions_.at(ref.region);
  const Page &copies = region.pages[ref.page];
  info->bytes = region.shape.used_bytes(ref.page);
  info->priority = region.priority;
  info->dirty = (copies.latest() & ~bit_) == 0;
  info->disposable = false;
  info->cold = region.cold;
  info->client = region.client;
  info->evictable = !copies.sinking && !engine_.leases_.in_use(region, ref.page) &&
                    (bit_ != vm::host_bit || !engine_.alias_in_use(region));
  engine_.describe_uses(region, info);
  return true;
}

}  // namespace weir::residency
