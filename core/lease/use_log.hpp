// SPDX-License-Identifier: Apache-2.0
//
// UseLog: what the streams of a pool acquire, and which large buffers are created and destroyed in between, for one who learns from it. Written
// where it happens, without waiting for anybody; read by drain(), under the pool's lock. Off, it takes no memory.
//
// The order is that of a pool-wide number, the moment. It goes on at each birth and death, and when another thread acquires on a stream
// than the one before. A use has the moment it found: what happened before it, as the program sees it, has none that is later, and of two
// threads that take turns on a stream each finds a later one than the other left. Threads that acquire on one stream at the same time have
// no order; each one's own is kept.
#pragma once

#include "core/base/memory.hpp"
#include "core/base/pool_lock.hpp"
#include "core/lease/observer.hpp"
#include "core/lease/use_ring.hpp"

#include <atomic>
#include <vector>

namespace weir::lease {

class UseLog {
 public:
  /// Of all streams and their threads; beyond that streams are not learned from.
  static constexpr uint32_t most_rings = 128;

  explicit UseLog(std::pmr::memory_resource *memory) noexcept : memory_(memory), uses_(memory) {}
  ~UseLog();
  UseLog(const UseLog &) = delete;
  UseLog &operator=(const UseLog &) = delete;

  /// Turns it on, before others know of it. Buffers of at least so many bytes are large. Throws std::bad_alloc.
  void start(uint64_t large);
  bool on() const noexcept { return lives_ != nullptr; }

  // ---- those who use streams: any thread ----
  /// The second word of a record that is written now.
  uint64_t when(uint32_t operation) const noexcept {
    return uint64_t{operation} << 32 | moment_.load(std::memory_order_relaxed);
  }
  /// Another thread acquires on a stream than the one before. Returns the moment that begins.
  uint32_t next_moment() noexcept { return moment_.fetch_add(1, std::memory_order_relaxed) + 1; }
  /// Whether a stream has had a ring: it has acquired something.
  bool used() const noexcept { return rings_.load(std::memory_order_acquire) != nullptr; }
  /// One more ring for that stream. nullptr: there is no memory for it, or there are as many as there may be.
  UseRing *add_ring(const ObservedStream &stream) noexcept;

  // ---- births, deaths and beginnings ----
  /// Before anybody can use it.
  void born(uint32_t buffer, uint64_t generation, uint64_t bytes) noexcept WEIR_HELD {
    if (on() && bytes >= large_) note(Kind::born, buffer, generation, bytes);
  }
  /// When nobody uses it any more.
  void died(uint32_t buffer, uint64_t generation, uint64_t bytes) noexcept WEIR_HELD {
    if (on() && bytes >= large_) note(Kind::died, buffer, generation, bytes);
  }
  /// Before the stream has used anything.
  void began(const ObservedStream &stream) noexcept WEIR_HELD {
    if (on()) note(Kind::began, stream.slot, 0, stream.life);
  }

  // ---- who reads: one thread at a time ----
  /// Tells what has come since, until that were `most` things or more; a thing is a use, a birth, a death or a beginning. Returns how many; less
  /// than `most`: that is all for now. Throws what the observer throws, and std::bad_alloc: the operation is missed.
  size_t drain(Observer &observer, size_t most);
  /// The uses that have come so far are missed: the observer hears of it with each stream's next operation. What was born or has
  /// died is told as ever, as far as there was room for it.
  void skip_uses() noexcept;
  /// Whether nothing has come since all was told. Something may be under way.
  bool empty() const noexcept;
  /// Buffers of at least so many bytes are large.
  uint64_t large() const noexcept { return large_; }

 private:
  enum class Kind : uint8_t { born = 1, died, began };
  using Lives = RecordRing<3>;

  void note(Kind kind, uint32_t index, uint64_t generation, uint64_t value) noexcept WEIR_HELD;
  void fetch() noexcept;
  /// Whether there are births or such that have not been fetched. Uses from that moment on have to wait for them.
  bool unfetched(uint32_t *from) const noexcept;
  struct Next;
  /// False: something is to be fetched before.
  bool find_next(Next *next) const noexcept;
  /// What has been fetched. True: there is more to be fetched, for which there was no room.
  bool tell(Observer &observer, size_t most, size_t *told);
  /// The first of what has been fetched of births and such, if it came before the moment (nullptr: whenever). False: it did not, or
  /// there is none.
  bool tell_life(Observer &observer, const uint32_t *before);
  void tell_operation(Observer &observer, UseRing &ring, size_t *told);

  std::pmr::memory_resource *memory_;
  alignas(64) std::atomic<uint32_t> moment_{0};
  alignas(64) std::atomic<UseRing *> rings_{nullptr};
  std::atomic<uint32_t> count_{0};
  uint64_t large_ = 0;
  Owned<Lives> lives_;                  ///< written under the pool's lock
  std::pmr::vector<ObservedUse> uses_;  ///< the reader's
};

}  // namespace weir::lease
