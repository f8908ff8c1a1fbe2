// SPDX-License-Identifier: Apache-2.0
//
// PageTable: what pages are in the course of their lives on devices. It tells a device's policy what it may evict, takes a page
// that has left off its device, gives up copies that are no good, and says what the hit path may rely on. It decides nothing and
// never waits. All under the pool's lock.
#pragma once

#include "core/residency/env.hpp"
#include "core/base/accounts.hpp"
#include "core/residency/idle_memory.hpp"
#include "core/transfer/paths.hpp"

namespace weir::residency {

/// CORRUPT: the copy of the bit's place is not what was written there.
Status fail_corrupt(uint32_t use, uint32_t page, uint32_t bit) noexcept;

class PageTable {
 public:
  PageTable(const Env &env, const PageLayer &page, const LeaseLayer &lease,
            IdleMemory &idle) noexcept
      : env_(env), page_(page), lease_(lease), idle_(idle) {}

  // ---- a device's policy ----
  /// Tells it of a page that became resident. Without memory for that it is told at the page's next use.
  void offer(Region &region, uint32_t page, PoolDevice &device) noexcept WEIR_HELD;
  /// The same of one that is to go before all else there.
  void offer_borrowed(Region &region, uint32_t page, PoolDevice &to) noexcept WEIR_HELD;
  /// It had chosen the page, which stays.
  void give_back(Region &region, const PageRef &ref, PoolDevice &device) noexcept WEIR_HELD;
  /// Somebody uses the page on the neighbour himself: it is there for its own sake from now on.
  void keep_borrowed(Region &region, uint32_t page, PoolDevice &device) noexcept WEIR_HELD;

  // ---- pages that leave ----
  /// The page's charge ends, by the rule in base/accounts.hpp.
  void uncharge(const Region &region, uint32_t page, uint8_t place) noexcept WEIR_HELD {
    page_.accounts.freed(region.client, place, region.shape.charged_bytes(page));
  }
  /// The page has left the device, and nothing is mapped there any more: its granule goes back to the pool.
  void vacate(Region &region, uint32_t page, PoolDevice &device,
              uint32_t granule_client) noexcept WEIR_HELD;
  /// Without an eviction: its device has left, or the runtime has taken the mapping and gives none back.
  void vanish(Region &region, uint32_t page, PoolDevice &device) noexcept WEIR_HELD;

  // ---- copies ----
  /// No copy of the page is any good, nor will one be that is on its way.
  void forsake(Region &region, uint32_t page) noexcept WEIR_HELD;
  /// A damaged copy is given up where there is another; else it stays, and so does the error.
  void forsake_copy(Region &region, uint32_t page, uint32_t bit) noexcept WEIR_HELD;
  /// Before bytes are read from HOST by the CPU. CORRUPT; a damaged copy is given up where there is another.
  Status verify_host(Region &region, uint32_t page, uint32_t use) WEIR_HELD;
  /// Whether the device reaches the page where it lies: by the link, and because it was there when the page was mapped.
  bool reads_directly(const PoolDevice &to, const Residence &from, uint32_t page) const noexcept;

  // ---- the hit path ----
  /// Sets what it may rely on, from the pages as they are. The buffer is claimed.
  void refresh_word(uint32_t index, Region &region, uint64_t base,
                    uint64_t size) noexcept WEIR_HELD;
  /// Every hit at home there goes the slow way once.
  void close_at_home(uint8_t place) noexcept WEIR_HELD;

 private:
  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  IdleMemory &idle_;
};

}  // namespace weir::residency
