// SPDX-License-Identifier: Apache-2.0
//
// weir_malloc's memory.

#include "core/buffer/lines.hpp"

#include "core/acquire/claims.hpp"
#include "core/acquire/grants.hpp"
#include "core/buffer/holder.hpp"

#include <algorithm>

namespace weir::buffer {

Status Lines::bring_pinned(Releasable &lock, uint32_t index, PoolDevice &device, Stream *stream) {
  const page::Target where = page_.buffers.target(index);
  Region &region = *where.region;
  const bool tenant = page_.buffers.tenant(index);
  if (!tenant || !others_.small.in_place(region, where.base, where.size, device) ||
      !lease_.history.past_ended(region, where.base, where.base + where.size, stream)) {
    move::Plan plan(env_.memory, stream, &device);
    holder_.plan_whole(index, WEIR_DISCARD_WRITE, &plan);
    WEIR_TRY(holder_.bring_whole(lock, plan));
    grants_.leave_latest(plan);
    if (!tenant) holder_.add_hold(*plan.items[0].region, device.place, true);
    claims_.drop(plan);
    return {};
  }
  others_.small.write_pages(region, where.base, where.size, device);
  page_.buffers.hot(index).set_flags(0, Word::virgin);
  region.used_at(env_.ticks.now());
  return {};
}

Status Lines::malloc(uint32_t device_id, Stream *stream, uint64_t size, uint32_t stack,
                     uint64_t *address) {
  WEIR_TRY(page::Sizes::check_size(size));
  if (device_id == WEIR_DEVICE_ANY)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "device is WEIR_DEVICE_ANY: who gets an address has to know of which device it is");
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = size;
  desc.home = device_id;
  if (stream != nullptr) WEIR_TRY(stream->check_capture());
  const Scrubbing scrubbing(env_.scrub_turns);
  Locked lock(env_.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(others_.maker.create_locked(desc, 0, true, stack, &index));
  const bool tenant = page_.buffers.tenant(index);
  const auto place = [&]() WEIR_HELD -> Status {
    PoolDevice &device = *page_.devices[page_.buffers.target(index).region->home];
    if (stream != nullptr && stream->device != &device.device)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "the stream is not of device %u", device.device.id);
    WEIR_TRY(bring_pinned(lock, index, device, stream));
    const page::Target where = page_.buffers.target(index);
    *address = address_of(*where.region, *where.region->on(where.region->home)) + where.base;
    if (if_memory([&]() WEIR_HELD { page_.buffers.set_address(index, *address); })) return {};
    if (!tenant) holder_.drop_hold(*where.region);
    throw std::bad_alloc();
  };
  const Status status = with_memory(lock, "for the records of an allocation", place);
  if (!status) {
    const KeepError keep;
    others_.maker.destroy_locked(index);
  }
  return status;
}

Status Lines::free(Stream *stream, uint64_t address) {
  if (address == 0) return {};
  uint64_t point = 0;
  Status status;
  if (stream != nullptr) {
    status = stream->check_capture();
    if (status.code() == WEIR_ERROR_STREAM_CAPTURING) return status;
    const Status recorded = others_.losses.record_end(*stream, &point);
    if (status) status = recorded;
  }
  Locked lock(env_.sync.lock);
  const uint32_t index = page_.buffers.take_address(address);
  if (index == page::BufferDirectory::none)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "%#llx was not returned by weir_malloc, or is free already", llu(address));
  const page::Target where = page_.buffers.target(index);
  const bool tenant = page_.buffers.tenant(index);
  const Stamp done = stream != nullptr ? Stamp::make(stream->slot, point, true) : Stamp{};
  if (tenant) {
    lease_.history.bury(*where.region, where.base, where.base + where.size, done);
  } else {
    if (done) lease_.history.note(index, 0, where.size, done);
    where.region->past.last_use = std::max(where.region->past.last_use, done.point());
    holder_.drop_hold(*where.region);
  }
  others_.maker.destroy_locked(index);
  return status;
}

}  // namespace weir::buffer
