// SPDX-License-Identifier: Apache-2.0
//
// Leases and the per-stream state of a pool. A lease's record belongs to its stream's state and is never
// freed before the pool; its handle names pool, stream slot, index and generation, so a stale one is recognised.
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/grow.hpp"
#include "core/base/memory.hpp"
#include "core/base/pool_lock.hpp"
#include "core/base/thread_id.hpp"
#include "core/lease/use_ring.hpp"

#include <weir/lease.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

namespace weir::lease {

enum class LeaseKind : uint8_t {
  none,
  whole,    ///< counted in the buffer's word
  partial,  ///< listed by LeaseTable, counted in its pages
  // The same on the memory of another device than the stream's (RemoteUses):
  whole_remote,
  partial_remote,
  /// Of a range, as the hit path grants it: counted in the buffer's word, known to its span (page/spans.hpp).
  part
};

struct LeaseItem {
  uint64_t begin = 0, end = 0;  ///< bytes of the buffer; not set in a lease of a whole one
  uint32_t buffer = 0;
  uint8_t mode = 0;  ///< WEIR_READ ...
  LeaseKind kind = LeaseKind::none;
  bool writes() const noexcept { return mode != WEIR_READ; }
  bool whole() const noexcept {
    return kind == LeaseKind::whole || kind == LeaseKind::whole_remote;
  }
  bool remote() const noexcept {
    return kind == LeaseKind::whole_remote || kind == LeaseKind::partial_remote;
  }

  // A thread writes its own records without a lock, while StreamState::each_item reads them: so by atomic stores.
  void be_whole(uint32_t of, uint8_t as) noexcept {
    std::atomic_ref(buffer).store(of, std::memory_order_relaxed);
    std::atomic_ref(mode).store(as, std::memory_order_relaxed);
    std::atomic_ref(kind).store(LeaseKind::whole, std::memory_order_relaxed);
  }
  void be_part(uint64_t from, uint64_t to, uint32_t of, uint8_t as) noexcept {
    std::atomic_ref(begin).store(from, std::memory_order_relaxed);
    std::atomic_ref(end).store(to, std::memory_order_relaxed);
    std::atomic_ref(buffer).store(of, std::memory_order_relaxed);
    std::atomic_ref(mode).store(as, std::memory_order_relaxed);
    std::atomic_ref(kind).store(LeaseKind::part, std::memory_order_relaxed);
  }
  void be_over() noexcept {
    std::atomic_ref(kind).store(LeaseKind::none, std::memory_order_relaxed);
  }
  /// A copy for each_item. `begin` and `end` are left out of a lease of a whole buffer.
  LeaseItem seen() noexcept {
    LeaseItem item;
    item.kind = std::atomic_ref(kind).load(std::memory_order_relaxed);
    item.buffer = std::atomic_ref(buffer).load(std::memory_order_relaxed);
    item.mode = std::atomic_ref(mode).load(std::memory_order_relaxed);
    if (item.whole()) return item;
    item.begin = std::atomic_ref(begin).load(std::memory_order_relaxed);
    item.end = std::atomic_ref(end).load(std::memory_order_relaxed);
    return item;
  }
};

/// Records of two streams share no cache line.
struct alignas(64) Lease {
  explicit Lease(std::pmr::memory_resource *memory) : more(memory) {}
  static constexpr uint32_t inline_items = 4;
  /// The largest set that the hit path grants, which keeps the stream's lock meanwhile; and the largest on a stream that is learned from,
  /// whose ring takes no more at once.
  static constexpr uint32_t most_hit = 1024, most_logged_hit = 64;

  uint32_t index = 0;
  // Relaxed atomics: a stale handle is compared with whatever the record is now.
  std::atomic<uint32_t> generation{1};
  std::atomic<uint32_t> count{0};  ///< items; 0: not in use
  Lease *next_free = nullptr;
  std::array<LeaseItem, inline_items> few;
  std::pmr::vector<LeaseItem> more;  ///< all items, when there are more than inline_items

