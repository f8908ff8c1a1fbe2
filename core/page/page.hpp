// SPDX-License-Identifier: Apache-2.0
//
// Page: where the latest version of a page's bytes is. DevicePage: its state on one device. Everybody may look at them; what changes
// them lies in page/, and whoever moves pages calls PageTable (PageList in page/region.hpp). A step that transitions.hpp has no
// rule for stops a checked build. docs/page-states.md says what the states mean. Guarded by the pool's lock.
#pragma once

#include "core/backend/timeline.hpp"
#include "core/base/place.hpp"
#include "core/page/transitions.hpp"
#include "core/physical/granule_pool.hpp"
#include "core/tier/chains.hpp"
#include "core/tier/host_store.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace weir::page {

using backend::Stamp;
using physical::GranuleId;

/// Places a page's bytes can be, as bits of Page::latest(): a device of the pool by its position, or:
inline constexpr uint32_t max_devices = Place::devices;
inline constexpr uint32_t storage_bit = Place::storage.bit();
inline constexpr uint32_t compressed_bit = Place::compressed.bit();
inline constexpr uint32_t host_bit = Place::host.bit();
inline constexpr uint32_t lost_bit = uint32_t{1} << 31U;
inline constexpr uint32_t below_host = compressed_bit | storage_bit;
inline constexpr uint32_t device_bits = storage_bit - 1;

/// The tiers that a page was at, and is, as bits: the code that changes a page passes them to the index (page/place_index.hpp).
struct [[nodiscard]] PlaceChange {
  uint32_t before, after;
};

class Page {
 public:
  /// Places that have the latest version; 0: never written, or discarded: reads as zero. LOST alone: no place has it.
  uint32_t latest() const noexcept { return latest_; }
  bool lost() const noexcept { return (latest_ & lost_bit) != 0; }
  /// LOST, and no copy is good, not even one that arrives later, until the page is written: a device was lost that had
  /// unfinished work on the bytes. Not so where only the memory was lost: a copy that had ended by then is good.
  bool forsaken() const noexcept { return lost() && forsaken_; }

  /// Its copy in HOST, latest or not, or being written.
  tier::HostSlot host() const noexcept { return host_; }
  /// The tiers that it has bytes at, or a place for them, as bits.
  uint32_t tiers() const noexcept {
    return (latest_ & (host_bit | below_host)) | (host_ ? host_bit : 0);
  }

  /// A new version, which is at `places` alone.
  PlaceChange written(uint32_t places) noexcept { return become(places, host_); }
  /// The latest version is there too.
  PlaceChange arrived(uint32_t place) noexcept { return become(latest_ | place, host_); }
  /// It is there no more, or never was.
  PlaceChange left(uint32_t places) noexcept { return become(latest_ & ~places, host_); }
  /// Without a version: reads as zero.
  PlaceChange discarded() noexcept { return become(0, host_); }
  /// Its only copy was in the memory of a device that is lost.
  PlaceChange device_lost() noexcept { return forsaken_ = false, become(lost_bit, host_); }
  /// What it was written by is lost.
  PlaceChange forsake() noexcept { return forsaken_ = true, become(lost_bit, host_); }
  /// A copy had ended before the device was lost.
  PlaceChange revived() noexcept { return become(latest_ & ~lost_bit, host_); }
  /// Has this slot in HOST from now on, or none.
  PlaceChange take_slot(tier::HostSlot slot) noexcept { return become(latest_, slot); }

  /// Devices on which it is FILLING, DRAINING or MOVING, and other work on it.
  uint16_t busy() const noexcept { return busy_; }
  void work_began() noexcept { ++busy_; }
  void work_ended() noexcept { --busy_; }

 private:
  PlaceChange become(uint32_t latest, tier::HostSlot slot) noexcept {
    const uint32_t before = tiers();
    latest_ = latest;
    host_ = slot;
    return {before, tiers()};
  }

  uint32_t latest_ = 0;

 public:
  uint16_t leases = 0;  ///< on parts of the owner that touch it; operations that must find it there

 private:
  uint16_t busy_ = 0;
  tier::HostSlot host_;

 public:
  /// Its copies below HOST and the checksum of the latest version, in the pool's Chains.
  uint32_t lower = tier::Chains::none;
  bool sinking : 1 = false;          ///< being copied down from HOST or COMPRESSED
  bool in_host_order = false;        ///< known to the policy of HOST ...
  bool in_compressed_order = false;  ///< ... and of COMPRESSED
  bool in_view : 1 = false;          ///< the region's alias shows `host`

 private:
  bool forsaken_ : 1 = false;
};
static_assert(sizeof(Page) == 24);

/// Sixteen bytes: there is one for every page on every device that it has been used on.
class DevicePage {
 public:
  PageState state() const noexcept { return state_; }
  /// What else the step changes is the caller's (PageTable::transition()).
  const Rule &apply(Step step) noexcept {
    const Rule &rule = rules[static_cast<size_t>(step)];
#if defined(WEIR_DEBUG_CHECKS)
    if (rule.from != state_) {
      std::fprintf(stderr, "weir: page state %u: no rule for %s\n", static_cast<unsigned>(state_),
                   rule.name);
      std::abort();
    }
#endif
    state_ = rule.to;
    return rule;
  }

  Stamp ready;  ///< the copy or fill that brings the bytes, until it has passed
  GranuleId granule = physical::no_granule;

 private:
  PageState state_ : 3 = PageState::absent;

 public:
  bool wanted : 1 = false;    ///< DRAINING: a caller waits for the page: keep it
  bool queued : 1 = false;    ///< known to the policy
  bool borrowed : 1 = false;  ///< spilled here from a neighbour: the first to go
  /// Borrowed, and a stream of another device has used it here since it came (acquire/remote_uses.hpp).
  bool visited : 1 = false;

  /// In place: the pool's generation as it was mapped: devices that came later have no access to it. Ends at 65535, as
  /// joining does.
  uint32_t mapped() const noexcept { return since_; }
  void set_mapped(uint16_t generation) noexcept { since_ = generation; }
  /// Absent: when it was evicted, by the device's clock of evictions (PoolDevice), for refaults; 0: never.
  uint32_t evicted() const noexcept { return since_; }
  void set_evicted(uint32_t when) noexcept { since_ = when & (eviction_period - 1); }
  static constexpr uint32_t eviction_period = uint32_t{1} << 24U;

 private:
  uint32_t since_ : 24 = 0;
};
static_assert(sizeof(DevicePage) == 16);

}  // namespace weir::page
