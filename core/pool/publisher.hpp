// SPDX-License-Identifier: Apache-2.0
//
// Publisher: writes a pool's figures into its slot of the live page (core/live/page.hpp), for other programs to read. It has no thread:
// the evictor's gives it beats, ten a second and fewer while nothing happens; so does a slow acquire as it ends, which is all that there
// is in a pool without background threads.
//
// What must hold: a write takes as long as weir_pool_stats_get, allocates nothing and keeps the lock. Nobody who reads is waited for.
#pragma once

#include "core/base/pulse.hpp"
#include "core/live/page.hpp"
#include "core/move/losses.hpp"
#include "core/move/prefetcher.hpp"
#include "core/pool/inspector.hpp"
#include "core/pool/use_walk.hpp"

#include <string_view>

namespace weir::pool {

class Publisher final : public Pulse {
 public:
  struct Others {
    const transfer::Carrier &carrier;
    const CountingMemory &memory;
    const move::Losses &losses;
    move::Prefetcher &prefetcher;
  };
  Publisher(const Env &env, const PageLayer &page, const LeaseLayer &lease, const Others &others);

  /// The pool is shown from now on, where the page is on.
  void start(live::Page &page, uint64_t serial, std::string_view name) WEIR_NOT_HELD;

  void beat() noexcept override WEIR_HELD;
  void beat_at_rest() noexcept override WEIR_HELD;
  uint64_t rest_ns() noexcept override WEIR_HELD;

  /// What the page would have, also where it is off. The pool was started.
  void describe(live::Pool *pool) WEIR_NOT_HELD;

  /// Writes now, after a look at so many pages; for tests.
  void write_now(uint32_t looks = UINT32_MAX) WEIR_NOT_HELD;

 private:
  /// Whether the copy that is watched has come.
  void look_at_copy() noexcept WEIR_HELD;
  void write_due(uint64_t now_ns, uint32_t looks) noexcept WEIR_HELD;
  /// Returns what is another number whenever something has happened.
  uint64_t write(live::Pool &pool) const noexcept WEIR_HELD;
  uint64_t write_times(live::Pool &pool) const noexcept;
  void write_tiers(const Counters &counters, live::Pool &pool) const noexcept WEIR_HELD;
  void write_devices(live::Pool &pool) const noexcept WEIR_HELD;
  void write_clients(live::Pool &pool) const noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  live::Page *live_ WEIR_GUARDED = nullptr;  ///< nullptr: nothing is shown
  live::Page::Claim claim_ WEIR_GUARDED;
  ShownClients clients_ WEIR_GUARDED;
  UseWalk walk_ WEIR_GUARDED;
  uint64_t serial_ = 0, began_ns_ = 0;
  std::array<char, live::name_bytes> name_{};
  uint32_t beats_ WEIR_GUARDED = 0;
  uint64_t written_ns_ WEIR_GUARDED = 0;   ///< by the coarse clock
  uint64_t activity_ WEIR_GUARDED = 0;     ///< all counters together, as they were last written
  uint64_t interval_ns_ WEIR_GUARDED = 0;  ///< of writes at rest
  uint64_t next_ns_ WEIR_GUARDED = 0;      ///< when the next one at rest is due
};

}  // namespace weir::pool
