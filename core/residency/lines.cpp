// SPDX-License-Identifier: Apache-2.0
//
// Lines: the slabs of weir_malloc, whose tenants never move. With virtual-memory management a line has many more pages than
// it has memory for: a range on pages that have tenants is taken first, and only if there is none as long are pages opened,
// no more than it takes beside what is free at their edge. So a request is refused only if no range of a page in use holds
// it and the budget has no further page. Pages without tenants stay, idle, until somebody else needs them
// (virtual/slab.hpp). All of it is the pool's own client's.

#include "core/residency/plan.hpp"
#include "core/residency/scrub.hpp"

#include <algorithm>

namespace weir::residency {

/// A range of so many bytes, on pages in use if there is one. Throws std::bad_alloc with nothing changed.
Status Engine::place_pinned(const page::Kin &kin, uint64_t size, Region **out,
                            page::SlabAllocator::Place *place) {
  PoolDevice &device = device_at(kin.home);
  const uint64_t bytes = (size + 255) / 256 * 256;
  Region *slab = slabs_.find_pinned(kin, bytes, device.memory.page_size(), place);
  if (slab == nullptr) {
    WEIR_TRY(open_slab(device.memory.small_pages(device.memory.line_pages()), kin, &slab));
    *place = page::SlabAllocator::open_pages(*slab, bytes);
  }
  assert(*place);
  (void)slabs_.occupy(*slab, *place);  // the pool's: no quota
  const Residence *here = slab->on(kin.home);
  const uint32_t last = slab->shape.page_at(place->offset + bytes - 1);
  for (uint32_t p = slab->shape.page_at(place->offset); here != nullptr && p <= last; ++p) {
    if (slab->tenants->pages[p].tenants == 1 && here->pages[p].granule != physical::no_granule)
      device.memory.count_held(*slab, p, true);
  }
  *out = slab;
  return {};
}

/// Memory of weir_malloc, in place and ordered after what was there before; what is no tenant is held there. As bring_whole().
Status Engine::bring_pinned(Releasable &lock, uint32_t index, PoolDevice &device, Stream *stream) {
  const Target where = buffers_.target(index);
  Region &region = *where.region;
  const bool tenant = buffers_.tenant(index);
  if (!tenant || !in_place(region, where.base, where.size, device) ||
      !history_.past_ended(region, where.base, where.base + where.size, stream)) {
    Plan plan(&memory_, stream, &device);
    plan_whole(index, WEIR_DISCARD_WRITE, &plan);
    WEIR_TRY(bring_whole(lock, plan));
    leave_latest(plan);
    if (!tenant) add_hold(*plan.items[0].region, device.place, true);
    drop_claims(plan);
    return {};
  }
  write_pages(region, where.base, where.size, device);
  set_flags(index, 0, Word::virgin);
  region.last_use = std::max(region.last_use, ticks_.now());
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
  const Scrubbing scrubbing(*this);
  Locked lock(lock_);
  uint32_t index = 0;
  WEIR_TRY(create_locked(desc, 0, true, &index));
  const bool tenant = buffers_.tenant(index);
  const auto place = [&]() WEIR_HELD -> Status {
    PoolDevice &device = *devices_[buffers_.target(index).region->home];
    if (stream != nullptr && stream->device != &device.device)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "the stream is not of device %u", device.device.id);
    WEIR_TRY(bring_pinned(lock, index, device, stream));
    const Target where = buffers_.target(index);
    *address = address_of(*where.region, *where.region->on(where.region->home)) + where.base;
    if (if_memory([&]() WEIR_HELD { buffers_.set_address(index, *address); })) return {};
    if (!tenant) drop_hold(*where.region);
    throw std::bad_alloc();
  };
  const Status status = with_memory(lock, "for the records of an allocation", place);
  if (!status) {
    const KeepError keep;
    destroy_locked(index);
  }
  return status;
}

Status Engine::free(Stream *stream, uint64_t address) {
  if (address == 0) return {};
  uint64_t point = 0;
  Status status;
  if (stream != nullptr) {
    status = stream->check_capture();
    if (status.code() == WEIR_ERROR_STREAM_CAPTURING) return status;
    const Status recorded = record_release(*stream, &point);
    if (status) status = recorded;
  }
  Locked lock(lock_);
  const uint32_t index = buffers_.take_address(address);
  if (index == page::BufferDirectory::none)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "%#llx was not returned by weir_malloc, or is free already", llu(address));
  const Target where = buffers_.target(index);
  const bool tenant = buffers_.tenant(index);
  const Stamp done = stream != nullptr ? Stamp::make(stream->slot, point, true) : Stamp{};
  if (tenant) {
    history_.bury(*where.region, where.base, where.base + where.size, done);
  } else {
    if (done) history_.note(index, 0, where.size, done);
    where.region->last_use = std::max(where.region->last_use, done.point());
    drop_hold(*where.region);
  }
  destroy_locked(index);
  return status;
}

}  // namespace weir::residency
