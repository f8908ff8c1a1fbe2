// SPDX-License-Identifier: Apache-2.0
//
// Prefetcher: what is brought ahead of demand: what calls have asked for, then what a plan wants (PlanExecutor) or, where there is none,
// what streams have announced, then, when nothing else is to be done, spilled pages for neighbours (Rebalancer). It chooses what comes next and whether there is room for it; bringing it
// is the Bringer's. Its lanes do so, or without threads the call that asks, as far as that needs no lease to end.
//
// What must hold: all of it is hints. A buffer that died meanwhile is skipped, and a prefetch takes neither a leased page nor one
// that is needed sooner than what it brings. What was announced and finds no room is the next again. Guarded by the pool's lock.
#pragma once

#include "core/base/task.hpp"
#include "core/lease/layer.hpp"
#include "core/move/plan_executor.hpp"
#include "core/move/rebalance.hpp"
#include "core/policy/announcements.hpp"

#include <atomic>
#include <span>

namespace weir::move {

class Prefetcher final : private policy::HintView {
 public:
  /// Knows the streams' places, and brings bytes.
  class Bringer {
   public:
    /// The pool's record of the stream, made by its first call.
    virtual Status stream_state(Stream &stream, StreamState **state) WEIR_NOT_HELD = 0;
    /// Whether the bytes can be used from the request's device where they lie.
    virtual bool lies_in_reach(const PrefetchRequest &request) noexcept WEIR_HELD = 0;
    /// Requests for one device, at once. Evicts nothing that is needed within `not_before` operations. WOULD_BLOCK: no room.
    virtual Status bring_ahead(Releasable &lock, std::span<const PrefetchRequest *const> requests,
                               uint64_t not_before) WEIR_HELD = 0;

   protected:
    ~Bringer() = default;
  };
  /// What one thread brings at a time.
  class Lane final : public Task {
   public:
    explicit Lane(Prefetcher &own) : own_(own), batch_(own.env_.memory) {}
    bool step(Releasable &lock) override WEIR_HELD;
    uint64_t rest_ns() noexcept override WEIR_HELD { return rest_ns_; }
    const char *name() const noexcept override { return "a prefetcher's thread"; }

   private:
    Prefetcher &own_;
    PrefetchBatch batch_;
    bool blocked_ = false;  ///< what is announced finds no room
    uint64_t rest_ns_ = Rebalancer::never;
  };
  Prefetcher(const Env &env, const PageLayer &page, const LeaseLayer &lease, Bringer &bringer)
      : env_(env),
        page_(page),
        lease_(lease),
        bringer_(bringer),
        announcements_(env.memory),
        hints_(env.memory),
        lanes_{Lane(*this), Lane(*this)} {}

  /// Before anything is asked for.
  void start(Evictor &evictor) {
    if (env_.config.plans)
      plans_ = make_owned<PlanExecutor>(env_.memory, env_, page_, lease_, evictor, announcements(),
                                        alarms_);
    if (env_.config.no_peer) return;
    rebalancer_ = make_owned<Rebalancer>(env_.memory, env_, page_, env_.config.rebalance_rate);
  }
  /// Two where there is storage: one reads while the other's copies end.
  std::span<Lane> lanes() noexcept {
    return std::span(lanes_).first(page_.cold.storage() != nullptr ? 2 : 1);
  }

  /// nullptr: the pool's policy carries no plans out.
  PlanExecutor *plans() noexcept { return plans_.get(); }
  /// Whether a plan says what leaves the device ahead of demand.
  bool planned(uint8_t place) const noexcept WEIR_HELD {
    return plans_ != nullptr && plans_->planned(place) != PlanExecutor::Planned::by_none;
  }

  // ---- calls ----
  Status announce(Stream &stream, const weir_operation *operations, size_t count,
                  bool replace) WEIR_NOT_HELD;
  Status prefetch(Stream &stream, const weir_use *uses, size_t count) WEIR_NOT_HELD;
  /// Up to so many spilled bytes to neighbours with memory to spare; *moved: how many went.
  Status rebalance(uint64_t bytes, uint64_t *moved) WEIR_NOT_HELD;
  /// One call's prefetches, of the stream in the slot or of none: its bytes are needed from now on.
  void ask(Releasable &lock, PrefetchBatch &asked, uint32_t slot) WEIR_HELD;

