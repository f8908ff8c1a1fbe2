// SPDX-License-Identifier: Apache-2.0
//
// Carry: pages that a plan takes from other devices, by the ways that cost least (core/transfer/paths.hpp): the direct link, a
// device in between, pinned memory of the host, or several at once. Chosen under the lock, for all that the plan takes from
// one device together; done outside of it; settled under it again.
//
// A device in between lends a few slots of its memory (Bounce): charged to its budget, taken only while it has more to spare
// than its reserve, and the first that it gets back when it is short. Where they can't be had there are other ways. If it is
// lost on the way the plan has failed for now, and is filled again by other ways: neither its source nor its
// destination is to blame.

#include "core/residency/plan.hpp"
#include "core/transfer/copier.hpp"

#include <algorithm>

namespace weir::residency {
namespace {

/// After its memory could not be had a device is not asked for it again for so long.
constexpr uint64_t bounce_rest_ns = 1'000'000'000;
/// What goes several ways is gathered up to this, so that mapping the next pages overlaps with copying these.
constexpr uint64_t gathered_bytes = uint64_t{16} << 20U;

}  // namespace

/// The devices that copies may pass now.
uint32_t Engine::usable_relays(const PoolDevice &to) noexcept {
  uint32_t usable = 0;
  if (devices_.size() < 3) return 0;
  for (const auto &device : devices_) {
    const transfer::Bounce &bounce = *device->bounce;
    if (device->place == to.place || !device->open() || bounce.closing) continue;
    if (bounce.claimed() && bounce.opened() < to.joined()) continue;
    const uint64_t needed = transfer::Bounce::bytes_on(device->memory.granules());
    const bool room = device->vmm() &&
                      (bounce.not_before_ns == 0 || bounce.not_before_ns <= now_ns()) &&
                      device->memory.spare() >= needed;
    if (bounce.claimed() || room) usable |= device->bit();
  }
  return usable;
}

/// Who is let in to the page where it lies: the plan's device, and those that copies could pass. Only what was mapped, there and
/// in the slots that pieces pass, when a device was of the pool already is open to it. What is to be scrubbed passes none.
Reach Engine::reach_of(const Plan &plan, const Region &region, const Residence &from,
                       uint32_t page) const noexcept {
  Reach reach;
  const uint32_t relays = region.scrub ? 0 : plan.relays;
  if (generation_ == 0) {  // the pool has the devices that it was made with
    reach.relays = relays;
    return reach;
  }
  const PoolDevice &source = *devices_[from.place];
  const uint32_t mapped = source.vmm() ? from.pages[page].mapped() : UINT32_MAX;
  reach.direct = mapped >= plan.device->joined();
  if (!reach.direct) return reach;
  reach.relays = relays;
  for (const auto &device : devices_) {
    const bool slots = !device->bounce->claimed() || device->bounce->opened() >= source.joined();
    if ((plan.relays & device->bit()) != 0 && (mapped < device->joined() || !slots))
      reach.relays = 0;
  }
  return reach;
}

/// The plan's record of what it takes from there and reaches so. There is room for one of every device and kind of reach.
Freight &Engine::freight_from(Plan &plan, const Region &region, const Residence &there,
                              uint32_t page) noexcept {
  PoolDevice &source = device_at(there.place);
  const uint64_t bytes = region.shape.used_bytes(page);
  const Reach reach = reach_of(plan, region, there, page);
  for (Freight &freight : plan.freights) {
    if (freight.source == &source && freight.direct == reach.direct &&
        freight.relayed == (reach.relays != 0))
      return freight;
  }
  const uint8_t from = source.place, to = plan.device->place;
  Freight &fresh = plan.freights.emplace_back();
  fresh.source = &source;
  fresh.direct = reach.direct;
  fresh.relayed = reach.relays != 0;
  const transfer::Ways ways = paths_.choose(from, to, bytes, reach.relays, reach.direct);
  const bool direct = reach.direct && config_.routes.direct(from, to);
  fresh.past_host = direct || ways.past_host();
  fresh.near = direct ? config_.routes.beats_host(to, from)
                      : ways.past_host() && ways.ns < paths_.from_host_ns(to, bytes);
  return fresh;
}

/// Under the lock, when it is known what comes from where.
void Engine::choose_ways(Plan &plan) noexcept {
  for (Freight &freight : plan.freights) {
    if (freight.bytes == 0) continue;
    transfer::Order &order = freight.order;
    order.from = &freight.source->device;
    order.to = &plan.device->device;
    order.from_place = freight.source->place;
    order.to_place = plan.device->place;
    order.arrival = plan.device->streams.up();
    order.before = plan.before.data();
    order.before_count = plan.before.size();
    const auto choose = [&](uint32_t relays) WEIR_HELD {
      return paths_.choose(order.from_place, order.to_place, freight.bytes, relays, freight.direct);
    };
    freight.without = choose(0);
    do {
      order.ways = choose(freight.relayed ? plan.relays : 0);
    } while (!take_bounces(plan, freight));
  }
}

/// The slots of the devices in between. False: one of them has none to spare, and the plan is to do without it.
bool Engine::take_bounces(Plan &plan, Freight &freight) noexcept {
  transfer::Order &order = freight.order;
  for (uint8_t i = 0; i < order.ways.count; ++i) {
    if (!order.ways.shares[i].device()) continue;
    PoolDevice &between = device_at(order.ways.shares[i].via);
    if (between.bounce->claimed() || between.bounce->claim(between.memory.high_water())) continue;
    plan.relays &= ~between.bit();
    return false;
  }
  for (uint8_t i = 0; i < order.ways.count; ++i) {
    if (!order.ways.shares[i].device()) continue;
    PoolDevice &between = device_at(order.ways.shares[i].via);
    ++between.bounce->users;
    ++between.in_flight;
    between.bounce->looks = 0;
    order.bounces[i] = between.bounce.get();
    freight.between[i] = &between;
    watch_idle();
  }
  return true;
}

/// Outside the lock, when the page has its memory.
Status Engine::carry_page(Plan &plan, const PlanPage &page, transfer::Copier &copier) {
  Freight &freight = plan.freights[page.freight];
  if (freight.order.ways.plain()) return copier.copy(page.address, page.source, page.used);
  if (plan.gathering != &freight) WEIR_TRY(carry_gathered(plan, copier));
  plan.gathering = &freight;
  plan.cargo.push_back({page.address, page.source, page.used});
  freight.gathered += page.used;
  if (freight.order.ways.split() && freight.gathered < gathered_bytes) return {};
  return carry_gathered(plan, copier);
}

Status Engine::carry_gathered(Plan &plan, transfer::Copier &copier) {
  if (plan.cargo.empty()) return {};
  Freight &freight = *plan.gathering;
  if (!freight.open) {
    points.at("carry");
    const Status opened = carrier_.open(freight.order, &freight.shut);
    if (opened.code() == WEIR_ERROR_DEVICE_LOST) return opened;
    if (!opened) {
      freight.order.ways = freight.without;
      freight.order.bounces = {};
    }
    freight.open = true;
  }
  // Also memory of pages that are not carried: what is may share it.
  if (plan.wiping) {
    WEIR_TRY(copier.mark(&plan.wiped));
    plan.wiping = false;
  }
  WEIR_TRY(carrier_.carry(freight.order, plan.cargo.data(), plan.cargo.size(), plan.wiped));
  plan.cargo.clear();
  freight.gathered = 0;
  return {};
}

/// What is enqueued from now on comes after all of it.
Status Engine::finish_carrying(Plan &plan, transfer::Copier &copier) {
  WEIR_TRY(carry_gathered(plan, copier));
  for (const Freight &freight : plan.freights) WEIR_TRY(carrier_.finish(freight.order));
  return {};
}

/// Outside the lock: the plan has failed, and what was enqueued for it ends.
void Engine::end_carrying(Plan &plan) noexcept {
  for (const Freight &freight : plan.freights) {
    if (freight.open) carrier_.end(freight.order);
  }
}

void Engine::settle_freights(Plan &plan, bool filled) noexcept {
  for (Freight &freight : plan.freights) {
    for (PoolDevice *&between : freight.between) {
      if (between == nullptr) continue;
      --between->bounce->users;
      --between->in_flight;
      if (between->bounce.get() == freight.shut)
        between->bounce->not_before_ns = now_ns() + bounce_rest_ns;
      between = nullptr;
    }
    if (!filled) continue;
    if (freight.order.secret) scrub_turns_.note();
    events_.tell(What::relayed, freight.order.relayed);
    events_.tell(What::host_relayed, freight.order.through_host);
    events_.tell(What::split, freight.order.split);
  }
  plan.gathering = nullptr;
  plan.wiping = false;
  plan.wiped = Stamp{};
  plan.cargo.clear();
}

// ---- losses on the way ----

/// What came by a way of several copies is in doubt until these are known to have ended well. There is room.
void Engine::note_carried(const Plan &plan, const PlanPage &page) noexcept {
  const Freight &freight = plan.freights[page.freight];
  const transfer::Order &order = freight.order;
  if (order.begun == 0) return;
  uint32_t passed = freight.source->bit();
  for (uint8_t i = 0; i < order.ways.count; ++i) {
    if (order.ways.shares[i].device()) passed |= uint32_t{1} << order.ways.shares[i].via;
  }
  doubts_.note({page.region->id, page.page, regions_.generation(*page.region), plan.device->place,
                passed, order.there});
}

/// What may not have come through the device that is lost. Returns the bytes that are nowhere else then.
uint64_t Engine::lose_carried(const PoolDevice &device) noexcept {
  uint64_t lost_bytes = 0;
  const auto done = [this](Stamp stamp) { return streams_.done(stamp); };
  doubts_.lose(device.bit(), done, [&](const page::Doubts::Copy &carried) WEIR_HELD {
    Region *found = regions_.find(carried.region, carried.generation);
    if (found == nullptr || found->pages[carried.page].latest() == 0) return;
    Region &region = *found;
    Page &copies = region.pages[carried.page];
    const bool known = copies.lost();
    const uint32_t bit = uint32_t{1} << carried.place;
    if ((copies.latest() & ~bit) != 0 && (copies.latest() & bit) != 0) {
      places_.note(region, copies.left(bit));
    } else {
      // It is nowhere else, or has gone on from there: then nobody knows which of its copies is good.
      forsake(region, carried.page);
      if (!known) lost_bytes += region.shape.used_bytes(carried.page);
    }
    if (region.buffer != vm::BufferTable::none)
      set_flags(region.buffer, 0, Word::resident | Word::sole);
  });
  return lost_bytes;
}

/// How long what is at work on the device may be waited for.
uint64_t Engine::patience(const PoolDevice &device) const noexcept {
  if (!device.leaving()) return config_.evict_wait_ns;
  const uint64_t now = now_ns();
  return std::min(config_.evict_wait_ns,
                  device.leave_by_ns() - std::min(now, device.leave_by_ns()));
}

/// The device's slots become idle memory of its own. False: there are none, or they are in use. Drops the lock.
bool Engine::give_bounce_back(Releasable &lock, PoolDevice &device) noexcept {
  if (device.bounce == nullptr) return false;  // the pool's start has failed before that
  transfer::Bounce &bounce = *device.bounce;
  if (!bounce.claimed() || bounce.users != 0 || bounce.closing) return false;
  bounce.closing = true;
  ++device.in_flight;
  const uint64_t wait_ns = patience(device);
  const bool closed = lock.unlocked([&] { return carrier_.close(bounce, wait_ns); });
  if (closed) device.memory.note_stuck(bounce.release());
  bounce.closing = false;
  --device.in_flight;
  changed_.notify_all();
  return closed;
}

/// Outside the lock: which of the devices that the plan's copies pass says that it is lost.
PoolDevice *Engine::lost_between(Plan &plan) noexcept {
  for (const Freight &freight : plan.freights) {
    for (PoolDevice *between : freight.between) {
      if (between == nullptr || !answers_lost(*between)) continue;
      plan.rerouted = true;
      return between;
    }
  }
  return nullptr;
}

}  // namespace weir::residency
