// SPDX-License-Identifier: Apache-2.0
//
// Engine: the residency protocol of one pool (docs/design.md, section 7): acquire and release, their hit path, and the life of all
// that the rest of it takes. It owns the memory under the buffers; the pool layer above only translates the C ABI.
//
// One lock guards all state but the hit path's words (page/buffer_table.hpp), the per-stream lease lists (lease/lease.hpp) and
// what is written before the pool's threads start. It is never held across a runtime call that can block: pages being worked on
// are marked FILLING or DRAINING, which keeps everybody else off them. Whoever needs such a page waits on changed_. Who keeps the
// lock, who drops it and who takes it stands in the signatures (base/pool_lock.hpp).
// README.md lists the classes that Engine owns. Whoever wants one of them to do something asks it itself.
#pragma once

#include "core/acquire/acquirer.hpp"
#include "core/acquire/claims.hpp"
#include "core/acquire/cpu_copies.hpp"
#include "core/acquire/gatherer.hpp"
#include "core/acquire/grants.hpp"
#include "core/acquire/homes.hpp"
#include "core/acquire/ready_uses.hpp"
#include "core/acquire/host_leases.hpp"
#include "core/acquire/layouts.hpp"
#include "core/acquire/remote_uses.hpp"
#include "core/acquire/slabs.hpp"
#include "core/backend/stream.hpp"
#include "core/base/accounts.hpp"
#include "core/base/mutex.hpp"
#include "core/base/pool_lock.hpp"
#include "core/base/seq_points.hpp"
#include "core/buffer/buffer_maker.hpp"
#include "core/buffer/holder.hpp"
#include "core/buffer/lines.hpp"
#include "core/buffer/registrar.hpp"
#include "core/lease/admission.hpp"
#include "core/move/evictor.hpp"
#include "core/move/filler.hpp"
#include "core/move/host_room.hpp"
#include "core/move/lender.hpp"
#include "core/move/losses.hpp"
#include "core/move/recompressor.hpp"
#include "core/move/region_life.hpp"
#include "core/move/relocator.hpp"
#include "core/move/scrubber.hpp"
#include "core/move/tier_view.hpp"
#include "core/page/config.hpp"
#include "core/pool/background.hpp"
#include "core/pool/device_maker.hpp"
#include "core/pool/inspector.hpp"
#include "core/pool/membership.hpp"
#include "core/pool/policy_store.hpp"
#include "core/pool/releases.hpp"
#include "core/pool/trimmer.hpp"
#include "core/pool/upkeep.hpp"
#include "core/tier/lift.hpp"
#include "core/transfer/copier.hpp"

namespace weir::pool {

using lease::OwnLeases;

/// What of the hit path a stream's sets may take.
enum class Open : uint8_t {
  shut,
  announced,  ///< all, but that an announced operation is over is told under the pool's lock
  whole
};

class Engine final {
 public:
  Engine(std::pmr::memory_resource *memory, backend::StreamTable &streams, Ticks &ticks,
         uint32_t pool_id, const Log &log);
  ~Engine();

  Status start(page::EngineConfig config);
  /// BUSY while leases or weir_malloc memory are out.
  Status shutdown();

  // ---- clients ----
  Status create_client(const weir_client_desc &desc, uint32_t *id);
  Status destroy_client(uint32_t id);

  // ---- leases ----
  Status acquire(Stream &stream, weir_use *uses, size_t count, const page::AcquireOptions &options,
                 weir_lease *lease);
  Status release(weir_lease lease, Stream &stream);
  bool has_leases(const Stream &stream) noexcept;
  /// Wakes everybody who waits inside acquire (a request was cancelled).
  void wake_all();

  // ---- the classes that do the rest ----
  buffer::BufferMaker &maker() noexcept { return services_.maker; }
  acquire::Homes &homes() noexcept { return services_.homes; }
  buffer::Lines &lines() noexcept { return services_.lines; }
  acquire::CpuCopies &cpu_copies() noexcept { return services_.cpu; }
  buffer::Holder &holder() noexcept { return services_.holder; }
  buffer::Registrar &registrar() noexcept { return services_.registrar; }
  move::Prefetcher &prefetcher() noexcept { return movers_.prefetcher; }
  Trimmer &trimmer() noexcept { return services_.trimmer; }
  Membership &membership() noexcept { return services_.membership; }
  move::Losses &losses() noexcept { return movers_.losses; }
  move::Relocator &relocator() noexcept { return movers_.relocator; }
  lease::OperationNames &operation_names() noexcept { return leases_.operations; }
  PolicyStore &policy_store() noexcept { return services_.policy_store; }
  const page::Sizes &sizes() const noexcept { return services_.sizes; }
  Inspector inspector() noexcept;
  /// The threads of what runs by itself.
  Background &background() noexcept { return background_; }
  /// What they do, for tests that do it themselves, with a clock of their own.
  Upkeep &upkeep() noexcept { return services_.upkeep; }

  // ---- the whole ----
  /// It is told what happens from now on, until it is taken off. BUSY: as many listen as can.
  Status listen(EventListener *listener);
  void ignore(const EventListener *listener);
  /// What its threads meet by.
  const Sync &sync() const noexcept { return env_.sync; }

