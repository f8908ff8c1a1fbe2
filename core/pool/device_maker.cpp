// SPDX-License-Identifier: Apache-2.0
//
// Devices made and let go of.

#include "core/pool/device_maker.hpp"

#include "core/page/page_walk.hpp"

#include <algorithm>

namespace weir::pool {
namespace {

/// Beyond this no more address space is reserved at once.
constexpr uint64_t most_promised = uint64_t{1} << 48U;

}  // namespace

/// A device as its policy sees it.
class DeviceMaker::DeviceView final : public View {
 public:
  DeviceView(const DeviceMaker &maker, const PoolDevice &device) noexcept
      : maker_(maker), device_(device) {}
  bool describe(const PageRef &ref, PageInfo *info) WEIR_HELD override {
    return look(ref, info, false);
  }
  bool glance(const PageRef &ref, PageInfo *info) WEIR_HELD override {
    return look(ref, info, true);
  }
  bool knows(const PageRef &ref) noexcept WEIR_HELD override {
    Region *region = maker_.page_.regions.find(ref.region, ref.generation);
    const Residence *here = region != nullptr ? region->on(device_.place) : nullptr;
    // One on the move is no victim, but it may be here again, and nobody tells of it then: it is not to be forgotten.
    return here != nullptr && here->pages[ref.page].state() != PageState::absent;
  }
  uint32_t client_of(const PageRef &ref) const noexcept WEIR_HELD override {
    const Region *region = maker_.page_.regions.find(ref.region, ref.generation);
    return region != nullptr ? region->owner.client : UINT32_MAX;
  }
  bool list(uint32_t client, policy::PageCursor *from, const Visit &visit) WEIR_HELD override {
    PageInfo info;
    const auto enter = [&](const Region &region) WEIR_HELD {
      if (region.owner.client != client) return false;
      maker_.page_.uses.glance(region, &info);
      return true;
    };
    const auto show = [&](Region &region, uint32_t page) WEIR_HELD {
      const page::DevicePage &here = region.on(device_.place)->pages[page];
      if (here.state() != PageState::absent && !here.borrowed)
        visit(PageRef{region.id, page, maker_.page_.regions.generation(region)}, info.last_use);
      return true;
    };
    return page::walk_pages(maker_.page_.places, device_.pages_there(), maker_.page_.regions, from,
                            enter, show);
  }
  uint64_t now() const override { return maker_.env_.ticks.now(); }

 private:
  bool look(const PageRef &ref, PageInfo *info, bool rough) WEIR_HELD {
    if (!knows(ref)) return false;
    visits::count();
    Region &region = maker_.page_.regions.at(ref.region);
    Residence *here = region.on(device_.place);
    const Page &copies = region.pages[ref.page];
    info->bytes = region.shape.charged_bytes(ref.page);
    info->priority = region.priority;
    info->dirty = (copies.latest() & device_.bit()) != 0 && (copies.latest() & ~device_.bit()) == 0;
    const bool idle = region.idle(ref.page);
    const bool borrowed = here->pages[ref.page].borrowed && !idle;
    info->borrowed = borrowed;
    info->disposable = idle || borrowed;
    info->dead_since = borrowed         ? PageInfo::lives
                       : region.is.slab ? region.tenants->pages[ref.page].idle_since
                                        : region.kept.since;
    if (region.is.slab && !idle) region.tenants->pages[ref.page].told = false;
    info->cold = region.is.cold || copies.latest() == 0 || (copies.latest() & device_.bit()) == 0;
    info->client = region.owner.client;
    const bool spare = copies.busy() == 0 && is_spare(region, ref.page, *here);
    const lease::LeaseTable &leases = maker_.lease_.leases;
    const bool by_glance = rough && region.is.slab;
    info->evictable =
        spare || !(by_glance ? lease::LeaseTable::kept(region, ref.page, device_.place)
                             : leases.in_use(region, ref.page, device_.place));
    rough ? maker_.page_.uses.glance(region, info) : maker_.page_.uses.describe(region, info);
    maker_.others_.prefetcher.describe(region, ref.page, device_.place, info);
    return true;
  }

  const DeviceMaker &maker_;
  const PoolDevice &device_;
};

Status DeviceMaker::make(const page::EngineConfig::DeviceBudget &budget, uint8_t place,
                         Owned<PoolDevice> *out) {
  const backend::Device &device = *budget.device;
  WEIR_TRY(others_.sizes.check_device_budget(device, budget.budget));
  // A guess at what will be used: any of these may be without a limit.
  uint64_t promised = 0;
  for (const uint64_t bytes : {budget.budget, env_.config.host.budget, env_.config.below.compressed,
                               env_.config.below.compressed, env_.config.below.storage.budget})
    promised = std::min(promised + std::min(bytes, most_promised), most_promised);
  page::DeviceMemory::Terms terms = env_.config.memory;
  terms.budget = budget.budget;
  terms.addresses = promised;
  Owned<PoolDevice> fresh = make_owned<PoolDevice>(env_.memory, place, device, terms, env_.memory);
  fresh->node = budget.node;
  fresh->bounce = make_owned<transfer::Bounce>(env_.memory, device, fresh->memory.granules(),
                                               fresh->memory.mapper());
  fresh->view = adopt_as<View>(make_owned<DeviceView>(env_.memory, *this, *fresh));
  fresh->policy = make_policy(env_.config.policy, *fresh->view, env_.memory);
  fresh->memory.mapper().stay_near(env_.config.nodes, fresh->node);
  WEIR_TRY(fresh->memory.mapper().start());
  WEIR_TRY(fresh->streams.open(env_.streams, device, this));
  *out = std::move(fresh);
  return {};
}

void DeviceMaker::release(Releasable &lock, PoolDevice &device) noexcept {
  device.streams.drain();
  (void)others_.relocator.sweep_limbo(device);
  if (!device.limbo.empty()) {
    device.streams.drain();  // of what had to be overwritten
    (void)others_.relocator.sweep_limbo(device);
  }
  for (Region &region : page_.regions) {
    Residence *here = region.on(device.place);
    if (here == nullptr) continue;
    for (uint32_t p = 0; p < here->pages.size(); ++p) {
      const GranuleId granule = here->pages[p].granule;
      if (granule == physical::no_granule) continue;
      lease_.history.await_places(region, env_.config.evict_wait_ns);
      (void)device.memory.unmap(granule_address(region, *here, p), region.shape.granule_bytes(p),
                                device.memory.mapping_of(region, p));
      if (device.memory.leave(region, p)) device.memory.granules().release(granule);
      others_.pages.set_granule(region, p, device, physical::no_granule);
    }
    if (here->range && device.vmm()) device.memory.addresses().free(here->range);
  }
  lock.unlocked([&] { device.streams.close(env_.streams); });
}

}  // namespace weir::pool
