// SPDX-License-Identifier: Apache-2.0
//
// Plan: what one acquire (or prefetch, or hold) needs, worked out under the pool's lock and carried out
// partly outside of it.
//
// A sharded buffer's pages lie on several devices, each on one of them at a time, at one range of addresses that all of them use
// (page/shards.hpp). A set that uses such a buffer is several plans: one for the device of the stream, and one for each other
// device that has pages of it (Plan::others). They are claimed, given room and filled as one: the claims are the first plan's, so a
// set waits for leases holding nothing, as every other does.
//
// What must hold: a page is mapped from one device at a time, so one of a sharded buffer is neither lent to a neighbour nor brought
// anywhere but to its shard's device. No hit is granted on such a buffer: leases of it are of several devices. The stream that
// writes may be of another device than the memory, so writers are noted as those of WEIR_USE_ALLOW_REMOTE are (remote_uses.hpp).
#pragma once

#include "core/lease/lease_table.hpp"
#include "core/page/pool_device.hpp"
#include "core/tier/lift.hpp"

#include "core/transfer/carrier.hpp"
#include "core/transfer/paths.hpp"

#include <algorithm>

namespace weir::move {

/// Its region, base, size and pages are resolved under the lock, and void after that was dropped without claims.
struct PlanItem : lease::Range {
  uint64_t generation = 0;
  uint8_t mode = WEIR_READ;
  bool remote = false;  ///< the caller allows that it is used where it lies (RemoteUses)
  bool whole = false;
  bool claimed = false;
  bool virgin = false;  ///< a tenant whose place must be zeroed first
  bool missed = false;
  bool brought = false;  ///< some of it came early (EarlyFill): it was missed, whatever is there
  uint32_t use = 0;      ///< the first of the caller's uses that is in it
  uint32_t of = 0;       ///< in a plan of Plan::others: the item of the set
  uint32_t first = 0, last = 0;  ///< pages, inclusive
  uint64_t size = 0;

  bool writes() const noexcept { return mode != WEIR_READ; }
  bool zeroes() const noexcept { return virgin && !(mode == WEIR_DISCARD_WRITE && whole); }
};

inline constexpr uint32_t no_freight = UINT32_MAX;

struct PlanPage {
  Region *region = nullptr;
  uint32_t page = 0;
  uint32_t item = 0;
  uint32_t latest = 0;   ///< Page::latest when it was scanned
  bool absent = false;   ///< needs a granule
  bool stale = false;    ///< has one, but not the latest bytes
  bool discard = false;  ///< wholly covered by a DISCARD_WRITE
  bool filling = false;  ///< marked FILLING by this plan
  /// The granule that it has, or gets, on the device.
  struct Memory {
    physical::Granule *record = nullptr;        ///< for use without the lock
    physical::SharedMapping *shared = nullptr;  ///< maps it for others too
    uint64_t address = 0;                       ///< where it is mapped
    GranuleId granule = physical::no_granule;   ///< claimed for it
    uint16_t opened = 0;                        ///< if mapped: for the peers of this generation
    bool joined = false;                        ///< it was there: others have parts of it
    bool mapped = false;                        ///< by this plan
  } memory{};
  /// It counts as the latest when it is filled: not if a hold may write the bytes elsewhere meanwhile.
  bool counts = true;
  /// It stays RESIDENT, but a tenant's place on it is being zeroed by this plan.
  bool zeroing = false;
  /// What is to be zeroed.
  struct Zero {
    bool granule = false;  ///< another client's bytes are in it, and others will share it
    bool rest = false;     ///< what lies behind its last byte may be another client's
    bool content = false;  ///< of the page, which has no source
    uint64_t front = 0,
             back = 0;  ///< of a page that is to be as it is: what may be another client's
  } zero{};
  /// What its bytes are copied from.
  struct Source {
    uint32_t bit = 0;               ///< of the place; 0 without zero.content: whatever is there
    uint32_t freight = no_freight;  ///< of plan.haul.freights, if not by the direct link alone
    uint64_t address = 0;           ///< unless it is below HOST (plan.fill.parts)
    uint64_t checksum = 0;          ///< of the bytes; 0: none was made
    bool corrupt = false;           ///< they are not what was written there
  } source{};
  uint64_t address = 0;  ///< of the page's first byte on the device
  uint64_t bytes = 0;    ///< of the granule
  uint64_t charged = 0;  ///< to the client
  uint64_t used = 0;     ///< of the page
};

/// What a plan takes from one device (carriage.hpp).
struct Freight {
  PoolDevice *source = nullptr;
  bool direct = true;      ///< what it takes is open to the plan's device ...
  bool relayed = true;     ///< ... and to the devices in between
  bool past_host = false;  ///< there are ways from there that don't lead through the host ...
  bool near = false;       ///< ... and are faster than a copy in HOST
  uint64_t bytes = 0;
  uint64_t gathered = 0;  ///< of those, in Haul::cargo
  transfer::Order order;
  transfer::Ways without;  ///< if the devices in between can't be used after all
  std::array<PoolDevice *, transfer::Ways::most> between{};  ///< that its shares pass
  bool open = false;                 ///< their memory is there, or done without
  transfer::Bounce *shut = nullptr;  ///< one whose memory could not be had
};

struct RemoteParts;

struct Plan {
  Plan(std::pmr::memory_resource *memory, Stream *stream_, PoolDevice *device_)
      : stream(stream_),
        device(device_),
        joined(device_ != nullptr ? device_->joined() : 0),
        items(memory),
        pages(memory),
        others(memory),
        fill(memory),
        haul(memory),
        doomed(memory),
        waits(memory) {}