  SeqPoints points;
  Tap tap;
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
    UseLog log;
    lease::OperationNames operations;
  };
  struct Services;
  struct Movers {
    Movers(const Env &env, const PageLayer &page, const LeaseLayer &lease, PageOwners &owners,
           Services &services, Engine &engine);
    page::IdleMemory idle;
    page::PageTable pages;
    move::RegionLife life;
    move::Losses losses;
    move::Evictor evictor;
    move::Lender lender;
    move::Carriage carriage;
    move::Filler filler;
    acquire::Layouts layouts;
    acquire::Gatherer gatherer;
    move::Scrubber scrubber;
    move::Relocator relocator;
    move::Prefetcher prefetcher;
    page::UseTimes uses;
    move::TierView host_view, compressed_view;
    move::Demoter demoter;
    move::HostRoom host_room;
    Owned<move::Recompressor> recompressor;
    ScrubTurns scrub_turns;
  };
  struct Services {
    Services(const Env &env, const PageLayer &page, const LeaseLayer &lease, PageOwners &owners,
             Movers &movers, Engine &engine);
    page::Sizes sizes;
    acquire::Claims claims;
    acquire::RemoteUses remote;
    acquire::Grants grants;
    acquire::ReadyUses ready;
    acquire::Acquirer acquirer;
    acquire::Slabs small;
    acquire::Homes homes;
    buffer::BufferMaker maker;
    buffer::Lines lines;
    acquire::CpuCopies cpu;
    acquire::HostLeases host_leases;
    buffer::Holder holder;
    buffer::Registrar registrar;
    DeviceMaker device_maker;
    Membership membership;
    Trimmer trimmer;
    PolicyStore policy_store;
    Upkeep upkeep;
    Publisher publisher;
  };

  // hit_path.cpp
  struct Whole;
  Whole whole_use(const weir_use &use) noexcept;
  bool plain_use(const weir_use &use, uint32_t *index, uint64_t *generation) noexcept;
  weir_lease record_one(const Stream &stream, OwnLeases &own, uint32_t index,
                        uint8_t mode) noexcept;
  bool acquire_first(Stream &stream, OwnLeases &own, weir_use &use, weir_lease *out) noexcept;
  bool acquire_one(Stream &stream, OwnLeases *own, weir_use &use, weir_lease *out,
                   uint64_t *what) noexcept;
  bool acquire_beside(Stream &stream, StreamState &state, OwnLeases &own, weir_use &use, Open open,
                      weir_lease *out) noexcept;
  bool acquire_beside_logged(Stream &stream, StreamState &state, weir_use &use,
                             const page::AcquireOptions &options, Open open, UseRing *ring,
                             weir_lease *out) noexcept;
  template <class Write>
  bool acquire_fast(Stream &stream, weir_use *uses, size_t count, Lease *lease,
                    Write &&write) noexcept;
  Status acquire_set(Stream &stream, StreamState &state, weir_use *uses, size_t count,
                     const page::AcquireOptions &options, Open open, weir_lease *out);
  Status acquire_missed(Stream &stream, StreamState &state, weir_use *uses, size_t count,
                        const page::AcquireOptions &options, bool fast, Lease *lease,
                        weir_lease *out);
  Status acquire_logged(Stream &stream, StreamState &state, weir_use *uses, size_t count,
                        const page::AcquireOptions &options, Open open, weir_lease *out);
  Releases releases() noexcept { return {env_, page_, lease_, movers_.losses, movers_.prefetcher}; }
  Lease *take_own(Stream &stream, StreamState &state, weir_lease handle) noexcept;
  // first_use.cpp
  bool lease_fresh(const Stream &stream, weir_use &use) noexcept;
  // engine.cpp
  Status start_cold_tiers(backend::Runtime &runtime, uint32_t node);
  void release_all() noexcept;

  CountingMemory memory_;
  backend::StreamTable &streams_;
  Ticks &ticks_;
  Log log_;
  const Clock system_clock_;
  page::EngineConfig config_;

  PoolLock lock_;
  PoolSignal changed_{lock_};  ///< whatever somebody may wait for
  Wakes wakes_{lock_};
  struct Told {
    Events events WEIR_GUARDED;
    Gauges gauges WEIR_GUARDED;
  } told_;

  PageOwners pages_;
  LeaseOwners leases_;
  const Env env_{&memory_,
                 {lock_, changed_, wakes_, points, tap},
                 config_,
                 streams_,
                 ticks_,
                 told_.events,
                 told_.gauges,
                 movers_.scrub_turns,
                 services_.publisher};
  const PageLayer page_{pages_.devices, pages_.regions,  pages_.places,
                        pages_.buffers, pages_.slabs,    pages_.tiers,
                        pages_.cold,    pages_.accounts, movers_.uses};
  const LeaseLayer lease_{leases_.history,   leases_.leases, leases_.remote_writes, leases_.states,
                          leases_.admission, leases_.log,    leases_.operations};
  Movers movers_;
  Services services_;
  Background background_;  ///< its tasks are above
};

}  // namespace weir::pool
