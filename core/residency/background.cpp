// SPDX-License-Identifier: Apache-2.0
//
// The background threads.

#include "core/residency/background.hpp"

#include "core/base/signals.hpp"

#include <algorithm>

namespace weir::residency {

Status Background::run(uint32_t node) {
  try {
    const SignalsBlocked blocked;
    const auto near = [this, node](void (Background::*loop)()) {
      return std::thread([this, loop, node] {
        (void)numa::stay_on(env_.config.nodes, node);
        (this->*loop)();
      });
    };
    evicting_ = near(&Background::evictor_loop);
    others_.prefetcher.run_in_background(page_.cold.storage() != nullptr, env_.config.nodes, node);
    if (others_.recompressor != nullptr) others_.recompressor->run_in_background();
    if (page_.cold.any() || env_.config.host_follows) demoting_ = near(&Background::demoter_loop);
  } catch (const std::system_error &error) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "cannot start a background thread: %s",
                error.what());
  }
  return {};
}

void Background::join() {
  for (std::thread *thread : {&evicting_, &demoting_})
    if (thread->joinable()) thread->join();
  others_.prefetcher.join();
  if (others_.recompressor != nullptr) others_.recompressor->join();
}

void Background::give_unneeded_back(Releasable &lock) {
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

void Background::give_unneeded_back(Releasable &lock, PoolDevice &device) {
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

bool Background::keep_free(Releasable &lock, PoolDevice &device) {
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
                      .keep_prefetched = true};
  device.draining_ahead = true;
  device.draining_ahead = evictor_.evict_chosen(lock, device, wanted, true) != 0;
  return device.draining_ahead;
}

void Background::evictor_loop() {
  const Devices &devices = page_.devices;
  Locked lock(env_.sync.lock);
  while (!env_.sync.lock.stopping()) {
    env_.scrub_turns.finish_behind(lock);
    bool worked = false;
    try {
      others_.host_room.grow_ahead(lock);
      give_unneeded_back(lock);
      for (size_t i = 0; i < devices.size(); ++i) {  // one may come while the lock is dropped
        if (!env_.sync.lock.stopping()) worked = keep_free(lock, *devices[i]) || worked;
      }
    } catch (const std::bad_alloc &) {
      worked = false;
    }
    if (worked || env_.sync.lock.stopping()) continue;
    // Nothing to do until it is told, or until the next look.
    const bool any = std::any_of(devices.begin(), devices.end(), [](const auto &device) WEIR_HELD {
      return IdleMemory::worth_watching(*device);
    });
    env_.sync.await_work(lock, others_.idle.scan().watch(any)
                                   ? others_.idle.scan().rest_ns(env_.now_ns())
                                   : UINT64_MAX);
  }
}

void Background::look_at_idle() {
  Locked lock(env_.sync.lock);
  (void)others_.idle.scan().watch(true);
  while (others_.idle.scan().looking()) env_.sync.changed.wait(lock);  // the thread was faster
  give_unneeded_back(lock);
}

bool Background::look_at_room() {
  Locked lock(env_.sync.lock);
  bool worked = false;
  for (size_t i = 0; i < page_.devices.size(); ++i)
    worked = keep_free(lock, *page_.devices[i]) || worked;
  return worked;
}

void Background::look_at_compressed() {
  Locked lock(env_.sync.lock);
  if (others_.recompressor != nullptr) (void)others_.recompressor->work(lock);
}

void Background::look_at_memory() {
  Locked lock(env_.sync.lock);
  others_.host_room.look_now();
  others_.host_room.follow_memory(lock, env_.now_ns());
}

void Background::demoter_loop() {
  Locked lock(env_.sync.lock);
  while (!env_.sync.lock.stopping()) {
    env_.scrub_turns.finish_behind(lock);
    bool worked = false;
    if_memory([&]() WEIR_HELD {
      others_.host_room.follow_memory(lock, env_.now_ns());
      worked = others_.host_room.keep_free(lock, *env_.config.clock) ||
               others_.demoter.keep_compressed_free(lock, *env_.config.clock);
    });
    if (worked || env_.sync.lock.stopping()) continue;
    const uint64_t now = env_.now_ns(), retry = others_.demoter.retry_at_ns();
    const uint64_t rest = retry > now ? retry - now : UINT64_MAX;
    env_.sync.await_work(lock, env_.config.host_follows ? move::HostRoom::look_every_ns : rest);
  }
}

}  // namespace weir::residency
