// SPDX-License-Identifier: Apache-2.0
//
// Hot: what the hit path needs to know of a buffer, in 32 bytes, and the protocol of its word and stamp. Acquire
// counts a lease by one compare-and-swap; release publishes its fence, then drops the count. The rules:
//  - a lease is counted first and the fence is looked at after it: a release published its fence before
//    dropping its own count, so what is seen then is complete;
//  - release publishes the fence before it drops the count: a thread that claims the page afterwards finds it;
//  - a buffer with anything unusual about it (history, partial leases, copies elsewhere, another stream's
//    fence) says so in its word or stamp, and goes the slow way;
//  - a stamp that names a stream is replaced by that stream's releases alone, in its timeline's turn and by no older point;
//    others empty it under the pool's lock, and only while the hit path is closed and no lease that might publish is counted:
//    a release looks at the stamp and stores another in two steps, and nothing comes between them;
//  - a stamp is published after its fence is in the timeline's ring, so a thread that has read the stamp finds the fence.
#pragma once

#include "core/backend/timeline.hpp"

#include <weir/lease.h>

#include <atomic>

namespace weir::page {

/// The buffer's state word. The hit path changes it by compare-and-swap, everything else under the pool's lock.
///   readers 16 | writer | resident | history | partial | sole | closing | virgin | part | alignment 5 | span 11 | generation 20 | alive
struct Word {
  static constexpr uint64_t reader = 1;
  static constexpr uint64_t readers_mask = 0xffff;
  static constexpr uint64_t writer = uint64_t{1} << 16;
  /// Every page of the buffer has its latest version where Hot::device() uses it, at Hot::address: the hit path is open to that device.
  static constexpr uint64_t resident = uint64_t{1} << 17;
  /// There are fences beyond Hot::stamp: in the history, or of a copy still in flight.
  static constexpr uint64_t history = uint64_t{1} << 18;
  /// There are unreleased leases on parts of it.
  static constexpr uint64_t partial = uint64_t{1} << 19;
  /// No page has a latest copy elsewhere: a write needs no invalidation.
  static constexpr uint64_t sole = uint64_t{1} << 20;
  static constexpr uint64_t closing = uint64_t{1} << 21;
  /// A tenant never written: its place in the slab may hold another's bytes. If it is `resident` too, and only then, a lease
  /// to write all of it may be had on the hit path, which ends both that and this; nothing else may. Who is about to rely on
  /// the bit takes `resident` first.
  static constexpr uint64_t virgin = uint64_t{1} << 22;
  /// One of the leases that are counted here is of a range, of which the buffer's span knows more (page/spans.hpp).
  static constexpr uint64_t part = uint64_t{1} << 23;
  /// A tenant's: log2 of the alignment it was made with.
  static constexpr unsigned alignment_shift = 24;
  static constexpr uint64_t alignment_mask = 31;
  /// The number of its span; 0: it has none.
  static constexpr unsigned span_shift = 29;
  static constexpr uint32_t most_spans = 2047;
  static constexpr uint64_t span_mask = uint64_t{most_spans} << span_shift;
  static constexpr uint32_t span(uint64_t word) noexcept {
    return static_cast<uint32_t>((word & span_mask) >> span_shift);
  }
  static constexpr unsigned generation_shift = 40;
  static constexpr uint64_t generation_mask = uint64_t{0xfffff} << generation_shift;
  static constexpr uint64_t alive = uint64_t{1} << 63;

  static constexpr uint64_t leases(uint64_t word) noexcept {
    return word & (readers_mask | writer);
  }
  /// What one of a mode adds to that.
  static constexpr uint64_t counted(uint32_t mode) noexcept {
    return mode == WEIR_READ ? reader : writer;
  }
};

struct alignas(32) Hot {
  std::atomic<uint64_t> word{0};
  std::atomic<uint64_t> stamp{0};  ///< backend::Stamp of the last whole uses, all on one stream
  uint64_t address = 0;            ///< for that device; valid while `resident`
  /// size (48) | id in the context of the device that has the hit path (16): the buffer's home, or another that has used it since. It and
  /// `address` change only while the path is closed and the word counts no lease but the changer's own.
  std::atomic<uint64_t> size_device{0};

