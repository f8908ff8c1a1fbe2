// SPDX-License-Identifier: Apache-2.0
//
// Hints: what calls have asked to be prefetched. The requests wait here in the order of their calls, and until their bytes are
// used they count as needed next. A hint ends when its bytes are used, and when its stream has made as many acquires as the
// device has pages: so a program that asks for more than it uses does not keep memory for ever. The hit path knows nothing of
// this. That a buffer was used shows in its stamp, and how often in counters that are kept anyway; so the end of a hint is found
// when hints are looked at.
//
// Where the device is too small for what was prefetched and the set that is used before it, the order matters: a page that comes
// before the acquire that needs its room has come for nothing. Whether the next acquire is the one that was prefetched first, or
// one that was not prefetched at all, shows in what the stream has done: until one of its prefetches has been used, and again
// from when a demand took one's room, it evicts nothing unless that much is left.
//
// It fetches nothing, and knows of buffers, streams and devices only what it is told. Guarded by whoever owns it (the pool's lock).
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/pool_lock.hpp"

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <unordered_map>
#include <vector>

namespace weir::policy {

/// One request to the prefetchers: bytes of a buffer that are to come to a device without a lease.
struct PrefetchRequest {
  uint32_t buffer;
  uint64_t generation;
  uint64_t begin, end;
  uint8_t mode, place;
  uint32_t slot = 0;     ///< of the stream that announced it; 0: asked for by a call ...
  size_t use = 0;        ///< ... as this use ...
  uint64_t number = 0;   ///< ... of this operation
  bool remote = false;   ///< not if the use can be granted where the bytes are
  bool lend = false;     ///< to a neighbour that has memory to spare (rebalance.hpp)
  bool planned = false;  ///< by a plan (move/plan_executor.hpp), of which `number` is the operation
  uint64_t call = 0;     ///< of the hint that goes with it; 0: none does
  uint32_t asker = 0;    ///< the slot of the stream of that call
  uint64_t bytes = 0;    ///< of the pages that it is on ...
  uint64_t until = 0;    ///< ... and of all that calls have asked for, up to it and with it
  /// The round in which there was no room for it, nor for its asker's later ones.
  uint64_t refused = 0;
};
using PrefetchBatch = std::pmr::vector<PrefetchRequest>;

/// Whether the request is well brought together with the batch, all for one device.
bool fits(const PrefetchBatch &batch, const PrefetchRequest &request) noexcept;
inline constexpr size_t most_together = 16;

/// How far a stream has come: two counts, neither less than the acquires it has made.
struct Progress {
  uint64_t uses = 0;   ///< granted; an acquire has one at least
  uint64_t point = 0;  ///< of its timeline; a release takes one at least
};

/// What hints are judged by.
class HintView {
 public:
  /// The stamp of a buffer's last whole use. False: the buffer has died.
  virtual bool stamp(uint32_t buffer, uint64_t generation, uint64_t *stamp) noexcept = 0;
  /// How far the stream has come; of slot 0, the pool. False: it has ended.
  virtual bool progress(uint32_t slot, uint32_t generation, Progress *now) noexcept = 0;
  /// What the device has room for.
  virtual uint64_t pages(uint8_t place) noexcept = 0;

 protected:
  ~HintView() = default;
};

class Hints {
 public:
  static constexpr uint8_t any_place = UINT8_MAX;

  explicit Hints(std::pmr::memory_resource *memory) : requests_(memory), hints_(memory) {}

  /// A call is about to ask: it is needed after all that was asked for before.
  void begin_call() noexcept { ++calls_; }
  /// The call's request, of `request.bytes`: remembered instead of older ones of the same bytes, and queued. Throws
  /// std::bad_alloc with at most a hint more, or bytes counted that nobody asks for.
  void ask(PrefetchRequest request, uint32_t stream_generation, HintView &view);
  /// Whether what a call has asked for is still wanted.
  bool wants(const PrefetchRequest &request, HintView &view) noexcept;
  /// Whether it may evict: what is known to be next needs nothing beside it; else as much again is to fit in `most` bytes of
  /// the device beside it and all that was asked for before it.
  bool may_evict(const PrefetchRequest &request, uint64_t most, HintView &view) noexcept;
  /// The bytes are being used.
  void use(uint32_t buffer, uint64_t begin, uint64_t end) noexcept;
  /// A demand has taken the bytes' room all the same: they are asked for again, in their turn.
  void ask_again(uint32_t buffer, uint64_t begin, uint64_t end, HintView &view) noexcept;
  /// Another stream has the slot.
  void forget_stream(uint32_t slot) noexcept { foresees_.reset(slot); }
  /// Among the hints that live, the place by age of the oldest on the bytes, for a device or any_place; UINT64_MAX: there is none.
  uint64_t age(uint32_t buffer, uint64_t begin, uint64_t end, uint8_t place,
               HintView &view) noexcept;
  size_t count() const noexcept { return hints_.size(); }
  /// Whether the buffer may have some.
  bool knows(uint32_t buffer) const noexcept { return hints_.contains(buffer); }
  /// The buffers that have hints, maybe dead ones, each once.
  template <class Visit>
  void each_buffer(Visit &&visit) const WEIR_HELD {
    for (auto entry = hints_.begin(); entry != hints_.end();
         entry = hints_.equal_range(entry->first).second)
      visit(entry->first);
  }

  // ---- the requests ----
  /// Takes those that are well brought together, the first ones that were not refused in this round.
  void take(PrefetchBatch *batch);
  /// There is no room for it now: it waits for the next round, and what the same stream has asked for later waits behind it.
  void refuse(PrefetchRequest &request);
  /// Something has changed: for what was refused there may be room. False: nothing waits.
  bool retry() noexcept;
  /// A thread is at what it has taken, or not any more.
  void begin_work() noexcept { ++working_; }
  void end_work() noexcept { --working_; }
  /// Whether a thread is at it, or anything was not refused in this round.
  bool pending() const noexcept;

 private:
  /// A prefetch that nobody has used yet: its request, of which the bytes used are taken off, and as of then ...
  struct Hint {
    PrefetchRequest request;
    uint32_t stream_generation;
    uint64_t stamp = 0;  ///< ... another one says that the buffer has been used since ...
    Progress then{};     ///< ... and how far the stream had come
  };
  using Entries = std::pmr::unordered_multimap<uint32_t, Hint>;
  static constexpr size_t least = 64;

  bool lives(const Entries::value_type &entry, HintView &view) noexcept;
  void sweep(HintView &view) noexcept;
  void queue(const PrefetchRequest &request);
  bool open(const PrefetchRequest &request) const noexcept { return request.refused != round_; }

  std::pmr::deque<PrefetchRequest> requests_;  ///< in the order of their calls
  uint64_t round_ = 1;       ///< what was refused in it is not tried again before the next
  uint32_t working_ = 0;     ///< threads
  Entries hints_;            ///< by buffer
  size_t sweep_at_ = least;  ///< when they have become so many, those that have ended are removed
  uint64_t calls_ = 0;
  uint64_t oldest_ = 0;       ///< no call older than this has a hint ...
  uint64_t hinted_from_ = 0;  ///< ... nor anything up to these bytes (PrefetchRequest::until)
  uint64_t asked_bytes_ = 0;  ///< by all calls so far
  /// Of streams, by slot: what it prefetched was used, and no demand has taken its room since. Of slot 0 nobody asks.
  std::bitset<backend::StreamTable::max_slots + 1> foresees_;
};

}  // namespace weir::policy
