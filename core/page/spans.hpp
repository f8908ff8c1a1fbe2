// SPDX-License-Identifier: Apache-2.0
//
// Spans: what lets the hit path lease a range of a buffer. Such a lease is counted in the buffer's word as one of the whole buffer
// would be, so all that keeps a whole lease right keeps it right too: it is granted only where the whole could be had, nothing
// that it lies on is taken out, and its release publishes the same stamp. That it is one of a range says Word::part; which range, and
// which ranges the stamp stands for, says the buffer's span. So code that looks under the pool's lock treats it as no more than it
// is: a lease on other bytes does not conflict with it, other pages may leave, and other streams wait for the uses of their bytes alone.
//
// What must hold:
//  - Word::part is set and cleared with the span's lock held, and the rest of the span is read and written so. Where the word says
//    `part` under that lock, exactly one of the leases counted is that of the span;
//  - the number of a buffer's span in its word changes under the pool's lock and the span's, never while `part` is set;
//  - the lock is kept for a handful of instructions; the thread that has it takes no other;
//  - the past uses are those that the stamp stands for only while the stamp is the one that the last of them has left. Any other
//    stamp stands for the whole buffer.
// A span is never freed before the pool. There are not many: a buffer that has had none for long loses its own to another.
#pragma once

#include "core/base/memory.hpp"
#include "core/base/pool_lock.hpp"
#include "core/base/spin_lock.hpp"
#include "core/page/buffer_table.hpp"

#include <array>
#include <atomic>
#include <memory_resource>
#include <optional>
#include <span>

namespace weir::page {

/// A range of a buffer, leased on the hit path; or one that was, and the stamp of that.
struct SpanLease {
  uint64_t begin = 0, end = 0;  ///< bytes of the buffer
  uint8_t mode = 0;             ///< WEIR_READ ...
};
struct SpanUse {
  uint64_t begin = 0, end = 0;
  backend::Stamp stamp;
};

class alignas(64) Span {
 public:
  static constexpr uint32_t no_buffer = UINT32_MAX;
  static constexpr size_t most_uses = 6;

  SpinLock lock;

  // ---- with the lock ----
  /// The lease has ended with this stamp, which the buffer's is from now on; `before` is what it was.
  void note(uint64_t before, backend::Stamp now, const SpanUse &use) noexcept;
  /// What the stamp stands for; nothing: for the whole buffer.
  std::span<const SpanUse> uses(backend::Stamp stamp) const noexcept {
    return {uses_.data(), stamp.bits == last_ ? count_ : 0};
  }
  /// What the buffer's stamp was before those.
  backend::Stamp before() const noexcept { return backend::Stamp{before_}; }
  void forget() noexcept { last_ = before_ = count_ = 0; }

  SpanLease leased;  ///< while the word says `part`
  uint32_t buffer = no_buffer;

 private:
  uint64_t last_ = 0;    ///< the stamp that the last of `uses_` has left
  uint64_t before_ = 0;  ///< the stamp before the first of them
  uint32_t count_ = 0;
  std::array<SpanUse, most_uses> uses_;
};

class Spans {
 public:
  explicit Spans(std::pmr::memory_resource *memory) noexcept : memory_(memory) {}
  ~Spans();
  Spans(const Spans &) = delete;
  Spans &operator=(const Spans &) = delete;

  // ---- without the pool's lock ----
  /// As Hot::try_lease(), of a range that is not all of the buffer. False: it takes the slow way, and nothing has changed.
  bool try_lease(Hot &hot, uint64_t generation, const SpanLease &range, uint32_t slot,
                 uint32_t device_id, uint64_t *where) noexcept;
  /// Publishes the fence of a lease that try_lease() has granted, in the turn of its stream's timeline, and ends it. False: there is a fence
  /// of another stream, so this one belongs into the history; the lease is still counted.
  bool release(Hot &hot, const SpanLease &range, backend::Stamp stamp) noexcept;
  /// The same of a lease of the whole buffer whose fence may be older than the stamp: from then on that stands for all of the buffer.
  bool release_whole(Hot &hot, uint8_t mode, backend::Stamp stamp) noexcept;
  /// Ends one whose fence is elsewhere.
  void drop(Hot &hot, uint8_t mode) noexcept;

  // ---- under the pool's lock ----
  /// The buffer's word, and the lease that it counts as `part`.
  struct Look {
    uint64_t word;
    std::optional<SpanLease> part;
    /// The leases of the whole buffer that it counts.
    uint64_t wholes() const noexcept {
      const uint64_t all = Word::leases(word);
      return !part ? all : part->mode == WEIR_READ ? all - Word::reader : all & ~Word::writer;
    }
  };
  Look look(const Hot &hot) noexcept WEIR_HELD;
  /// Gives the buffer a span, if it has none and one can be had.
  void attach(Hot &hot, uint32_t index, BufferTable &buffers) WEIR_HELD;
  /// Ranges of it are not leased on the hit path any more. Not while one is.
  void detach(Hot &hot) noexcept WEIR_HELD;
  /// nullptr: it has none. Also without it, but then it may have lost it meanwhile.
  Span *of(uint64_t word) noexcept {
    const uint32_t number = Word::span(word);
    return number != 0 ? &at(number) : nullptr;
  }

 private:
  static constexpr uint32_t chunk_size = 64, most = Word::most_spans;

  Span &at(uint32_t number) noexcept {
    return chunks_[number / chunk_size].load(std::memory_order_acquire)[number % chunk_size];
  }
  uint32_t take(BufferTable &buffers) WEIR_HELD;

  std::pmr::memory_resource *memory_;
  std::array<std::atomic<Span *>, (most + chunk_size) / chunk_size> chunks_{};
  uint32_t made_ = 1;  ///< number 0 is none
  uint32_t hand_ = 0;  ///< whose turn it is to lose its buffer
};

}  // namespace weir::page