  /// Counts a lease of the whole buffer for a stream of the device `device_id`. False: it takes the slow way, and nothing
  /// has changed. `also`: flags that are clear, and set with it.
  template <uint64_t also = 0>
  bool try_lease(uint64_t generation, uint32_t mode, uint32_t slot, uint32_t device_id,
                 uint64_t *where) noexcept {
    constexpr uint64_t must = Word::alive | Word::resident;
    constexpr uint64_t must_not =
        Word::history | Word::partial | Word::closing | Word::virgin | also;
    uint64_t seen = word.load(std::memory_order_relaxed);
    for (;;) {
      if ((seen & (Word::generation_mask | must | must_not)) != (generation | must)) return false;
      uint64_t next;
      if (mode == WEIR_READ) {
        if ((seen & Word::writer) != 0 || (seen & Word::readers_mask) == Word::readers_mask)
          return false;
        next = (seen + Word::reader) | also;
      } else {
        if (Word::leases(seen) != 0 || (seen & Word::sole) == 0) return false;
        next = seen | Word::writer | also;
      }
      if (word.compare_exchange_weak(seen, next, std::memory_order_acquire,
                                     std::memory_order_relaxed))
        break;
    }
    const backend::Stamp last{stamp.load(std::memory_order_relaxed)};
    if ((last && last.slot() != slot) || device() != device_id) {
      drop_lease(mode, also);
      return false;
    }
    *where = address;
    return true;
  }
  /// The first lease of a virgin tenant, of all of it and to write it. As above.
  bool try_first_lease(uint64_t generation, uint32_t slot, uint32_t device_id,
                       uint64_t *where) noexcept {
    constexpr uint64_t must = Word::alive | Word::resident | Word::sole | Word::virgin;
    constexpr uint64_t must_not =
        Word::readers_mask | Word::writer | Word::history | Word::partial | Word::closing;
    uint64_t seen = word.load(std::memory_order_relaxed);
    if ((seen & (Word::generation_mask | must | must_not)) != (generation | must)) return false;
    if (!word.compare_exchange_strong(seen, (seen | Word::writer) & ~Word::virgin,
                                      std::memory_order_acquire, std::memory_order_relaxed))
      return false;
    const backend::Stamp past{stamp.load(std::memory_order_relaxed)};
    if ((past && past.slot() != slot) || device() != device_id) {
      word.fetch_add(Word::virgin - Word::writer);
      return false;
    }
    *where = address;
    return true;
  }
  uint64_t generation() const noexcept {
    return word.load(std::memory_order_relaxed) & Word::generation_mask;
  }
  /// Whether it is the buffer of that generation, and none of these flags is set.
  bool lives(uint64_t generation, uint64_t flags = 0) const noexcept {
    return (word.load(std::memory_order_relaxed) & (Word::alive | Word::generation_mask | flags)) ==
           (Word::alive | generation);
  }
  /// `also`: flags that go with it.
  void drop_lease(uint32_t mode, uint64_t also = 0) noexcept {
    word.fetch_sub((mode == WEIR_READ ? Word::reader : Word::writer) + also);
  }
  /// Publishes the fence of a whole lease, which is still counted; the caller has the turn of its stream's
  /// timeline. False: there is a fence of another stream, so this one belongs into the history.
  bool publish(backend::Stamp use) noexcept {
    uint64_t seen = stamp.load(std::memory_order_relaxed);
    if (seen == 0) {
      // Readers on two streams may both find it empty.
      if (stamp.compare_exchange_strong(seen, use.bits, std::memory_order_release,
                                        std::memory_order_relaxed))
        return true;
    }
    const backend::Stamp there{seen};
    if (there.slot() != use.slot()) return false;
    // A release that recorded later may have been faster; its point stands for this one too. The write bit stays: it says
    // that a write on this stream is among what the stamp stands for.
    const uint64_t later = there.point() > use.point() ? seen : use.bits;
    stamp.store(later | ((seen | use.bits) & backend::Stamp::write_bit), std::memory_order_release);
    return true;
  }
  /// For a lease to read on another stream than the stamp's: takes the stamp out, so that this stream's can follow. Under the
  /// pool's lock, by whom the only lease is counted. Empty: others hold leases and may be publishing, or there was none; either
  /// way the stamp stays. Leaves the hit path closed (`history`): the caller sets the word right.
  backend::Stamp take_past() noexcept {
    // Closed first: a hit that came before is counted in what is seen here, and none comes after.
    const uint64_t seen = word.fetch_or(Word::history, std::memory_order_acq_rel);
    if (Word::leases(seen) != Word::reader) return {};
    return backend::Stamp{stamp.exchange(0, std::memory_order_acquire)};
  }
  /// The stamp, for who is going to look for its fence.
  backend::Stamp last_use() const noexcept {
    return backend::Stamp{stamp.load(std::memory_order_acquire)};
  }

  uint64_t size() const noexcept {
    return size_device.load(std::memory_order_relaxed) & ((uint64_t{1} << 48) - 1);
  }
  uint32_t device() const noexcept {
    return static_cast<uint32_t>(size_device.load(std::memory_order_relaxed) >> 48);
  }
  void set_flags(uint64_t set, uint64_t clear) noexcept {
    uint64_t seen = word.load(std::memory_order_relaxed);
    while (!word.compare_exchange_weak(seen, (seen | set) & ~clear, std::memory_order_acq_rel)) {
    }
  }
  /// False, with nothing changed: a flag or count of `must_not` is set.
  bool try_flags(uint64_t must_not, uint64_t set, uint64_t clear) noexcept {
    uint64_t seen = word.load(std::memory_order_relaxed);
    do {
      if ((seen & must_not) != 0) return false;
    } while (!word.compare_exchange_weak(seen, (seen | set) & ~clear, std::memory_order_acq_rel));
    return true;
  }
  void set_size_device(uint64_t size, uint32_t device) noexcept {
    size_device.store(size | (uint64_t{device} << 48), std::memory_order_relaxed);
  }
};
static_assert(sizeof(Hot) == 32);

}  // namespace weir::page
