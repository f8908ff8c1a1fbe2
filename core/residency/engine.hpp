// SPDX-License-Identifier: Apache-2.0
//
// Engine: the residency protocol of one pool (docs/design.md, section 7). It owns the memory under the buffers; the pool layer above
// only translates the C ABI.
//
// One lock guards all state but the hit path's words (virtual/buffer_table.hpp), the per-stream lease lists (lease/lease.hpp) and
// what is written before the pool's threads start. It is never held across a runtime call that can block: pages being worked on
// are marked FILLING or DRAINING, which keeps everybody else off them. Whoever needs such a page waits on changed_. Who keeps the
// lock, who drops it and who takes it stands in the signatures (base/pool_lock.hpp).
//
// README.md lists the classes that Engine owns.
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/accounts.hpp"
#include "core/base/mutex.hpp"
#include "core/base/pool_lock.hpp"
#include "core/base/seq_points.hpp"
#include "core/lease/admission.hpp"
#include "core/move/host_room.hpp"
#include "core/move/recompressor.hpp"
#include "core/move/tier_view.hpp"
#include "core/residency/acquirer.hpp"
#include "core/residency/background.hpp"
#include "core/residency/buffer_maker.hpp"
#include "core/residency/claims.hpp"
#include "core/residency/config.hpp"
#include "core/residency/cpu_copies.hpp"
#include "core/residency/device_maker.hpp"
#include "core/residency/evictor.hpp"
#include "core/residency/filler.hpp"
#include "core/residency/gatherer.hpp"
#include "core/residency/grants.hpp"
#include "core/residency/holder.hpp"
#include "core/residency/homes.hpp"
#include "core/residency/host_leases.hpp"
#include "core/residency/inspector.hpp"
#include "core/residency/layouts.hpp"
#include "core/residency/lender.hpp"
#include "core/residency/lines.hpp"
#include "core/residency/losses.hpp"
#include "core/residency/membership.hpp"
#include "core/residency/region_life.hpp"
#include "core/residency/registrar.hpp"
#include "core/residency/relocator.hpp"
#include "core/residency/remote_uses.hpp"
#include "core/residency/scrubber.hpp"
#include "core/residency/slabs.hpp"
#include "core/residency/trimmer.hpp"
#include "core/tier/lift.hpp"
#include "core/transfer/copier.hpp"

namespace weir::residency {

using lease::OwnLeases;
using page::Hold;
using page::Target;

class Engine final {
 public:
  Engine(std::pmr::memory_resource *memory, backend::StreamTable &streams, Ticks &ticks,
         uint32_t pool_id, const Log &log);
  ~Engine();

  Status start(EngineConfig config);
  /// BUSY while leases or weir_malloc memory are out.
  Status shutdown();

  // ---- clients ----
  Status create_client(const weir_client_desc &desc, uint32_t *id);
  Status destroy_client(uint32_t id);

  // ---- buffers ----
  Status create_buffer(const weir_buffer_desc &desc, uint32_t client, weir_buffer *buffer) {
    return services_.maker.create_buffer(desc, client, buffer);
  }
  Status destroy_buffer(weir_buffer buffer) { return services_.maker.destroy_buffer(buffer); }
  Status place_together(const weir_buffer_desc *const *descs, size_t count, weir_device *homes) {
    return services_.homes.place_together(descs, count, homes);
  }
  Status advise(weir_buffer buffer, uint64_t offset, uint64_t length, uint32_t advice) {
    return services_.maker.advise(buffer, offset, length, advice);
  }
  Status set_priority(weir_buffer buffer, int32_t priority) {
    return services_.maker.set_priority(buffer, priority);
  }
  Status malloc(uint32_t device_id, Stream *stream, uint64_t size, uint64_t *address) {
    return services_.lines.malloc(device_id, stream, size, address);
  }
  Status free(Stream *stream, uint64_t address) { return services_.lines.free(stream, address); }
  Status read(weir_buffer buffer, uint64_t offset, uint64_t length, void *destination) {
    return services_.cpu.read(buffer, offset, length, destination);
  }
  Status write(weir_buffer buffer, uint64_t offset, uint64_t length, const void *source) {
    return services_.cpu.write(buffer, offset, length, source);
  }
  Status discard(weir_buffer buffer, uint64_t offset, uint64_t length) {
    return services_.cpu.discard(buffer, offset, length);
  }
  Status hold(weir_buffer buffer, uint32_t device_id, HoldKind kind, uint64_t *address) {
    return services_.holder.hold(buffer, device_id, kind, address);
  }
  Status unhold(weir_buffer buffer) { return services_.holder.unhold(buffer); }
  Status host_register(weir_buffer buffer, void *memory, uint64_t flags) {
    return services_.registrar.host_register(buffer, memory, flags);
  }
  Status host_unregister(weir_buffer buffer) { return services_.registrar.host_unregister(buffer); }

