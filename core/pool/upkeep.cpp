// SPDX-License-Identifier: Apache-2.0
//
// The tasks, and the evictor's.

#include "core/pool/upkeep.hpp"

#include <algorithm>

namespace weir::pool {

Status Upkeep::start(Background &background, uint32_t node) {
  Wakes &wakes = env_.sync.wakes;
  WEIR_TRY(background.start(*this, node, &wakes.evictor, &others_.publisher));
  for (Task &lane : others_.prefetcher.lanes())
    WEIR_TRY(background.start(lane, node, &wakes.prefetcher));
  if (move::PlanExecutor *plans = others_.prefetcher.plans(); plans != nullptr) {
    // Plans are hints: a pool without them does as one whose policy makes none.
    for (const auto &[task, wake] : {std::pair<Task *, PoolSignal *>{plans, &wakes.planner},
                                     {&plans->cleaner(), &wakes.cleaner}}) {
      if (!background.start(*task, node, wake)) {
        const Locked lock(env_.sync.lock);
        env_.sync.lock.note(WEIR_LOG_WARNING,
                            "the pool makes no plans ahead, or cleans nothing: %s",
                            last_error().text);
      }
    }
  }
  if (move::Recompressor *recompressor = others_.recompressor.get(); recompressor != nullptr)
    WEIR_TRY(background.start(*recompressor, numa::unknown, &recompressor->wake()));
  if (page_.cold.any() || env_.config.host.follows)
    WEIR_TRY(background.start(others_.host_room, node, &wakes.host_room));
  return {};
}

bool Upkeep::idle() const noexcept {
  if (others_.recompressor != nullptr && others_.recompressor->working()) return false;
  if (others_.prefetcher.pending() || others_.demoter.working()) return false;
  return std::ranges::all_of(page_.devices, [](const auto &each) { return each->in_flight == 0; });
}

void Upkeep::give_unneeded_back(Releasable &lock) {
  if (!others_.idle.scan().begin(env_.now_ns())) return;
  const AtEnd looked([this]() WEIR_HELD {
    others_.idle.scan().end();
    env_.sync.changed.notify_all();
  });
  for (size_t i = 0; i < page_.devices.size(); ++i) {  // one may come while the lock is dropped
    if (page_.devices[i]->open() && !env_.sync.lock.stopping())
      give_unneeded_back(lock, *page_.devices[i]);
  }
}

void Upkeep::give_unneeded_back(Releasable &lock, PoolDevice &device) {
  constexpr uint64_t least_step = uint64_t{64} << 20U;
  physical::GranulePool &granules = device.memory.granules();
  const uint64_t step = std::max(least_step, granules.held() / 8);
  granules.look_at_idle();
  if (++device.bounce->looks > physical::looks_a_grace &&
      others_.idle.give_bounce_back(lock, device))
    device.memory.note_returned(
        others_.idle.give_idle(lock, device, transfer::Bounce::bytes_on(granules)));
  if (const uint64_t before = others_.idle.scan().unneeded_before(); before != 0)
    (void)evictor_.evict_chosen(lock, device, {.bytes = step, .dead_before = before}, true);
  physical::DoomedList doomed(env_.memory);
  device.memory.note_returned(granules.take_unneeded(device.memory.high_water(), step, &doomed));
  others_.idle.give_to_system(lock, device, doomed);
}

bool Upkeep::keep_free(Releasable &lock, PoolDevice &device) {
  if (!device.vmm() || !device.open()) return false;
  const uint64_t room = device.memory.room();
  const uint64_t until =
      device.draining_ahead ? device.memory.high_water() : device.memory.low_water();
  if (room >= until) {
    device.draining_ahead = false;
    return false;
  }
  if (device.making_room != 0) return false;  // it tells this thread when it has ended
  const Wanted wanted{.bytes = std::min(device.memory.high_water() - room, uint64_t{64} << 20U),
                      .not_before = 8,
                      .keep_prefetched = true,
                      .given_up_only = others_.prefetcher.planned(device.place)};
  device.draining_ahead = true;
  device.draining_ahead = evictor_.evict_chosen(lock, device, wanted, true) != 0;
  return device.draining_ahead;
}

bool Upkeep::keep_free(Releasable &lock) {
  bool worked = false;
  for (size_t i = 0; i < page_.devices.size(); ++i) {  // one may come while the lock is dropped
    if (!env_.sync.lock.stopping()) worked = keep_free(lock, *page_.devices[i]) || worked;
  }
  return worked;
}

bool Upkeep::step(Releasable &lock) {
  env_.scrub_turns.finish_behind(lock);
  others_.host_room.grow_ahead(lock);
  give_unneeded_back(lock);
  return keep_free(lock);
}

/// Until it is told, or until the next look.
uint64_t Upkeep::rest_ns() noexcept {
  const bool any = std::ranges::any_of(page_.devices, [](const auto &device) WEIR_HELD {
    return page::IdleMemory::worth_watching(*device);
  });
  policy::IdleScan &scan = others_.idle.scan();
  const uint64_t looks = scan.watch(any) ? scan.rest_ns(env_.now_ns()) : UINT64_MAX;
  return std::min(looks, env_.scrub_turns.rest_ns());
}

void Upkeep::look_at_idle() {
  Locked lock(env_.sync.lock);
  (void)others_.idle.scan().watch(true);
  while (others_.idle.scan().looking()) env_.sync.changed.wait(lock);  // the thread was faster
  give_unneeded_back(lock);
}

bool Upkeep::look_at_room() {
  Locked lock(env_.sync.lock);
  return keep_free(lock);
}

bool Upkeep::look_at_plans() {
  Locked lock(env_.sync.lock);
  move::PlanExecutor *plans = others_.prefetcher.plans();
  if (plans == nullptr) return false;
  bool worked = plans->step(lock);
  worked = plans->cleaner().step(lock) || worked;
  return others_.prefetcher.bring_planned(lock) || worked;
}

void Upkeep::look_at_compressed() {
  Locked lock(env_.sync.lock);
  if (others_.recompressor != nullptr) (void)others_.recompressor->work(lock);
}

void Upkeep::look_at_memory() {
  Locked lock(env_.sync.lock);
  others_.host_room.follow_memory(lock, true);
}

}  // namespace weir::pool
