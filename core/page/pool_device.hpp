// SPDX-License-Identifier: Apache-2.0
//
// PoolDevice: a device of the pool with what the engine keeps for it: its memory, the transfer streams, the order of
// eviction. Guarded by the pool's lock, but for the parts that say otherwise of themselves.
#pragma once

#include "core/backend/transfer_streams.hpp"
#include "core/page/buffer_table.hpp"
#include "core/page/claim_scope.hpp"
#include "core/page/device_memory.hpp"
#include "core/page/eviction_clock.hpp"
#include "core/page/limbo.hpp"
#include "core/page/placement.hpp"
#include "core/page/region.hpp"
#include "core/page/standing.hpp"
#include "core/page/tier_copies.hpp"
#include "core/physical/mapper.hpp"
#include "core/policy/policy.hpp"
#include "core/transfer/carrier.hpp"

namespace weir::page {

struct PoolDevice : Standing {
  PoolDevice(uint8_t place_, const backend::Device &device_, const DeviceMemory::Terms &terms,
             std::pmr::memory_resource *records)
      : place(place_),
        device(device_),
        memory(place_, device_, terms, records),
        limbo(records),
        emptied(records),
        evictions(terms.budget) {}

  const uint8_t place;
  const backend::Device &device;
  DeviceMemory memory;
  Owned<policy::View> view;  ///< of the policy
  Owned<policy::Policy> policy;
  Owned<transfer::Bounce> bounce;  ///< memory that copies between others may pass
  backend::TransferStreams streams;
  Limbo limbo;
  std::pmr::vector<policy::PageRef> emptied;  ///< pages of slabs that compaction has emptied
  Promise promise;                            ///< of the live buffers that are at home here
  uint32_t node = UINT32_MAX;                 ///< NUMA node it is at; UINT32_MAX: unknown
  uint64_t no_loan_before_ns = 0;             ///< it is left alone by its neighbours until then
  uint64_t no_drop_before_ns = 0;  ///< nothing borrowed lies elsewhere too, as far as was seen
  const bool integrated = device.has(WEIR_CAP_INTEGRATED);  ///< its memory is the host's
  EvictionClock evictions;
  bool evicted_lately(uint32_t when) const noexcept {
    return evictions.lately(when, memory.budget());
  }
  bool stay_told = false;  ///< the log says that pages can't be copied away; none has gone since
  uint32_t in_flight = 0;  ///< drains and fills going on: room may appear without a release
  uint32_t gathering = 0;  ///< prefetches that may hold granules and have not marked their pages
  uint32_t making_room =
      0;  ///< sets that take victims themselves: the background takes none beside them
  bool draining_ahead = false;  ///< the background is on its way from the low to the high watermark

  /// Whether anything may be brought here by who saw it when it had joined then. DEVICE_LOST, DEVICE_REMOVED.
  Status check(uint32_t as_joined) const noexcept {
    if (open() && joined() == as_joined) return {};
    if (lost()) return fail(WEIR_ERROR_DEVICE_LOST, "device %u is lost", device.id);
    return fail(WEIR_ERROR_DEVICE_REMOVED,
                leaving() ? "device %u is leaving the pool" : "device %u has left the pool",
                device.id);
  }
  uint32_t bit() const noexcept { return uint32_t{1} << place; }
  PlaceIndex::Sets pages_there() const noexcept { return PlaceIndex::at(Place(place)); }
  bool vmm() const noexcept { return memory.vmm(); }
};

using Devices = std::pmr::vector<Owned<PoolDevice>>;  ///< of a pool, by position

/// The position of a device of the pool, for what it is to be given. Under the lock.
Status find_place(const Devices &devices, uint32_t device_id, uint8_t *place);
/// The same of one that is about to be gone, too: for those who ask how it stands.
Status find_member(const Devices &devices, uint32_t device_id, uint8_t *place);
/// Where a stream's work is done. A device that has left the pool is told from one that never was of it.
Status find_place(const Devices &devices, const backend::Stream &stream, uint8_t *place);

/// Of the region's first byte, as the device at the place reaches it.
inline uint64_t address_on(Region &region, uint8_t place) noexcept {
  if (region.shards != nullptr) return region.shards->range.address;
  return address_of(region, *region.on(place));
}

/// The page is there, and nobody is working on it: what a slab's free ranges on it are good for.
inline bool on_device(const Region &region, const Residence &here, uint32_t page) noexcept {
  const Page &copies = region.pages[page];
  return here.pages[page].state() == PageState::resident && copies.busy() == 0 &&
         (copies.latest() == 0 || (copies.latest() & here.place_bit()) != 0);
}

/// Whether a borrowed copy is redundant: another copy of the latest version exists, or this one is stale; and no stream of another
/// device has used it here since it was lent. It may be evicted even while its buffer is leased elsewhere. A copy that was
/// used here may be in use still, so it is evicted by the usual rules, though before other pages.
inline bool is_spare(const Region &region, uint32_t page, const Residence &here) noexcept {
  const DevicePage &state = here.pages[page];
  return state.borrowed && !state.visited && region.pages[page].latest() != here.place_bit();
}

}  // namespace weir::page

/// The words of the layers from here on.
namespace weir {
using backend::Stamp;
using backend::Stream;
using page::address_of;
using page::ClaimScope;
using page::DevicePage;
using page::Devices;
using page::granule_address;
using page::Page;
using page::PageState;
using page::PoolDevice;
using page::Region;
using page::Residence;
using page::Step;
using page::Word;
using physical::GranuleId;
using policy::make_policy;
using policy::PageInfo;
using policy::PageRef;
using policy::Policy;
using policy::View;
using policy::Wanted;
}  // namespace weir