  /// Where the hit path writes a set of so many; nullptr: the record has no room for them before one such has gone the slow way,
  /// which may allocate.
  LeaseItem *room_for(size_t items) noexcept {
    if (items <= inline_items) return few.data();
    if (more.capacity() < items) return nullptr;
    more.resize(items);
    return more.data();
  }
  LeaseItem *items() noexcept {
    return count.load(std::memory_order_relaxed) <= inline_items ? few.data() : more.data();
  }
};

/// Free records.
struct LeaseList {
  Lease *head = nullptr;
  uint32_t size = 0;

  Lease *pop() noexcept {
    Lease *lease = head;
    if (lease != nullptr) {
      head = lease->next_free;
      --size;
    }
    return lease;
  }
  void push(Lease *lease) noexcept {
    lease->next_free = head;
    head = lease;
    ++size;
  }
};

/// Records set aside for one thread, which takes them without a lock. No other ever touches `free`.
struct alignas(64) OwnLeases {
  std::atomic<uint32_t> thread{0};  ///< its number; set once, under the stream's timeline lock
  std::atomic<uint32_t> system_thread{0};  ///< the system's number of it, set with `thread`
  /// Of announced operations so many hits may come before the thread tells of them, unless Prefetcher::alarms_ has changed. Its own.
  uint32_t untold = 0, alarms = 0;
  std::atomic<uint64_t> hits{0};       ///< that are not in the ring
  std::atomic<uint64_t> announced{0};  ///< hits while the stream had announced operations
  LeaseList free;
  std::atomic<UseRing *> ring{
      nullptr};  ///< of what the thread acquires; made by it, when the stream is learned from
};

/// What a pool keeps for a stream. `own` belongs to the threads it names; `shared`, `leases` and `hits` are guarded by
/// the stream's timeline lock, the rest by the pool's. A record that no handle names belongs to the thread that has buried it.
struct alignas(64) StreamState {
  explicit StreamState(std::pmr::memory_resource *memory) : leases(memory) {
    leases.reserve(max_leases / 64);
  }
  static constexpr uint32_t max_leases = 1U << 16;
  static constexpr uint32_t max_own = 64;

  backend::Stream *stream = nullptr;
  /// The life of the slot that the rest is of; set under the pool's lock.
  std::atomic<uint32_t> stream_generation{0};
  /// What acquires have to heed, as bits; none: the hit path looks no further.
  std::atomic<uint8_t> ways{0};
  static constexpr uint8_t announced = 1;  ///< operations (core/policy/announcements.hpp)
  static constexpr uint8_t learned =
      2;  ///< what is acquired goes into the pool's log (use_log.hpp)
  /// Of a stream that is learned from, the thread that acquired last, as take_turn() has it.
  std::atomic<uint32_t> turn{nobody};
  static constexpr uint32_t nobody = UINT32_MAX, without_own = uint32_t{1} << 31;
  std::atomic<UseRing *> shared_ring{
      nullptr};  ///< of threads without records of their own; written under the timeline's lock
  /// That stream's. A closed stream's slot is another's at any time, and not the pool's to look into.
  const backend::Device *device = nullptr;
  std::array<OwnLeases, 4> own;  ///< for the first threads that use the stream, by their numbers
  LeaseList shared;
  uint64_t hits = 0;
  std::pmr::vector<Owned<Lease>>
      leases;  // pointers are stable; read by index without the pool's lock

  uint64_t granted = 0;            ///< acquires that took the slow way
  std::array<uint64_t, 4> told{};  ///< what of `announced` the prefetcher has been told of