  // ---- leases ----
  Status acquire(Stream &stream, weir_use *uses, size_t count, const AcquireOptions &options,
                 weir_lease *lease);
  Status release(weir_lease lease, Stream &stream);
  Status prefetch(Stream &stream, const weir_use *uses, size_t count) {
    return movers_.prefetcher.prefetch(stream, uses, count);
  }
  Status announce(Stream &stream, const weir_operation *operations, size_t count, bool replace) {
    return movers_.prefetcher.announce(stream, operations, count, replace);
  }

  // ---- the whole ----
  Status trim(uint32_t device_id, uint32_t level, uint64_t bytes, uint64_t *freed) {
    return services_.trimmer.trim(device_id, level, bytes, freed);
  }
  Status reset_peak(uint32_t device_id);
  /// Up to so many spilled bytes to neighbours with memory to spare; *moved: how many went.
  Status rebalance(uint64_t bytes, uint64_t *moved) {
    return movers_.prefetcher.rebalance(bytes, moved);
  }
  /// Counters, one buffer, walks.
  Inspector inspector() noexcept;
  /// The ring is told what happens from now on, until it is taken off. BUSY: as many listen as can.
  Status listen(EventRing *ring);
  void ignore(const EventRing *ring);
  bool has_leases(const Stream &stream) noexcept;
  /// Waits for the first loss after the one in *loss (generation 0: the first of all). False: `stop` was set.
  bool next_loss(weir_device_loss *loss, const std::atomic<bool> &stop) {
    return movers_.losses.next(loss, stop);
  }

  uint8_t device_count() noexcept { return movers_.losses.device_count(); }
  Status place_of(uint32_t device_id, uint8_t *place) {
    const Locked lock(lock_);
    return find_place(pages_.devices, device_id, place);
  }
  /// Devices that come and go.
  Membership &membership() noexcept { return services_.membership; }
  /// Moves within devices.
  Relocator &relocator() noexcept { return movers_.relocator; }
  uint64_t now_ns() const noexcept { return config_.clock->now_ns(); }

  void warn_of_budget(const backend::Device &device, uint64_t budget) const {
    services_.sizes.warn_of_budget(device, budget);
  }
  /// While it lives, what this thread would log on dropping the pool's lock waits: for a caller that holds another lock.
  PoolLock::Hush hush() noexcept { return PoolLock::Hush(lock_); }

  SeqPoints points;
  /// Wakes everybody who waits inside acquire (a request was cancelled).
  void wake_all();
  /// What the pool's threads do, for tests that do it themselves, with a clock of their own.
  Background &upkeep() noexcept { return upkeep_; }
  /// As if the device had said that it is lost; for tests.
  void lose_device(uint8_t place);
  /// Waits until no page is on the move, and what weir_prefetch has asked for has been brought or refused; for tests.
  void wait_idle();
  /// "" or the first broken invariant; for tests.
  std::string validate() { return inspector().validate(); }

