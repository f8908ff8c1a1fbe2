// SPDX-License-Identifier: Apache-2.0
//
// Inspector: what a pool tells of itself: counters, buffers, devices, clients, and where everything lies. It has no state and is made
// where it is needed (Engine::inspector()). It takes the pool's lock, so it is called without. Walks of buffers take it for a part of
// them at a time, and tell of that part without it; the visitor of the walk that is under one lock is called with the lock held, and must not call
// the pool.
//
// What must hold: a look changes nothing but this, and reset_peak() its counter. A region whose address was told keeps it (Layout::unsettled): walks tell none. Slots of HOST that
// were given up and whose copies have ended are freed before a client's bytes are told.
#pragma once

#include "core/move/losses.hpp"

#include <array>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weir::move {
class PlanExecutor;
}

namespace weir::pool {

/// What a walk tells of one buffer.
struct BufferSight {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  weir_buffer buffer = nullptr;
  uint32_t client = 0;
  bool cold = false;         ///< advised so
  bool allocation = false;   ///< of weir_malloc
  uint32_t stack = 0;        ///< by which calls it was made (stack())
  uint64_t there_bytes = 0;  ///< on the device that was asked about, the latest version or not
  std::string name;
};

/// The unreleased leases of one buffer, and on which streams they are: those of one stream that are alike as one, and the first of all.
struct LeasesOf {
  struct One {
    lease::LeaseItem item;
    uint64_t times = 0;
    const void *stream = nullptr;  ///< its handle
    uint32_t slot = 0;             ///< its number in timelines
    int64_t device = -1;           ///< -1: it is of the CPU
    std::array<std::pair<uint32_t, uint32_t>, 4>
        threads{};  ///< that have used it: of Weir's numbers and the system's; 0: none
  };
  static constexpr size_t most = 4;

  weir_buffer buffer = nullptr;
  uint64_t count = 0, hidden = 0;  ///< in all; of those, not in `first`
  std::array<One, most> first{};
};

class Inspector {
 public:
  struct Tables {
    const Env &env;
    const PageLayer &page;
    const LeaseLayer &lease;
    const transfer::Carrier &carrier;
    const CountingMemory &memory;
    const move::Losses &losses;
    const move::PlanExecutor *plans;  ///< nullptr: the policy carries out none
  };
  template <class What>
  using Visit = std::function<void(const What &)>;

  explicit Inspector(const Tables &tables) noexcept : pool_(tables) {}

  void stats(weir_pool_stats *out) const;
  /// The same for who has the lock. It allocates nothing.
  Counters counters() const WEIR_HELD;
  /// Needs no lock: the codec is there from the start to the end, and counts by itself.
  void codec_stats(weir_codec_stats *stats) const noexcept;
  /// Of the context, the device at that position; UINT32_MAX: there is none.
  uint32_t device_at(uint8_t place) const;
  Status device_stats(uint32_t device_id, weir_pool_device_stats *stats) const;
  /// The peak counts from now on.
  Status reset_peak(uint32_t device_id) const;
  /// What it was made with, all defaults filled in. Needs no lock: what is of the start.
  const page::EngineConfig &config() const noexcept { return pool_.env.config; }
  Status client_stats(uint32_t id, weir_client_stats *stats) const;

  /// Of all of the buffer, without its address, which it need not keep therefore; and its client. False: it is dead.
  bool find(weir_buffer buffer, weir_buffer_info *info, uint32_t *client) const;
  /// Looks through all streams' leases for those of these buffers. What the calls of other threads change meanwhile may be missed.
  void find_leases(std::span<LeasesOf> of) const;
  Status query(weir_buffer buffer, uint64_t offset, uint64_t length, weir_buffer_info *info) const;
  /// The runs of bytes from the one on that `offset` is in, each on one device.
  Status list_shards(weir_buffer buffer, uint64_t offset, weir_shard *shards, size_t capacity,
                     size_t *count) const;
  /// "" or the first broken invariant; for tests (validate.cpp).
  std::string validate() const;
  /// What streams acquire, where that is logged; for tests.
  UseLog &use_log() noexcept { return pool_.lease.log; }
  /// The blob of a page's first part in COMPRESSED, or nullptr; for tests, which damage it.
  unsigned char *compressed_blob(weir_buffer buffer, uint32_t page, uint64_t *bytes) const;

  /// Walks, one lock for each step; for snapshots.
  void for_each_device(const Visit<weir_pool_device_stats> &visit) const;
  void for_each_client(
      const std::function<void(const char *, const weir_client_stats &)> &visit) const;
  /// Walks in parts, of buffers and of their lost bytes in runs. What is told of a buffer is of one moment; buffers that come or go meanwhile
  /// are told of once or not at all.
  void for_each_buffer(const Visit<BufferSight> &visit, weir_device there = WEIR_DEVICE_HOST) const;
  /// Return addresses, the innermost first (describe_frame). None: 0, or nothing is kept.
  std::vector<void *> stack(uint32_t number) const;
  /// Of the context's; 0 where nothing is kept.
  uint64_t dropped_stacks() const noexcept;
  void for_each_lost(const Visit<weir_lost_range> &visit) const;
  /// Under one lock: of where everything lies (map.cpp).
  void for_each_piece(const Visit<weir_piece> &visit) const;

 private:
  void describe(uint32_t index, uint64_t offset, uint64_t length,
                weir_buffer_info *info) const WEIR_HELD;
  /// look(number, word, &found) for each buffer, under the lock: adds what is to be told, and returns the pages it has looked at.
  template <class What, class Look>
  void walk_buffers(const Visit<What> &visit, Look &&look) const;
  /// Of its first byte at home; 0: it has none now. Who shows it to a caller ends Layout::unsettled.
  uint64_t address_of_buffer(uint32_t index) const noexcept WEIR_HELD;
  /// Of the buffer's bytes, those on pages that are in place there.
  uint64_t bytes_on(uint32_t index, uint8_t place) const noexcept WEIR_HELD;
  uint64_t list_lost(uint32_t index, std::vector<weir_lost_range> *found) const WEIR_HELD;

  const Tables pool_;
};

}  // namespace weir::pool
