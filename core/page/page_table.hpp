// SPDX-License-Identifier: Apache-2.0
//
// PageTable: what pages are in the course of their lives on devices. Every change of a page's state, and of where its latest
// version is, is a verb here (what is about tiers alone: TierCopies). It tells a device's policy what it may evict, and says what the
// hit path may rely on. It decides nothing and never waits. All under the pool's lock.
#pragma once

#include "core/base/accounts.hpp"
#include "core/page/env.hpp"
#include "core/page/idle_memory.hpp"
#include "core/transfer/paths.hpp"

#include <optional>

namespace weir::page {

/// CORRUPT: the copy of the bit's place is not what was written there.
Status fail_corrupt(uint32_t use, uint32_t page, uint32_t bit) noexcept;

class PageTable {
 public:
  PageTable(const Env &env, const PageLayer &page, IdleMemory &idle) noexcept
      : env_(env), page_(page), idle_(idle) {}

  // ---- states ----
  /// By the rule of the step (page/transitions.hpp), with the counts that go along.
  void transition(Region &region, uint32_t page, PoolDevice &device, Step step) noexcept WEIR_HELD;
  /// The page is being worked on: everybody else keeps off it.
  void mark_busy(Region &region, uint32_t page, PoolDevice &device) noexcept WEIR_HELD {
    region.pages.edit(page).work_began();
    region.pin_count.page_busy();
    ++device.in_flight;
  }
  /// The caller has told the page which copies are still under way. What ran empty meanwhile has no versions from now on.
  void unmark_busy(Region &region, uint32_t page, PoolDevice &device) noexcept WEIR_HELD {
    end_work(region, page, device);
    page_.tiers.forget_idle(region, page);
  }
  /// Whether the page is being worked on. If so, the page counts as waited for from now on: an eviction keeps it.
  bool note_waiter(Region &region, uint32_t page) noexcept WEIR_HELD;

  // ---- fills ----
  /// Of an ABSENT page with this granule; else over an older version, where that is.
  void begin_fill(Region &region, uint32_t page, PoolDevice &device,
                  GranuleId granule) noexcept WEIR_HELD;
  /// It is there as soon as `ready` has passed. Of one that was ABSENT: the generation of the pool in which it was mapped.
  void end_fill(Region &region, uint32_t page, PoolDevice &device, Stamp ready,
                const uint16_t *mapped) noexcept WEIR_HELD;
  /// `fresh`: it was ABSENT, and is again; its granule, which is returned, is the caller's. `stuck`: and is still mapped.
  GranuleId fail_fill(Region &region, uint32_t page, PoolDevice &device, bool fresh,
                      bool stuck) noexcept WEIR_HELD;
  /// What comes to pages [first, last], or goes from there, is there as soon as `ready` has passed.
  void set_ready(Region &region, uint32_t first, uint32_t last, const PoolDevice &device,
                 Stamp ready) noexcept WEIR_HELD;
  /// Whether what is on its way there has come, which is forgotten then.
  bool arrived_at(Residence &here, uint32_t page) noexcept WEIR_HELD {
    DevicePage &state = here.pages.edit(page);
    if (!state.ready) return true;
    if (!env_.streams.passed(state.ready)) return false;
    state.ready = Stamp{};
    return true;
  }
  /// It lies in another granule from now on, or in none: what becomes of the old one is the caller's.
  void set_granule(Region &region, uint32_t page, const PoolDevice &device,
                   GranuleId granule) noexcept WEIR_HELD {
    region.on(device.place)->pages.edit(page).granule = granule;
  }

  // ---- borrowed pages ----
  /// A neighbour has it, for want of room or for balance: it is to go before all else there. `fresh`: it was ABSENT.
  void lend(Region &region, uint32_t page, PoolDevice &to, bool fresh) noexcept WEIR_HELD;
  /// A stream of another device uses it there from now on.
  void visit(Region &region, uint32_t page, const PoolDevice &there) noexcept WEIR_HELD {
    DevicePage &state = region.on(there.place)->pages.edit(page);
    state.visited = state.borrowed;
  }

  // ---- a device's policy ----
  /// Tells it of a page that became resident. Without memory for that it is told at the page's next use.
  void offer(Region &region, uint32_t page, PoolDevice &device) noexcept WEIR_HELD;
  /// The same of one that is to go before all else there.
  void offer_borrowed(Region &region, uint32_t page, PoolDevice &to) noexcept WEIR_HELD;
  /// It had chosen the page, which stays.
  void give_back(Region &region, const PageRef &ref, PoolDevice &device) noexcept WEIR_HELD;
  /// The neighbour itself uses the page: it is borrowed no more.
  void keep_borrowed(Region &region, uint32_t page, PoolDevice &device) noexcept WEIR_HELD;

