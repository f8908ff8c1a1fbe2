// SPDX-License-Identifier: Apache-2.0
//
// Copies in tiers: slots of HOST, chains below it, and the sources of moves down.

#include "core/page/tier_copies.hpp"

#include <algorithm>
#include <cstring>

namespace weir::page {

// ---- of any tier ----

void TierCopies::leave(Region &region, uint32_t page, uint32_t bit) noexcept {
  Page &copies = region.pages.edit(page);
  if (bit == host_bit) {
    tables_.places.note(region, copies.left(bit));
    free_host(region, page);
    return;
  }
  count(region, page, copies.latest() & bit, false);
  tables_.places.note(region, copies.left(bit));
  if (bit == compressed_bit) compressed_order_->forget_some();
  free_places(region, copies.lower, bit);
  const bool lower = (copies.latest() & (below_host | host_bit)) != 0;
  if (lower || copies.sinking) return;  // the checksum is still of use
  cold_.give_chain(copies.lower);
  copies.lower = tier::ColdTiers::none;
}

void TierCopies::note(Region &region, uint32_t page, uint32_t bit) noexcept {
  Page &copies = region.pages.edit(page);
  Policy *const policy = order(bit);
  if (known(copies, bit) || policy == nullptr) return;
  known(copies, bit) =
      policy->give_back(PageRef{region.id, page, tables_.regions.generation(region)},
                        ticks_.advance(ticks_.now() + 1));
}

bool TierCopies::requeue(uint32_t bit) noexcept {
  bool found = false;
  for (Region &region : Walk(tables_.places, PlaceIndex::at(Place::of_bit(bit)), tables_.regions)) {
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      Page &copies = region.pages.edit(p);
      if (known(copies, bit) || copies.sinking || !there(copies, bit)) continue;
      note(region, p, bit);
      found = true;
    }
  }
  return found;
}

/// Of a page that is not there any more the policy forgets what it knew, and is told when it comes again.
Region *TierCopies::find(const PageRef &ref, uint32_t bit) noexcept {
  Region *region = tables_.regions.find(ref.region, ref.generation);
  if (region == nullptr || ref.page >= region->pages.size()) return nullptr;
  Page &copies = region->pages.edit(ref.page);
  if (there(copies, bit)) return region;
  known(copies, bit) = false;
  return nullptr;
}

void TierCopies::count(const Region &region, uint32_t page, uint32_t bits, bool more) noexcept {
  const uint64_t used = region.shape.used_bytes(page);
  const uint64_t change = more ? used : uint64_t{0} - used;
  if ((bits & compressed_bit) != 0) tables_.gauges.compressed_raw += change;
  if ((bits & storage_bit) != 0) tables_.gauges.storage_raw += change;
}

void TierCopies::invalidate(Region &region, uint32_t page, uint32_t keep_bit) noexcept {
  Page &copies = region.pages.edit(page);
  end_version(region, page);
  if (copies.latest() == keep_bit) return;
  tables_.places.note(region, copies.written(keep_bit));
  if (keep_bit != host_bit) free_host(region, page);
}

void TierCopies::discard(Region &region, uint32_t page) noexcept {
  free_host(region, page);
  end_version(region, page);
  tables_.places.note(region, region.pages.edit(page).discarded());
}

void TierCopies::forget_idle(Region &slab, uint32_t page) noexcept {
  if (slab.is.slab && slab.idle(page) && slab.pages[page].busy() == 0) discard(slab, page);
}

// ---- HOST ----

tier::HostSlot TierCopies::try_slot(uint32_t client, uint32_t node, uint64_t bytes, bool anywhere) {
  const uint64_t size = tier::HostStore::rounded(bytes);
  Charge charge = tables_.accounts.charge(client, Accounts::host, size);
  if (!charge) return {};
  return charge.pay_for([&] { return host_->allocate(size, client, node, anywhere); });
}

void TierCopies::free_slot(uint32_t client, tier::HostSlot slot, bool secret) noexcept {
  if (secret) std::memset(host_->address(slot), 0, host_->bytes(slot));
  tables_.accounts.freed(client, Accounts::host, host_->bytes(slot));
  host_->free(slot, client);
}

/// Frees a slot once all copies up from it have ended: until then it waits in the retired list.
void TierCopies::retire_slot(const Region &region, tier::HostSlot slot,
                             PendingCopies busy) noexcept {
  if (!busy.passed(streams_)) {
    try {
      retired_.push_back(RetiredSlot{slot, region.owner.client, region.is.secret, busy});
      if (region.is.secret) scrub_.note();
      return;
    } catch (const std::bad_alloc &) {
      for (uint32_t i = 0; i < busy.count; ++i) (void)streams_.wait(busy.stamps[i], UINT64_MAX);
    }
  }
  free_slot(region.owner.client, slot, region.is.secret);
}

void TierCopies::free_host(Region &region, uint32_t page) noexcept {
  Page &copies = region.pages.edit(page);
  if (!copies.host()) return;
  aliases_.hide(region, page);
  const tier::HostSlot slot = copies.host();
  tables_.places.note(region, copies.take_slot(tier::HostSlot{}));
  if (host_order_ != nullptr) host_order_->forget_some();
  PendingCopies busy;
  for (const auto &r : region.residences) {
    const Stamp ready = r->pages[page].ready;
    if (ready && !streams_.passed(ready)) busy.add(ready);
  }
  SourcePin *source = source_of(region, page);
  if (source == nullptr || !source->from_host) {
    retire_slot(region, slot, busy);
    return;
  }
  detach(*source);
  source->valid = false;
  source->busy = busy;
}

