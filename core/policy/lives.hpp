// SPDX-License-Identifier: Apache-2.0
//
// Lives: the buffers that a log (program_log.hpp) speaks of. The number of a buffer is given to the next one when it dies; a life is
// of one buffer only, and stays known after its death for as long as the log has an entry of it.
//
// Invariants: at most one life of a buffer's number lives. `mentions` counts the log's entries of a life; one that is dead and not
// mentioned is free. All memory is allocated at the start.
#pragma once

#include "core/policy/cast.hpp"

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::policy {

/// A part, as whoever keeps one has to keep it.
struct PartRef {
  uint32_t part = Cast::none;
  uint32_t life = 0;
};

struct Life {
  static constexpr uint32_t none = UINT32_MAX;

  uint64_t generation = 0;
  uint64_t bytes = 0;
  uint32_t buffer = none;  ///< its number in the pool's table
  uint32_t mentions = 0;   ///< entries of the log that name it
  uint32_t born =
      none;  ///< the operation that it was born before; none: forgotten, or no operation has come since
  uint32_t died = none;      ///< the operation that it died after
  uint32_t last_use = none;  ///< its newest use in the log, if that is held
  uint32_t next_born = none,
           previous_born = none;  ///< lives that were born before the same operation, in order
  uint32_t next_died = none;      ///< as well of those that died after it
  /// The operation that is foreseen to use it next; that of its newest use: none is; none: that is not known.
  uint32_t due = none;
  PartRef own;     ///< of the buffer itself
  PartRef played;  ///< by whom its part is played now: an earlier buffer's place in the program
  uint16_t stream = 0;  ///< while it waits for the operation that it is born before
  uint16_t rank = 0;    ///< among the births before its operation
  uint8_t growth = 0;   ///< size_scaling.hpp
  bool alive : 1 = false;
  bool waits : 1 = false;     ///< no operation has come since its birth
  bool persists : 1 = false;  ///< it has been seen to outlive a round of the program
  bool left : 1 = false;      ///< it is not alive, and what became of it is not known
};

class Lives {
 public:
  static constexpr uint32_t none = Life::none;

  /// Throws std::bad_alloc. `capacity` is at least 1.
  Lives(uint32_t capacity, std::pmr::memory_resource *memory);

  Life &operator[](uint32_t life) noexcept { return lives_[life]; }
  const Life &operator[](uint32_t life) const noexcept { return lives_[life]; }

  /// The life of the buffer that has this number now, or none.
  uint32_t of(uint32_t buffer) const noexcept { return slots_[slot_of(buffer)]; }
  /// That buffer is known to live.
  bool names(uint32_t buffer, uint64_t generation) const noexcept {
    const uint32_t life = of(buffer);
    return life != none && lives_[life].generation == generation;
  }
  bool full() const noexcept { return free_ == none && used_ == lives_.size(); }
  /// A buffer has been created; the number has no life that lives, and the table is not full.
  uint32_t begin(uint32_t buffer, uint64_t generation, uint64_t bytes) noexcept;
  /// The buffer has been destroyed. It is free unless it is mentioned.
  void end(uint32_t life) noexcept;

  void mention(uint32_t life) noexcept { ++lives_[life].mentions; }
  void unmention(uint32_t life) noexcept {
    if (--lives_[life].mentions == 0 && !lives_[life].alive) release(life);
  }
  uint32_t capacity() const noexcept { return static_cast<uint32_t>(lives_.size()); }
  uint32_t alive() const noexcept { return alive_; }
  /// Numbers of lives are below this.
  uint32_t used() const noexcept { return used_; }

  size_t bytes() const noexcept {
    return lives_.capacity() * sizeof(Life) + slots_.capacity() * sizeof(uint32_t);
  }
  /// Of a life, its share of the index included.
  static constexpr size_t bytes_each = sizeof(Life) + 4 * sizeof(uint32_t);

 private:
  void release(uint32_t life) noexcept;
  /// Where the buffer is in the index, or would be.
  size_t slot_of(uint32_t buffer) const noexcept;
  size_t home(uint32_t buffer) const noexcept {
    return (buffer * uint64_t{0x9E3779B97F4A7C15}) >> shift_;
  }

  std::pmr::vector<Life> lives_;
  std::pmr::vector<uint32_t>
      slots_;  ///< an open hash table by buffer; a power of two, at most half of it is taken
  uint32_t shift_ = 63;
  uint32_t used_ = 0;
  uint32_t alive_ = 0;
  uint32_t free_ = none;  ///< linked by next_born
};

}  // namespace weir::policy