  Stream *stream;      ///< of the caller; nullptr for a prefetch or hold
  PoolDevice *device;  ///< nullptr: the CPU
  const void *lease = nullptr;
  /// How it is to be brought in.
  struct Terms {
    bool whole = false;  ///< not to be brought in by parts
    bool quiet = false;  ///< a prefetch: gives up rather than waits
    bool lends = false;  ///< ... and what it brings is borrowed there
    bool planned =
        false;  ///< ... by a plan: it takes the room of what that has given up, and of nothing else
    bool in_place = false;  ///< pages where they lie, for another device's stream: brings nothing
    bool every_place = false;  ///< a copy from or to the host: conflicts byte by byte everywhere
    uint64_t not_before = 0;
  } terms;
  RemoteParts *remote = nullptr;  ///< what may be used where it lies; nullptr: nothing of it
  uint32_t not_there = 0;  ///< devices, as bits, on whose memory nothing is to be used so after all
  uint32_t joined;  ///< as the plan was made: a device that leaves is another when it is back
  std::pmr::vector<PlanItem> items;
  std::pmr::vector<PlanPage> pages;
  /// What the set has of sharded buffers on other devices, one plan each: these claim nothing, the set's items cover them.
  std::pmr::vector<Plan> others;
  /// What the transfer stream does.
  struct Fill {
    explicit Fill(std::pmr::memory_resource *memory) : parts(memory), before(memory) {}
    std::pmr::vector<tier::LiftPart> parts;  ///< what comes from below HOST, in the order of pages
    std::pmr::vector<Stamp> before;          ///< what it must wait for
    Stamp ready;                             ///< its point after the fills
    uint64_t began_ns = 0;                   ///< where a trace wants to know
  } fill;
  /// What comes from other devices (carriage.hpp).
  struct Haul {
    explicit Haul(std::pmr::memory_resource *memory) : freights(memory), cargo(memory) {}
    std::pmr::vector<Freight> freights;
    std::pmr::vector<transfer::Cargo> cargo;  ///< of one freight, gathered:
    Freight *gathering = nullptr;
    uint32_t relays = 0;    ///< bits of the devices that copies may pass
    size_t carrying = 0;    ///< pages that page::Doubts keeps room for
    bool wiping = false;    ///< memory is being zeroed that `wiped` does not cover yet
    bool rerouted = false;  ///< a device in between was lost: there are other ways
    Stamp wiped;            ///< what is carried comes after it
  } haul;
  physical::DoomedList doomed;    ///< to be destroyed before the claims are materialized
  std::pmr::vector<Stamp> waits;  ///< what the caller's stream must wait for
  /// Bytes of the device's memory.
  struct Need {
    uint64_t set_bytes = 0;      ///< of all pages of the set, in granules
    uint64_t missing_bytes = 0;  ///< of those, without a granule
    uint64_t came_bytes = 0;     ///< of these, what had come early as it could not be claimed
    uint64_t held_bytes = 0;     ///< of set_bytes, held
  } need;
  bool absent = false;  ///< pages are to be given granules, new ones or such as are there
  bool work = false;    ///< something to map, copy or zero

  /// The device's position; of other plans none that there is.
  uint8_t place() const noexcept { return device != nullptr ? device->place : Place::devices; }
  /// What a claim on the region counts for: all uses of a sharded buffer by devices are of one memory.
  ClaimScope scope(const Region &region) const noexcept {
    if (device == nullptr) return terms.every_place ? ClaimScope::any() : ClaimScope::host();
    return region.shards != nullptr ? ClaimScope::shards() : ClaimScope::on(Place(device->place));
  }
  /// Whether the device may still be used. DEVICE_LOST, DEVICE_REMOVED.
  Status check_device() const noexcept { return device->check(joined); }
  /// Whether a device is to use shards of it, its own or others'.
  bool sharded() const noexcept {
    return device != nullptr && std::any_of(items.begin(), items.end(), [](const PlanItem &item) {
             return item.region->shards != nullptr;
           });
  }
  /// What the set needs in granules, all in all and of such as are not there, and what of it is held already. *busy is set where
  /// somebody else is making one of them.
  void count_need(bool *busy) noexcept WEIR_HELD;
  /// It can't be claimed, and still has its claims: what it names may go with them.
  void count_came() noexcept WEIR_HELD;
  /// The plan and its others, until one fails.
  template <class Body>
  Status try_each(Body &&body) WEIR_HELD {
    WEIR_TRY(body(*this));
    for (Plan &other : others) WEIR_TRY(body(other));
    return {};
  }
  template <class Body>
  void each(Body &&body) WEIR_HELD {
    body(*this);
    for (Plan &other : others) body(other);
  }
};

/// The uses of one acquire that may be granted where the pages are, and the plans for those that are, one a device. Such a plan
/// brings nothing: all its pages are in place when it is made, and leased before the lock is dropped.
struct RemoteParts {
  explicit RemoteParts(std::pmr::memory_resource *memory) : asked(memory), plans(memory) {}

  /// All items of the set, as they were asked for; divided anew before each try.
  std::pmr::vector<PlanItem> asked;
  std::pmr::vector<Owned<Plan>> plans;
};

}  // namespace weir::move
