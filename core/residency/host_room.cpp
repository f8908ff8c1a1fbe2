// SPDX-License-Identifier: Apache-2.0
//
// Room in HOST: slots for pages on their way down, the store's growth, and what can be given up for it: copies of
// pages that are on a device as well, and then what the ladder can move further down.

#include "core/residency/plan.hpp"
#include "core/tier/checksum.hpp"

#include <algorithm>
#include <cstring>

namespace weir::residency {

bool Engine::has_host(const Region &region, uint32_t page) const noexcept {
  return region.registered != nullptr || region.pages[page].host();
}

unsigned char *Engine::host_bytes(Region &region, uint32_t page) noexcept {
  if (region.registered != nullptr) return region.registered + region.shape.offset(page);
  return static_cast<unsigned char *>(host_->address(region.pages[page].host()));
}

Status Engine::fail_corrupt(uint32_t use, uint32_t page, uint32_t bit) noexcept {
  ErrorDetail detail;
  const bool host = bit == vm::host_bit;
  const bool compressed = bit == vm::compressed_bit;
  detail.tier = host ? WEIR_TIER_HOST : compressed ? WEIR_TIER_COMPRESSED : WEIR_TIER_STORAGE;
  detail.use_index = use;
  return fail(WEIR_ERROR_CORRUPT, detail,
              "uses[%u]: the bytes of page %u in %s are not those that were demoted", use, page,
              host         ? "HOST"
              : compressed ? "COMPRESSED"
                           : "STORAGE");
}

/// A damaged copy is given up where there is another; else it stays, and so does the error.
void Engine::forsake_copy(Region &region, uint32_t page, uint32_t bit) noexcept {
  Page &copies = region.pages[page];
  if ((copies.latest() & ~bit) == 0 || (copies.latest() & bit) == 0 || copies.sinking) return;
  leave(region, page, bit);
}

/// Whether pages have checksums in HOST. Not where what lies below is rounded: a page has one checksum, which is about that.
bool Engine::sums_host(const Region &region) const noexcept {
  return config_.checksum_host && region.rounds == tier::Form::bytes;
}

/// Before bytes are read from HOST by the CPU. Under the lock.
Status Engine::verify_host(Region &region, uint32_t page, uint32_t use) {
  const Page &copies = region.pages[page];
  const uint64_t sum = checksum_of_version(copies);
  if (!sums_host(region) || sum == 0 || !copies.host()) return {};
  if (tier::checksum_of(host_bytes(region, page), region.shape.used_bytes(page)) == sum) return {};
  events_.tell({What::corrupt, 0, Event::nowhere, region.id, page});
  return fail_corrupt(use, page, vm::host_bit);
}

void Engine::free_slot(uint32_t client, tier::HostSlot slot, bool secret) noexcept {
  if (secret) std::memset(host_->address(slot), 0, host_->bytes(slot));
  accounts_.freed(client, Accounts::host, host_->bytes(slot));
  host_->free(slot, client);
}

/// Frees a slot once all copies up from it have ended: until then it waits in the retired list.
void Engine::retire_slot(const Region &region, tier::HostSlot slot, PendingCopies busy) noexcept {
  if (!busy.passed(streams_)) {
    try {
      retired_.push_back(RetiredSlot{slot, region.client, region.scrub, busy});
      if (region.scrub) scrub_turns_.note();
      return;
    } catch (const std::bad_alloc &) {
      for (uint32_t i = 0; i < busy.count; ++i) (void)streams_.wait(busy.stamps[i], UINT64_MAX);
    }
  }
  free_slot(region.client, slot, region.scrub);
}

/// Gives up a page's slot. Who is copying it down meanwhile frees it.
void Engine::free_host(Region &region, uint32_t page) noexcept {
  Page &copies = region.pages[page];
  if (!copies.host()) return;
  unalias(region, page);
  const tier::HostSlot slot = copies.host();
  places_.note(region, copies.take_slot(tier::HostSlot{}));
  if (lower_.host_order != nullptr) lower_.host_order->forget_some();
  PendingCopies busy;
  for (const auto &r : region.residences) {
    const Stamp ready = r->pages[page].ready;
    if (ready && !streams_.passed(ready)) busy.add(ready);
  }
  Sinking *sinking = copies.sinking ? sinking_of(region, page) : nullptr;
  if (sinking != nullptr && sinking->from_host) {
    sinking->attached = sinking->valid = copies.sinking = false;
    sinking->busy = busy;
    return;
  }
  retire_slot(region, slot, busy);
}

/// A lease on CPU memory may be looking at the region's slots.
bool Engine::alias_in_use(const Region &region) noexcept {
  if (region.alias == nullptr || region.buffer == vm::BufferTable::none) return false;
  const uint64_t word = buffers_.hot(region.buffer).word.load(std::memory_order_relaxed);
  return Word::leases(word) != 0 || (word & Word::partial) != 0;
}

/// A page that must stay in place gets a slot in HOST, if it has none: what is in it is its client's own, or zero. May drop the
/// lock.
Status Engine::give_slot(Releasable &lock, Region &region, uint32_t page) {
  Page &copies = region.pages[page];
  if (region.registered != nullptr || copies.host()) return {};
  tier::HostSlot slot;
  Status status;
  ++copies.leases;
  try {
    status = host_slot(lock, region.client, node_of(region), region.shape.used_bytes(page), &slot);
  } catch (...) {
    --copies.leases;
    throw;
  }
  if (status && !host_->clean(slot, region.client)) {
    // Not under the lock. Nobody knows of the slot yet.
    auto *memory = static_cast<unsigned char *>(host_->address(slot));
    const uint64_t bytes = host_->bytes(slot);
    lock.unlocked([&] { std::memset(memory, 0, bytes); });
  }
  if (status) host_->take_over(slot, region.client, region.shape.used_bytes(page));
  --copies.leases;
  if (!status) return status;
  if (copies.host()) {
    free_slot(region.client, slot, region.scrub);
  } else {
    places_.note(region, copies.take_slot(slot));
  }
  return {};
}

bool Engine::sweep_retired() noexcept {
  return std::erase_if(retired_, [this](RetiredSlot &old) WEIR_HELD {
           if (!old.busy.passed(streams_)) return false;
           free_slot(old.client, old.slot, old.secret);
           return true;
         }) != 0;
}

/// Frees slots whose page has its latest version on a device too. They become dirty, not lost. Looks round the
/// regions from where it stopped last.
bool Engine::drop_clean_copies(uint64_t bytes) noexcept {
  uint64_t freed = 0;
  for (size_t left = places_.count(Place::host); left != 0 && freed < bytes; --left) {
    Region &region = regions_.at(places_.next_around(Place::host));
    if (region.registered != nullptr || region.alias != nullptr) continue;
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      Page &copies = region.pages[p];
      const bool elsewhere = (copies.latest() & vm::device_bits) != 0;
      const bool used = copies.busy != 0 || copies.leases != 0 || copies.sinking;
      if (!copies.host() || used || !elsewhere) continue;
      freed += region.shape.used_bytes(p);
      leave(region, p, vm::host_bit);
    }
  }
  return freed != 0;
}

