// SPDX-License-Identifier: Apache-2.0
//
// Scrubbing: every copy of a buffer with WEIR_BUFFER_SCRUB is overwritten as it stops being one. Where nothing stands in the way
// that is done on the spot: slots of HOST and places in COMPRESSED (page/tier_copies.hpp), staging, memory of a device as a page
// leaves it (drain.cpp). What can't be is noted: slots and staging that a copy under way still reads, and places in STORAGE, which
// need a write. Whoever caused that (Scrubbing, in each call that can) does it before he returns, as far as no copy is to be
// waited for; calls that end a buffer or take memory away, and the end of the pool, wait for those too. A place in STORAGE
// belongs to nobody until it is overwritten, and a write that fails is tried again: nothing is lost by it, and nobody else
// gets the place.

#include "core/residency/scrub.hpp"

#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {

/// What is due, without the lock (ScrubTurns).
bool Engine::scrub(bool wait) noexcept {
  const KeepError keep;
  bool all = !cold_.any() || cold_.staging().scrub(wait);
  all = carrier_.scrub(wait) && all;
  Locked lock(lock_);
  all = scrub_retired(lock, wait) && all;
  all = relocator_.scrub_limbo(lock, wait) && all;
  all = scrub_storage(lock, wait) && all;
  changed_.notify_all();
  return all;
}

/// Slots of HOST that copies up still read. TierCopies overwrites them. False: there are some left.
bool Engine::scrub_retired(Releasable &lock, bool wait) noexcept {
  for (;;) {
    (void)tiers_.sweep_retired();
    const auto busy = tiers_.retired(true);
    if (!busy) return true;
    if (!wait) return false;
    const Status ended = lock.unlocked([&] {
      Status waited;
      for (uint32_t i = 0; i < busy->count && waited; ++i)
        waited = streams_.wait(busy->stamps[i], UINT64_MAX);
      return waited;
    });
    if (!ended) return false;
  }
}

/// Places in STORAGE. One that can't be written stays in the list: False. Drops the lock.
bool Engine::scrub_storage(Releasable &lock, bool wait) noexcept {
  if (cold_.storage() == nullptr || !cold_.storage()->retired()) return true;
  if (!wait && scrub_turns_.put_off_at(now_ns())) return false;
  for (tier::UnitSlot slot = cold_.storage()->take_retired(); slot;
       slot = cold_.storage()->take_retired()) {
    const uint64_t bytes = cold_.storage()->bytes(slot);
    const Status written = lock.unlocked([&] {
      const Status first = cold_.storage()->overwrite(slot, bytes);
      return first ? first : cold_.storage()->overwrite(slot, bytes);
    });
    if (written) {
      cold_.storage()->free_overwritten(slot);
      continue;
    }
    (void)cold_.storage()->free_secret(slot);
    scrub_turns_.put_off(now_ns());
    lock_.note(WEIR_LOG_WARNING, "a page in storage that is to be scrubbed can't be: %s",
               last_error().text);
    return false;
  }
  return true;
}

/// What a dead buffer has left on devices: its pages leave, and are overwritten by that. Those that something is at work on for
/// longer than a moment do so when their time comes, unless the caller has the time to wait.
void Engine::scrub_device(Releasable &lock, uint32_t id, uint16_t generation, bool wait) noexcept {
  constexpr uint64_t patience_ns = 100'000'000;
  const auto region = [&]() WEIR_HELD { return regions_.find(id, generation); };
  for (size_t place = 0; place < devices_.size();
       ++place) {  // one may come while the lock is dropped
    PoolDevice &device = *devices_[place];
    Residence *here = region() != nullptr ? region()->on(device.place) : nullptr;
    if (here == nullptr || device.lost()) continue;
    if_memory([&]() WEIR_HELD {
      std::pmr::vector<PageRef> pages(&memory_);
      std::pmr::vector<Stamp> fences(&memory_);
      const auto list = [&]() WEIR_HELD {
        pages.clear();
        fences.clear();
        for (uint32_t p = 0; p < here->pages.size(); ++p) {
          if (here->pages[p].state() != PageState::resident) continue;
          const size_t before = fences.size();
          history_.collect(*region(), p, &fences);
          if (wait || fences.size() == before) pages.push_back(PageRef{id, p, generation});
        }
      };
      list();
      if (!wait && !fences.empty()) {
        lock.unlocked([&] {
          const uint64_t until = now_ns() + patience_ns;
          for (const Stamp stamp : fences)
            (void)streams_.wait(stamp, until - std::min(now_ns(), until));
        });
        here = region() != nullptr ? region()->on(device.place) : nullptr;
        if (here == nullptr) return;
        list();
      }
      Status why;
      if (!pages.empty()) (void)evict(lock, device, pages, false, &why);
    });  // or they leave later
  }
}

}  // namespace weir::residency
