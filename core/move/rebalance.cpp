// SPDX-License-Identifier: Apache-2.0
//
// Spilled pages to neighbours that have memory to spare by now.

#include "core/move/rebalance.hpp"

#include <algorithm>
#include <thread>

namespace weir::move {

bool Rebalancer::any_room() noexcept {
  return std::any_of(page_.devices.begin(), page_.devices.end(), [](const auto &device) {
    return device->open() && device->vmm() &&
           device->memory.room() >= device->memory.page_size() + device->memory.high_water();
  });
}

/// Looking at every buffer takes time, so there is to be a reason: the devices have changed, or bytes come up from where
/// they need not be.
bool Rebalancer::worth_a_look(uint64_t now) noexcept {
  const uint64_t lifted = env_.gauges.promoted;
  if (!look_ && (lifted == lifted_before_ || now - looked_at_ns_ < look_ns)) return false;
  if (!any_room()) return false;
  look_ = false;
  looked_at_ns_ = now;
  lifted_before_ = lifted;
  return true;
}

bool Rebalancer::may_move(const Region &region) const noexcept {
  return !region.is.kept && !region.is.slab && region.shards == nullptr && !region.is.secret &&
         !region.is.pinned && !region.is.cold && !region.is.streaming && region.holds.count == 0 &&
         region.owner.buffer != page::BufferTable::none;
}

/// The buffers that something of may be moved of, the most recently used last.
void Rebalancer::list(Releasable &lock) {
  listing_ = true;
  const AtEnd listed([this] { listing_ = false; });
  std::pmr::vector<Entry> found(env_.memory);
  uint64_t looked = 0;
  using Index = page::PlaceIndex;
  const Index::Sets below =
      Index::at(Place::host) | Index::at(Place::compressed) | Index::at(Place::storage);
  for (Region &region : page::Walk(page_.places, below, page_.regions)) {
    looked += 1 + region.pages.size();
    if (may_move(region) && std::ranges::any_of(region.pages, spilled)) {
      PageInfo info;
      page_.uses.describe(region, &info);
      found.push_back(Entry{info.last_use, region.id, page_.regions.generation(region)});
    }
    if (looked < most_records) continue;
    looked = 0;
    lock.unlocked([this] {
      env_.sync.points.at("rebalance.part");
      std::this_thread::yield();  // to who waits for it
    });
  }
  if (found.size() > most_regions) {
    const auto first = found.end() - static_cast<ptrdiff_t>(most_regions);
    std::ranges::nth_element(found, first, {}, &Entry::last_use);
    found.erase(found.begin(), first);
  }
  std::ranges::sort(found, {}, &Entry::last_use);
  order_ = std::move(found);
  next_page_ = 0;
  env_.sync.wakes.prefetcher.notify_all();  // who asked meanwhile got nothing
}

/// Who could lend memory to a page whose home has none to spare, besides what is `taken` there already.
PoolDevice *Rebalancer::lender_for(const Region &region, uint32_t page, uint64_t taken) noexcept {
  const transfer::Routes &routes = env_.config.routes;
  const uint64_t charge = region.shape.charged_bytes(page);
  PoolDevice *best = nullptr;
  for (const auto &device : page_.devices) {
    if (device->place == region.home || !device->open() || !device->vmm()) continue;
    if (!routes.beats_host(region.home, device->place)) continue;
    if (device->memory.room() <
        taken + region.shape.granule_bytes(page) + device->memory.high_water())
      continue;
    if (page_.accounts.quota(region.owner.client, device->place).room() < taken + charge) continue;
    if (device->no_loan_before_ns > env_.now_ns()) continue;
    const bool faster = best == nullptr || routes.bandwidth(region.home, device->place) >
                                               routes.bandwidth(region.home, best->place);
    if (faster) best = device.get();
  }
  return best;
}

/// Pages of one buffer, from next_page_ on. False: the batch is full, or the next is another device's.
bool Rebalancer::add(const Entry &entry, uint64_t bytes, PrefetchBatch *batch, uint64_t *gathered) {
  Region *region = page_.regions.find(entry.region, entry.generation);
  if (region == nullptr || !may_move(*region)) return true;
  const uint64_t generation = page_.buffers.hot(region->owner.buffer).generation();
  for (; next_page_ < region->pages.size(); ++next_page_) {
    const Page &copies = region->pages[next_page_];
    if (!spilled(copies) || copies.busy() != 0 || copies.sinking) continue;
    if (region->shape.fragment(next_page_)) continue;
    PoolDevice *to = lender_for(*region, next_page_, *gathered);
    if (to == nullptr) return true;
    const Residence *there = region->on(to->place);
    if (there != nullptr && there->pages[next_page_].state() != PageState::absent) continue;
    const uint64_t begin = region->shape.offset(next_page_);
    const uint64_t used = region->shape.used_bytes(next_page_);
    PrefetchRequest request{region->owner.buffer, generation, begin,
                            begin + used,         WEIR_READ,  to->place};
    request.lend = true;
    if (*gathered + used > bytes || !policy::fits(*batch, request)) return false;
    batch->push_back(request);
    *gathered += used;
  }
  return true;
}

bool Rebalancer::gather(uint64_t bytes, PrefetchBatch *batch) {
  batch->clear();
  batch->reserve(policy::most_together);
  uint64_t gathered = 0;
  while (!order_.empty()) {
    if (!add(order_.back(), bytes, batch, &gathered)) break;
    order_.pop_back();
    next_page_ = 0;
  }
  return !batch->empty();
}

bool Rebalancer::next(Releasable &lock, PrefetchBatch *batch, uint64_t *rest_ns) {
  *rest_ns = never;
  if (rate_ == 0 || page_.devices.size() < 2 || listing_) return false;
  const uint64_t now = env_.now_ns();
  if (order_.empty() && !worth_a_look(now)) {
    // What has come up meanwhile is looked at when the second is over.
    if (env_.gauges.promoted != lifted_before_ && any_room())
      *rest_ns = looked_at_ns_ + look_ns - std::min(now, looked_at_ns_ + look_ns);
    return false;
  }
  if (now < not_before_ns_) {
    *rest_ns = not_before_ns_ - now;
    return false;
  }
  const bool fresh = order_.empty();
  if (fresh) list(lock);
  if (!gather(UINT64_MAX, batch)) {
    if (fresh) *rest_ns = 0;  // something may have been asked for while the lock was dropped
    return false;
  }
  uint64_t bytes = 0;
  for (const PrefetchRequest &request : *batch) bytes += request.end - request.begin;
  not_before_ns_ =
      now + static_cast<uint64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(rate_));
  return true;
}

}  // namespace weir::move
