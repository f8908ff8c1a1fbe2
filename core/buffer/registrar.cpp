// SPDX-License-Identifier: Apache-2.0
//
// The caller's own memory as the home of HOST copies.

#include "core/buffer/registrar.hpp"

#include "core/base/descriptor.hpp"

namespace weir::buffer {

Status Registrar::claim_alone(uint32_t index) {
  return lease_.leases.take_alone(index)
             ? Status{}
             : fail(WEIR_ERROR_BUSY, "the buffer has unreleased leases");
}

Status Registrar::host_register(weir_buffer buffer, void *memory, uint64_t flags) {
  WEIR_TRY(check_flags(flags, WEIR_HOST_LOAD));
  if (memory == nullptr || (reinterpret_cast<uint64_t>(memory) & 4095U) != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "memory %p is NULL or not page-aligned", memory);
  const Scrubbing scrubbing(env_.scrub_turns);
  Locked lock(env_.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(page_.buffers.find(buffer, &index));
  Region &region = *page_.buffers.target(index).region;
  if (region.is.slab)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "a buffer below a page shares its pages and can't have host memory of its own");
  if (region.host.registered != nullptr)
    return fail(WEIR_ERROR_BUSY, "the buffer has registered memory already");
  for (const auto &device : page_.devices) {
    if (!device->device.has(WEIR_CAP_HOST_REGISTER))
      return fail(WEIR_ERROR_NOT_SUPPORTED, "device %u can't register host memory",
                  device->device.id);
  }
  if (region.holds.count != 0) return fail(WEIR_ERROR_BUSY, "the buffer is held (weir_hold)");
  WEIR_TRY(claim_alone(index));
  demoter_.await_unpinned(lock, region);
  page::RegionPin pin(region);
  const uint64_t bytes = tier::HostStore::rounded(region.shape.size);
  Status status = with_memory(lock, "to register memory", [&]() WEIR_HELD {
    return cpu_.wait_range(lock, index, 0, region.shape.size, true);
  });
  const bool load = (flags & WEIR_HOST_LOAD) != 0;
  for (uint32_t p = 0; p < region.pages.size() && status && !load; ++p) {
    if ((region.pages[p].latest() & page::host_bit) != 0) status = pages_.verify_host(region, p, 0);
  }
  backend::Runtime &runtime = *page_.devices[0]->device.runtime;
  const auto register_it = [&] {
    return runtime.check(runtime.table().host_register(runtime.state(), memory, bytes),
                         "host_register");
  };
  if (status) status = lock.unlocked(register_it);
  page_.regions.unpin(pin);
  if (status) {
    auto *base = static_cast<unsigned char *>(memory);
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      if (!load && (region.pages[p].latest() & page::host_bit) != 0)
        __builtin_memcpy(base + region.shape.offset(p), page_.tiers.host_bytes(region, p),
                         region.shape.used_bytes(p));
      page_.tiers.free_host(region, p);
      if (!load) continue;
      page_.tiers.end_version(region, p);
      pages_.written(region, p, page::host_bit);
    }
    page::Aliases::drop(region);
    region.host.registered = base;
    page_.buffers.hot(index).set_flags(
        0, Word::resident | Word::sole);  // as a prefetch may have set them meanwhile
  }
  page_.buffers.hot(index).word.fetch_sub(Word::writer);
  env_.sync.changed.notify_all();
  return status;
}

void Registrar::unregister_memory(Releasable &lock, Region &region) noexcept {
  unsigned char *memory = region.host.registered;
  region.host.registered = nullptr;
  for (uint32_t p = 0; p < region.pages.size(); ++p)
    if (!region.pages[p].host()) pages_.left(region, p, page::host_bit);
  const uint64_t bytes = tier::HostStore::rounded(region.shape.size);
  page::RegionPin pin(region);
  // Another thread may bring the region to a further device meanwhile, which has nothing of this memory.
  std::array<Stream *, page::max_devices> users{};
  size_t count = 0;
  for (const auto &r : region.residences) users[count++] = page_.devices[r->place]->streams.up();
  backend::Runtime &runtime = *page_.devices[0]->device.runtime;
  lock.unlocked([&] {
    for (size_t i = 0; i < count; ++i)
      (void)users[i]->timeline.wait(users[i]->timeline.last(), UINT64_MAX);
    (void)runtime.table().host_unregister(runtime.state(), memory, bytes);
  });
  page_.regions.unpin(pin);
}

Status Registrar::host_unregister(weir_buffer buffer) {
  const Scrubbing scrubbing(env_.scrub_turns);
  Locked lock(env_.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(page_.buffers.find(buffer, &index));
  const Target where = page_.buffers.target(index);
  Region &region = *where.region;
  if (region.host.registered == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "the buffer has no registered memory");
  if (page_.buffers.hold_forbids(index, false, ClaimScope::any()))
    return fail(WEIR_ERROR_LEASE_CONFLICT,
                {.cause = Cause::hold, .buffer = page_.buffers.handle(index)},
                "a hold on the buffer%s forbids reading", page_.buffers.quoted(index).c_str());
  WEIR_TRY(claim_alone(index));
  demoter_.await_unpinned(lock, region);
  lease_.leases.count_pages(region, 0, region.shape.size, 1);
  std::pmr::vector<tier::HostSlot> slots(env_.memory);
  const auto work = [&]() WEIR_HELD -> Status {
    slots.resize(region.pages.size());
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      const uint64_t at = region.shape.offset(p);
      const uint64_t used = region.shape.used_bytes(p);
      if ((region.pages[p].latest() & page::host_bit) == 0)
        WEIR_TRY(cpu_.copy_pieces(lock, index, where, at, at + used, region.host.registered + at,
                                  nullptr));
    }
    // A place for everything that lies there alone. Making room drops the lock, and may take a page's other copy away.
    for (uint32_t p = 0; p < region.pages.size();) {
      if (region.pages[p].latest() != page::host_bit || slots[p]) {
        ++p;
        continue;
      }
      WEIR_TRY(host_room_.take(lock, region.owner.client, page_.devices[region.home]->node,
                               region.shape.used_bytes(p), &slots[p]));
      p = 0;
    }
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      if (!slots[p]) continue;
      __builtin_memcpy(page_.tiers.host().address(slots[p]), page_.tiers.host_bytes(region, p),
                       region.shape.used_bytes(p));
      page_.tiers.host().take_over(slots[p], region.owner.client, region.shape.used_bytes(p));
    }
    return {};
  };
  const Status status = with_memory(lock, "to part from registered memory", work);
  const KeepError keep;
  if (status) {
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      if (!slots[p]) pages_.left(region, p, page::host_bit);
      page_.tiers.take_slot(region, p, slots[p]);
      if (slots[p]) page_.tiers.note(region, p, page::host_bit);
    }
    unregister_memory(lock, region);
  } else {
    for (const tier::HostSlot slot : slots) {
      if (slot) page_.tiers.free_slot(region.owner.client, slot, region.is.secret);
    }
  }
  lease_.leases.count_pages(region, 0, region.shape.size, -1);
  page_.buffers.hot(index).word.fetch_sub(Word::writer);
  env_.sync.changed.notify_all();
  return status;
}

}  // namespace weir::buffer
