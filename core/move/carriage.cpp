// SPDX-License-Identifier: Apache-2.0
//
// Taking pages from other devices.

#include "core/move/carriage.hpp"

namespace weir::move {
namespace {

/// After its memory could not be had a device is not asked for it again for so long.
constexpr uint64_t bounce_rest_ns = 1'000'000'000;
/// What goes several ways is gathered up to this, so that mapping the next pages overlaps with copying these.
constexpr uint64_t gathered_bytes = uint64_t{16} << 20U;

}  // namespace

void Carriage::prepare(Plan &plan) {
  plan.haul.freights.clear();
  plan.haul.rerouted = false;
  plan.haul.freights.reserve(page_.devices.size() * (others_.losses.generation() == 0 ? 2 : 3));
  plan.haul.cargo.clear();
  if (page_.devices.size() > 1) {
    plan.haul.cargo.reserve(plan.pages.size());
    others_.doubts.settle([this](Stamp stamp) { return env_.streams.done(stamp); });
    others_.doubts.make_room(plan.pages.size());
    plan.haul.carrying = plan.pages.size();
  }
}

void Carriage::forgo(Plan &plan) noexcept {
  others_.doubts.give_room_back(plan.haul.carrying);
  plan.haul.carrying = 0;
}

uint32_t Carriage::usable_relays(const PoolDevice &to) noexcept {
  uint32_t usable = 0;
  if (page_.devices.size() < 3) return 0;
  for (const auto &device : page_.devices) {
    const transfer::Bounce &bounce = *device->bounce;
    if (device->place == to.place || !device->open() || bounce.closing) continue;
    if (bounce.claimed() && bounce.opened() < to.joined()) continue;
    const uint64_t needed = transfer::Bounce::bytes_on(device->memory.granules());
    const bool room =
        device->vmm() && bounce.not_before_ns <= env_.now_ns() && device->memory.spare() >= needed;
    if (bounce.claimed() || room) usable |= device->bit();
  }
  return usable;
}

/// Who is let in to the page where it lies: the plan's device, and those that copies could pass. Only what was mapped, there and
/// in the slots that pieces pass, when a device was of the pool already is open to it. What is to be scrubbed passes none.
Carriage::Reach Carriage::reach_of(const Plan &plan, const Region &region, const Residence &from,
                                   uint32_t page) const noexcept {
  Reach reach{true, region.is.secret ? 0 : plan.haul.relays};
  if (others_.losses.generation() == 0)
    return reach;  // the pool has the devices that it was made with
  const PoolDevice &source = *page_.devices[from.place];
  const uint32_t mapped = source.vmm() ? from.pages[page].mapped() : UINT32_MAX;
  reach.direct = mapped >= plan.device->joined();
  if (!reach.direct) reach.relays = 0;
  for (const auto &device : page_.devices) {
    const bool slots = !device->bounce->claimed() || device->bounce->opened() >= source.joined();
    if ((plan.haul.relays & device->bit()) != 0 && (mapped < device->joined() || !slots))
      reach.relays = 0;
  }
  return reach;
}

Freight &Carriage::freight_from(Plan &plan, const Region &region, const Residence &there,
                                uint32_t page) noexcept {
  PoolDevice &source = *page_.devices[there.place];
  const uint64_t bytes = region.shape.used_bytes(page);
  const Reach reach = reach_of(plan, region, there, page);
  for (Freight &freight : plan.haul.freights) {
    if (freight.source == &source && freight.direct == reach.direct &&
        freight.relayed == (reach.relays != 0))
      return freight;
  }
  const uint8_t from = source.place, to = plan.device->place;
  Freight &fresh = plan.haul.freights.emplace_back();
  fresh.source = &source;
  fresh.direct = reach.direct;
  fresh.relayed = reach.relays != 0;
  const transfer::Ways ways = paths_.choose(from, to, bytes, reach.relays, reach.direct);
  const bool direct = reach.direct && env_.config.routes.direct(from, to);
  fresh.past_host = direct || ways.past_host();
  fresh.near = direct ? env_.config.routes.beats_host(to, from)
                      : ways.past_host() && ways.ns < paths_.from_host_ns(to, bytes);
  return fresh;
}

Residence *Carriage::device_source(Region &region, uint32_t page, const Plan &plan) noexcept {
  const uint8_t to = plan.device->place;
  const auto ns = [&](const Residence &from) WEIR_HELD {
    const Reach reach = reach_of(plan, region, from, page);
    return paths_.choose(from.place, to, region.shape.used_bytes(page), reach.relays, reach.direct)
        .ns;
  };
  Residence *best = nullptr;
  for (auto &other : region.residences) {
    const bool has = (region.pages[page].latest() & other->place_bit()) != 0;
    if (!has || other->place == to) continue;
    if (best == nullptr || ns(*other) < ns(*best)) best = other.get();
  }
  return best;
}

void Carriage::choose_ways(Plan &plan) noexcept {
  for (Freight &freight : plan.haul.freights) {
    if (freight.bytes == 0) continue;
    transfer::Order &order = freight.order;
    order.from = &freight.source->device;
    order.to = &plan.device->device;
    order.from_place = freight.source->place;
    order.to_place = plan.device->place;
    order.arrival = plan.device->streams.up();
    order.before = plan.fill.before.data();
    order.before_count = plan.fill.before.size();
    const auto choose = [&](uint32_t relays) WEIR_HELD {
      return paths_.choose(order.from_place, order.to_place, freight.bytes, relays, freight.direct);
    };
    freight.without = choose(0);
    do {
      order.ways = choose(freight.relayed ? plan.haul.relays : 0);
    } while (!take_bounces(plan, freight));
  }
}

/// The slots of the devices in between. False: one of them has none to spare, and the plan is to do without it.
bool Carriage::take_bounces(Plan &plan, Freight &freight) noexcept {
  transfer::Order &order = freight.order;
  for (uint8_t i = 0; i < order.ways.count; ++i) {
    if (!order.ways.shares[i].device()) continue;
    PoolDevice &between = *page_.devices[order.ways.shares[i].via];
    if (between.bounce->claimed() || between.bounce->claim(between.memory.high_water())) continue;
    plan.haul.relays &= ~between.bit();
    return false;
  }
  for (uint8_t i = 0; i < order.ways.count; ++i) {
    if (!order.ways.shares[i].device()) continue;
    PoolDevice &between = *page_.devices[order.ways.shares[i].via];
    ++between.bounce->users;
    ++between.in_flight;
    between.bounce->looks = 0;
    order.bounces[i] = between.bounce.get();
    freight.between[i] = &between;
    others_.idle.watch();
  }
  return true;
}

Status Carriage::carry(Plan &plan, const PlanPage &page, transfer::Copier &copier) {
  Freight &freight = plan.haul.freights[page.source.freight];
  if (freight.order.ways.plain()) return copier.copy(page.address, page.source.address, page.used);
  if (plan.haul.gathering != &freight) WEIR_TRY(carry_gathered(plan, copier));
  plan.haul.gathering = &freight;
  plan.haul.cargo.push_back({page.address, page.source.address, page.used});
  freight.gathered += page.used;
  if (freight.order.ways.split() && freight.gathered < gathered_bytes) return {};
  return carry_gathered(plan, copier);
}

Status Carriage::carry_gathered(Plan &plan, transfer::Copier &copier) {
  if (plan.haul.cargo.empty()) return {};
  Freight &freight = *plan.haul.gathering;
  if (!freight.open) {
    env_.sync.points.at("carry");
    const Status opened = carrier_.open(freight.order, &freight.shut);
    if (opened.code() == WEIR_ERROR_DEVICE_LOST) return opened;
    if (!opened) {
      freight.order.ways = freight.without;
      freight.order.bounces = {};
    }
    freight.open = true;
  }
  // Also memory of pages that are not carried: what is may share it.
  if (plan.haul.wiping) {
    WEIR_TRY(copier.mark(&plan.haul.wiped));
    plan.haul.wiping = false;
  }
  WEIR_TRY(carrier_.carry(freight.order, plan.haul.cargo.data(), plan.haul.cargo.size(),
                          plan.haul.wiped));
  plan.haul.cargo.clear();
  freight.gathered = 0;
  return {};
}

Status Carriage::finish(Plan &plan, transfer::Copier &copier) {
  WEIR_TRY(carry_gathered(plan, copier));
  for (const Freight &freight : plan.haul.freights) WEIR_TRY(carrier_.finish(freight.order));
  return {};
}

void Carriage::end(Plan &plan) noexcept {
  for (const Freight &freight : plan.haul.freights) {
    if (freight.open) carrier_.end(freight.order);
  }
}

void Carriage::settle(Plan &plan, bool filled) noexcept {
  for (Freight &freight : plan.haul.freights) {
    for (PoolDevice *&between : freight.between) {
      if (between == nullptr) continue;
      --between->bounce->users;
      --between->in_flight;
      if (between->bounce.get() == freight.shut)
        between->bounce->not_before_ns = env_.now_ns() + bounce_rest_ns;
      between = nullptr;
    }
    if (!filled) continue;
    if (freight.order.secret) env_.scrub_turns.note();
    env_.events.tell(What::relayed, freight.order.relayed);
    env_.events.tell(What::host_relayed, freight.order.through_host);
    env_.events.tell(What::split, freight.order.split);
  }
  plan.haul.gathering = nullptr;
  plan.haul.wiping = false;
  plan.haul.wiped = Stamp{};
  plan.haul.cargo.clear();
}

// ---- losses on the way ----

void Carriage::note_carried(const Plan &plan, const PlanPage &page) noexcept {
  const Freight &freight = plan.haul.freights[page.source.freight];
  const transfer::Order &order = freight.order;
  if (order.begun == 0) return;
  uint32_t passed = freight.source->bit();
  for (uint8_t i = 0; i < order.ways.count; ++i) {
    if (order.ways.shares[i].device()) passed |= uint32_t{1} << order.ways.shares[i].via;
  }
  others_.doubts.note({page.region->id, page.page, page_.regions.generation(*page.region),
                       plan.device->place, passed, order.there});
}

PoolDevice *Carriage::lost_between(Plan &plan) noexcept {
  for (const Freight &freight : plan.haul.freights) {
    for (PoolDevice *between : freight.between) {
      if (between == nullptr || !others_.losses.answers_lost(*between)) continue;
      plan.haul.rerouted = true;
      return between;
    }
  }
  return nullptr;
}

}  // namespace weir::move
