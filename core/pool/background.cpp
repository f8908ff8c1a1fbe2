// SPDX-License-Identifier: Apache-2.0
//
// The background's loop; how a thread of it begins and ends.

#include "core/pool/background.hpp"

#include "core/base/notes.hpp"
#include "core/base/signals.hpp"

#include <algorithm>

namespace weir::pool {
namespace {

constexpr uint64_t least_rest_ns = 100'000;

}  // namespace

Status Background::start(Task &task, uint32_t node, PoolSignal *wake, Pulse *pulse) {
  const Guard turn(change_);
  auto own = std::ranges::find(lanes_, &task, [](const Lane &lane) { return &lane.task; });
  if (own == lanes_.end())
    own = lanes_.emplace(lanes_.end(), task, wake != nullptr ? *wake : quiet_, pulse);
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
    if (lane.pulse != nullptr) lane.pulse->beat();
    if (worked || lane.ending || lock_.stopping()) continue;
    // It rests even if the next step is due: else this thread could take the lock again and again and keep it from those whose
    // work it waits for.
    rest(lane, lock, std::max(lane.task.rest_ns(), least_rest_ns));
  }
  lane.ending = false;
}

void Background::rest(Lane &lane, Releasable &lock, uint64_t rest_ns) {
  for (;;) {
    const uint64_t beat_ns = lane.pulse != nullptr ? lane.pulse->rest_ns() : UINT64_MAX;
    const uint64_t part = std::max(std::min(rest_ns, beat_ns), least_rest_ns);
    if (part == UINT64_MAX) return lane.wake.wait(lock);
    if (lane.wake.wait_for(lock, std::chrono::nanoseconds(part)) || part >= rest_ns) return;
    if (rest_ns != UINT64_MAX) rest_ns -= part;
    lane.pulse->beat_at_rest();
  }
}

}  // namespace weir::pool