  // ---- what it is told ----
  /// The stream has acquired, its next announced operation if there is one: this set. nullptr: one that lacked nothing.
  void note_acquire(StreamState &state, const Plan *set) WEIR_HELD;
  /// The hit path has granted a set on a stream that has announced operations, to the thread whose record it is (nullptr: it has none).
  /// Where nobody can be late with it it is only counted, and told under the pool's lock with some others. Whoever looks at what is
  /// announced settles it first.
  void note_hit(StreamState &state, lease::OwnLeases *own) noexcept WEIR_NOT_HELD;
  /// Announced operations that have hit, and nobody was told of, are over. And so many beside.
  void settle(StreamState &state, uint64_t beside = 0) noexcept WEIR_HELD;
  void note_use(uint32_t buffer, uint64_t begin, uint64_t end) noexcept WEIR_HELD {
    hints_.use(buffer, begin, end);
  }
  /// Whether bytes of the buffer that a call has prefetched may be waiting for their use.
  bool hinted(uint32_t buffer) const noexcept WEIR_HELD { return hints_.knows(buffer); }
  /// A demand has evicted the page, which is asked for again, in its turn.
  void note_evicted(const PageRef &ref, const PoolDevice &device) noexcept WEIR_HELD;
  /// A device has come.
  void note_device() noexcept WEIR_HELD {
    if (rebalancer_ != nullptr) rebalancer_->look_again();
  }
  /// Another stream has the slot: what its last one has said of its future is void.
  void forget_stream(StreamState &state) noexcept WEIR_HELD;
  /// The region's owner is ending.
  void forget_region(const Region &region) noexcept WEIR_HELD {
    announcements_.forget(region.id);
    if (plans_ != nullptr) plans_->forget_region(region);
  }

  /// What prefetches say of a page.
  void describe(Region &region, uint32_t page, uint8_t place, PageInfo *info) noexcept WEIR_HELD;
  /// The next bytes that a plan wants. False: there are none, or no room for them. Drops the lock.
  bool bring_planned(Releasable &lock) WEIR_HELD;
  /// The threads have something to bring that calls have asked for and that has not been refused.
  bool pending() const noexcept WEIR_HELD {
    return env_.config.background && !env_.sync.lock.stopping() && hints_.pending();
  }
  policy::Announcements &announcements() noexcept { return announcements_; }

 private:
  bool stamp(uint32_t buffer, uint64_t generation, uint64_t *stamp) noexcept override;
  bool progress(uint32_t slot, uint32_t generation,
                policy::Progress *now) noexcept override WEIR_HELD;
  uint64_t pages(uint8_t place) noexcept override;

  Status admit(Stream &stream, size_t count, StreamState **state) WEIR_NOT_HELD;
  Status read_operation(const weir_operation &from, size_t number,
                        policy::AnnouncedUses *operation) WEIR_HELD;
  void alarm() noexcept WEIR_HELD { alarms_.fetch_add(1, std::memory_order_relaxed); }
  void consume(StreamState &state, uint64_t count) WEIR_HELD;
  bool short_of_room() const noexcept WEIR_HELD;
  uint32_t note_hits(StreamState &state, uint64_t beside) noexcept WEIR_NOT_HELD;
  uint32_t may_stay_untold(const StreamState &state) noexcept WEIR_HELD;
  void wake_for(StreamState &state) WEIR_HELD;
  bool next_announced(const StreamState &state, PrefetchRequest *request) WEIR_HELD;
  bool next_announced(PrefetchRequest *request) WEIR_HELD;
  uint64_t bytes_of(const PrefetchRequest &request, bool missing) noexcept WEIR_HELD;
  bool leaves_room(const PrefetchRequest &request, uint64_t beside) noexcept WEIR_HELD;
  bool worth_bringing(const PrefetchRequest &request) WEIR_HELD;
  Status bring_together(Releasable &lock, std::span<const PrefetchRequest> requests) WEIR_HELD;
  void gather(bool announced, PrefetchBatch *batch) WEIR_HELD;
  bool run(Releasable &lock, PrefetchBatch &batch) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  Bringer &bringer_;
  Owned<Rebalancer> rebalancer_;  ///< none where pages do not go to neighbours
  Owned<PlanExecutor> plans_;
  policy::Announcements announcements_ WEIR_GUARDED;
  policy::Hints hints_ WEIR_GUARDED;
  bool refused_ WEIR_GUARDED = false;  ///< an announced use waits for room
  std::atomic<uint32_t> alarms_{0};    ///< changes when threads are to tell of their next hit
  std::array<Lane, 2> lanes_;
};

}  // namespace weir::move
