// SPDX-License-Identifier: Apache-2.0
//
// The background's loop; how a thread of it begins and ends.

#include "core/pool/background.hpp"

#include "core/base/notes.hpp"
#include "core/base/signals.hpp"

#include <algorithm>

namespace weir::pool {

Status Background::start(Task &task, uint32_t node, PoolSignal *wake) {
  const Guard turn(change_);
  auto own = std::ranges::find(lanes_, &task, [](const Lane &lane) { return &lane.task; });
  if (own == lanes_.end())
    own = lanes_.emplace(lanes_.end(), task, wake != nullptr ? *wake : quiet_);
  if (own->thread.joinable()) return {};
  return start_thread(&own->thread, task.name(), [this, &lane = *own, node] {
    (void)numa::stay_on(nodes_, node);
    run(lane);
  });
}

void Background::stop(const Task *only) noexcept {
  const Guard turn(change_);
  const auto meant = [only](const Lane &lane) {
    return lane.thread.joinable() && (only == nullptr || only == &lane.task);
  };
  {
    const Locked lock(lock_);
    for (Lane &lane : lanes_) {
      if (!meant(lane)) continue;
      lane.ending = true;
      lane.wake.notify_all();
    }
  }
  for (Lane &lane : lanes_)
    if (meant(lane)) lane.thread.join();
}

void Background::run(Lane &lane) {
  Locked lock(lock_);
  while (!lane.ending && !lock_.stopping()) {
    bool worked = false;
    const notes::Stretch stretch(tap_, lane.task.name());
    if_memory([&]() WEIR_HELD { worked = lane.task.step(lock); });
    if (worked) stretch.tell();
    if (worked || lane.ending || lock_.stopping()) continue;
    // It rests in any case: who only ever holds the lock leaves none for those whose work it waits for.
    constexpr uint64_t least_ns = 100'000;
    const uint64_t rest_ns = std::max(lane.task.rest_ns(), least_ns);
    if (rest_ns == UINT64_MAX)
      lane.wake.wait(lock);
    else
      lane.wake.wait_for(lock, std::chrono::nanoseconds(rest_ns));
  }
  lane.ending = false;
}

}  // namespace weir::pool