  // ---- pages that leave ----
  /// The page's charge ends, by the rule in base/accounts.hpp.
  void uncharge(const Region &region, uint32_t page, uint8_t place) noexcept WEIR_HELD {
    page_.accounts.freed(region.owner.client, place, region.shape.charged_bytes(page));
  }
  /// The page has left the device, and nothing is mapped there any more: its granule goes back to the pool.
  void vacate(Region &region, uint32_t page, PoolDevice &device,
              uint32_t granule_client) noexcept WEIR_HELD;
  /// Without an eviction: its device has left, or the runtime has taken the mapping and gives none back.
  void vanish(Region &region, uint32_t page, PoolDevice &device) noexcept WEIR_HELD;

  // ---- copies ----
  // As the verbs of Page, of which the index of places is told.
  void written(Region &region, uint32_t page, uint32_t places) noexcept WEIR_HELD {
    page_.places.note(region, region.pages.edit(page).written(places));
  }
  void arrived(Region &region, uint32_t page, uint32_t place) noexcept WEIR_HELD {
    page_.places.note(region, region.pages.edit(page).arrived(place));
  }
  void left(Region &region, uint32_t page, uint32_t places) noexcept WEIR_HELD {
    page_.places.note(region, region.pages.edit(page).left(places));
  }
  void discarded(Region &region, uint32_t page) noexcept WEIR_HELD {
    page_.places.note(region, region.pages.edit(page).discarded());
  }
  void device_lost(Region &region, uint32_t page) noexcept WEIR_HELD {
    page_.places.note(region, region.pages.edit(page).device_lost());
  }
  void revived(Region &region, uint32_t page) noexcept WEIR_HELD {
    page_.places.note(region, region.pages.edit(page).revived());
  }
  /// No copy of the page is any good, nor will one be that is on its way.
  void forsake(Region &region, uint32_t page) noexcept WEIR_HELD;
  /// A damaged copy is given up where there is another; else it stays, and so does the error.
  void forsake_copy(Region &region, uint32_t page, uint32_t bit) noexcept WEIR_HELD;
  /// Before bytes are read from HOST by the CPU. CORRUPT; a damaged copy is given up where there is another.
  Status verify_host(Region &region, uint32_t page, uint32_t use) WEIR_HELD;
  /// Whether the device reaches the page where it lies: by the link, and because it was there when the page was mapped.
  bool reads_directly(const PoolDevice &to, const Residence &from, uint32_t page) const noexcept;

  // ---- the hit path ----
  /// The caller: the device that it uses the buffer on, if it does, and what its lease counts as in the word.
  struct WordUser {
    std::optional<uint8_t> place;
    uint64_t leases = 0;
  };
  /// Sets what it may rely on, from the pages as they are. The buffer is claimed. `history`: it has uses that may not have ended. The path
  /// goes to the user's device, if it can be open there; else it stays where it is, or is open at home.
  void refresh_word(uint32_t index, Region &region, uint64_t base, uint64_t size, bool history,
                    const WordUser &user) noexcept WEIR_HELD;
  /// The next hit on each of the region's buffers goes the slow way. Returns how many they are.
  uint64_t close(Region &region) noexcept WEIR_HELD;
  /// Every hit at home there goes the slow way once.
  void close_at_home(uint8_t place) noexcept WEIR_HELD;

 private:
  /// What the hit path could grant to a device: any lease, one to write; and whether all that is on its way there has come.
  struct Reach {
    bool open = false, sole = false, arrived = true;
  };
  Reach reach(Region &region, uint64_t base, uint64_t size, uint8_t place) noexcept WEIR_HELD;
  Reach reach_shards(Region &region, const PoolDevice &device) noexcept WEIR_HELD;
  /// Which device has the path, open or closed.
  uint8_t path_of(const Hot &hot, const Region &region) const noexcept WEIR_HELD;
  /// Closes the path, for another device to have it. False: others than `own` are counted in the word, and it stays where it is.
  bool move_path(Hot &hot, uint8_t place, uint64_t own) noexcept WEIR_HELD;

  GranuleId drop_granule(Region &region, uint32_t page, PoolDevice &device) noexcept WEIR_HELD;
  static void end_work(Region &region, uint32_t page, PoolDevice &device) noexcept {
    region.pages.edit(page).work_ended();
    region.pin_count.page_done();
    --device.in_flight;
  }

  const Env &env_;
  const PageLayer &page_;
  IdleMemory &idle_;
};

}  // namespace weir::page
