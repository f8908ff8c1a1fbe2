// SPDX-License-Identifier: Apache-2.0
//
// The making of buffers.

#include "core/buffer/buffer_maker.hpp"

#include "core/base/descriptor.hpp"
#include "core/buffer/registrar.hpp"
#include "core/codec/form.hpp"
#include "core/move/scrubber.hpp"

#include <algorithm>
#include <bit>

namespace weir::buffer {
namespace {

uint64_t alignment_bits(uint64_t alignment) noexcept {
  const auto log2 = static_cast<uint64_t>(std::countr_zero(std::max<uint64_t>(alignment, 256)));
  return std::min(log2, Word::alignment_mask) << Word::alignment_shift;
}

}  // namespace

Status BufferMaker::own_region(uint32_t index, const weir_buffer_desc &desc, uint8_t home,
                               uint32_t client, page::ShardWish &wish) {
  page::Geometry shape = page_.devices[home]->memory.shape(desc.size);
  const uint64_t alignment = std::max<uint64_t>(desc.alignment, 1);
  Region *region = nullptr;
  // What is to be scrubbed is zeroed by whole granules, and keeps its bytes to itself.
  if ((desc.flags & WEIR_BUFFER_SCRUB) == 0 && wish.shards == nullptr) {
    region = others_.life.adopt_kept(shape, alignment, home, client);
    page::Geometry sharing = shape;
    sharing.shared = true;
    if (region == nullptr) region = others_.life.adopt_kept(sharing, alignment, home, client);
  }
  if (region != nullptr) {
    WEIR_TRY(or_undo(
        [&]() WEIR_HELD { return lease_.history.inherit(index, desc.size, *region), Status{}; },
        [&]() WEIR_HELD { others_.life.keep_or_free(*region); }));
  } else if (wish.shards != nullptr) {
    WEIR_TRY(make_sharded_region(desc.size, client, wish, &region));
  } else {
    page::Sharing::Lot lot;
    page::Sharing *sharing = page_.devices[home]->memory.sharing();
    if (sharing != nullptr && (desc.flags & WEIR_BUFFER_SCRUB) == 0)
      shape = sharing->place(client, desc.size, alignment, &lot);
    WEIR_TRY(others_.life.make_at_home(shape, home, client, &region, lot));
    if (shape.shared) region->layout.unsettled = static_cast<uint8_t>(std::bit_width(alignment));
  }
  region->owner.buffer = index;
  region->priority = page_.accounts.priority(client, desc.priority);
  region->is.stable = (desc.flags & WEIR_BUFFER_STABLE_ADDRESS) != 0;
  region->is.secret = (desc.flags & WEIR_BUFFER_SCRUB) != 0;
  region->tag = desc.tag;
  region->codec.quick.hint = region->codec.dense.hint = static_cast<codec::Form>(desc.element);
  region->rounds = (desc.flags & WEIR_BUFFER_LOSSY_BF16) != 0  ? codec::Form::bf16
                   : (desc.flags & WEIR_BUFFER_LOSSY_F16) != 0 ? codec::Form::f16
                                                               : codec::Form::bytes;
  region->past.last_use = env_.ticks.now();
  page_.buffers.settle(index, *region);
  return {};
}

Status BufferMaker::create_locked(const weir_buffer_desc &desc, uint32_t client, bool pinned,
                                  uint32_t stack, uint32_t *index) {
  page::Users users;
  const bool known_users = desc.user_count != 0;
  if (known_users || desc.reserved != 0) WEIR_TRY(others_.homes.read_users(desc, &users));
  page::ShardWish wish;
  if (desc.shards != nullptr) {
    WEIR_TRY(others_.homes.read_shards(desc, &wish));
  } else {
    WEIR_TRY(others_.homes.home_for(desc, users, &wish.home));
  }
  const uint8_t home = wish.home;
  PoolDevice &device = *page_.devices[home];
  if ((desc.flags & WEIR_BUFFER_STABLE_ADDRESS) != 0 && !device.vmm())
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "STABLE_ADDRESS: device %u has no virtual-memory management", device.device.id);
  if (desc.alignment > device.memory.page_size())
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "alignment %llu is more than the page size %llu",
                llu(desc.alignment), llu(device.memory.page_size()));
  // Tenants share pages and may have to leave them (unslab_for); what must be scrubbed or stay owns its pages.
  const bool alone = wish.shards != nullptr ||
                     (desc.flags & (WEIR_BUFFER_SCRUB | WEIR_BUFFER_STABLE_ADDRESS)) != 0;
  const bool tenant = !alone && (desc.size < device.memory.page_size() ||
                                 (pinned && device.memory.belongs_in_line(desc.size)));
  WEIR_TRY(others_.sizes.room_for_buffer(desc, wish, tenant));
  const uint32_t fresh =
      page_.buffers.take(known_users ? &users : nullptr, kept_name(desc.name), stack);
  const auto place = [&]() WEIR_HELD {
    return tenant ? others_.small.place_tenant(fresh, desc, home, client, pinned)
                  : own_region(fresh, desc, home, client, wish);
  };
  WEIR_TRY(or_undo(place, [&]() WEIR_HELD { page_.buffers.give(fresh); }));
  page_.buffers.describe(fresh, desc.size, device.device.id);
  const uint64_t open = tenant && !pinned ? others_.small.open_to_first(fresh, device) : 0;
  page_.buffers.publish(fresh, open | (tenant ? Word::virgin | alignment_bits(desc.alignment) : 0) |
                                   (lease_.history.knows(fresh) ? Word::history : 0));
  page_.accounts.add_buffer(client);
  others_.homes.count_promise(fresh, home, desc.size, true);
  lease_.log.born(fresh, page_.buffers.hot(fresh).generation(), desc.size);
  *index = fresh;
  return {};
}

