// SPDX-License-Identifier: Apache-2.0
//
// Announced operations that hit. Telling of each under the pool's lock would cost several times what its lease does, so a thread counts them and
// tells of some together, unless somebody would be late with what follows from it.

#include "core/move/prefetcher.hpp"

#include <algorithm>

namespace weir::move {

void Prefetcher::note_hit(StreamState &state, lease::OwnLeases *own) noexcept {
  if (own == nullptr) {
    (void)note_hits(state, 1);
    return;
  }
  own->announced.store(own->announced.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
  const uint32_t alarms = alarms_.load(std::memory_order_relaxed);
  if (own->untold != 0 && own->alarms == alarms) {
    --own->untold;
    return;
  }
  own->alarms = alarms;
  own->untold = note_hits(state, 0);
}

/// Tells of the hits that are counted in the stream's state, and so many beside. Answers how many more the thread need not tell of.
uint32_t Prefetcher::note_hits(StreamState &state, uint64_t beside) noexcept {
  const Locked lock(env_.sync.lock);
  if (hints_.retry()) env_.sync.wakes.prefetcher.notify_all();
  settle(state, beside);
  if_memory([&]() WEIR_HELD { wake_for(state); });  // or they are woken a little later
  return may_stay_untold(state);
}

void Prefetcher::settle(StreamState &state, uint64_t beside) noexcept {
  const uint64_t hits = state.take_announced() + beside;
  const uint64_t over = std::min<uint64_t>(hits, announcements_.count(state.stream->slot));
  if (over == 0) return;  // another thread of the stream's was quicker
  consume(state, over);
  for (uint64_t i = 0; plans_ != nullptr && i < over; ++i)
    plans_->note_acquire(state, true, nullptr);
}

/// Who is told late must not be late with anything: a stream's last operation ends its way, a plan and what waits for room go by each
/// operation, and what comes into sight may have to be brought.
uint32_t Prefetcher::may_stay_untold(const StreamState &state) noexcept {
  constexpr uint64_t most = 16;
  const uint32_t slot = state.stream->slot;
  const uint64_t left = announcements_.count(slot);
  if (left <= 1) return 0;
  // Each of the stream's threads may have as many untold, and the last operation is told.
  const auto threads =
      static_cast<uint64_t>(std::ranges::count_if(state.own, [](const lease::OwnLeases &own) {
        return own.thread.load(std::memory_order_relaxed) != 0;
      }));
  const uint64_t others = threads > 1 ? most * (threads - 1) : 0;
  if (left - 1 <= others) {
    alarm();
    return 0;
  }
  if (plans_ != nullptr && !plans_->may_be_late(state)) return 0;
  const auto untold = static_cast<uint32_t>(std::min(most, left - 1 - others));
  if (!env_.config.background) return untold;
  if (refused_ || hints_.count() != 0 || short_of_room()) return 0;
  const uint64_t sight = announcements_.oldest(slot) + policy::Announcements::lookahead;
  for (uint32_t i = 0; i < untold + others; ++i) {
    const auto operation = announcements_.operation(slot, sight + i);
    if (!operation) break;
    const auto there = [&](const policy::AnnouncedUse &use) {
      const page::Hot &hot = page_.buffers.hot(use.buffer);
      return !hot.lives(use.generation) ||
             ((hot.word.load(std::memory_order_relaxed) & Word::resident) != 0 &&
              hot.device() == state.device->id);
    };
    if (!std::all_of(operation->begin(), operation->end(), there))
      return others == 0 ? i : 0;  // how far the threads get together is not known
  }
  return untold;
}

}  // namespace weir::move
