// SPDX-License-Identifier: Apache-2.0
//
// ReadyUses: a set that lacks nothing, granted under the pool's lock without a plan. Every page of it is where it is to be used, with
// the latest version and nothing on its way there; no lease, no hold and no other stream's work is in the way. It is what the hit path
// can't grant yet: the first lease on another device or of a range, after which it can; writers of shards, and sets too large for it.
//
// What must hold: it only looks, and grants all of the set or none. Whatever is unusual is left to the Acquirer, which knows what to
// say and to do about it; so nothing here waits, drops the lock or makes an error. A lease is counted before the fences are looked at, as
// on the hit path.
#pragma once

#include "core/lease/layer.hpp"
#include "core/lease/lease.hpp"
#include "core/move/prefetcher.hpp"
#include "core/page/env.hpp"
#include "core/page/page_table.hpp"

#include <span>

namespace weir::acquire {

class ReadyUses {
 public:
  ReadyUses(const Env &env, const PageLayer &page, const LeaseLayer &lease, page::PageTable &pages,
            move::Prefetcher &prefetcher) noexcept
      : env_(env), page_(page), lease_(lease), pages_(pages), prefetcher_(prefetcher) {}

  /// False, or std::bad_alloc: nothing has happened.
  bool grant(const Stream &stream, const PoolDevice &device, std::span<weir_use> uses,
             Lease *lease) WEIR_HELD;

 private:
  /// A buffer that has more unreleased leases than this is left to the Acquirer, which compares each with the set only once.
  static constexpr uint32_t most_leases = 32;

  /// Finds the bytes that the use names. False: the use is invalid or has flags, and the Acquirer answers it.
  bool resolve(const weir_use &use, lease::Range *range) noexcept WEIR_HELD;
  bool ready(const lease::Range &range, bool write, const PoolDevice &device) noexcept WEIR_HELD;
  bool ready_on(Region &region, uint32_t page, bool write, const PoolDevice &there,
                const PoolDevice &device) noexcept WEIR_HELD;
  /// Opens the hit path for ranges of the buffer to the stream, if there it could have all of the buffer but for its own past.
  bool open_ranges(const Stream &stream, const PoolDevice &device, const lease::Range &range,
                   bool write) WEIR_HELD;
  /// A use of a range as the hit path would grant it, which will grant the next.
  bool grant_range(const Stream &stream, const PoolDevice &device, const lease::Range &range,
                   weir_use &use, Lease *lease) WEIR_HELD;
  /// Leases what one use names.
  bool take(const Stream &stream, const PoolDevice &device, const lease::Range &range, uint8_t mode,
            const Lease *lease, LeaseItem *item) WEIR_HELD;
  void commit(const Stream &stream, const PoolDevice &device, const Lease *lease,
              const LeaseItem &item) noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  page::PageTable &pages_;
  move::Prefetcher &prefetcher_;
};

}  // namespace weir::acquire
