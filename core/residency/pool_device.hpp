// SPDX-License-Identifier: Apache-2.0
//
// PoolDevice: a device of the pool with what the engine keeps for it: granules, addresses, the transfer streams, the
// order of eviction. Guarded by the pool's lock, but for the parts that say otherwise of themselves.
#pragma once

#include "core/backend/transfer_streams.hpp"
#include "core/page/claim_scope.hpp"
#include "core/page/eviction_clock.hpp"
#include "core/page/limbo.hpp"
#include "core/page/place_index.hpp"
#include "core/page/standing.hpp"
#include "core/physical/mapper.hpp"
#include "core/residency/placement.hpp"
#include "core/policy/policy.hpp"
#include "core/transfer/carrier.hpp"
#include "core/virtual/buffer_table.hpp"
#include "core/virtual/region.hpp"

namespace weir::residency {

using backend::Stamp;
using backend::Stream;
using page::ClaimScope;
using physical::GranuleId;
using policy::make_policy;
using policy::PageInfo;
using policy::PageRef;
using policy::Policy;
using policy::View;
using policy::Wanted;
using vm::DevicePage;
using vm::Page;
using vm::PageState;
using vm::Region;
using vm::Residence;
using vm::Step;
using vm::Word;

/// A device of the pool with what the engine keeps for it.
struct PoolDevice : page::Standing {
  PoolDevice(uint8_t place_, const backend::Device &device_, uint64_t budget,
             std::pmr::memory_resource *memory)
      : place(place_), device(device_), limbo(memory), emptied(memory), evictions(budget) {}

  const uint8_t place;
  const backend::Device &device;
  Owned<physical::GranulePool> granules;
  Owned<vm::AddressSpace> addresses;
  Owned<vm::Sharing> sharing;  ///< where granules can be shared
  Owned<physical::Mapper> mapper;
  Owned<View> view;  ///< of the policy
  Owned<Policy> policy;
  Owned<transfer::Bounce> bounce;  ///< memory that copies between others may pass
  backend::TransferStreams streams;
  page::Limbo limbo;
  std::pmr::vector<PageRef> emptied;  ///< pages of slabs that compaction has emptied
  uint64_t page_size = 0, large_page_size = 0;
  uint64_t low_water = 0, high_water = 0;
  uint64_t held_bytes = 0;         ///< pages of held regions
  uint64_t returned_bytes = 0;     ///< given back to the system by itself
  uint64_t stuck_bytes = 0;        ///< charged and nobody's: what could not be unmapped
  Promise promise;                 ///< of the live buffers that are at home here
  uint32_t node = UINT32_MAX;      ///< NUMA node it is at; UINT32_MAX: unknown
  uint64_t no_loan_before_ns = 0;  ///< it is left alone by its neighbours until then
  uint64_t no_drop_before_ns = 0;  ///< nothing borrowed lies elsewhere too, as far as was seen
  const bool integrated = device.has(WEIR_CAP_INTEGRATED);  ///< its memory is the host's
  page::EvictionClock evictions;
  bool evicted_lately(uint32_t when) const noexcept {
    return evictions.lately(when, granules->budget());
  }
  uint32_t in_flight = 0;  ///< drains and fills going on: room may appear without a release
  uint32_t gathering = 0;  ///< prefetches that may hold granules and have not marked their pages
  bool draining_ahead = false;  ///< the demoter is on its way from the low to the high watermark

  uint32_t bit() const noexcept { return uint32_t{1} << place; }
  page::PlaceIndex::Sets pages_there() const noexcept { return page::PlaceIndex::at(Place(place)); }
  bool vmm() const noexcept { return granules->vmm(); }
};

}  // namespace weir::residency
