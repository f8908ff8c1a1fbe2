// SPDX-License-Identifier: Apache-2.0
//
// Scrubbing.

#include "core/move/scrubber.hpp"

#include <algorithm>

namespace weir::move {

bool Scrubber::scrub(bool wait) noexcept {
  const KeepError keep;
  bool all = !page_.cold.any() || page_.cold.staging().scrub(wait);
  all = others_.carrier.scrub(wait) && all;
  Locked lock(env_.sync.lock);
  all = scrub_retired(lock, wait) && all;
  all = others_.relocator.scrub_limbo(lock, wait) && all;
  all = scrub_storage(lock, wait) && all;
  env_.sync.changed.notify_all();
  if (!all) env_.sync.wakes.evictor.notify_all();  // its next rest ends when it may be tried again
  return all;
}

bool Scrubber::scrub_retired(Releasable &lock, bool wait) noexcept {
  for (;;) {
    (void)page_.tiers.sweep_retired();
    const auto busy = page_.tiers.retired(true);
    if (!busy) return true;
    if (!wait) return false;
    const Status ended = lock.unlocked([&] {
      Status waited;
      for (uint32_t i = 0; i < busy->count && waited; ++i)
        waited = env_.streams.wait(busy->stamps[i], UINT64_MAX);
      return waited;
    });
    if (!ended) return false;
  }
}

bool Scrubber::scrub_storage(Releasable &lock, bool wait) noexcept {
  if (page_.cold.storage() == nullptr || !page_.cold.storage()->retired()) return true;
  if (!wait && env_.scrub_turns.put_off_at(env_.now_ns())) return false;
  for (tier::UnitSlot slot = page_.cold.storage()->take_retired(); slot;
       slot = page_.cold.storage()->take_retired()) {
    const uint64_t bytes = page_.cold.storage()->bytes(slot);
    const Status written = lock.unlocked([&] {
      const Status first = page_.cold.storage()->overwrite(slot, bytes);
      return first ? first : page_.cold.storage()->overwrite(slot, bytes);
    });
    if (written) {
      page_.cold.storage()->free_overwritten(slot);
      continue;
    }
    (void)page_.cold.storage()->free_secret(slot);
    env_.scrub_turns.put_off(env_.now_ns());
    env_.sync.lock.note(WEIR_LOG_WARNING, "a page in storage that is to be scrubbed can't be: %s",
                        last_error().text);
    return false;
  }
  return true;
}

void Scrubber::scrub_device(Releasable &lock, uint32_t id, uint16_t generation,
                            bool wait) noexcept {
  constexpr uint64_t patience_ns = 100'000'000;
  const auto region = [&]() WEIR_HELD { return page_.regions.find(id, generation); };
  for (size_t place = 0; place < page_.devices.size();
       ++place) {  // one may come while the lock is dropped
    PoolDevice &device = *page_.devices[place];
    Residence *here = region() != nullptr ? region()->on(device.place) : nullptr;
    if (here == nullptr || device.lost()) continue;
    if_memory([&]() WEIR_HELD {
      std::pmr::vector<PageRef> pages(env_.memory);
      std::pmr::vector<Stamp> fences(env_.memory);
      const auto list = [&]() WEIR_HELD {
        pages.clear();
        fences.clear();
        for (uint32_t p = 0; p < here->pages.size(); ++p) {
          if (here->pages[p].state() != PageState::resident) continue;
          const size_t before = fences.size();
          lease_.history.collect(*region(), p, &fences);
          if (wait || fences.size() == before) pages.push_back(PageRef{id, p, generation});
        }
      };
      list();
      if (!wait && !fences.empty()) {
        lock.unlocked([&] {
          const uint64_t until = env_.now_ns() + patience_ns;
          for (const Stamp stamp : fences)
            (void)env_.streams.wait(stamp, until - std::min(env_.now_ns(), until));
        });
        here = region() != nullptr ? region()->on(device.place) : nullptr;
        if (here == nullptr) return;
        list();
      }
      Status why;
      if (!pages.empty()) (void)evictor_.evict(lock, device, pages, false, &why);
    });  // or they leave later
  }
}

}  // namespace weir::move
