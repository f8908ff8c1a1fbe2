// SPDX-License-Identifier: Apache-2.0
//
// Pages leave a device: claimed under the lock, copied and unmapped outside of it, settled under it.

#include "core/move/evictor.hpp"

#include "core/codec/checksum.hpp"
#include "core/move/lender.hpp"
#include "core/move/move_notes.hpp"
#include "core/policy/destinations.hpp"

#include <algorithm>
#include <utility>

namespace weir::move {

bool Evictor::claim_victim(PoolDevice &device, const PageRef &ref, Victim *victim) {
  Region *found = page_.regions.find(ref.region, ref.generation);
  Residence *here = found != nullptr ? found->on(device.place) : nullptr;
  if (here == nullptr || device.parting()) return false;
  Region &region = *found;
  const PageState state = here->pages[ref.page].state();
  if (state == PageState::filling) pages_.give_back(region, ref, device);
  if (state != PageState::resident && state != PageState::moving) return false;
  const bool spare = is_spare(region, ref.page, *here);
  if (region.pages[ref.page].busy() != 0 ||
      (!spare && !lease_.leases.close(region, ref.page, device.place))) {
    pages_.give_back(region, ref, device);
    return false;
  }
  page_.tiers.forget_idle(region, ref.page);
  const Page &copies = region.pages[ref.page];
  const bool latest_here = (copies.latest() & device.bit()) != 0;
  victim->ref = ref;
  victim->region = &region;
  victim->page = ref.page;
  victim->had_content = copies.latest() != 0;
  victim->copy = latest_here && (copies.latest() & ~device.bit()) == 0;
  const bool near = (copies.latest() & ~device.bit() & ~page::below_host) != 0;
  victim->cached = latest_here && !victim->copy && !near && !region.is.cold && !region.is.secret &&
                   region.host.registered == nullptr && !device.integrated;
  victim->bytes = region.shape.granule_bytes(ref.page);
  victim->used = region.shape.used_bytes(ref.page);
  victim->from.address = device.memory.page_address(region, *here, ref.page);
  victim->from.granule = victim->from.address - region.shape.before(ref.page);
  victim->from.shared = device.memory.mapping_of(region, ref.page);
  try {
    lease_.history.collect(region, ref.page, &victim->fences, spare);
  } catch (const std::bad_alloc &) {
    pages_.give_back(region, ref, device);
    return false;
  }
  return true;
}

Status Evictor::place_victim(Releasable &lock, PoolDevice &device, Victim &victim) {
  const Region &region = *victim.region;
  page_.tiers.free_host(*victim.region,
                        victim.page);  // one that an acquire which failed has left there
  const policy::Leaving leaving{.stays = victim.stays,
                                .cold = region.is.cold,
                                .any_cold = page_.cold.any(),
                                .cold_room = page_.cold.has_room(victim.used),
                                .integrated = device.integrated};
  Status why;
  for (const policy::Destination next : policy::destinations(leaving)) {
    switch (next) {
      case policy::Destination::peer:
      case policy::Destination::peer_last:
        if (lender_.borrow(lock, victim, device, next == policy::Destination::peer_last)) return {};
        break;
      case policy::Destination::host:
        why = place_in_host(lock, device, victim);
        if (why.code() != WEIR_ERROR_OVER_BUDGET && why.code() != WEIR_ERROR_OUT_OF_HOST_MEMORY)
          return why;
        break;
      default:
        return place_below(victim);
    }
  }
  return why;
}

Status Evictor::place_in_host(Releasable &lock, PoolDevice &device, Victim &victim) {
  const Region &region = *victim.region;
  WEIR_TRY(
      others_.host_room.take(lock, region.owner.client, device.node, victim.used, &victim.to.slot));
  victim.to.address = page_.tiers.host().address(victim.to.slot);
  if (page_.tiers.sums_host(region)) victim.to.chain = page_.cold.take_chain(victim.used);
  return {};
}

Status Evictor::place_below(Victim &victim) {
  victim.straight = true;
  victim.to.plan = victim.region->codec.quick;
  victim.to.chain = page_.cold.take_chain(victim.used);
  return {};
}

void Evictor::cache_victim(const PoolDevice &device, Victim &victim) noexcept {
  const uint32_t client = victim.region->owner.client;
  try {
    page_.tiers.free_host(*victim.region, victim.page);
    victim.to.slot = page_.tiers.try_slot(client, device.node, victim.used, true);
    const bool quota =
        page_.accounts.quota(client, Accounts::host).room() < tier::HostStore::rounded(victim.used);
    if (!victim.to.slot && others_.demoter.drop_clean(victim.used, quota ? client : UINT32_MAX))
      victim.to.slot = page_.tiers.try_slot(client, device.node, victim.used, true);
  } catch (const std::bad_alloc &) {
    victim.to.slot = {};
  }
  victim.cached = victim.copy = static_cast<bool>(victim.to.slot);
  if (victim.to.slot) victim.to.address = page_.tiers.host().address(victim.to.slot);
}

void Evictor::note_failed(PoolDevice &device, const Status &why) noexcept {
  if (why) {
    device.stay_told = false;
    return;
  }
  const bool said = why.code() == WEIR_ERROR_OVER_BUDGET || why.code() == WEIR_ERROR_DEVICE_LOST ||
                    why.code() == WEIR_ERROR_WOULD_BLOCK;
  if (said || std::exchange(device.stay_told, true)) return;
  env_.sync.lock.note(WEIR_LOG_WARNING, "pages stay on device %u, as they can't be copied: %s",
                      device.device.id,
                      last_error().result == why.code() ? last_error().text : "(no more is known)");
}

void Evictor::unplace_victim(Victim &victim) noexcept {
  const Region &region = *victim.region;
  lender_.settle(victim, false);
  if (victim.to.slot) page_.tiers.free_slot(region.owner.client, victim.to.slot, region.is.secret);
  page_.tiers.free_chain(region, victim.to.chain);
  victim.to.slot = {};
  victim.to.chain = tier::ColdTiers::none;
}

void Evictor::claim_victims(Releasable &lock, const Drain &drain,
                            const std::pmr::vector<PageRef> &pages,
                            std::pmr::vector<Victim> *victims, Status *why) {
  PoolDevice &device = drain.device;
  for (const PageRef &ref : pages) {
    if (drain.stay && !may_clean(device, ref)) continue;
    Victim victim(env_.memory);
    victim.stays = drain.stay;
    if (!claim_victim(device, ref, &victim)) continue;
    Region &region = *victim.region;
    if (victim.copy && region.host.registered != nullptr) {
      victim.to.address = region.host.registered + region.shape.offset(victim.page);
    } else if (victim.copy) {
      // A place may need the lock dropped; the mark keeps the page ours until then.
      pages_.mark_busy(region, victim.page, device);
      const Status slot = with_memory(lock, "for the records of a demotion", [&]() WEIR_HELD {
        return place_victim(lock, device, victim);
      });
      if (!slot) unplace_victim(victim);
      pages_.unmark_busy(region, victim.page, device);
      if (!slot) {
        *why = slot;
        if (!victim.stays) {  // else the policy knows it
          pages_.give_back(region, ref, device);
          env_.events.tell({What::evict_failed, 0, device.place, region.id, victim.page});
          note_failed(device, slot);
        }
        env_.sync.changed.notify_all();
        life_.retire_region(region);
        continue;
      }
    }
    if (victim.cached) cache_victim(device, victim);
    pages_.transition(region, victim.page, device, Step::begin_evict);
    victims->push_back(std::move(victim));  // reserved by evict()
  }
}

uint64_t Evictor::evict(Releasable &lock, PoolDevice &device,
                        const std::pmr::vector<PageRef> &pages, bool background, Status *why,
                        Awaiting *early) {
  Drain drain{device, background, idle_.patience(device)};
  run(lock, drain, pages, why, early);
  return drain.freed;
}

void Evictor::run(Releasable &lock, Drain &drain, const std::pmr::vector<PageRef> &pages,
                  Status *why, Awaiting *early) {
  PoolDevice &device = drain.device;
  const uint64_t round = env_.sync.tap.next_round();
  device.evictions.begin_round(round);
  WaitScope::because_of(round);
  notes::Round told(env_.sync.tap, env_.config.pool_id, device.device.id, pages.size(), round);
  std::pmr::vector<Victim> victims(env_.memory);
  try {
    victims.reserve(pages.size());
  } catch (const std::bad_alloc &) {
    for (const PageRef &ref : pages) pages_.give_back(page_.regions.at(ref.region), ref, device);
    throw;
  }
  // The policy has forgotten the chosen pages, and they are not DRAINING yet. So `in_flight` is raised meanwhile: a thread that
  // finds no other victim waits.
  {
    ++device.in_flight;
    const AtEnd placed([&device] { --device.in_flight; });
    claim_victims(lock, drain, pages, &victims, why);
  }
  if (victims.empty()) {
    env_.sync.changed.notify_all();
    return;
  }
  lock.unlocked([&] {
    env_.sync.points.at("evict.claimed");
    transfer::Copier copier(*device.streams.down());
    const auto passed = [this](Stamp stamp) { return env_.streams.passed(stamp); };
    // What no work uses any more goes first: its copies go down while the others' work is waited for.
    std::stable_partition(victims.begin(), victims.end(), [&](const Victim &victim) {
      return std::ranges::all_of(victim.fences, passed);
    });
    size_t begun = 0, finished = 0;
    while (finished < victims.size()) {
      const std::span<Victim> under_way(&victims[finished], begun - finished);
      Victim *next = begun < victims.size() ? &victims[begun] : nullptr;
      // Before waiting for work of the caller's, what has been copied is let go of.
      const bool idle = next != nullptr && std::ranges::all_of(next->fences, passed);
      const size_t ended = ended_run(drain, under_way, idle ? next : nullptr);
      if (next != nullptr && (under_way.empty() || (idle && ended == 0))) {
        start_victim(drain, copier, *next);
        ++begun;
      } else {
        const size_t count = std::max<size_t>(ended, 1);
        finish_next(drain, under_way.first(count), early);
        finished += count;
      }
    }
  });
  told.tell(drain.freed, victims.size(), drain.background);
  env_.sync.changed.notify_all();
  // What has come to HOST can be demoted only now.
  if (others_.host_room.is_short()) env_.sync.wakes.host_room.notify_all();
  if (!drain.why) *why = drain.why;
  note_failed(device, drain.why);
  others_.losses.note(device, drain.why);
}

uint64_t Evictor::evict_chosen(Releasable &lock, PoolDevice &device, const Wanted &wanted,
                               bool background) {
  std::pmr::vector<PageRef> victims(env_.memory);
  device.policy->choose(wanted, &victims);
  Status why;
  return victims.empty() ? 0 : evict(lock, device, victims, background, &why);
}

size_t Evictor::ended_run(const Drain &drain, std::span<const Victim> under_way,
                          const Victim *next) const {
  const auto together = [](const Victim &one, const Victim &other) {
    return one.region == other.region && one.from.granule + one.bytes == other.from.granule &&
           one.from.shared == nullptr && other.from.shared == nullptr && !one.straight &&
           !other.straight;
  };
  const size_t longest = drain.device.memory.mapper().longest_run();
  size_t count = 0;
  while (count < under_way.size() && count < longest &&
         env_.streams.passed(under_way[count].copied) &&
         (count == 0 || together(under_way[count - 1], under_way[count])))
    ++count;
  const bool grows = next != nullptr && count != 0 && count == under_way.size() &&
                     count < longest && together(under_way.back(), *next);
  return grows ? 0 : count;
}

void Evictor::finish_next(Drain &drain, std::span<Victim> victims, Awaiting *early) {
  finish_victims(drain, victims);
  if (early == nullptr || drain.freed - drain.seen < early->look_after()) return;
  drain.seen = drain.freed;
  Locked lock(env_.sync.lock);
  early->more_room(lock);
}

void Evictor::end_copies(PoolDevice &device) noexcept {
  (void)Losses::answers_lost(device);  // which waits for them
}

Status Evictor::wipe(PoolDevice &device, Victim &victim) {
  transfer::Copier copier(*device.streams.down());
  victim.wiped = true;
  WEIR_TRY(copier.zero(victim.from.address, victim.bytes));
  const Status status = copier.finish();
  if (!status) end_copies(device);
  return status;
}

void Evictor::start_victim(Drain &drain, transfer::Copier &copier, Victim &victim) {
  PoolDevice &device = drain.device;
  Status status;
  for (const Stamp stamp : victim.fences) {
    status = env_.streams.wait(stamp, drain.wait_ns);
    if (!status) break;
  }
  if (victim.copy) victim.times.began_ns = steady_ns();
  if (status && victim.loan.to != nullptr) {
    const Status opened = lender_.open(victim.loan, victim.bytes);
    victim.loan.lost = opened.code() == WEIR_ERROR_DEVICE_LOST;
    if (!opened)
      return;  // the neighbour's affair: the page stays, and has another place to go to the next time
  }
  if (status && victim.copy && !victim.straight) {
    status = copier.copy(reinterpret_cast<uint64_t>(victim.to.address), victim.from.address,
                         victim.used);
    if (status) status = copier.flush();
  }
  if (status && victim.region->is.secret && !victim.copy) {
    victim.wiped = true;
    status = copier.zero(victim.from.address, victim.bytes);
  }
  if (status && !victim.straight && (victim.copy || victim.region->is.secret)) {
    status = copier.mark(&victim.copied, false);
    if (!status) end_copies(device);  // enqueued, but without a mark
  }
  victim.safe = status.ok();
  note_failure(drain, victim, status);
}

void Evictor::note_failure(Drain &drain, Victim &victim, const Status &status) noexcept {
  const bool ask = status.code() == WEIR_ERROR_DEVICE_LOST && victim.loan.to != nullptr;
  victim.loan.lost = victim.loan.lost || (ask && others_.losses.answers_lost(*victim.loan.to));
  if (!victim.loan.lost) drain.note(status);
}

void Evictor::land_victim(Drain &drain, Victim &victim) {
  PoolDevice &device = drain.device;
  if (victim.safe && victim.copied) {
    Status status = env_.streams.finish(victim.copied);
    if (!status) end_copies(device);  // its slot is about to be someone else's
    if (status && victim.copy && victim.region->is.secret) status = wipe(device, victim);
    victim.safe = status.ok();
    note_failure(drain, victim, status);
    if ((status || victim.wiped) && victim.copy && !victim.cached &&
        page_.tiers.sums_host(*victim.region) && victim.to.slot) {
      victim.to.checksum = codec::checksum_of(victim.to.address, victim.used);
    }
  }
  if (victim.safe && victim.straight) {
    Status status =
        with_memory("for a place below HOST", [&] { return send_straight(drain, victim); });
    if (status && victim.region->is.secret) status = wipe(device, victim);
    victim.safe = status.ok();
    drain.note(status);
  }
  if (victim.times.began_ns != 0) victim.times.landed_ns = steady_ns();
  if (victim.loan.to != nullptr && !victim.safe) lender_.close(victim.loan, victim.bytes);
}

void Evictor::finish_victims(Drain &drain, std::span<Victim> victims) {
  for (Victim &victim : victims) land_victim(drain, victim);
  {
    const Locked lock(env_.sync.lock);
    for (Victim &victim : victims) decide_victim(drain.device, victim);
  }
  unmap_victims(drain, victims);
  for ([[maybe_unused]] const Victim &victim : victims) env_.sync.points.at("evict.unmapped");
  const Locked lock(env_.sync.lock);
  MoveNotes moves(env_, drain.background ? notes::Move::background : notes::Move::demand);
  for (Victim &victim : victims) {
    settle_victim(drain, victim, &moves);
    drain.untold += victim.bytes;
  }
  if (drain.untold < Drain::worth_telling) return;
  drain.untold = 0;
  env_.sync.changed.notify_all();
}

void Evictor::unmap_victims(Drain &drain, std::span<Victim> victims) {
  const WaitScope waits(Wait::mapping);
  page::DeviceMemory &memory = drain.device.memory;
  const auto leaves = [](const Victim &victim) { return victim.out; };
  while (!victims.empty()) {
    const auto end = std::ranges::find_if_not(victims, leaves);
    const std::span<Victim> run = victims.first(static_cast<size_t>(end - victims.begin()));
    victims = victims.subspan(std::max<size_t>(run.size(), 1));
    Status unmapped;
    if (run.size() > 1) {
      const uint64_t from = run.front().from.granule;
      const uint64_t bytes = run.back().from.granule + run.back().bytes - from;
      unmapped = memory.mapper().unmap_run(from, bytes, static_cast<uint32_t>(run.size()));
      for (Victim &victim : run) victim.gone = unmapped.ok();
      // A device that is lost has nothing mapped any more.
      if (unmapped || unmapped.code() == WEIR_ERROR_DEVICE_LOST) {
        drain.note(unmapped);
        continue;
      }
    }
    // By itself, or after a refusal, so that all go that can.
    for (Victim &victim : run) {
      unmapped = memory.unmap(victim.from.granule, victim.bytes, victim.from.shared);
      victim.gone = unmapped.ok();
      drain.note(unmapped);
    }
  }
}

void Evictor::decide_victim(const PoolDevice &device, Victim &victim) noexcept {
  // Somebody asked for it meanwhile: it stays, unless it has no bytes worth staying for.
  const DevicePage &state = victim.region->on(device.place)->pages[victim.page];
  // The other copy that it was to be dropped for may have been lost with its device.
  const bool dropped = victim.had_content && !victim.copy && !victim.region->idle(victim.page);
  const uint32_t others = victim.region->pages[victim.page].latest() & ~device.bit();
  victim.safe = victim.safe && !(dropped && others == 0);
  if (victim.loan.to != nullptr && victim.loan.to->lost()) victim.safe = false;
  victim.out = victim.safe && !victim.stays &&
               (victim.region->is.secret || !(state.wanted && victim.had_content));
}

void Evictor::settle_place(Victim &victim) noexcept {
  Region &region = *victim.region;
  // Lost, but the copy had ended; or see `forsaken` there.
  pages_.revived(region, victim.page);
  if (victim.loan.arrived) return;
  if (victim.straight) {
    region.codec.quick = victim.to.plan;
    page_.cold.set_checksum(victim.to.chain, victim.to.checksum);
    page_.tiers.publish(region, victim.page, victim.to.chain, victim.to.bit);
    if (victim.to.bit == page::compressed_bit) others_.demoter.note_compressed(region, victim.page);
    env_.events.tell({What::sunk, 0, Event::nowhere, region.id, victim.page, victim.used});
    return;
  }
  if (victim.to.chain != tier::ColdTiers::none)
    page_.tiers.set_checksum(region, victim.page, victim.to.chain, victim.to.checksum);
  if (victim.to.slot) {
    page_.tiers.host().take_over(victim.to.slot, region.owner.client, victim.used);
    page_.tiers.take_slot(region, victim.page, victim.to.slot);
  }
  pages_.arrived(region, victim.page, page::host_bit);
  if (victim.to.slot) page_.tiers.note(region, victim.page, page::host_bit);
}

void Evictor::settle_victim(Drain &drain, Victim &victim, MoveNotes *moves) noexcept {
  PoolDevice &device = drain.device;
  Region &region = *victim.region;
  const DevicePage &state = region.on(device.place)->pages[victim.page];
  const Page &copies = region.pages[victim.page];
  const auto tell = [&](What what, int how) WEIR_HELD {
    env_.events.tell(
        {what, static_cast<uint8_t>(how), device.place, region.id, victim.page, victim.used});
  };
  pages_.transition(region, victim.page, device, victim.gone ? Step::evicted : Step::kept);
  page_.tiers.forget_idle(region, victim.page);
  // What it had from a writer that has been lost meanwhile (losses.hpp): the copy is none.
  const bool forsaken = copies.forsaken();
  if (victim.loan.lost) others_.losses.note(*victim.loan.to, Status(WEIR_ERROR_DEVICE_LOST));
  if (victim.loan.to != nullptr && victim.loan.to->lost()) victim.safe = false;
  victim.loan.arrived = victim.safe && victim.loan.to != nullptr;
  const uint32_t goal = victim.loan.arrived ? victim.loan.to->bit()
                        : victim.straight   ? victim.to.bit
                                            : page::host_bit;
  if (victim.loan.arrived) lender_.settle(victim, true);
  if (victim.copy && (victim.safe || victim.wiped) && !region.idle(victim.page)) {
    settle_place(victim);
    if (victim.safe)
      moves->add(region, victim.page, victim.used, device.bit(), goal,
                 {victim.times.began_ns, victim.times.landed_ns});
    if (victim.stays) drain.cleaned += victim.used;
    const int how = (victim.cached ? Event::cached : 0) | (drain.background ? Event::ahead : 0) |
                    (victim.stays ? Event::planned : 0);
    tell(What::demoted, how);
  } else {
    unplace_victim(victim);
  }
  if (victim.gone) {
    if (!victim.had_content) {
      tell(What::discarded, 0);
    } else if (!victim.copy || victim.cached) {
      tell(What::dropped, 0);
    }
    drain.freed += region.shape.charged_bytes(victim.page);
    pages_.vacate(region, victim.page, device,
                  region.is.secret ? physical::client_unknown : region.owner.client);
  } else {
    if (victim.wiped || region.idle(victim.page)) pages_.left(region, victim.page, device.bit());
    if (!state.wanted && !victim.stays) tell(What::evict_failed, 0);
    if (!victim.stays) pages_.give_back(region, victim.ref, device);  // else the policy knows it
  }
  const bool owned = !region.idle(victim.page), nowhere = copies.latest() == 0;
  if (victim.had_content && owned && nowhere) pages_.device_lost(region, victim.page);
  if (forsaken && owned) pages_.forsake(region, victim.page);
  life_.retire_region(region);
}

}  // namespace weir::move
