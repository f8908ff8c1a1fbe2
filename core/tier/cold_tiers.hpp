// SPDX-License-Identifier: Apache-2.0
//
// ColdTiers: COMPRESSED and STORAGE of a pool, as far as there are such, with what their pages pass through: codec, workers and
// staging. It knows where the parts of a page lie (its chain), not whose page that is.
//
// What must hold: a place is charged to its client from try_place() to free_places(). Nothing here makes room, waits for another
// or takes the pool's lock. Stores, codec and staging are there from start() to the end, so to find them takes no lock; what is
// marked WEIR_HELD is guarded by it.
#pragma once

#include "core/base/accounts.hpp"
#include "core/base/events.hpp"
#include "core/base/numa.hpp"
#include "core/base/pool_lock.hpp"
#include "core/base/workers.hpp"
#include "core/codec/codec.hpp"
#include "core/tier/chains.hpp"
#include "core/tier/compressed_store.hpp"
#include "core/tier/staging.hpp"
#include "core/tier/storage_store.hpp"

#include <algorithm>

namespace weir::tier {

/// One part of a page, to be brought up: as it was under the lock.
struct LiftPart {
  UnitSlot place;
  ColdStore *store = nullptr;  ///< that it comes from
  uint32_t blob = 0;           ///< bytes of the blob there; 0: they lie there as they are
  uint32_t page = 0;           ///< the caller's
  uint64_t offset = 0;         ///< in the page
  uint64_t bytes = 0;
  bool secret = false;  ///< its buffer is to be scrubbed: nothing of it may stay where it passes

  uint32_t bit() const noexcept { return store->place.bit(); }
};

class ColdTiers {
 public:
  struct Config {
    uint64_t compressed = 0;  ///< budget; 0: there is no such tier
    StorageConfig storage;    ///< the same
    codec::CodecChoice codec = codec::CodecChoice::automatic;
    uint32_t threads = 0, share = 100;   ///< of the workers
    uint32_t staging_slots = 0;          ///< ...
    uint64_t part_bytes = 0;             ///< ... each for a part of a page
    const numa::Nodes *nodes = nullptr;  ///< of the system
    uint32_t node = numa::unknown;       ///< where staging is to be
  };
  static constexpr uint32_t none = Chains::none;

  ColdTiers(std::pmr::memory_resource *memory, Accounts &accounts)
      : memory_(memory), accounts_(accounts), chains_(memory) {}

  /// Starts one tier at least. Errors are those of the parts that it starts.
  Status start(Config config, backend::Runtime &runtime, backend::StreamTable &streams,
               const Clock &clock, const Log &log);

  bool any() const noexcept { return staging_ != nullptr; }
  /// Whether one of the tiers has room for so much, as it is.
  bool has_room(uint64_t bytes) const noexcept {
    return (compressed_ != nullptr && compressed_->room() >= bytes) ||
           (storage_ != nullptr && storage_->room() >= bytes);
  }
  CompressedStore *compressed() const noexcept { return compressed_.get(); }
  StorageStore *storage() const noexcept { return storage_.get(); }
  /// The store of the place with that bit.
  ColdStore *store(uint32_t bit) const noexcept {
    if (bit == Place::compressed.bit()) return compressed_.get();
    return storage_.get();
  }
  // Where there is any tier:
  codec::Codec &codec() const noexcept { return *codec_; }
  Staging &staging() const noexcept { return *staging_; }
  uint64_t part_bytes() const noexcept { return staging_->part_bytes(); }
  /// The clock by which transfers are timed.
  uint64_t now_ns() const noexcept { return clock_.now_ns(); }

  // ---- chains ----
  /// How many parts a page of so many bytes has, and so its chain records; where there is no tier, one for its checksum.
  uint32_t parts_of(uint64_t bytes) const noexcept {
    if (!any()) return 1;
    return static_cast<uint32_t>((bytes + part_bytes() - 1) / part_bytes());
  }
  uint32_t take_chain(uint64_t bytes) WEIR_HELD { return chains_.take(parts_of(bytes)); }
  /// Gives back a chain that has no places, or no chain.
  void give_chain(uint32_t chain) noexcept WEIR_HELD { chains_.give(chain); }
  const PartRecord &record(uint32_t at) const noexcept WEIR_HELD { return chains_[at]; }
  uint32_t next(uint32_t at) const noexcept WEIR_HELD { return chains_[at].next; }
  /// The checksum that the chain has; 0: not known.
  uint64_t checksum(uint32_t chain) const noexcept WEIR_HELD {
    return chain != none ? chains_[chain].checksum() : 0;
  }
  void set_checksum(uint32_t chain, uint64_t sum) noexcept WEIR_HELD {
    chains_[chain].set_checksum(sum);
  }
  /// The chains are of one page: the first gets the other's places in the tier, and the other the first's.
  void exchange(uint32_t chain, uint32_t other, uint32_t bit) noexcept WEIR_HELD {
    chains_.exchange(chain, other, Place::of_bit(bit));
  }
  /// Appends what is to be read of a page of `used` bytes in the tier; all but `page` is told.
  void list_parts(uint32_t chain, uint32_t bit, uint64_t used, LiftPart like,
                  std::pmr::vector<LiftPart> *parts) const WEIR_HELD;

  // ---- places ----
  /// A place for `bytes`, if neither budget nor quota has to be made to have room. Throws std::bad_alloc with nothing changed.
  UnitSlot try_place(ColdStore &store, uint32_t client, uint64_t bytes) WEIR_HELD;
  const Budget &quota(uint32_t client, const ColdStore &store) const noexcept WEIR_HELD {
    return accounts_.quota(client, Accounts::at(store.place));
  }
  /// The low water of a tier among these, or above: with less room than that, pages move on in the background, until twice as much is free.
  uint64_t low_water(uint64_t budget) const noexcept {
    return std::min(std::max(budget / 32, 2 * part_bytes()), budget / 4);
  }
  /// Notes where the record's part lies from now on.
  void place(uint32_t record, const ColdStore &store, UnitSlot slot) noexcept WEIR_HELD {
    chains_[record].in(store.place) = slot;
  }
  /// Frees the chain's places in the tiers of `bits`. True: some are to be overwritten yet (ColdStore::free_secret).
  [[nodiscard]] bool free_places(uint32_t chain, uint32_t client, bool secret,
                                 uint32_t bits) noexcept WEIR_HELD;
  /// Whether pages that compress should go to STORAGE nevertheless, because it comes back sooner from there. Now and then
  /// a page goes to COMPRESSED anyway, to see whether that still holds.
  bool storage_is_quicker() noexcept WEIR_HELD;
  /// Neither tier has room for the bytes, or the client's quotas have not: OVER_BUDGET, with the figures.
  Status fail_full(uint32_t client, uint64_t bytes) const WEIR_HELD;

  void add_stats(Counters &stats) const noexcept WEIR_HELD;

 private:
  std::pmr::memory_resource *const memory_;
  Accounts &accounts_;
  const Clock clock_;
  Owned<Workers> workers_;
  Owned<codec::Codec> codec_;
  Owned<CompressedStore> compressed_;
  Owned<Staging> staging_;
  Owned<StorageStore> storage_;  ///< may have staging's memory registered: it goes first
  Chains chains_ WEIR_GUARDED;
  uint32_t passed_over_ WEIR_GUARDED = 0;  ///< pages in a row that passed COMPRESSED
};

}  // namespace weir::tier
