// SPDX-License-Identifier: Apache-2.0
//
// Counters, what is told of one buffer, and walks over all. Nothing here changes the pool.

#include "core/pool/inspector.hpp"

#include "core/move/plan_executor.hpp"

#include <algorithm>
#include <thread>

namespace weir::pool {
namespace {

/// One taking of the lock looks at no more than so many buffers and numbers that may be buffers', and at no further buffer after so
/// many pages.
constexpr uint32_t most_buffers = 1000, most_numbers = 4096;
constexpr uint64_t most_pages = 4096;

}  // namespace

// ---- counters ----

Counters Inspector::counters() const {
  Counters stats = pool_.env.events.counters();
  for (const auto &device : pool_.page.devices) {
    stats[Counter::device_budget] += device->memory.budget();
    stats[Counter::device_bytes] += device->memory.granules().held();
    stats[Counter::device_free_bytes] += device->memory.granules().idle();
    stats[Counter::device_held_bytes] += device->memory.held_bytes();
    stats[Counter::device_peak_bytes] += device->memory.granules().peak();
    stats[Counter::device_segments] += device->memory.granules().segments();
    stats[Counter::device_returned_bytes] += device->memory.returned_bytes();
    stats[Counter::borrowed_bytes] += device->memory.borrowed_bytes();
  }
  stats[Counter::host_budget] += pool_.page.tiers.host().budget();
  stats[Counter::host_bytes] += pool_.page.tiers.host().held();
  stats[Counter::host_used_bytes] += pool_.page.tiers.host().used();
  pool_.page.cold.add_stats(stats);
  stats[Counter::compressed_raw_bytes] += pool_.env.gauges.compressed_raw;
  stats[Counter::storage_raw_bytes] += pool_.env.gauges.storage_raw;
  stats[Counter::generation] += pool_.losses.generation();
  const uint64_t pinned = pool_.carrier.pinned_bytes();
  stats[Counter::host_budget] += pinned;  // beside what the budget has for pages
  stats[Counter::host_bytes] += pinned;
  stats[Counter::staging_bytes] += pinned;
  stats[Counter::buffers] += pool_.page.buffers.live();
  stats[Counter::pages] += pool_.page.regions.pages();
  stats[Counter::slabs] += pool_.page.slabs.count();
  stats[Counter::buffer_bytes] += pool_.page.buffers.bytes();
  stats[Counter::bookkeeping_bytes] += pool_.memory.bytes();
  stats[Counter::shared_operation_ids] += pool_.lease.operations.shared_calls();
  if (pool_.plans != nullptr) {
    stats[Counter::policy_switches] += pool_.plans->carrying().switches;
    stats[Counter::policy_carries_plans] +=
        pool_.env.config.background && pool_.plans->carrying().now ? 1 : 0;
  }
  for (const auto &state : pool_.lease.states.all()) stats[Counter::hits] += state->count_hits();
  return stats;
}

void Inspector::stats(weir_pool_stats *out) const {
  const Counters stats = [this] {
    const Locked lock(pool_.env.sync.lock);
    return counters();
  }();
#define WEIR_COPY(name, meaning) out->name = stats[Counter::name];
  WEIR_POOL_STATS_FIELDS(WEIR_COPY)
#undef WEIR_COPY
}

void Inspector::codec_stats(weir_codec_stats *stats) const noexcept {
  if (!pool_.page.cold.any()) return;
  const codec::CodecStats codec = pool_.page.cold.codec().stats();
  static_assert(codec::method_count <= WEIR_CODEC_SLOTS && codec::form_count <= WEIR_ELEMENT_SLOTS);
  const auto share = [](const codec::CodecStats::Share &from) {
    return weir_codec_share{from.in_bytes, from.out_bytes};
  };
  std::transform(codec.methods.begin(), codec.methods.end(), stats->methods, share);
  std::transform(codec.forms.begin(), codec.forms.end(), stats->elements, share);
}

Status Inspector::device_stats(uint32_t device_id, weir_pool_device_stats *stats) const {
  const Locked lock(pool_.env.sync.lock);
  uint8_t place = 0;
  WEIR_TRY(find_member(pool_.page.devices, device_id, &place));
  const PoolDevice &device = *pool_.page.devices[place];
  stats->device = device.device.id;
  stats->budget = device.memory.budget();
  stats->bytes = device.memory.granules().held();
  stats->free_bytes = device.memory.granules().idle();
  stats->held_bytes = device.memory.held_bytes();
  stats->page_size = device.memory.page_size();
  stats->large_page_size = device.memory.large_page_size();
  stats->peak_bytes = device.memory.granules().peak();
  stats->segments = device.memory.granules().segments();
  stats->returned_bytes = device.memory.returned_bytes();
  stats->memory_total = device.device.description.memory_total;
  stats->state = device.lost()      ? WEIR_POOL_DEVICE_LOST
                 : device.leaving() ? WEIR_POOL_DEVICE_LEAVING
                                    : WEIR_POOL_DEVICE_PRESENT;
  return {};
}

Status Inspector::reset_peak(uint32_t device_id) const {
  const Locked lock(pool_.env.sync.lock);
  uint8_t place = 0;
  WEIR_TRY(find_member(pool_.page.devices, device_id, &place));
  pool_.page.devices[place]->memory.granules().reset_peak();
  return {};
}

Status Inspector::client_stats(uint32_t id, weir_client_stats *stats) const {
  const Locked lock(pool_.env.sync.lock);
  (void)pool_.page.tiers.sweep_retired();
  pool_.page.accounts.describe(id, stats);
  return {};
}

// ---- one buffer ----

Status Inspector::query(weir_buffer buffer, uint64_t offset, uint64_t length,
                        weir_buffer_info *info) const {
  const Locked lock(pool_.env.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(pool_.page.buffers.find(buffer, &index));
  WEIR_TRY(pool_.page.buffers.range_of(index, offset, &length));
  describe(index, offset, length, info);
  info->address = address_of_buffer(index);
  if (info->address != 0)
    pool_.page.buffers.target(index).region->layout.unsettled = 0;  // from now on somebody knows it
  return {};
}

uint64_t Inspector::address_of_buffer(uint32_t index) const noexcept {
  const page::Target where = pool_.page.buffers.target(index);
  const Residence *home = where.region->on(where.region->home);
  if (home == nullptr || (!pool_.page.devices[where.region->home]->vmm() && home->resident == 0))
    return 0;
  return address_of(*where.region, *home) + where.base;
}

void Inspector::describe(uint32_t index, uint64_t offset, uint64_t length,
                         weir_buffer_info *info) const {
  const page::Target where = pool_.page.buffers.target(index);
  Region &region = *where.region;
  const uint64_t word = pool_.page.buffers.hot(index).word.load(std::memory_order_relaxed);
  const bool tenant = pool_.page.buffers.tenant(index);
  info->home = pool_.page.devices[region.home]->device.id;
  info->size = where.size;
  info->tag = pool_.page.buffers.tag_of(index);
  info->priority = region.priority;
  info->pages = tenant ? 0 : region.shape.pages();
  const page::Hold *hold = pool_.page.buffers.hold_of(index);
  info->held = hold != nullptr ? hold->count : 0;
  info->leases = pool_.lease.leases.count(index);
  for (uint64_t at = where.base + offset; at < where.base + offset + length;) {
    const uint32_t p = region.shape.page_at(at);
    const uint64_t stop =
        std::min(where.base + offset + length, region.shape.offset(p) + region.shape.page_bytes(p));
    const uint32_t latest = (word & Word::virgin) != 0 ? 0 : region.pages[p].latest();
    const uint32_t home_bit = uint32_t{1} << region.home_of(p);
    uint64_t *const bytes = latest == 0                            ? &info->unwritten_bytes
                            : (latest & page::lost_bit) != 0       ? &info->lost_bytes
                            : (latest & home_bit) != 0             ? &info->device_bytes
                            : (latest & page::device_bits) != 0    ? &info->peer_bytes
                            : (latest & page::host_bit) != 0       ? &info->host_bytes
                            : (latest & page::compressed_bit) != 0 ? &info->compressed_bytes
                                                                   : &info->storage_bytes;
    *bytes += stop - at;
    if (bytes == &info->device_bytes && (latest & page::host_bit) != 0)
      info->both_bytes += stop - at;
    at = stop;
  }
}

Status Inspector::list_shards(weir_buffer buffer, uint64_t offset, weir_shard *shards,
                              size_t capacity, size_t *count) const {
  const Locked lock(pool_.env.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(pool_.page.buffers.find(buffer, &index));
  uint64_t length = WEIR_WHOLE;
  WEIR_TRY(pool_.page.buffers.range_of(index, offset, &length));
  const page::Target where = pool_.page.buffers.target(index);
  const Region &region = *where.region;
  if (region.shards == nullptr) {
    if (capacity != 0)
      shards[0] = weir_shard{0, where.size, pool_.page.devices[region.home]->device.id, 0, 0};
    *count = 1;
    return {};
  }
  const page::Geometry &shape = region.shape;
  // Back to the begin of the run that the first byte is in.
  uint32_t first = shape.page_at(offset);
  while (first > 0 && region.home_of(first - 1) == region.home_of(first)) --first;
  size_t runs = 0;
  for (uint32_t p = first; p < shape.pages(); ++p) {
    const uint8_t home = region.home_of(p);
    const bool begins = p == first || home != region.home_of(p - 1);
    if (begins && ++runs <= capacity)
      shards[runs - 1] = weir_shard{shape.offset(p), 0, pool_.page.devices[home]->device.id, 0, 0};
    if (runs <= capacity) shards[runs - 1].length += shape.used_bytes(p);
  }
  *count = runs;
  return runs <= capacity || capacity == 0 ? Status() : Status(WEIR_INCOMPLETE);
}

unsigned char *Inspector::compressed_blob(weir_buffer buffer, uint32_t page,
                                          uint64_t *bytes) const {
  const Locked lock(pool_.env.sync.lock);
  uint32_t index = 0;
  if (!pool_.page.buffers.find(buffer, &index)) return nullptr;
  const Page &copies = pool_.page.buffers.target(index).region->pages[page];
  if ((copies.latest() & page::compressed_bit) == 0) return nullptr;
  const tier::CompressedStore &store = *pool_.page.cold.compressed();
  const tier::UnitName name = pool_.page.cold.record(copies.lower).in(store.place);
  *bytes = store.blob_bytes(name);
  return store.address(store.slot(name));
}

// ---- walks ----

uint32_t Inspector::device_at(uint8_t place) const {
  const Locked lock(pool_.env.sync.lock);
  return place < pool_.page.devices.size() ? pool_.page.devices[place]->device.id : UINT32_MAX;
}

void Inspector::for_each_device(const Visit<weir_pool_device_stats> &visit) const {
  const auto count = [this] {
    const Locked lock(pool_.env.sync.lock);
    return pool_.page.devices.size();
  }();
  for (size_t place = 0; place < count; ++place) {
    weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    if (device_stats(pool_.page.devices[place]->device.id, &stats)) visit(stats);
  }
}

void Inspector::for_each_client(
    const std::function<void(const char *, const weir_client_stats &)> &visit) const {
  for (uint32_t id = 0;; ++id) {
    std::string name;
    {
      const Locked lock(pool_.env.sync.lock);
      if (id >= pool_.page.accounts.clients()) return;
      name = pool_.page.accounts.name(id);
    }
    weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
    if (client_stats(id, &stats)) visit(name.c_str(), stats);
  }
}

template <class What, class Look>
void Inspector::walk_buffers(const Visit<What> &visit, Look &&look) const {
  std::vector<What> found;
  found.reserve(std::min(most_buffers, pool_.page.buffers.end()));
  uint32_t next = 0, end = 0;
  do {
    found.clear();
    {
      const Locked lock(pool_.env.sync.lock);
      end = pool_.page.buffers.end();
      uint64_t buffers = 0, pages = 0;
      for (const uint32_t stop = std::min(end, next + most_numbers);
           next < stop && buffers < most_buffers && pages < most_pages; ++next) {
        const uint64_t word = pool_.page.buffers.hot(next).word.load(std::memory_order_relaxed);
        if ((word & Word::alive) == 0) continue;
        ++buffers;
        pages += look(next, word, &found);
      }
    }
    pool_.env.sync.points.at("inspect.part");
    for (const What &each : found) visit(each);
    if (next < end) std::this_thread::yield();  // to who waits for the lock
  } while (next < end);
}

uint64_t Inspector::bytes_on(uint32_t index, uint8_t place) const noexcept {
  const page::Target where = pool_.page.buffers.target(index);
  const Residence *here = where.region->on(place);
  if (here == nullptr) return 0;
  const page::Geometry &shape = where.region->shape;
  const uint64_t end = where.base + where.size;
  uint64_t bytes = 0;
  for (uint32_t p = shape.page_at(where.base), last = shape.page_at(end - 1); p <= last; ++p) {
    if (here->pages[p].state() != PageState::resident) continue;
    bytes += std::min(end, shape.offset(p) + shape.page_bytes(p)) -
             std::max(where.base, shape.offset(p));
  }
  return bytes;
}

bool Inspector::find(weir_buffer buffer, weir_buffer_info *info, uint32_t *client) const {
  const KeepError keep;
  const Locked lock(pool_.env.sync.lock);
  uint32_t index = 0;
  if (!pool_.page.buffers.find(buffer, &index)) return false;
  describe(index, 0, pool_.page.buffers.hot(index).size(), info);
  *client = pool_.page.buffers.target(index).region->owner.client;
  return true;
}

void Inspector::for_each_buffer(const Visit<BufferSight> &visit, weir_device there) const {
  uint8_t place = 0;
  const KeepError keep;  // one that is not of the pool has nothing of it
  const bool known = there != WEIR_DEVICE_HOST && [&]() {
    const Locked lock(pool_.env.sync.lock);
    return find_member(pool_.page.devices, there, &place).ok();
  }();
  walk_buffers(
      visit, [&](uint32_t index, uint64_t, std::vector<BufferSight> *found) WEIR_HELD -> uint64_t {
        const Region &region = *pool_.page.buffers.target(index).region;
        BufferSight &sight = found->emplace_back();
        describe(index, 0, pool_.page.buffers.hot(index).size(), &sight.info);
        sight.buffer = pool_.page.buffers.handle(index);
        sight.client = region.owner.client;
        sight.cold = region.is.cold;
        sight.allocation =
            region.is.pinned || pool_.page.buffers.allocated_at(index, address_of_buffer(index));
        if (known) sight.there_bytes = bytes_on(index, place);
        sight.name = pool_.page.buffers.name_of(index);
        sight.stack = pool_.page.buffers.stack_of(index);
        return std::max<uint64_t>(sight.info.pages, 1);
      });
}

std::vector<void *> Inspector::stack(uint32_t number) const {
  const Stacks *const stacks = pool_.env.config.stacks;
  return stacks != nullptr ? stacks->frames(number) : std::vector<void *>{};
}

uint64_t Inspector::dropped_stacks() const noexcept {
  return pool_.env.config.stacks != nullptr ? pool_.env.config.stacks->dropped() : 0;
}

void Inspector::for_each_lost(const Visit<weir_lost_range> &visit) const {
  walk_buffers(visit,
               [this](uint32_t index, uint64_t word, std::vector<weir_lost_range> *found)
                   WEIR_HELD -> uint64_t {
                     return (word & Word::virgin) != 0 ? 0 : list_lost(index, found);
                   });
}

uint64_t Inspector::list_lost(uint32_t index, std::vector<weir_lost_range> *found) const {
  const page::Target where = pool_.page.buffers.target(index);
  const Region &region = *where.region;
  const uint64_t end = where.base + where.size;
  const uint32_t first = region.shape.page_at(where.base), last = region.shape.page_at(end - 1);
  weir_lost_range run{pool_.page.buffers.handle(index), pool_.page.buffers.tag_of(index), 0, 0, {}};
  for (uint32_t p = first; p <= last; ++p) {
    const uint64_t begin = std::max(where.base, region.shape.offset(p));
    const uint64_t stop = std::min(end, region.shape.offset(p) + region.shape.page_bytes(p));
    if (!region.pages[p].lost()) continue;
    if (run.length != 0 && where.base + run.offset + run.length != begin) {
      found->push_back(run);
      run.length = 0;
    }
    if (run.length == 0) run.offset = begin - where.base;
    run.length += stop - begin;
  }
  if (run.length != 0) found->push_back(run);
  return last - first + 1;
}

}  // namespace weir::pool
