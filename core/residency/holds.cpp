// SPDX-License-Identifier: Apache-2.0
//
// Residency without leases: holds, weir_malloc, and the caller's own memory as the home of a buffer's HOST copies.

#include "core/residency/plan.hpp"

namespace weir::residency {

/// Bytes of the region's granules on a device that were not counted since begin_count().
uint64_t Engine::occupied_bytes(const Region &region, const Residence &residence,
                                bool borrowed) noexcept {
  uint64_t bytes = 0;
  for (uint32_t p = 0; p < residence.pages.size(); ++p) {
    if (residence.pages[p].borrowed && !borrowed) continue;
    if (residence.pages[p].granule != physical::no_granule)
      bytes += count_granule(region, p, device_at(residence.place));
  }
  return bytes;
}

/// Held bytes are counted by granules, not by states: a page on the move when a hold comes or goes is counted once all
/// the same.
void Engine::add_hold(Region &region) noexcept {
  if (region.holds++ != 0) return;
  for (const auto &r : region.residences) count_held(region, *r, true);
}

void Engine::drop_hold(Region &region) noexcept {
  if (--region.holds != 0) return;
  for (const auto &r : region.residences) count_held(region, *r, false);
  changed_.notify_all();
}

/// Brings the whole buffer to a device for no lease. Called and returns with the lock held; what it made
/// resident can be evicted again as soon as the lock is dropped.
Status Engine::bring_whole(Lock &lock, uint32_t index, uint8_t mode, PoolDevice &device,
                           Stream *stream, bool hold) {
  Plan plan(&memory_, stream, &device);
  plan.lease = &plan;  // claimed while it is brought in, so that no writer is at work elsewhere
  PlanItem item;
  item.buffer = index;
  item.generation =
      buffers_.hot(index).word.load(std::memory_order_relaxed) & Word::generation_mask;
  item.end = buffers_.hot(index).size();
  item.mode = mode;
  plan.items.push_back(item);
  WEIR_TRY(bring_in(lock, plan, AcquireOptions{}));
  Region &region = *plan.items[0].region;
  if (hold) add_hold(region);
  drop_claims(plan);
  const auto wait = [&]() -> Status {
    if (stream != nullptr) return enqueue_waits(plan);
    return wait_range(lock, index, 0, item.end, mode != WEIR_READ);
  };
  Status status;
  try {
    status = wait();
  } catch (...) {
    if (hold) drop_hold(region);
    throw;
  }
  if (!status) {
    if (hold) drop_hold(region);
    return status;
  }
  if (mode != WEIR_READ || plan.items[0].virgin) {
    for (uint32_t p = plan.items[0].first; p <= plan.items[0].last; ++p) {
      invalidate(region, p, device.bit());  // a virgin tenant was zeroed here and nowhere else
    }
    set_flags(index, 0, Word::virgin);
  }
  if (device.place == region.home)
    refresh_word(index, region, plan.items[0].base, plan.items[0].size);
  return {};
}

Status Engine::hold(weir_buffer buffer, uint32_t device_id, uint64_t *address) {
  Lock lock(mutex_);
  uint32_t index = 0;
  WEIR_TRY(decode(buffer, &index));
  uint8_t place = 0;
  if (device_id == WEIR_DEVICE_DEFAULT) {
    place = target(index).region->home;
  } else {
    WEIR_TRY(place_of(device_id, &place));
  }
  WEIR_TRY(unslab_for(lock, index, place));
  holds_.try_emplace(index, 0U);  // first, so that nothing can fail once the pages are held
  const auto forget = [this, index] {
    if (holds_[index] == 0) holds_.erase(index);
  };
  Status status;
  try {
    status = bring_whole(lock, index, WEIR_READ, *devices_[place], nullptr, true);
  } catch (...) {
    forget();
    throw;
  }
  if (!status) {
    forget();
    return status;
  }
  ++holds_[index];
  const Target where = target(index);
  *address = address_on(*where.region, place) + where.base;
  return {};
}

Status Engine::unhold(weir_buffer buffer) {
  Lock lock(mutex_);
  uint32_t index = 0;
  WEIR_TRY(decode(buffer, &index));
  const auto held = holds_.find(index);
  if (held == holds_.end() || held->second == 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "the buffer is not held");
  if (--held->second == 0) holds_.erase(held);
  drop_hold(*target(index).region);
  return {};
}

Status Engine::malloc(uint32_t device_id, Stream *stream, uint64_t size, uint64_t *address) {
  WEIR_TRY(check_size(size));
  if (device_id == WEIR_DEVICE_ANY)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "device is WEIR_DEVICE_ANY: who gets an address has to know of which device it is");
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = size;
  desc.home = device_id;
  if (stream != nullptr) WEIR_TRY(stream->check_capture());
  Lock lock(mutex_);
  uint32_t index = 0;
  WEIR_TRY(create_locked(desc, 0, true, &index));
  Status status;
  try {
    mallocs_.reserve(mallocs_.size() + 1);
    PoolDevice &device = *devices_[target(index).region->home];
    if (stream != nullptr && stream->device != &device.device) {
      status =
          fail(WEIR_ERROR_INVALID_ARGUMENT, "the stream is not of device %u", device.device.id);
    } else {
      status = bring_whole(lock, index, WEIR_DISCARD_WRITE, device, stream, true);
    }
    if (status) {
      const Target where = target(index);
      *address = address_of(*where.region, *where.region->on(where.region->home)) + where.base;
      try {
        mallocs_.emplace(*address, index);
      } catch (...) {
        drop_hold(*where.region);
        throw;
      }
    }
  } catch (const std::bad_alloc &) {
    status = fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the records of an allocation");
  }
  if (!status) {
    const LastError why = last_error();
    destroy_locked(index);
    last_error() = why;
  }
  return status;
}