 private:
  // What has state, and the classes that work on it, by what they are about (README.md).
  struct PageOwners {
    PageOwners(Engine &engine, uint32_t pool_id);
    page::RegionStore regions WEIR_GUARDED;
    page::PlaceIndex places WEIR_GUARDED;  ///< of them
    page::BufferDirectory buffers;
    Devices devices;  ///< never moved nor shrunk: those that have left keep their place
    transfer::Carrier carrier;
    Accounts accounts;
    page::SlabAllocator slabs WEIR_GUARDED;
    page::Doubts doubts WEIR_GUARDED;  ///< of pages that came by ways of several copies
    page::TierCopies tiers;
    tier::ColdTiers cold;  ///< its transfers may use HOST's memory: it ends first
  };
  struct LeaseOwners {
    explicit LeaseOwners(Engine &engine);
    lease::History history;
    lease::LeaseTable leases;
    lease::RemoteWrites remote_writes;
    lease::StreamStates states;
    lease::Admission admission;
  };
  struct Services;
  struct Movers {
    Movers(const Env &env, const PageLayer &page, const LeaseLayer &lease, PageOwners &owners,
           Services &services, Engine &engine);
    IdleMemory idle;
    PageTable pages;
    RegionLife life;
    Losses losses;
    Evictor evictor;
    Lender lender;
    Carriage carriage;
    Filler filler;
    Layouts layouts;
    Gatherer gatherer;
    Scrubber scrubber;
    Relocator relocator;
    Prefetcher prefetcher;
    page::UseTimes uses;
    move::TierView host_view, compressed_view;
    move::Demoter demoter;
    move::HostRoom host_room;
    Owned<move::Recompressor> recompressor;
    policy::ScrubTurns scrub_turns;
  };
  struct Services {
    Services(const Env &env, const PageLayer &page, const LeaseLayer &lease, PageOwners &owners,
             Movers &movers, Engine &engine);
    Sizes sizes;
    Claims claims;
    RemoteUses remote;
    Grants grants;
    Acquirer acquirer;
    Slabs small;
    Homes homes;
    BufferMaker maker;
    Lines lines;
    CpuCopies cpu;
    HostLeases host_leases;
    Holder holder;
    Registrar registrar;
    DeviceMaker device_maker;
    Membership membership;
    Trimmer trimmer;
  };

  // hit_path.cpp
  bool whole_use(const weir_use &use, uint32_t *index, uint64_t *generation) noexcept;
  bool plain_use(const weir_use &use, uint32_t *index, uint64_t *generation) noexcept;
  weir_lease record_one(StreamState &state, OwnLeases &own, uint32_t index, uint8_t mode) noexcept;
  bool acquire_first(Stream &stream, StreamState &state, weir_use &use, weir_lease *out) noexcept;
  bool acquire_one(Stream &stream, StreamState &state, weir_use &use, weir_lease *out) noexcept;
  bool acquire_fast(Stream &stream, StreamState &state, weir_use *uses, size_t count,
                    Lease *lease) noexcept;
  Status acquire_set(Stream &stream, StreamState &state, weir_use *uses, size_t count,
                     const AcquireOptions &options, bool fast, weir_lease *out);
  Lease *take_one(Stream &stream, StreamState &state, weir_lease handle) noexcept;
  // first_use.cpp
  bool lease_fresh(const Stream &stream, weir_use &use) noexcept;
  // release.cpp
  Status release_set(weir_lease handle, StreamState *state, Stream &stream);
  Status release_taken(Lease *lease, StreamState &state, Stream &stream);
  void release_fast(LeaseItem *item, Stamp stamp) noexcept;
  void release_slow(const LeaseItem &item, const Lease *lease, Stamp stamp) noexcept;
  // engine.cpp
  bool idle() noexcept WEIR_HELD;
  Status start_cold_tiers(backend::Runtime &runtime, uint32_t node);
  void release_all() noexcept;
  move::Sync sync() noexcept { return {lock_, changed_, work_, points}; }

  CountingMemory memory_;
  backend::StreamTable &streams_;
  Ticks &ticks_;
  Log log_;
  const Clock system_clock_;
  EngineConfig config_;

  PoolLock lock_;
  PoolSignal changed_{lock_};  ///< whatever somebody may wait for
  PoolSignal work_{lock_};     ///< for the background threads
  Events events_ WEIR_GUARDED;
  Gauges gauges_ WEIR_GUARDED;

  PageOwners pages_;
  LeaseOwners leases_;
  const Env env_{&memory_, sync(),  config_, streams_,
                 ticks_,   events_, gauges_, movers_.scrub_turns};
  const PageLayer page_{pages_.devices, pages_.regions,  pages_.places,
                        pages_.buffers, pages_.slabs,    pages_.tiers,
                        pages_.cold,    pages_.accounts, movers_.uses};
  const LeaseLayer lease_{leases_.history, leases_.leases, leases_.remote_writes, leases_.states,
                          leases_.admission};
  Movers movers_;
  Services services_;
  Background upkeep_;
};

}  // namespace weir::residency
