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
namespace {

constexpr uint64_t most_line_pages = 64;
constexpr uint64_t least_line_pages = 4;
/// Lines with pages to open that are asked before another line is made.
constexpr uint32_t most_looks = 4;

}  // namespace

uint64_t Engine::line_bytes(const PoolDevice &device) const noexcept {
  if (!device.vmm()) return device.page_size;
  const uint64_t pages = device.granules->budget() / device.page_size;
  return std::clamp(pages, least_line_pages, most_line_pages) * device.page_size;
}

/// Whether memory of that size is a tenant of a line. Above a page that saves what rounding to pages would cost, where no
/// others can have the rest of the last one.
bool Engine::belongs_in_line(const PoolDevice &device, uint64_t size) const noexcept {
  if (size < device.page_size) return true;
  const bool anywhere = device.sharing != nullptr && device.sharing->movable() != nullptr;
  if (!device.vmm() || anywhere || size % device.page_size == 0) return false;
  const bool large = device.large_page_size > device.page_size && size >= device.large_page_size;
  return size <= line_bytes(device) / 4 && !large;
}

/// A range of so many bytes, on pages in use if there is one. Throws std::bad_alloc with nothing changed.
Status Engine::place_pinned(SlabGroup &group, uint64_t size, uint8_t home, uint32_t client,
                            int32_t priority, Region **out,
                            physical::SmallArena::Allocation *place) {
  PoolDevice &device = device_at(home);
  const uint64_t bytes = (size + 255) / 256 * 256;
  const uint64_t pages = (bytes + device.page_size - 1) / device.page_size;
  uint32_t at = group.rooms.at_least(bytes);
  Region *slab = nullptr;
  if (at != physical::RoomTree::none) {
    slab = &regions_.at(group.slabs[at]);
    *place = slab->tenants->allocate(bytes, 256);
  } else {
    uint32_t looks = most_looks;
    for (at = group.rooms.at_least(0, pages);
         at != physical::RoomTree::none && looks-- > 0 && !*place;
         at = group.rooms.next(at, pages)) {
      slab = &regions_.at(group.slabs[at]);
      slab->tenants->prepare();
      *place = open_pages(*slab, bytes);
    }
    if (!*place) {
      const uint64_t line = line_bytes(device);
      const vm::Geometry shape =
          device.vmm() ? vm::Geometry::paged(line, device.page_size, 0) : vm::Geometry::whole(line);
      WEIR_TRY(open_slab(group, shape, home, client, priority, true, &slab));
      *place = open_pages(*slab, bytes);
    }
  }
  assert(*place);
  (void)occupy(*slab, place->offset, bytes);  // the pool's own client has no quota
  note_room(*slab);
  *out = slab;
  return {};
}

/// Opens the pages that a range needs beside the free one that it is to begin in: such as are there rather than others, then
/// behind the longest free range; none that is on its way in or out, which would have to be waited for. The arena is prepared.
/// Nothing: no run of closed pages is long enough.
physical::SmallArena::Allocation Engine::open_pages(Region &region, uint64_t bytes) noexcept {
  vm::Slab &slab = *region.tenants;
  const uint64_t page_bytes = region.shape.small_bytes;
  const Residence *here = region.on(region.home);
  uint32_t best = 0, best_count = 0, best_absent = UINT32_MAX;
  uint64_t best_before = 0;
  const auto count = static_cast<uint32_t>(slab.pages.size());
  for (uint32_t p = 0; p < count && best_absent != 0; ++p) {
    if (slab.pages[p].closed == vm::Slab::none) continue;
    const uint64_t before = std::min(slab.free_before(slab.pages[p].closed), bytes - 256);
    const auto need = static_cast<uint32_t>((bytes - before + page_bytes - 1) / page_bytes);
    uint32_t absent = 0;
    uint32_t have = 0;
    while (have < need && p + have < count && slab.pages[p + have].closed != vm::Slab::none &&
           region.pages[p + have].busy == 0) {
      absent += here->pages[p + have].state() == PageState::absent ? 1 : 0;
      ++have;
    }
    if (have < need || absent > best_absent) continue;
    if (absent == best_absent && before <= best_before) continue;
    best = p;
    best_count = need;
    best_absent = absent;
    best_before = before;
  }
  if (best_count == 0) return {};
  const uint64_t start = best * page_bytes - best_before;
  const auto behind = slab.open(best, best_count);
  physical::SmallArena::Allocation place;
  place.node = slab.take_before(behind, start, bytes);
  place.offset = start;
  return place;
}

/// Memory of weir_malloc that is a tenant, in place and ordered after what was there before. As bring_whole().
Status Engine::bring_pinned(Releasable &lock, uint32_t index, PoolDevice &device, Stream *stream) {
  const Target where = target(index);
  Region &region = *where.region;
  if (!in_place(region, where.base, where.size, device) ||
      !past_ended(region, where.base, where.size, stream)) {
    Plan plan(&memory_, stream, &device);
    plan_whole(index, WEIR_DISCARD_WRITE, &plan);
    WEIR_TRY(bring_whole(lock, plan));
    leave_latest(plan);
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
  Status status;
  const bool tenant = buffers_.cold(index).node != physical::SmallArena::none;
  try {
    PoolDevice &device = *devices_[target(index).region->home];
    if (stream != nullptr && stream->device != &device.device) {
      status =
          fail(WEIR_ERROR_INVALID_ARGUMENT, "the stream is not of device %u", device.device.id);
    } else if (tenant) {
      status = bring_pinned(lock, index, device, stream);
    } else {
      Plan plan(&memory_, stream, &device);
      plan_whole(index, WEIR_DISCARD_WRITE, &plan);
      status = bring_whole(lock, plan);
      if (status) {
        leave_latest(plan);
        add_hold(*plan.items[0].region, device.place, true);
        drop_claims(plan);
      }
    }
    if (status) {
      const Target where = target(index);
      *address = address_of(*where.region, *where.region->on(where.region->home)) + where.base;
      try {
        mallocs_.reserve_one();
      } catch (...) {
        if (!tenant) drop_hold(*where.region);
        throw;
      }
      mallocs_.insert(*address, index);
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
  uint64_t point = 0;
  Status status;
  if (stream != nullptr) {
    status = stream->check_capture();
    if (status.code() == WEIR_ERROR_STREAM_CAPTURING) return status;
    const Status recorded = record_release(*stream, &point);
    if (status) status = recorded;
  }
  Locked lock(lock_);
  const uint32_t index = mallocs_.find(address);
  if (index == AddressMap::none) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "%#llx was not returned by weir_malloc, or is free already",
                static_cast<unsigned long long>(address));
  }
  mallocs_.erase(address);
  const Target where = target(index);
  const bool tenant = buffers_.cold(index).node != physical::SmallArena::none;
  const Stamp done = stream != nullptr ? Stamp::make(stream->slot, point, true) : Stamp{};
  if (tenant) {
    bury(*where.region, where.base, where.base + where.size, done);
  } else {
    if (done) note_use(index, 0, where.size, done);
    drop_hold(*where.region);
  }
  destroy_locked(index);
  return status;
}

}  // namespace weir::residency