Status Engine::free(Stream *stream, uint64_t address) {
  if (address == 0) return {};
  if (stream != nullptr) WEIR_TRY(stream->check_capture());
  uint64_t point = 0;
  Status status;
  if (stream != nullptr) status = record_release(*stream, &point);
  Lock lock(mutex_);
  const auto found = mallocs_.find(address);
  if (found == mallocs_.end()) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "%#llx was not returned by weir_malloc, or is free already",
                static_cast<unsigned long long>(address));
  }
  const uint32_t index = found->second;
  mallocs_.erase(found);
  if (stream != nullptr)
    note_use(index, 0, buffers_.hot(index).size(), Stamp::make(stream->slot, point, true));
  drop_hold(*target(index).region);
  destroy_locked(index);
  return status;
}

// ---- the caller's own memory ----

Status Engine::claim_alone(uint32_t index) {
  std::atomic<uint64_t> &word = buffers_.hot(index).word;
  uint64_t seen = word.load(std::memory_order_relaxed);
  do {
    if (Word::leases(seen) != 0 || (seen & Word::partial) != 0)
      return fail(WEIR_ERROR_BUSY, "the buffer has unreleased leases");
  } while (!word.compare_exchange_weak(seen, (seen | Word::writer) & ~Word::resident,
                                       std::memory_order_acq_rel));
  return {};
}

Status Engine::host_register(weir_buffer buffer, void *memory, uint64_t flags) {
  if ((flags & ~uint64_t{WEIR_HOST_LOAD}) != 0) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "flags %#llx has bits this version does not know",
                static_cast<unsigned long long>(flags));
  }
  if (memory == nullptr || (reinterpret_cast<uint64_t>(memory) & 4095U) != 0) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "memory %p is NULL or not page-aligned", memory);
  }
  Lock lock(mutex_);
  uint32_t index = 0;
  WEIR_TRY(decode(buffer, &index));
  Region &region = *target(index).region;
  if (region.slab)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "a buffer below a page shares its pages and can't have host memory of its own");
  if (region.registered != nullptr)
    return fail(WEIR_ERROR_BUSY, "the buffer has registered memory already");
  for (const auto &device : devices_) {
    if (!device->device.has(WEIR_CAP_HOST_REGISTER)) {
      return fail(WEIR_ERROR_NOT_SUPPORTED, "device %u can't register host memory",
                  device->device.id);
    }
  }
  if (region.holds != 0) return fail(WEIR_ERROR_BUSY, "the buffer is held (weir_hold)");
  WEIR_TRY(claim_alone(index));
  await_operations(lock, region);
  ++region.operations;
  const uint64_t bytes = tier::HostStore::rounded(region.shape.size);
  Status status;
  try {
    status = wait_range(lock, index, 0, region.shape.size, true);
  } catch (const std::bad_alloc &) {
    status = fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory to register memory");
  }
  for (uint32_t p = 0; p < region.pages.size() && status; ++p) {
    if ((flags & WEIR_HOST_LOAD) != 0 || (region.pages[p].latest & vm::host_bit) == 0) continue;
    status = verify_host(region, p, 0);
    if (status || region.pages[p].latest == vm::host_bit) continue;
    forsake_copy(region, p, vm::host_bit);
    status = {};
  }
  lock.unlock();
  backend::Runtime &runtime = *devices_[0]->device.runtime;
  if (status)
    status = runtime.check(runtime.table().host_register(runtime.state(), memory, bytes),
                           "host_register");
  lock.lock();
  --region.operations;
  if (status) {
    auto *base = static_cast<unsigned char *>(memory);
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      Page &copies = region.pages[p];
      if ((flags & WEIR_HOST_LOAD) == 0 && (copies.latest & vm::host_bit) != 0) {
        __builtin_memcpy(base + region.shape.offset(p), host_bytes(region, p),
                         region.shape.used_bytes(p));
      }
      free_host(region, p);
      if ((flags & WEIR_HOST_LOAD) != 0) {
        free_lower(region, p);
        copies.latest = vm::host_bit;
      }
    }
    drop_alias(region);
    region.registered = base;
    set_flags(index, 0, Word::resident | Word::sole);  // as a prefetch may have set them meanwhile
  }
  buffers_.hot(index).word.fetch_sub(Word::writer);
  changed_.notify_all();
  return status;
}