bool TierCopies::sweep_retired() noexcept {
  return std::erase_if(retired_, [this](RetiredSlot &old) WEIR_HELD {
           if (!old.busy.passed(streams_)) return false;
           free_slot(old.client, old.slot, old.secret);
           return true;
         }) != 0;
}

std::optional<PendingCopies> TierCopies::retired(bool secret) const noexcept {
  for (const RetiredSlot &old : retired_)
    if (old.secret || !secret) return old.busy;
  return {};
}

// ---- the cold tiers ----

/// Bytes that are to be scrubbed are overwritten first: in COMPRESSED here, in STORAGE by whoever scrubs next.
void TierCopies::free_places(const Region &region, uint32_t chain, uint32_t bits) noexcept {
  if (cold_.free_places(chain, region.owner.client, region.is.secret, bits)) scrub_.note();
}

void TierCopies::set_checksum(Region &region, uint32_t page, uint32_t chain,
                              uint64_t sum) noexcept {
  Page &copies = region.pages.edit(page);
  if (copies.lower == tier::ColdTiers::none) {
    copies.lower = chain;
  } else {
    cold_.give_chain(chain);
  }
  cold_.set_checksum(copies.lower, sum);
}

void TierCopies::end_version(Region &region, uint32_t page) noexcept {
  Page &copies = region.pages.edit(page);
  if (SourcePin *source = source_of(region, page); source != nullptr) {
    source->valid = false;
    // Its compressed parts are being read: written to STORAGE, or coded again.
    if (!source->from_host) {
      detach(*source);
      source->orphan = std::exchange(copies.lower, tier::ColdTiers::none);
    }
  }
  count(region, page, copies.latest() & below_host, false);
  const bool compressed = (copies.latest() & compressed_bit) != 0;
  tables_.places.note(region, copies.left(below_host));
  if (compressed) compressed_order_->forget_some();
  if (copies.lower == tier::ColdTiers::none) return;
  free_chain(region, copies.lower);
  copies.lower = tier::ColdTiers::none;
}

void TierCopies::publish(Region &region, uint32_t page, uint32_t chain, uint32_t bit) noexcept {
  Page &copies = region.pages.edit(page);
  // A first try at another tier may have left places behind.
  if (copies.lower != chain) free_places(region, chain, below_host & ~bit);
  if (copies.lower == tier::ColdTiers::none) {
    copies.lower = chain;
  } else if (copies.lower != chain) {
    cold_.set_checksum(copies.lower, cold_.checksum(chain));
    cold_.exchange(copies.lower, chain, bit);
    cold_.give_chain(chain);
  }
  if ((copies.latest() & bit) == 0) count(region, page, bit, true);
  tables_.places.note(region, copies.arrived(bit));
  if (bit == compressed_bit) note(region, page, bit);
}

bool TierCopies::drop_redundant(uint32_t bit, uint64_t bytes, uint32_t client) noexcept {
  const bool host = bit == host_bit;
  uint32_t faster = device_bits;
  if (!host) faster |= host_bit;
  if (bit == storage_bit) faster |= compressed_bit;
  uint64_t freed = 0;
  const Place tier = Place::of_bit(bit);
  for (size_t left = tables_.places.count(tier); left != 0 && freed < bytes; --left) {
    Region &region = tables_.regions.at(tables_.places.next_around(tier));
    if (client != UINT32_MAX && region.owner.client != client) continue;
    if (host && (region.host.registered != nullptr || region.host.alias != nullptr)) continue;
    for (uint32_t p = 0; p < region.pages.size() && freed < bytes; ++p) {
      const Page &copies = region.pages[p];
      const bool here = host ? copies.host() && copies.leases == 0 : (copies.latest() & bit) != 0;
      if (!here || (copies.latest() & faster) == 0 || copies.busy() != 0 || copies.sinking)
        continue;
      freed += region.shape.used_bytes(p);
      leave(region, p, bit);
    }
  }
  return freed != 0;
}

// ---- sources of moves down ----

void TierCopies::pin(SourcePin &source, Region &region, uint32_t page, bool from_host) noexcept {
  Page &copies = region.pages.edit(page);
  source.region = &region;
  source.page = page;
  source.from_host = from_host;
  source.attached = source.valid = true;
  if (from_host) source.slot = copies.host();
  copies.sinking = true;
  source.pin = RegionPin(region);
  source.after = sources_;
  if (sources_ != nullptr) sources_->before = &source;
  sources_ = &source;
}

void TierCopies::detach(SourcePin &source) noexcept {
  source.attached = false;
  source.region->pages.edit(source.page).sinking = false;
  (source.before != nullptr ? source.before->after : sources_) = source.after;
  if (source.after != nullptr) source.after->before = source.before;
  source.before = source.after = nullptr;
}

bool TierCopies::unpin(SourcePin &source) noexcept {
  if (source.attached) {
    detach(source);
    return true;
  }
  if (source.from_host) retire_slot(*source.region, source.slot, source.busy);
  if (source.orphan != tier::ColdTiers::none) free_chain(*source.region, source.orphan);
  return false;
}

SourcePin *TierCopies::source_of(const Region &region, uint32_t page) noexcept {
  if (!region.pages[page].sinking) return nullptr;
  SourcePin *source = sources_;
  while (source != nullptr && (source->region != &region || source->page != page))
    source = source->after;
  return source;
}

void TierCopies::list_parts(const Region &region, uint32_t page, uint32_t tag,
                            std::pmr::vector<tier::LiftPart> *parts) const {
  const Page &copies = region.pages[page];
  tier::LiftPart like;
  like.page = tag;
  like.secret = region.is.secret;
  const bool compressed = (copies.latest() & compressed_bit) != 0;
  cold_.list_parts(copies.lower, compressed ? compressed_bit : storage_bit,
                   region.shape.used_bytes(page), like, parts);
}

}  // namespace weir::page
