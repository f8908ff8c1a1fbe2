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
// README.md says which file has what, and which classes have taken over what.
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/accounts.hpp"
#include "core/base/mutex.hpp"
#include "core/base/pool_lock.hpp"
#include "core/base/seq_points.hpp"
#include "core/lease/admission.hpp"
#include "core/lease/remote_writes.hpp"
#include "core/move/host_room.hpp"
#include "core/move/recompressor.hpp"
#include "core/move/tier_view.hpp"
#include "core/page/doubts.hpp"
#include "core/policy/idle_scan.hpp"
#include "core/residency/config.hpp"
#include "core/residency/inspector.hpp"
#include "core/residency/prefetcher.hpp"
#include "core/residency/relocator.hpp"
#include "core/tier/lift.hpp"
#include "core/transfer/copier.hpp"
#include "core/transfer/relay.hpp"

#include <thread>

namespace weir::residency {

using lease::Lease;
using lease::LeaseItem;
using lease::LeaseKind;
using lease::OwnLeases;
using page::Hold;
using page::HoldKind;
using page::Target;

class Membership;  // residency/membership.hpp
struct Plan;       // residency/plan.hpp
struct PlanItem;
struct PlanPage;
struct Freight;
struct Reach;
struct Victim;
struct Loan;
struct Drain;
struct Remote;  // remote.hpp

class Engine final : private page::RegionStore::Releaser,
                     private policy::ScrubTurns::Work,
                     private Inspector::Answers,
                     private Prefetcher::Bringer,
                     private Relocator::Pages {
 public:
  class EarlyFill;  // residency/plan.hpp

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
  Status create_buffer(const weir_buffer_desc &desc, uint32_t client, weir_buffer *buffer);
  Status destroy_buffer(weir_buffer buffer);
  /// Homes for buffers that are going to be made, chosen together; nothing else comes of it.
  Status place_together(const weir_buffer_desc *const *descs, size_t count, weir_device *homes);
  Status read(weir_buffer buffer, uint64_t offset, uint64_t length, void *destination);
  Status write(weir_buffer buffer, uint64_t offset, uint64_t length, const void *source);
  Status discard(weir_buffer buffer, uint64_t offset, uint64_t length);
  Status advise(weir_buffer buffer, uint64_t offset, uint64_t length, uint32_t advice);
  Status set_priority(weir_buffer buffer, int32_t priority);
  Status hold(weir_buffer buffer, uint32_t device_id, HoldKind kind, uint64_t *address);
  Status unhold(weir_buffer buffer);
  Status host_register(weir_buffer buffer, void *memory, uint64_t flags);
  Status host_unregister(weir_buffer buffer);
  Status malloc(uint32_t device_id, Stream *stream, uint64_t size, uint64_t *address);
  Status free(Stream *stream, uint64_t address);

  // ---- leases ----
  Status acquire(Stream &stream, weir_use *uses, size_t count, const AcquireOptions &options,
                 weir_lease *lease);
  Status release(weir_lease lease, Stream &stream);
  Status prefetch(Stream &stream, const weir_use *uses, size_t count) {
    return prefetcher_.prefetch(stream, uses, count);
  }
  Status announce(Stream &stream, const weir_operation *operations, size_t count, bool replace) {
    return prefetcher_.announce(stream, operations, count, replace);
  }

  // ---- the whole ----
  Status trim(uint32_t device_id, uint32_t level, uint64_t bytes, uint64_t *freed);
  Status reset_peak(uint32_t device_id);
  /// Up to so many spilled bytes to neighbours with memory to spare; *moved: how many went.
  Status rebalance(uint64_t bytes, uint64_t *moved) { return prefetcher_.rebalance(bytes, moved); }
  /// Counters, one buffer, walks.
  Inspector inspector() noexcept;
  /// The ring is told what happens from now on, until it is taken off. BUSY: as many listen as can.
  Status listen(EventRing *ring);
  void ignore(const EventRing *ring);
  bool has_leases(const Stream &stream) noexcept;
  bool next_loss(weir_device_loss *loss, const std::atomic<bool> &stop);

  /// Moves within devices.
  Relocator &relocator() noexcept { return relocator_; }
  /// Positions there are, of devices that have left too.
  uint8_t device_count() noexcept;
  Status place_of(uint32_t device_id, uint8_t *place) override;
  uint64_t now_ns() const noexcept { return clock_->now_ns(); }

  void warn_of_budget(const backend::Device &device, uint64_t budget) const;
  /// While it lives, what this thread would log on dropping the pool's lock waits: for a caller that holds another lock.
  PoolLock::Hush hush() noexcept { return PoolLock::Hush(lock_); }

  SeqPoints points;
  /// Wakes everybody who waits inside acquire (a request was cancelled).
  void wake_all();
  /// Makes HOST's budget follow the machine now, where it does so at all; for tests.
  void look_at_memory();
  /// Gives back now what has been idle for long enough, if it is time to look; for tests, with a clock of their own.
  void look_at_idle();
  /// Codes again what has lain idle in COMPRESSED for long enough; for tests, with a clock of their own.
  void look_at_compressed();
  /// As if the device had said that it is lost; for tests.
  void lose_device(uint8_t place);
  /// Waits until no page is on the move, and what weir_prefetch has asked for has been brought or refused; for tests.
  void wait_idle();
  /// "" or the first broken invariant; for tests.
  std::string validate() { return inspector().validate(); }

 private:
  class DeviceView;  // engine.cpp
  friend class Membership;
  friend class RemoteClaims;
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
  Status stream_state(Stream &stream, StreamState **state) override WEIR_NOT_HELD;

  // acquire.cpp
  Status acquire_slow(Stream &stream, weir_use *uses, size_t count, const AcquireOptions &options,
                      Lease *lease);
  Status build_plan(const weir_use *uses, size_t count, Plan *plan);
  Status bring_in(Releasable &lock, Plan &plan, const AcquireOptions &options) WEIR_HELD;
  Status claim_and_fill(Releasable &lock, Plan &plan, lease::Ticket &ticket, bool *claimed,
                        Plan **stuck) WEIR_HELD;
  Status try_claim(Releasable &lock, Plan &plan, Plan **stuck) WEIR_HELD;
  bool still_absent(const Plan &plan, const PlanPage &page) noexcept;
  bool still_stands(Plan &plan) WEIR_HELD;
  Status fill_all(Releasable &lock, Plan &plan, Plan **stuck) WEIR_HELD;
  Status do_fill(Releasable &lock, Plan &plan) WEIR_HELD;
  Status check_lost(const Plan &plan);
  bool corrupt_to_the_last(const Plan &plan) noexcept;
  Status order_unlocked(Releasable &lock, Plan &plan, bool *stands) WEIR_HELD;
  Status order_after_past(Releasable &lock, Plan &plan, bool *again) WEIR_HELD;
  void fill_lease(Plan &plan, weir_use *uses, size_t count, Lease *lease) WEIR_HELD;
  Status check_budget(Plan &plan) WEIR_HELD;
  bool lies_in_reach(const PrefetchRequest &request) noexcept override WEIR_HELD;
  Status bring_ahead(Releasable &lock, std::span<const PrefetchRequest *const> requests,
                     uint64_t not_before) override WEIR_HELD;

  // layouts.cpp
  bool may_lay_anew(const Region &region) noexcept;
  void lay_anew(Region &region) WEIR_HELD;
  bool opens_granule(const Region &region) noexcept WEIR_HELD;
  void list_neighbours(PoolDevice &device, std::pmr::vector<PageRef> *pages) WEIR_HELD;
  void settle_layouts(Releasable &lock, Plan &plan) WEIR_HELD;

  // claims.cpp
  uint64_t settled_word(uint32_t index) noexcept;
  Status resolve(Plan &plan) WEIR_HELD;
  Status check_conflicts(Plan &plan) WEIR_HELD;
  void scan_pages(Plan &plan, bool *busy) WEIR_HELD;
  Status take_claims(Plan &plan) WEIR_HELD;
  void drop_claims(Plan &plan) noexcept WEIR_HELD;

  // room.cpp
  /// What a page lacks that has got no granule.
  enum class Short : uint8_t { nothing, memory, quota };
  Status claim_page(Plan &plan, PlanPage &page, Short *what) WEIR_HELD;
  Status gather(Releasable &lock, Plan &plan) WEIR_HELD;
  Status make_room(Releasable &lock, PoolDevice &device, Wanted wanted, EarlyFill &early,
                   uint32_t *barren) WEIR_HELD;
  void return_granules(Plan &plan) noexcept WEIR_HELD;
  bool idle() noexcept WEIR_HELD;
  Status wait_changed(Releasable &lock, const AcquireOptions &options,
                      uint64_t deadline_ns) WEIR_HELD;

  // fill.cpp
  void prepare_filling(Plan &plan) WEIR_HELD;
  void forgo_filling(Plan &plan) noexcept WEIR_HELD;
  void mark_filling(Plan &plan) noexcept WEIR_HELD;
  void mark_zeroing(Plan &plan, const PlanItem &item) noexcept;
  bool reads_directly(const PoolDevice &to, const Residence &from, uint32_t page) const noexcept;
  Reach reach_of(const Plan &plan, const Region &region, const Residence &from,
                 uint32_t page) const noexcept WEIR_HELD;
  Residence *device_source(Region &region, uint32_t page, const Plan &plan) noexcept WEIR_HELD;
  Status fill(Plan &plan);
  Status prepare_page(Plan &plan, PlanPage &page);
  Status verify_source(const Plan &plan, PlanPage *page);
  Status fill_from_below(Plan &plan, tier::Lift &lift, transfer::Copier &copier);
  void offer(Region &region, uint32_t page, PoolDevice &device) noexcept WEIR_HELD;
  void settle_zeroing(const Plan &plan, const PlanItem &item) noexcept WEIR_HELD;
  void tell_filled(const Plan &plan, const PlanPage &page, uint8_t how) noexcept WEIR_HELD;
  void settle_fill(Plan &plan, bool filled) noexcept WEIR_HELD;

  // loss.cpp
  bool answers_lost(PoolDevice &device) noexcept;
  PoolDevice &lost_by(Plan &plan, const Status &status) noexcept;
  PoolDevice &lost_in(PoolDevice &device) noexcept;
  void note_loss(PoolDevice &device, const Status &status) noexcept override WEIR_HELD;
  void note_loss(const Stream &stream, const Status &status) noexcept;
  void lose(PoolDevice &device) noexcept WEIR_HELD;
  void close_at_home(uint8_t place) noexcept WEIR_HELD;

  // drain.cpp
  uint64_t evict(Releasable &lock, PoolDevice &device, const std::pmr::vector<PageRef> &pages,
                 bool background, Status *why, EarlyFill *early = nullptr) WEIR_HELD;
  uint64_t evict(Releasable &lock, PoolDevice &device, const std::pmr::vector<PageRef> &pages,
                 Status *why) override WEIR_HELD {
    return evict(lock, device, pages, false, why);
  }
  uint64_t evict_chosen(Releasable &lock, PoolDevice &device, const Wanted &wanted,
                        bool background) WEIR_HELD;
  bool claim_victim(PoolDevice &device, const PageRef &ref, Victim *victim) WEIR_HELD;
  Status place_victim(Releasable &lock, PoolDevice &device, Victim &victim) WEIR_HELD;
  void cache_victim(const PoolDevice &device, Victim &victim) noexcept WEIR_HELD;
  bool passes_host(const PoolDevice &device, uint64_t bytes) const noexcept;
  void unplace_victim(Victim &victim) noexcept WEIR_HELD;
  void settle_place(Victim &victim) noexcept WEIR_HELD;
  void give_back(Region &region, const PageRef &ref, PoolDevice &device) noexcept;
  void claim_victims(Releasable &lock, PoolDevice &device, const std::pmr::vector<PageRef> &pages,
                     std::pmr::vector<Victim> *victims, Status *why) WEIR_HELD;
  void finish_next(Drain &drain, Victim &victim, EarlyFill *early);
  void start_victim(Drain &drain, transfer::Copier &copier, Victim &victim);
  void finish_victim(Drain &drain, Victim &victim) WEIR_NOT_HELD;
  static void decide_victim(const PoolDevice &device, Victim &victim) noexcept;
  Status wipe(PoolDevice &device, Victim &victim);
  void end_copies(PoolDevice &device) noexcept;
  void settle_victim(Drain &drain, Victim &victim) noexcept WEIR_HELD;
  void vanish(Region &region, uint32_t page, PoolDevice &device) noexcept override WEIR_HELD;
  void uncharge(const Region &region, uint32_t page, uint8_t place) noexcept WEIR_HELD;
  void vacate(Region &region, uint32_t page, PoolDevice &device,
              uint32_t granule_client) noexcept WEIR_HELD;

  // slabs.cpp
  Status open_slab(const vm::Geometry &shape, const page::Kin &kin, Region **out) WEIR_HELD;
  void free_place(Region &region, uint32_t node) noexcept override WEIR_HELD;
  bool own_lost_page(uint32_t index, uint8_t home) WEIR_HELD;

  // first_use.cpp
  bool in_place(Region &slab, uint64_t begin, uint64_t size, PoolDevice &device) noexcept;
  void write_pages(Region &slab, uint64_t begin, uint64_t size,
                   PoolDevice &device) noexcept WEIR_HELD;
  uint64_t open_to_first(uint32_t index, PoolDevice &device) noexcept WEIR_HELD;
  bool lease_fresh(const Stream &stream, weir_use &use) noexcept;

  // lines.cpp
  Status place_pinned(const page::Kin &kin, uint64_t size, Region **out,
                      page::SlabAllocator::Place *place) WEIR_HELD;
  Status bring_pinned(Releasable &lock, uint32_t index, PoolDevice &device,
                      Stream *stream) WEIR_HELD;

  // commit.cpp
  void gather_waits(Plan &plan) WEIR_HELD;
  Status enqueue_waits(const Plan &plan) noexcept;
  void await_copies(Releasable &lock, const Plan &plan) WEIR_HELD;
  std::pmr::vector<uint32_t> versions(const Plan &plan);
  bool writes_stand(const Plan &plan, const std::pmr::vector<uint32_t> &before) noexcept;
  static uint32_t written_bit(const Plan &plan, const Region &region, uint32_t page) noexcept;
  void commit(Plan &plan) noexcept WEIR_HELD;
  void refresh_word(uint32_t index, Region &region, uint64_t base,
                    uint64_t size) noexcept WEIR_HELD;
  void set_flags(uint32_t index, uint64_t set, uint64_t clear) noexcept {
    buffers_.hot(index).set_flags(set, clear);
  }

  // release.cpp
  Status release_set(weir_lease handle, StreamState *state, Stream &stream);
  Status release_taken(Lease *lease, StreamState &state, Stream &stream);
  void release_fast(LeaseItem *item, Stamp stamp) noexcept;
  Status record_release(Stream &stream, uint64_t *point);
  void release_slow(const LeaseItem &item, const Lease *lease, Stamp stamp) noexcept;

  // buffers.cpp
  Status check_desc(const weir_buffer_desc &desc);
  /// To walk over (page/place_index.hpp).
  auto regions_in(page::PlaceIndex::Sets sets) noexcept WEIR_HELD {
    return page::Walk(places_, sets, regions_);
  }
  void leave_lot(Region &region) noexcept;
  void free_region(Region &region) noexcept WEIR_HELD;
  Region &make_region(const vm::Geometry &shape, uint8_t home, uint32_t client,
                      const vm::Sharing::Lot &lot = {}) WEIR_HELD;
  Status make_home_region(const vm::Geometry &shape, uint8_t home, uint32_t client, Region **region,
                          const vm::Sharing::Lot &lot = {}) WEIR_HELD;
  Status make_residence(Region &region, PoolDevice &device) WEIR_HELD;
  Region *adopt_kept(const vm::Geometry &shape, uint64_t alignment, uint8_t home,
                     uint32_t client) WEIR_HELD;
  void keep_or_free(Region &region) noexcept WEIR_HELD;
  void retire_region(Region &region) noexcept override WEIR_HELD;
  Status place_tenant(uint32_t index, const weir_buffer_desc &desc, uint8_t home, uint32_t client,
                      bool pinned) WEIR_HELD;
  Status unslab_for(Releasable &lock, uint32_t index, uint8_t place) WEIR_HELD;
  Status create_locked(const weir_buffer_desc &desc, uint32_t client, bool pinned,
                       uint32_t *index) WEIR_HELD;
  void destroy_locked(uint32_t index) noexcept WEIR_HELD;
  Status place_of(const Stream &stream, uint8_t *place) override;
  uint64_t address_on(Region &region, uint8_t place) const noexcept;

  /// Where a descriptor wants its buffer.
  struct ShardWish {
    uint8_t home = 0;
    uint32_t policy = 0;
    uint64_t stripe = 0;
    Compact<vm::Shards> shards;  ///< none: all of it is at home
  };
  Status own_region(uint32_t index, const weir_buffer_desc &desc, uint8_t home, uint32_t client,
                    ShardWish &wish) WEIR_HELD;

  // sizes.cpp
  Status choose_pages();
  Status check_device_budget(const backend::Device &device, uint64_t budget);
  Status check_size(uint64_t size);
  Status room_for_records(const char *what, uint64_t size, uint64_t pages, uint64_t copies);
  Status room_for_buffer(const weir_buffer_desc &desc, const ShardWish &wish, bool tenant);

  // homes.cpp
  Status read_users(const weir_buffer_desc &desc, Users *users);
  /// The best home by the cost model for a buffer of so many bytes, of the places whose bits are not in `leave_out` and that
  /// are not lost; Placement::nowhere: there is none. Under the lock.
  uint8_t choose_home(uint64_t bytes, const Users &users, uint32_t leave_out);
  Placement placement(uint32_t leave_out);
  uint32_t unfit_for(const weir_buffer_desc &desc) const noexcept;
  void count_promise(uint32_t index, uint8_t home, uint64_t bytes, bool more) noexcept WEIR_HELD;
  Status home_for(const weir_buffer_desc &desc, const Users &users, uint8_t *home) WEIR_HELD;

  // shards.cpp
  Status read_shards(const weir_buffer_desc &desc, ShardWish *wish);
  Status check_shard_links(const vm::Shards &shards);
  Status make_sharded_region(uint64_t size, uint32_t client, ShardWish &wish,
                             Region **region) WEIR_HELD;
  Status check_reach(const Plan &plan, const PlanItem &item);
  Status spread(Plan &plan);
  bool scan_all(Plan &plan) WEIR_HELD;
  bool give_way(Releasable &lock, Plan &plan, PoolDevice &device) WEIR_HELD;
  bool last_of_shards(const Region &region, const PoolDevice &device) const noexcept;
  void reshard(Region &region, const PoolDevice &device) noexcept WEIR_HELD;
  void clear_shards(Releasable &lock, PoolDevice &device) WEIR_HELD;
  void clear_mappings(Releasable &lock, Plan &plan) noexcept WEIR_HELD;

  // read_tiers.cpp
  void forsake_copy(Region &region, uint32_t page, uint32_t bit) noexcept WEIR_HELD;
  Status fail_corrupt(uint32_t use, uint32_t page, uint32_t bit) noexcept;
  bool sums_host(const Region &region) const noexcept;
  Status verify_host(Region &region, uint32_t page, uint32_t use) WEIR_HELD;
  void list_parts(const Region &region, uint32_t page, uint32_t tag,
                  std::pmr::vector<tier::LiftPart> *parts) WEIR_HELD;
  Status read_below(Releasable &lock, Region &region, uint32_t page, uint64_t begin, uint64_t end,
                    unsigned char *out) WEIR_HELD;
  Status raise_to_host(Releasable &lock, Region &region, uint32_t page) WEIR_HELD;

  // tiers.cpp
  Status start_cold_tiers(backend::Runtime &runtime);
  void demoter_loop();
  uint32_t common_node() const noexcept;
  uint32_t node_of(const Region &region) const noexcept { return devices_[region.home]->node; }
  void warn_of_integrated();

  class StraightDown;  // straight.cpp
  Status send_straight(Drain &drain, Victim &victim) WEIR_NOT_HELD;

  // access.cpp
  Status claim_range(Plan &plan, weir_buffer buffer, uint64_t offset, uint64_t *length,
                     uint8_t mode) WEIR_HELD;
  Status copy_range(weir_buffer buffer, uint64_t offset, uint64_t length, unsigned char *out,
                    const unsigned char *in);
  Status zero_held(Releasable &lock, const Plan &plan, const Target &where) WEIR_HELD;
  Status copy_pieces(Releasable &lock, uint32_t index, const Target &where, uint64_t begin,
                     uint64_t end, unsigned char *out, const unsigned char *in) WEIR_HELD;
  /// Bytes [begin, end) of a buffer's region, all on one page, and the caller's memory: into `out`, or from `in`.
  struct Piece {
    uint32_t index;
    const Target &where;
    uint32_t page;
    uint64_t begin, end;
    unsigned char *out;
    const unsigned char *in;
    uint64_t bytes() const noexcept { return end - begin; }
    uint64_t within() const noexcept { return begin - where.region->shape.offset(page); }
  };
  Status copy_piece(Releasable &lock, const Piece &piece) WEIR_HELD;
  Status copy_settled(Releasable &lock, const Piece &piece) WEIR_HELD;
  Status copy_on_device(Releasable &lock, const Piece &piece) WEIR_HELD;
  Status zero_place(Releasable &lock, uint32_t index, const Target &where) WEIR_HELD;
  void write_through(const Piece &piece, PoolDevice &device) noexcept WEIR_HELD;
  bool settled(Region &region, uint32_t page) noexcept;
  Status settle_page(Releasable &lock, Region &region, uint32_t page) WEIR_HELD;
  Status settle_pages(Releasable &lock, Region &region, uint32_t first, uint32_t last) WEIR_HELD;
  Status wait_range(Releasable &lock, uint32_t index, uint64_t begin, uint64_t end,
                    bool write) WEIR_HELD;

  // peers.cpp
  bool is_spare(const Region &region, uint32_t page, const Residence &residence) const noexcept;
  void note_failure(Drain &drain, Victim &victim, const Status &status) noexcept;
  bool may_lend(const Victim &victim, const PoolDevice &from, const PoolDevice &to) WEIR_HELD;
  PoolDevice *neighbour_for(const Victim &victim, const PoolDevice &from, bool dropping) WEIR_HELD;
  bool drop_disposable(Releasable &lock, PoolDevice &device, uint64_t bytes) WEIR_HELD;
  bool borrow_place(Releasable &lock, Victim &victim, const PoolDevice &from,
                    bool last_resort) WEIR_HELD;
  Status open_loan(Loan &loan, uint64_t bytes);
  void close_loan(Loan &loan, uint64_t bytes) noexcept;
  void settle_loan(Victim &victim, bool arrived) noexcept WEIR_HELD;
  void give_loan_back(Victim &victim, DevicePage &state) noexcept WEIR_HELD;
  void offer_borrowed(Region &region, uint32_t page, PoolDevice &to) noexcept WEIR_HELD;
  uint64_t borrowed_bytes() const noexcept WEIR_HELD {
    uint64_t bytes = 0;
    for (const auto &device : devices_) bytes += device->memory.borrowed_bytes();
    return bytes;
  }
  void keep_borrowed(Region &region, uint32_t page, PoolDevice &device) noexcept WEIR_HELD;

  // remote.cpp
  bool reaches(const PoolDevice &device, const Residence &there, uint32_t first,
               uint32_t last) const noexcept;
  PoolDevice *remote_place(const PlanItem &item, const PoolDevice &device, bool *busy,
                           uint32_t not_there = 0) noexcept WEIR_HELD;
  Plan &plan_on(Plan &plan, PoolDevice &memory);
  Status divide(Releasable &lock, Plan &plan) WEIR_HELD;
  Status claim_remote(Plan &plan) WEIR_HELD;
  void drop_remote(Plan &plan) noexcept WEIR_HELD;
  void drop_all(Plan &plan) noexcept WEIR_HELD;
  uint8_t place_in(const Plan &plan, uint32_t buffer) const noexcept;
  bool remote_stands(const Plan &plan) noexcept;
  void commit_remote(Plan &plan, const Lease *lease) noexcept WEIR_HELD;
  uint64_t lose_remote_writes(const PoolDevice &writer) noexcept WEIR_HELD;
  void forsake(Region &region, uint32_t page) noexcept WEIR_HELD;

  // scrub.cpp
  class Scrubbing;
  bool scrub(bool wait) noexcept override WEIR_NOT_HELD;
  bool scrub_retired(Releasable &lock, bool wait) noexcept WEIR_HELD;
  bool scrub_storage(Releasable &lock, bool wait) noexcept WEIR_HELD;
  void scrub_device(Releasable &lock, uint32_t id, uint16_t generation,
                    bool wait) noexcept WEIR_HELD;

  // carry.cpp
  uint32_t usable_relays(const PoolDevice &to) noexcept;
  Freight &freight_from(Plan &plan, const Region &region, const Residence &there,
                        uint32_t page) noexcept WEIR_HELD;
  void choose_ways(Plan &plan) noexcept WEIR_HELD;
  bool take_bounces(Plan &plan, Freight &freight) noexcept WEIR_HELD;
  Status carry_page(Plan &plan, const PlanPage &page, transfer::Copier &copier);
  Status carry_gathered(Plan &plan, transfer::Copier &copier);
  Status finish_carrying(Plan &plan, transfer::Copier &copier);
  void end_carrying(Plan &plan) noexcept;
  void note_carried(const Plan &plan, const PlanPage &page) noexcept WEIR_HELD;
  uint64_t lose_carried(const PoolDevice &device) noexcept WEIR_HELD;
  void settle_freights(Plan &plan, bool filled) noexcept WEIR_HELD;
  uint64_t patience(const PoolDevice &device) const noexcept override;
  bool give_bounce_back(Releasable &lock, PoolDevice &device) noexcept WEIR_HELD;
  PoolDevice *lost_between(Plan &plan) noexcept;

  // idle.cpp
  void evictor_loop();
  void give_to_system(Releasable &lock, PoolDevice &device,
                      physical::DoomedList &doomed) noexcept WEIR_HELD;
  uint64_t give_idle(Releasable &lock, PoolDevice &device, uint64_t bytes) WEIR_HELD;
  bool worth_watching(const PoolDevice &device) const;
  void watch_idle() noexcept WEIR_HELD;
  void give_unneeded_back(Releasable &lock) WEIR_HELD;
  void give_unneeded_back(Releasable &lock, PoolDevice &device) WEIR_HELD;

  // holds.cpp
  void add_hold(Region &region, uint8_t place, bool writes) noexcept WEIR_HELD;
  void drop_hold(Region &region) noexcept WEIR_HELD;
  void plan_whole(uint32_t index, uint8_t mode, Plan *plan);
  Status bring_whole(Releasable &lock, Plan &plan) WEIR_HELD;
  Status take_hold(Releasable &lock, Plan &plan, HoldKind kind) WEIR_HELD;
  Status nest_hold(Plan &plan) WEIR_HELD;
  void leave_latest(Plan &plan) noexcept WEIR_HELD;
  Status claim_alone(uint32_t index) WEIR_HELD;
  void unregister_memory(Releasable &lock, Region &region) noexcept WEIR_HELD;

  // host_lease.cpp
  Status bring_to_host(Releasable &lock, Plan &plan) WEIR_HELD;
  Status page_to_host(Releasable &lock, const PlanItem &item, uint32_t page,
                      bool discard) WEIR_HELD;

  // engine.cpp
  void release_all() noexcept;
  Status make_device(const EngineConfig::DeviceBudget &budget, uint8_t place,
                     Owned<PoolDevice> *device);
  void release_device(Releasable &lock, PoolDevice &device) noexcept WEIR_HELD;
  move::Sync sync() noexcept { return {lock_, changed_, work_, points}; }

  PoolDevice &device_at(uint8_t place) noexcept { return *devices_[place]; }
  uint64_t tick() noexcept { return ticks_.advance(ticks_.now() + 1); }

  CountingMemory memory_;
  backend::StreamTable &streams_;
  Ticks &ticks_;
  Log log_;
  const Clock system_clock_;
  const Clock *clock_ = &system_clock_;
  EngineConfig config_;

  PoolLock lock_;
  PoolSignal changed_{lock_};  ///< whatever somebody may wait for
  PoolSignal work_{lock_};     ///< for the background threads
  lease::Admission admission_;
  uint32_t node_ = numa::unknown;         ///< that all devices are at with which the pool was made
  uint64_t generation_ WEIR_GUARDED = 0;  ///< changes so far: devices came, left, were lost

  page::RegionStore regions_ WEIR_GUARDED;
  page::PlaceIndex places_ WEIR_GUARDED;  ///< of them
  page::BufferDirectory buffers_;
  /// Never moved nor shrunk: those that have left keep their place.
  Devices devices_;
  transfer::Paths paths_ WEIR_GUARDED;  ///< of config_.routes
  transfer::Carrier carrier_;
  transfer::Relay relay_;
  Accounts accounts_;
  lease::History history_;
  lease::LeaseTable leases_;
  lease::RemoteWrites remote_writes_;
  page::Doubts doubts_ WEIR_GUARDED;  ///< of pages that came by ways of several copies
  page::SlabAllocator slabs_ WEIR_GUARDED;
  Prefetcher prefetcher_;
  page::UseTimes uses_;
  move::TierView host_view_, compressed_view_;
  page::TierCopies tiers_;
  tier::ColdTiers cold_;  ///< its transfers may use HOST's memory: it ends first
  move::Demoter demoter_;
  move::HostRoom host_room_;
  Owned<move::Recompressor> recompressor_;
  policy::IdleScan idle_scan_ WEIR_GUARDED;
  lease::StreamStates states_;
  Events events_ WEIR_GUARDED;
  Gauges gauges_ WEIR_GUARDED;
  Relocator relocator_;
  policy::ScrubTurns scrub_turns_;  ///< of what could not be overwritten at once (scrub.cpp)
  std::thread evictor_, demoting_;
};

}  // namespace weir::residency
