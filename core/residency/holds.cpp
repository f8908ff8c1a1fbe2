// SPDX-License-Identifier: Apache-2.0
//
// Residency without leases: holds, and the caller's own memory as the home of a buffer's HOST copies.

#include "core/base/descriptor.hpp"
#include "core/base/grow.hpp"
#include "core/residency/plan.hpp"
#include "core/residency/scrub.hpp"

namespace weir::residency {

/// Held bytes are counted by granules, not by states: a page on the move when a hold comes or goes is counted once all
/// the same. All holds of a region are on one device, or of a sharded one on all of them.
void Engine::add_hold(Region &region, uint8_t place, bool writes) noexcept {
  if (region.holds++ != 0) return;
  region.held_at = place;
  region.held_to_write = writes && !region.slab;
  for (const auto &r : region.residences) {
    if (region.held_on(r->place)) device_at(r->place).memory.count_held(region, *r, true);
  }
}

void Engine::drop_hold(Region &region) noexcept {
  if (region.holds > 1) {
    --region.holds;
    return;
  }
  for (const auto &r : region.residences) {
    if (region.held_on(r->place)) device_at(r->place).memory.count_held(region, *r, false);
  }
  region.holds = 0;
  region.held_to_write = false;
  changed_.notify_all();
}

// ---- taking and undoing them ----

/// The plan of a claim on the whole buffer, which lasts until the caller drops it: so that no writer is at work.
void Engine::plan_whole(uint32_t index, uint8_t mode, Plan *plan) {
  plan->lease = plan;
  const vm::Hot &hot = buffers_.hot(index);
  plan->items.push_back({{0, hot.size(), index}, hot.generation(), mode});
}

/// Brings the whole buffer to the plan's device and claims it. The bytes are there when it returns, or, with a stream, when
/// that has come so far. On failure nothing is claimed.
Status Engine::bring_whole(Releasable &lock, Plan &plan) {
  WEIR_TRY(bring_in(lock, plan, AcquireOptions{}));
  const auto order = [&]() WEIR_HELD {
    const PlanItem &item = plan.items[0];
    if (plan.stream == nullptr) return wait_range(lock, item.buffer, 0, item.end, item.writes());
    bool stands = true;
    gather_waits(plan);
    return plan.waits.empty() ? Status{} : order_unlocked(lock, plan, &stands);
  };
  return or_undo(order, [&]() WEIR_HELD { drop_claims(plan); });
}

/// The copy on the plan's device is the latest version, and no other is. A slot of HOST that a lease may be looking at stays
/// its page's: it is an older version. Nobody is working on the pages.
void Engine::leave_latest(Plan &plan) noexcept {
  const PlanItem &item = plan.items[0];
  Region &region = *item.region;
  const uint64_t word = buffers_.hot(item.buffer).word.load(std::memory_order_relaxed);
  const uint64_t own = item.writes() ? 0 : Word::reader;
  const bool leased = (word & Word::partial) != 0 || (word & Word::readers_mask) > own;
  for (uint32_t p = item.first; p <= item.last; ++p) {
    Page &copies = region.pages[p];
    tiers_.end_version(region, p);
    places_.note(region, copies.written(written_bit(plan, region, p)));
    if (copies.leases == 0 && !leased) tiers_.free_host(region, p);
  }
  set_flags(item.buffer, 0, Word::virgin);
}

/// The buffer is in place and claimed: it is held from now on, or nothing was done. The claim ends.
Status Engine::take_hold(Releasable &lock, Plan &plan, HoldKind kind) {
  const AtEnd taken([&]() WEIR_HELD { drop_claims(plan); });
  const PlanItem &item = plan.items[0];
  Region &region = *item.region;
  // A virgin tenant was zeroed here and nowhere else.
  const bool alone_latest = kind != HoldKind::read || item.virgin;
  // The claim lets readers be, and what they are copying from must not be given up under them.
  if (alone_latest) WEIR_TRY(settle_pages(lock, region, item.first, item.last));
  WEIR_TRY(plan.try_each([](Plan &part) { return part.check_device(); }));
  WEIR_TRY(plan.try_each([this](Plan &part) { return check_lost(part); }));
  const ClaimScope scope = plan.scope(region);
  WEIR_TRY(buffers_.check_hold(item.buffer, kind, scope));  // another's hold may have been faster
  if (alone_latest) leave_latest(plan);
  add_hold(region, plan.place(), kind != HoldKind::read);
  buffers_.count_hold(item.buffer, kind, scope);
  // While the claim keeps writers out: what the hold forbids must not be granted by a hit.
  refresh_word(item.buffer, region, item.base, item.size);
  return {};
}

/// One more hold on what is held alike: everything is in place.
Status Engine::nest_hold(Plan &plan) {
  WEIR_TRY(resolve(plan));
  WEIR_TRY(plan.check_device());
  WEIR_TRY(spread(plan));
  const PlanItem &item = plan.items[0];
  Region &region = *item.region;
  for (uint32_t p = item.first; p <= item.last; ++p) {
    if (region.pages[p].lost())
      return fail(WEIR_ERROR_DATA_LOST, "bytes of page %u were lost with their device", p);
  }
  add_hold(region, plan.place(), region.held_to_write);
  buffers_.count_hold(item.buffer);
  return {};
}

Status Engine::hold(weir_buffer buffer, uint32_t device_id, HoldKind kind, uint64_t *address) {
  const Scrubbing scrubbing(*this);
  Locked lock(lock_);
  uint32_t index = 0;
  WEIR_TRY(buffers_.find(buffer, &index));
  uint8_t place = buffers_.target(index).region->home;
  if (device_id != WEIR_DEVICE_DEFAULT) WEIR_TRY(place_of(device_id, &place));
  Plan plan(&memory_, nullptr, devices_[place].get());
  WEIR_TRY(buffers_.check_hold(index, kind, plan.scope(*buffers_.target(index).region)));
  WEIR_TRY(unslab_for(lock, index, place));
  const bool nests = buffers_.hold_of(index) != nullptr;
  buffers_.begin_hold(index);
  const AtEnd come([&]() WEIR_HELD { buffers_.end_hold(index); });
  plan_whole(index, kind == HoldKind::alone ? WEIR_READ_WRITE : WEIR_READ, &plan);
  WEIR_TRY(nests ? nest_hold(plan) : bring_whole(lock, plan));
  if (!nests) WEIR_TRY(take_hold(lock, plan, kind));
  const Target where = buffers_.target(index);
  *address = address_on(*where.region, place) + where.base;
  return {};
}

Status Engine::unhold(weir_buffer buffer) {
  Locked lock(lock_);
  uint32_t index = 0;
  WEIR_TRY(buffers_.find(buffer, &index));
  if (buffers_.hold_of(index) == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "the buffer is not held");
  const Target where = buffers_.target(index);
  drop_hold(*where.region);
  if (!buffers_.drop_hold(index)) return {};
  // The hit path is as open as it would be without. Who has the buffer to himself may be moving it, and leaves it closed.
  const uint64_t word = buffers_.hot(index).word.load(std::memory_order_relaxed);
  if ((word & Word::writer) == 0) refresh_word(index, *where.region, where.base, where.size);
  return {};
}

// ---- the caller's own memory ----

Status Engine::claim_alone(uint32_t index) {
  return leases_.take_alone(index) ? Status{}
                                   : fail(WEIR_ERROR_BUSY, "the buffer has unreleased leases");
}

Status Engine::host_register(weir_buffer buffer, void *memory, uint64_t flags) {
  WEIR_TRY(check_flags(flags, WEIR_HOST_LOAD));
  if (memory == nullptr || (reinterpret_cast<uint64_t>(memory) & 4095U) != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "memory %p is NULL or not page-aligned", memory);
  const Scrubbing scrubbing(*this);
  Locked lock(lock_);
  uint32_t index = 0;
  WEIR_TRY(buffers_.find(buffer, &index));
  Region &region = *buffers_.target(index).region;
  if (region.slab)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "a buffer below a page shares its pages and can't have host memory of its own");
  if (region.registered != nullptr)
    return fail(WEIR_ERROR_BUSY, "the buffer has registered memory already");
  for (const auto &device : devices_) {
    if (!device->device.has(WEIR_CAP_HOST_REGISTER))
      return fail(WEIR_ERROR_NOT_SUPPORTED, "device %u can't register host memory",
                  device->device.id);
  }
  if (region.holds != 0) return fail(WEIR_ERROR_BUSY, "the buffer is held (weir_hold)");
  WEIR_TRY(claim_alone(index));
  demoter_.await_unpinned(lock, region);
  vm::RegionPin pin(region);
  const uint64_t bytes = tier::HostStore::rounded(region.shape.size);
  Status status = with_memory(lock, "to register memory", [&]() WEIR_HELD {
    return wait_range(lock, index, 0, region.shape.size, true);
  });
  const bool load = (flags & WEIR_HOST_LOAD) != 0;
  for (uint32_t p = 0; p < region.pages.size() && status && !load; ++p) {
    if ((region.pages[p].latest() & vm::host_bit) != 0) status = verify_host(region, p, 0);
  }
  backend::Runtime &runtime = *devices_[0]->device.runtime;
  const auto register_it = [&] {
    return runtime.check(runtime.table().host_register(runtime.state(), memory, bytes),
                         "host_register");
  };
  if (status) status = lock.unlocked(register_it);
  regions_.unpin(pin);
  if (status) {
    auto *base = static_cast<unsigned char *>(memory);
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      Page &copies = region.pages[p];
      if (!load && (copies.latest() & vm::host_bit) != 0)
        __builtin_memcpy(base + region.shape.offset(p), tiers_.host_bytes(region, p),
                         region.shape.used_bytes(p));
      tiers_.free_host(region, p);
      if (!load) continue;
      tiers_.end_version(region, p);
      places_.note(region, copies.written(vm::host_bit));
    }
    page::Aliases::drop(region);
    region.registered = base;
    set_flags(index, 0, Word::resident | Word::sole);  // as a prefetch may have set them meanwhile
  }
  buffers_.hot(index).word.fetch_sub(Word::writer);
  changed_.notify_all();
  return status;
}