/// `anywhere`: in another node's chunk if there is no room in one of this node's.
tier::HostSlot Engine::try_host_slot(uint32_t client, uint32_t node, uint64_t bytes,
                                     bool anywhere) {
  const uint64_t size = tier::HostStore::rounded(bytes);
  Charge charge = accounts_.charge(client, Accounts::host, size);
  if (!charge) return {};
  return charge.pay_for([&] { return host_->allocate(size, client, node, anywhere); });
}

Status Engine::host_slot(Releasable &lock, uint32_t client, uint32_t node, uint64_t bytes,
                         tier::HostSlot *slot) {
  bool dropped = false;
  bool stuck = false;
  Status why;
  for (;;) {
    // While there is budget for a chunk near the device, another node's does not do.
    const bool anywhere = stuck || host_->growth_for(bytes) == 0;
    *slot = try_host_slot(client, node, bytes, anywhere);
    if (*slot) {
      const bool low = lower_.any() && host_->room() < lower_.host_low;
      uint32_t wanting = numa::unknown;
      if (config_.background && (low || host_->wants_growth(&wanting))) work_.notify_all();
      return {};
    }
    if (sweep_retired()) continue;
    const Budget &quota = accounts_.quota(client, Accounts::host);
    const bool within = quota.room() >= tier::HostStore::rounded(bytes);
    if (within && !stuck && host_->growth_for(bytes) != 0) {
      why = grow_host(lock, node, bytes);
      if (why) continue;
      stuck = true;  // the machine has no more: what HOST has must do
      *slot = try_host_slot(client, node, bytes, true);
      if (*slot) return {};
      if (!lower_.any()) return why;
    }
    if (growing_) {
      changed_.wait(lock);
      continue;
    }
    if (!dropped && within && drop_clean_copies(bytes)) continue;
    dropped = true;
    if (!retired_.empty()) {
      const PendingCopies &busy = retired_.front().busy;
      const Stamp stamp = busy.count != 0 ? busy.stamps[busy.count - 1] : Stamp{};
      WEIR_TRY(lock.unlocked([&] { return streams_.wait(stamp, UINT64_MAX); }));
      continue;
    }
    const uint64_t size = tier::HostStore::rounded(bytes);
    uint64_t given_back = 0;
    if (within && !stuck && !host_->could_hold(size)) {
      // No chunk is long enough: empty ones make room for one that is.
      give_chunks_back(lock, WEIR_WHOLE, &given_back);
      if (given_back != 0) continue;
    }
    const bool possible = size <= quota.limit() && host_->could_hold(size);
    if (possible && lower_.any() &&
        sink(lock, std::max(size, spill_bytes), within ? UINT32_MAX : client, vm::host_bit, false,
             false, &why))
      continue;
    if (!why) return why;
    ErrorDetail detail;
    detail.tier = WEIR_TIER_HOST;
    detail.asked = bytes;
    detail.available = within ? host_->room() : quota.room();
    return fail(WEIR_ERROR_OVER_BUDGET, detail,
                "HOST has no room for %llu bytes that are written or must leave a device: %llu of "
                "%llu in use%s",
                llu(bytes), llu(within ? host_->used() : quota.used()),
                llu(within ? host_->budget() : quota.limit()),
                within ? "; a larger host_budget makes room"
                       : " by this client; a larger host_quota makes room");
  }
}

Status Engine::grow_host(Releasable &lock, uint32_t node, uint64_t bytes) {
  if (growing_) {
    changed_.wait(lock);
    return {};
  }
  if (config_.host_follows) {  // much may have been taken since the last look
    const int64_t spare = lock.unlocked([this] { return spare_memory(); });
    host_->set_budget(host_->held() + static_cast<uint64_t>(std::max<int64_t>(spare, 0)));
    if (growing_) return {};
  }
  const uint64_t growth = host_->growth_for(bytes);
  if (growth == 0 || !host_->begin_growth(growth)) return {};
  growing_ = true;
  Owned<tier::HostStore::Chunk> chunk;
  const Status status = lock.unlocked([&] {
    const Status made = with_memory("for the records of a host chunk",
                                    [&] { return host_->make_chunk(growth, node, &chunk); });
    // Which pins it for the kernel: not under the lock.
    if (made && lower_.storage != nullptr) lower_.storage->add_memory(chunk->view, chunk->bytes);
    return made;
  });
  growing_ = false;
  changed_.notify_all();
  if (!status) {
    host_->cancel_growth(growth);
    return status;
  }
  host_->attach(std::move(chunk));
  return {};
}

}  // namespace weir::residency