  /// Acquires that the hit path has granted. Takes the stream's timeline lock.
  uint64_t count_hits() noexcept {
    const Guard hold(stream->timeline.lock);
    uint64_t count = hits;
    const auto add = [&count](const std::atomic<UseRing *> &ring) {
      if (const UseRing *found = ring.load(std::memory_order_acquire)) count += found->hits();
    };
    for (const OwnLeases &mine : own) {
      count += mine.hits.load(std::memory_order_relaxed);
      add(mine.ring);
    }
    add(shared_ring);
    return count;
  }
  /// Whether one is unreleased. Takes the stream's timeline lock.
  bool has_leases() noexcept {
    const Guard hold(stream->timeline.lock);
    return std::any_of(leases.begin(), leases.end(),
                       [](const auto &lease) { return lease->count != 0; });
  }
  /// Shows each item of so many records from that one on, as far as they are unreleased leases. With the pool's lock held, takes the
  /// stream's timeline lock. Of a lease that is released or granted meanwhile what is shown may be mixed of before and after. False: there
  /// are no more records.
  template <class Visit>
  bool each_item(size_t from, size_t records, Visit &&visit) WEIR_HELD {
    const Guard hold(stream->timeline.lock);
    const size_t end = std::min(leases.size(), from + records);
    for (size_t i = from; i < end; ++i) {
      Lease &lease = *leases[i];
      const uint32_t count = lease.count.load(std::memory_order_acquire);
      LeaseItem *const items = count <= Lease::inline_items ? lease.few.data() : lease.more.data();
      for (uint32_t item = 0; item < count; ++item) {
        const LeaseItem seen = items[item].seen();
        if (seen.kind != LeaseKind::none) visit(seen);
      }
    }
    return end < leases.size();
  }
  /// nullptr: the thread has to share. Needs no lock.
  OwnLeases *of_this_thread() noexcept {
    const uint32_t thread = thread_number();
    OwnLeases &mine = own[thread % own.size()];
    return thread != 0 && mine.thread.load(std::memory_order_relaxed) == thread ? &mine : nullptr;
  }

  /// Hits of announced operations that nobody has been told of. Under the pool's lock.
  uint64_t take_announced() noexcept {
    uint64_t count = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      const uint64_t all = own[i].announced.load(std::memory_order_relaxed);
      count += all - std::exchange(told[i], all);
    }
    return count;
  }
  bool has_announced() const noexcept {
    return (ways.load(std::memory_order_relaxed) & announced) != 0;
  }
  void set_way(uint8_t way, bool on) noexcept {
    if (on)
      ways.fetch_or(way, std::memory_order_relaxed);
    else
      ways.fetch_and(static_cast<uint8_t>(~way), std::memory_order_relaxed);
  }

  // ---- of a stream that is learned from ----
  /// nullptr: another thread has acquired since, or the calling one has none. Needs no lock.
  OwnLeases *in_turn() noexcept {
    const uint32_t thread = thread_number();
    return turn.load(std::memory_order_relaxed) == thread ? &own[thread % own.size()] : nullptr;
  }
  /// The calling thread acquires. False: it did so before, too.
  bool take_turn() noexcept {
    const uint32_t mine = thread_number() | (of_this_thread() == nullptr ? without_own : 0);
    if (turn.load(std::memory_order_relaxed) == mine) return false;
    turn.store(mine, std::memory_order_relaxed);
    return true;
  }
  /// Where the calling thread's ring is, or is to be.
  std::atomic<UseRing *> &ring_of_this_thread() noexcept {
    OwnLeases *mine = of_this_thread();
    return mine != nullptr ? mine->ring : shared_ring;
  }

  /// A buried record, to be used again. Takes the stream's timeline lock if it is for all threads.
  void give(Lease *lease) noexcept {
    lease->count.store(0, std::memory_order_relaxed);
    OwnLeases *mine = of_this_thread();
    if (mine != nullptr && mine->free.size < max_own) {
      mine->free.push(lease);
    } else {
      give_to_all(lease);
    }
  }
  [[gnu::cold, gnu::noinline]] void give_to_all(Lease *lease) noexcept {
    const Guard hold(stream->timeline.lock);
    shared.push(lease);
  }