/// Parts from the memory; its contents are the caller's to have saved.
void Engine::unregister_memory(Releasable &lock, Region &region) noexcept {
  unsigned char *memory = region.registered;
  region.registered = nullptr;
  for (Page &copies : region.pages) {
    if (!copies.host()) places_.note(region, copies.left(vm::host_bit));
  }
  const uint64_t bytes = tier::HostStore::rounded(region.shape.size);
  vm::RegionPin pin(region);
  // Another thread may bring the region to a further device meanwhile, which has nothing of this memory.
  std::array<Stream *, vm::max_devices> users{};
  size_t count = 0;
  for (const auto &r : region.residences) users[count++] = device_at(r->place).streams.up();
  backend::Runtime &runtime = *devices_[0]->device.runtime;
  lock.unlocked([&] {
    for (size_t i = 0; i < count; ++i)
      (void)users[i]->timeline.wait(users[i]->timeline.last(), UINT64_MAX);
    (void)runtime.table().host_unregister(runtime.state(), memory, bytes);
  });
  regions_.unpin(pin);
}

Status Engine::host_unregister(weir_buffer buffer) {
  const Scrubbing scrubbing(*this);
  Locked lock(lock_);
  uint32_t index = 0;
  WEIR_TRY(buffers_.find(buffer, &index));
  const Target where = buffers_.target(index);
  Region &region = *where.region;
  if (region.registered == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "the buffer has no registered memory");
  if (buffers_.hold_forbids(index, false, ClaimScope::any()))
    return fail(WEIR_ERROR_LEASE_CONFLICT, "a hold on the buffer forbids reading");
  WEIR_TRY(claim_alone(index));
  demoter_.await_unpinned(lock, region);
  leases_.count_pages(region, 0, region.shape.size, 1);
  std::pmr::vector<tier::HostSlot> slots(&memory_);
  const auto work = [&]() WEIR_HELD -> Status {
    slots.resize(region.pages.size());
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      const uint64_t at = region.shape.offset(p);
      const uint64_t used = region.shape.used_bytes(p);
      if ((region.pages[p].latest() & vm::host_bit) == 0)
        WEIR_TRY(copy_pieces(lock, index, where, at, at + used, region.registered + at, nullptr));
    }
    // A place for everything that lies there alone. Making room drops the lock, and may take a page's other copy away.
    for (uint32_t p = 0; p < region.pages.size();) {
      if (region.pages[p].latest() != vm::host_bit || slots[p]) {
        ++p;
        continue;
      }
      WEIR_TRY(host_room_.take(lock, region.client, node_of(region), region.shape.used_bytes(p),
                               &slots[p]));
      p = 0;
    }
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      if (!slots[p]) continue;
      __builtin_memcpy(tiers_.host().address(slots[p]), tiers_.host_bytes(region, p),
                       region.shape.used_bytes(p));
      tiers_.host().take_over(slots[p], region.client, region.shape.used_bytes(p));
    }
    return {};
  };
  const Status status = with_memory(lock, "to part from registered memory", work);
  const KeepError keep;
  if (status) {
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      if (!slots[p]) places_.note(region, region.pages[p].left(vm::host_bit));
      places_.note(region, region.pages[p].take_slot(slots[p]));
      if (slots[p]) tiers_.note(region, p, vm::host_bit);
    }
    unregister_memory(lock, region);
  } else {
    for (const tier::HostSlot slot : slots) {
      if (slot) tiers_.free_slot(region.client, slot, region.scrub);
    }
  }
  leases_.count_pages(region, 0, region.shape.size, -1);
  buffers_.hot(index).word.fetch_sub(Word::writer);
  changed_.notify_all();
  return status;
}

}  // namespace weir::residency
