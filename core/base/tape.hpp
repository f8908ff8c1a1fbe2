// SPDX-License-Identifier: Apache-2.0
//
// Tape: what a traced context's threads tell, on its way to the one thread that writes it down. Each thread has a ring of its own, so to
// tell takes no lock, waits for no thread, and makes no call of the system but for the ring's memory, once. A note that finds no room is
// lost, and counted. Notes are numbered across threads, so that a note which another thread could know of comes after it.
//
// What must hold: a ring is written by the thread that has its number (base/thread_id.hpp) and read by the tape's one reader. Rings
// live as long as the tape, which outlives every thread that may know of it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <memory_resource>
#include <span>

namespace weir {

/// The beginning of every note; what follows it, by kind, is in notes.hpp.
struct Note {
  uint32_t bytes = 0;      ///< with this, rounded up to eight
  uint8_t kind = 0;        ///< 0: nothing, up to the ring's end
  uint8_t after_loss = 0;  ///< 1: notes of the thread that came before it are lost
  uint16_t thread = 0;     ///< its number
  uint64_t order = 0;
  uint64_t ns = 0;  ///< steady_ns() as it was told
};

class Tape {
 public:
  using Tail = std::span<const std::byte>;

  /// `ring_bytes`: a power of two, of each thread's. `memory` may be asked by any thread.
  Tape(size_t ring_bytes, std::pmr::memory_resource *memory) noexcept
      : memory_(memory), ring_bytes_(ring_bytes) {}
  ~Tape();
  Tape(const Tape &) = delete;
  Tape &operator=(const Tape &) = delete;

  // ---- for threads that tell ----
  /// Which kinds of notes the reader wants beside those that all want; bits of its own.
  uint32_t wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }
  /// `head` is a struct that begins with a Note, whose kind is set; the tails follow it, each from a multiple of eight bytes on. Lost
  /// where there is no room.
  void put(Note *head, size_t bytes, std::initializer_list<Tail> tails = {}) noexcept;
  /// One that could not be made.
  void lose() noexcept { lost_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

  static constexpr uint64_t rounded(uint64_t bytes) noexcept { return (bytes + 7) & ~uint64_t{7}; }

  // ---- for the reader ----
  void want(uint32_t bits) noexcept { wanted_.store(bits, std::memory_order_relaxed); }
  /// The note that is next in order, which stays where it is until taken. nullptr: there is none yet, or it is being written.
  const Note *next() noexcept;
  void take() noexcept;
  /// Waits no more for notes that are being written: the complete ones come in order, with gaps.
  void skip_gaps() noexcept { skips_ = true; }
  /// Forgets what is there, and what is being written now.
  void clear() noexcept;

 private:
  struct Ring {
    std::atomic<uint64_t> head{0};              ///< bytes written ...
    alignas(64) std::atomic<uint64_t> tail{0};  ///< ... and read, ever
    std::byte *bytes = nullptr;
    bool lost = false;  ///< since the last note
  };
  static constexpr size_t most_threads = 1025;  ///< thread_number() goes to 1024

  Ring *ring_of(uint32_t thread) noexcept;
  void lose(Ring *ring) noexcept;
  /// Its oldest note, or nullptr. Passes what fills a ring's end, and what was forgotten.
  const Note *front(Ring &ring) noexcept;

  std::pmr::memory_resource *const memory_;
  const size_t ring_bytes_;
  std::atomic<uint32_t> wanted_{0};
  std::atomic<uint64_t> lost_{0};
  alignas(64) std::atomic<uint64_t> orders_{0};  ///< given out
  std::array<std::atomic<Ring *>, most_threads> rings_{};
  std::atomic<uint32_t> highest_{0};  ///< number of a thread that has a ring
  // The reader's.
  uint64_t expected_ = 0;
  uint32_t at_ = 0;  ///< whose note is next; 0: not known
  bool skips_ = false;
};

}  // namespace weir