  // ---- under the stream's timeline lock ----
  void adopt_this_thread() noexcept {
    const uint32_t thread = number_thread();
    OwnLeases &mine = own[thread % own.size()];
    if (thread == 0 || mine.thread.load(std::memory_order_relaxed) != 0) return;
    mine.thread.store(thread, std::memory_order_relaxed);
    mine.system_thread.store(static_cast<uint32_t>(gettid()), std::memory_order_relaxed);
  }
  /// The thread's own first: one that it has given back has room for sets. nullptr: max_leases are out. Throws std::bad_alloc with
  /// nothing changed.
  Lease *take(std::pmr::memory_resource *memory) {
    OwnLeases *mine = of_this_thread();
    if (Lease *lease = mine != nullptr ? mine->free.pop() : nullptr) return lease;
    if (Lease *lease = shared.pop()) return lease;
    const size_t index = leases.size();
    if (index == max_leases) return nullptr;
    leases.push_back(make_owned<Lease>(memory, memory));
    leases.back()->index = static_cast<uint32_t>(index);
    return leases.back().get();
  }
  /// From now on no handle names the lease.
  static void bury(Lease *lease) noexcept {
    const uint32_t next = (lease->generation.load(std::memory_order_relaxed) + 1) & generation_mask;
    lease->generation.store(next != 0 ? next : 1, std::memory_order_relaxed);
  }
  /// The unreleased lease of a handle that names this stream's slot, or nullptr.
  Lease *find(weir_lease handle) noexcept {
    const auto bits = reinterpret_cast<uint64_t>(handle);
    const auto index = static_cast<uint32_t>((bits >> index_shift) & (max_leases - 1));
    if (index >= leases.size()) return nullptr;
    Lease *lease = leases[index].get();
    return lease->count.load(std::memory_order_relaxed) != 0 &&
                   lease->generation.load(std::memory_order_relaxed) == (bits & generation_mask)
               ? lease
               : nullptr;
  }

  // A handle: pool 12 | slot 15 | index 16 | generation 21.
  static weir_lease handle(uint32_t pool_id, uint32_t slot, const Lease &lease) noexcept {
    const uint64_t bits = (uint64_t{pool_id} << pool_shift) | (uint64_t{slot} << slot_shift) |
                          (uint64_t{lease.index} << index_shift) |
                          lease.generation.load(std::memory_order_relaxed);
    return reinterpret_cast<weir_lease>(bits);
  }
  static uint32_t slot_of(weir_lease handle) noexcept {
    return static_cast<uint32_t>(reinterpret_cast<uint64_t>(handle) >> slot_shift) & 0x7fffU;
  }
  static constexpr unsigned index_shift = 21, slot_shift = 37, pool_shift = 52;
  static constexpr uint32_t generation_mask = (1U << index_shift) - 1;
};

/// The states by the streams' slots. One is made once and lives as long as the pool; the next stream with the slot takes it over.
class StreamStates {
 public:
  explicit StreamStates(std::pmr::memory_resource *memory)
      : memory_(memory), states_(backend::StreamTable::max_slots + 1, memory), owned_(memory) {}

  /// nullptr: no stream with the slot has used the pool. Needs no lock.
  StreamState *find(uint32_t slot) const noexcept {
    return states_[slot].load(std::memory_order_acquire);
  }
  /// Makes the state of the stream's slot, if there is none. Throws std::bad_alloc with nothing changed.
  StreamState &have(backend::Stream &stream) WEIR_HELD {
    if (StreamState *found = find(stream.slot)) return *found;
    grow_by(owned_);
    owned_.push_back(make_owned<StreamState>(memory_, memory_));
    StreamState &fresh = *owned_.back();
    fresh.stream = &stream;
    states_[stream.slot].store(&fresh, std::memory_order_release);
    return fresh;
  }
  const std::pmr::vector<Owned<StreamState>> &all() const noexcept WEIR_HELD { return owned_; }

 private:
  std::pmr::memory_resource *memory_;
  std::pmr::vector<std::atomic<StreamState *>> states_;
  std::pmr::vector<Owned<StreamState>> owned_ WEIR_GUARDED;
};

}  // namespace weir::lease
