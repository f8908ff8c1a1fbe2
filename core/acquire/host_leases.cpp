// SPDX-License-Identifier: Apache-2.0
//
// The latest bytes into HOST, for the CPU.

#include "core/acquire/host_leases.hpp"

#include "core/acquire/claims.hpp"

namespace weir::acquire {

/// The latest bytes of one claimed page into HOST. May drop the lock.
Status HostLeases::page_to_host(Releasable &lock, const move::PlanItem &item, uint32_t page,
                                bool discard) {
  Region &region = *item.region;
  WEIR_TRY(cpu_.settle_page(lock, region, page));
  const Page &copies = region.pages[page];
  if (copies.lost() && !discard) return page_.buffers.fail_lost(item.buffer, page, item.use);
  if ((copies.latest() & page::host_bit) != 0) {
    if (!discard) WEIR_TRY(pages_.verify_host(region, page, item.use));
    if ((copies.latest() & page::host_bit) != 0) return {};
  }
  const uint64_t at = region.shape.offset(page);
  const uint64_t used = region.shape.used_bytes(page);
  WEIR_TRY(host_room_.give_slot(lock, region, page, page_.devices[region.home]->node));
  if (copies.busy() != 0) return page_to_host(lock, item, page, discard);
  bool counts = true;
  // A slot that is not the latest version yet is nobody's to read: copies can go there without the lock.
  if (!discard || copies.latest() == 0) {
    WEIR_TRY(cpu_.wait_range(lock, item.buffer, at, at + used, false));
    if (!cpu_.settled(region, page) || (copies.latest() & page::host_bit) != 0)
      return page_to_host(lock, item, page, discard);
    const Target where{&region, 0, region.shape.size};
    PoolDevice &home = *page_.devices[region.home];
    // Of what a hold may be writing it is a copy for this lease alone, also if the hold goes while it is made. One that comes
    // waits for it.
    counts = region.only_latest(page) == 0;
    pages_.mark_busy(region, page, home);
    const Status status = with_memory(lock, "to read a page", [&]() WEIR_HELD {
      return cpu_.copy_settled(lock, {item.buffer, where, page, at, at + used,
                                      page_.tiers.host_bytes(region, page), nullptr});
    });
    pages_.unmark_busy(region, page, home);
    env_.sync.changed.notify_all();
    WEIR_TRY(status);
  }
  page_.buffers.hot(item.buffer)
      .set_flags(0, Word::sole);  // a write must come the slow way, to make this copy stale
  // What a DISCARD_WRITE finds in the slot is a version only when the lease is granted: commit() says so.
  if (discard || !counts) return {};
  pages_.arrived(region, page, page::host_bit);
  page_.tiers.note(region, page, page::host_bit);
  return {};
}

Status HostLeases::bring_to_host(Releasable &lock, move::Plan &plan) {
  WEIR_TRY(claims_.resolve(plan));
  WEIR_TRY(claims_.check_conflicts(plan));
  WEIR_TRY(claims_.take(plan));
  // Pages of a whole claim are counted too: the alias must not lose its slots.
  const auto count = [&](int delta) {
    for (const move::PlanItem &item : plan.items)
      lease_.leases.count_pages(*item.region, item.begin, item.end, delta);
  };
  count(1);
  const auto work = [&]() WEIR_HELD -> Status {
    for (move::PlanItem &item : plan.items) {
      const page::Geometry &shape = item.region->shape;
      for (uint32_t p = item.first; p <= item.last; ++p) {
        const uint64_t at = shape.offset(p);
        const bool covered = item.mode == WEIR_DISCARD_WRITE && item.begin <= at &&
                             at + shape.used_bytes(p) <= item.end;
        item.missed = item.missed || (item.region->pages[p].latest() & page::host_bit) == 0;
        WEIR_TRY(of_use(item.use, page_to_host(lock, item, p, covered)));
      }
      if (item.region->host.registered == nullptr)
        WEIR_TRY(of_use(item.use, page::Aliases::show(page_.tiers.host(), *item.region, item.first,
                                                      item.last)));
    }
    return {};
  };
  const Status status = with_memory(lock, "for the records of a host lease", work);
  const KeepError keep;
  count(-1);
  if (!status) claims_.drop(plan);
  return status;
}

}  // namespace weir::acquire