/// Parts from the memory; its contents are the caller's to have saved.
void Engine::unregister_memory(Lock &lock, Region &region) noexcept {
  unsigned char *memory = region.registered;
  region.registered = nullptr;
  for (Page &copies : region.pages) {
    if (!copies.host) copies.latest &= ~vm::host_bit;
  }
  const uint64_t bytes = tier::HostStore::rounded(region.shape.size);
  ++region.operations;
  // Another thread may bring the region to a further device meanwhile, which has nothing of this memory.
  std::array<PoolDevice *, vm::max_devices> users{};
  size_t count = 0;
  for (const auto &r : region.residences) users[count++] = &device_at(r->place);
  lock.unlock();
  backend::Runtime &runtime = *devices_[0]->device.runtime;
  for (size_t i = 0; i < count; ++i)
    (void)users[i]->up->timeline.wait(users[i]->up->timeline.last(), UINT64_MAX);
  (void)runtime.table().host_unregister(runtime.state(), memory, bytes);
  lock.lock();
  --region.operations;
}

Status Engine::host_unregister(weir_buffer buffer) {
  Lock lock(mutex_);
  uint32_t index = 0;
  WEIR_TRY(decode(buffer, &index));
  const Target where = target(index);
  Region &region = *where.region;
  if (region.registered == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "the buffer has no registered memory");
  WEIR_TRY(claim_alone(index));
  await_operations(lock, region);
  count_pages(region, 0, region.shape.size, 1);
  std::pmr::vector<tier::HostSlot> slots(&memory_);
  const auto work = [&]() -> Status {
    slots.resize(region.pages.size());
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      const uint64_t at = region.shape.offset(p);
      const uint64_t used = region.shape.used_bytes(p);
      if ((region.pages[p].latest & vm::host_bit) == 0)
        WEIR_TRY(copy_pieces(lock, index, where, at, at + used, region.registered + at, nullptr));
    }
    // A place for everything that lies there alone. Making room drops the lock, and may take a page's other copy away.
    for (uint32_t p = 0; p < region.pages.size();) {
      if (region.pages[p].latest != vm::host_bit || slots[p]) {
        ++p;
        continue;
      }
      WEIR_TRY(
          host_slot(lock, region.client, node_of(region), region.shape.used_bytes(p), &slots[p]));
      p = 0;
    }
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      if (slots[p])
        __builtin_memcpy(host_->address(slots[p]), host_bytes(region, p),
                         region.shape.used_bytes(p));
    }
    return {};
  };
  Status status;
  try {
    status = work();
  } catch (const std::bad_alloc &) {
    status = fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory to part from registered memory");
  }
  const LastError why = last_error();
  if (status) {
    for (uint32_t p = 0; p < region.pages.size(); ++p) {
      region.pages[p].latest &= slots[p] ? ~uint32_t{0} : ~vm::host_bit;
      region.pages[p].host = slots[p];
      if (slots[p]) note_in_order(region, p, vm::host_bit);
    }
    unregister_memory(lock, region);
  } else {
    for (const tier::HostSlot slot : slots) {
      if (slot) free_slot(region.client, slot);
    }
  }
  count_pages(region, 0, region.shape.size, -1);
  buffers_.hot(index).word.fetch_sub(Word::writer);
  changed_.notify_all();
  last_error() = why;
  return status;
}

}  // namespace weir::residency
