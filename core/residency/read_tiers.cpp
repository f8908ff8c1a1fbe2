// SPDX-License-Identifier: Apache-2.0
//
// Bytes in tiers, for the CPU: read from a cold tier, brought to HOST, and compared with what was demoted.

#include "core/residency/plan.hpp"
#include "core/tier/checksum.hpp"

#include <utility>

namespace weir::residency {

Status Engine::fail_corrupt(uint32_t use, uint32_t page, uint32_t bit) noexcept {
  using Tier = std::pair<uint32_t, const char *>;
  const auto [tier, name] = bit == vm::host_bit         ? Tier{WEIR_TIER_HOST, "HOST"}
                            : bit == vm::compressed_bit ? Tier{WEIR_TIER_COMPRESSED, "COMPRESSED"}
                                                        : Tier{WEIR_TIER_STORAGE, "STORAGE"};
  return fail(WEIR_ERROR_CORRUPT, {.tier = tier, .use_index = use},
              "uses[%u]: the bytes of page %u in %s are not those that were demoted", use, page,
              name);
}

/// A damaged copy is given up where there is another; else it stays, and so does the error.
void Engine::forsake_copy(Region &region, uint32_t page, uint32_t bit) noexcept {
  const Page &copies = region.pages[page];
  if ((copies.latest() & ~bit) == 0 || (copies.latest() & bit) == 0 || copies.sinking) return;
  tiers_.leave(region, page, bit);
}

/// Whether pages have checksums in HOST. Not where what lies below is rounded: a page has one checksum, which is about that.
bool Engine::sums_host(const Region &region) const noexcept {
  return config_.checksum_host && region.rounds == tier::Form::bytes;
}

/// Before bytes are read from HOST by the CPU. Under the lock. A damaged copy is given up where there is another.
Status Engine::verify_host(Region &region, uint32_t page, uint32_t use) {
  const Page &copies = region.pages[page];
  const uint64_t sum = tiers_.checksum(copies);
  if (!sums_host(region) || sum == 0 || !copies.host()) return {};
  if (tier::checksum_of(tiers_.host_bytes(region, page), region.shape.used_bytes(page)) == sum)
    return {};
  events_.tell({What::corrupt, 0, Event::nowhere, region.id, page});
  if ((copies.latest() & ~vm::host_bit) == 0) return fail_corrupt(use, page, vm::host_bit);
  forsake_copy(region, page, vm::host_bit);
  return {};
}

/// What is to be read of a page in a cold tier, the faster of them. Under the lock.
void Engine::list_parts(const Region &region, uint32_t page, uint32_t tag,
                        std::pmr::vector<tier::LiftPart> *parts) {
  const Page &copies = region.pages[page];
  tier::LiftPart like;
  like.page = tag;
  like.secret = region.scrub;
  const bool compressed = (copies.latest() & vm::compressed_bit) != 0;
  cold_.list_parts(copies.lower, compressed ? vm::compressed_bit : vm::storage_bit,
                   region.shape.used_bytes(page), like, parts);
}

/// Bytes [begin, end) of a page whose latest version lies below HOST. The page is claimed and settled; the lock is
/// dropped meanwhile. A damaged copy is given up where there is another, which is read then.
Status Engine::read_below(Releasable &lock, Region &region, uint32_t page, uint64_t begin,
                          uint64_t end, unsigned char *out) {
  PoolDevice &home = device_at(region.home);
  for (;;) {
    std::pmr::vector<tier::LiftPart> parts(&memory_);
    parts.reserve(cold_.parts_of(region.shape.used_bytes(page)));
    list_parts(region, page, 0, &parts);
    const uint64_t checksum = tiers_.checksum(region.pages[page]);
    const uint32_t bit = parts.front().bit();
    begin_work(region, page, home);
    const Status status =
        lock.unlocked([&] { return tier::read_parts(cold_, parts, checksum, begin, end, out); });
    end_work(region, page, home, tiers_);
    changed_.notify_all();
    if (status) {
      events_.tell({What::raised, 0, Event::nowhere, region.id, page, end - begin});
      return {};
    }
    if (status.code() != WEIR_ERROR_CORRUPT) return status;
    events_.tell({What::corrupt, 0, Event::nowhere, region.id, page});
    const Status corrupt = fail_corrupt(0, page, bit);
    const uint32_t before = region.pages[page].latest();
    forsake_copy(region, page, bit);
    const uint32_t left = region.pages[page].latest();
    if (left == before || (left & vm::below_host) == 0) return corrupt;
  }
}

/// The latest version, which lies below HOST alone, into a slot of HOST. The page is claimed and settled.
Status Engine::raise_to_host(Releasable &lock, Region &region, uint32_t page) {
  Page &copies = region.pages[page];
  WEIR_TRY(read_below(lock, region, page, 0, region.shape.used_bytes(page),
                      tiers_.host_bytes(region, page)));
  places_.note(region, copies.arrived(vm::host_bit));
  tiers_.note(region, page, vm::host_bit);
  return {};
}

}  // namespace weir::residency