Status BufferMaker::create_buffer(const weir_buffer_desc &desc, uint32_t client, uint32_t stack,
                                  weir_buffer *buffer) {
  WEIR_TRY(acquire::Homes::check_desc(desc));
  Locked lock(env_.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(create_locked(desc, client, false, stack, &index));
  *buffer = page_.buffers.handle(index);
  return {};
}

void BufferMaker::destroy_locked(uint32_t index) noexcept {
  const page::Target where = page_.buffers.target(index);
  page_.accounts.remove_buffer(where.region->owner.client);
  others_.homes.count_promise(index, where.region->home, where.size, false);
  lease_.log.died(index, page_.buffers.hot(index).generation(), where.size);
  // What may still run on its bytes is remembered by the place, not by the buffer.
  lease_.history.bury_all(lease::all_of(where, index));
  page_.buffers.kill(index);
  if (page_.buffers.tenant(index)) {
    others_.life.free_place(*where.region, page_.buffers.node(index));
  } else {
    others_.life.keep_or_free(*where.region);
  }
  page_.buffers.give(index);
  env_.sync.changed.notify_all();
}

Status BufferMaker::destroy_buffer(weir_buffer buffer) {
  Scrubbing scrubbing(env_.scrub_turns);
  Locked lock(env_.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(page_.buffers.find(buffer, &index));
  std::atomic<uint64_t> &word = page_.buffers.hot(index).word;
  uint64_t seen = word.load(std::memory_order_relaxed);
  do {
    if (Word::leases(seen) != 0 || (seen & Word::partial) != 0)
      return fail(WEIR_ERROR_BUSY, "the buffer%s has unreleased leases",
                  page_.buffers.quoted(index).c_str());
    if (page_.buffers.held(index))
      return fail(WEIR_ERROR_BUSY, "the buffer%s is held (weir_hold)",
                  page_.buffers.quoted(index).c_str());
  } while (!word.compare_exchange_weak(seen, (seen | Word::closing) & ~Word::resident,
                                       std::memory_order_acq_rel));
  // A prefetch or an eviction under way ends by itself. A slab outlives its tenant.
  if (!page_.buffers.tenant(index)) {
    Region &region = *page_.buffers.target(index).region;
    others_.demoter.await_unpinned(lock, region);
    if (region.host.registered != nullptr) registrar_.unregister_memory(lock, region);
  }
  const Region &region = *page_.buffers.target(index).region;
  const uint32_t id = region.id;
  const uint16_t generation = page_.regions.generation(region);
  const bool secret = region.is.secret;
  destroy_locked(index);
  if (secret) {
    scrubbing.wait();
    scrubber_.scrub_device(lock, id, generation, false);
  }
  return {};
}

Status BufferMaker::make_sharded_region(uint64_t size, uint32_t client, page::ShardWish &wish,
                                        Region **region) {
  page::Shards &shards = *wish.shards;
  const page::Geometry shape =
      page::Shards::shape_of(size, env_.config.memory.page_size, env_.config.memory.large_page_size,
                             wish.stripe, shards.count());
  if (wish.policy == WEIR_SHARD_BLOCKED) {
    shards.deal_blocks(shape);
  } else {
    const uint64_t usual = shape.large != 0 ? shape.large_bytes : shape.small_bytes;
    shards.deal_stripes(shape, wish.stripe != 0 ? wish.stripe : usual);
  }
  Region &fresh = others_.life.make(shape, wish.home, client);
  const auto open = [&] {
    fresh.residences.reserve(shards.count());
    for (uint32_t i = 0; i < shards.count(); ++i) {
      fresh.residences.push_back(make_owned<Residence>(env_.memory, shards.place(i), env_.memory));
      fresh.residences.back()->pages.resize(shape.pages());
    }
    return page_.devices[wish.home]->memory.addresses().allocate(
        shape.address_bytes(), shape.address_alignment(), &shards.range);
  };
  WEIR_TRY(or_undo(open, [&]() WEIR_HELD { others_.life.free(fresh); }));
  shards.range_place = wish.home;
  for (const auto &residence : fresh.residences) residence->range.address = shards.range.address;
  fresh.shards = std::move(wish.shards);
  page_.places.note_shards(fresh);
  *region = &fresh;
  return {};
}

Status BufferMaker::advise(weir_buffer buffer, uint64_t offset, uint64_t length, uint32_t advice) {
  Locked lock(env_.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(page_.buffers.find(buffer, &index));
  WEIR_TRY(page_.buffers.range_of(index, offset, &length));
  Region &region = *page_.buffers.target(index).region;
  const uint64_t generation = page_.buffers.hot(index).generation();
  switch (advice) {
    case WEIR_ADVISE_NORMAL:
      region.is.cold = region.is.streaming = false;
      return {};
    case WEIR_ADVISE_COLD:
      region.is.cold = true;
      region.is.streaming = false;
      return {};
    case WEIR_ADVISE_STREAMING:
      region.is.streaming = true;
      return {};
    case WEIR_ADVISE_WILL_NEED: {
      policy::PrefetchBatch asked(env_.memory);
      asked.push_back(policy::PrefetchRequest{index, generation, offset, offset + length, WEIR_READ,
                                              region.home});
      others_.prefetcher.ask(lock, asked, 0);
      return {};
    }
    default:
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "advice %u is none of WEIR_ADVISE_*", advice);
  }
}

Status BufferMaker::set_name(weir_buffer buffer, const char *name) {
  Locked lock(env_.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(page_.buffers.find(buffer, &index));
  page_.buffers.set_name(index, kept_name(name));
  return {};
}

Status BufferMaker::name_of(weir_buffer buffer, std::string *name) {
  Locked lock(env_.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(page_.buffers.find(buffer, &index));
  *name = page_.buffers.name_of(index);
  return {};
}

Status BufferMaker::set_priority(weir_buffer buffer, int32_t priority) {
  if (priority < WEIR_PRIORITY_LOWEST || priority > WEIR_PRIORITY_HIGHEST)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "priority is %d, not %d..%d", priority,
                WEIR_PRIORITY_LOWEST, WEIR_PRIORITY_HIGHEST);
  Locked lock(env_.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(page_.buffers.find(buffer, &index));
  Region &region = *page_.buffers.target(index).region;
  const int8_t sum = page_.accounts.priority(region.owner.client, priority);
  if (region.is.slab) {
    page_.buffers.wish_priority(index, sum);
  } else {
    region.priority = sum;
    if (move::PlanExecutor *plans = others_.prefetcher.plans()) plans->note_priority(region);
  }
  return {};
}

}  // namespace weir::buffer
