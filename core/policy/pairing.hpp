// SPDX-License-Identifier: Apache-2.0
//
// Pairing: which part (cast.hpp) plays the role of a buffer of the log now. A role passes to a new buffer when that is born where the
// other was born, or used where the other was used; before its birth an expected part has it. A buffer that still lives and whose role
// nobody has taken plays itself.
//
// Invariants: an expected part that has become a buffer, or has been given up, is not expected any more. Memory is allocated at the
// start, but for the Cast's. Guarded by whoever owns it.
#pragma once

#include "core/policy/log_ring.hpp"
#include "core/policy/program_log.hpp"

namespace weir::policy {

class Pairing {
 public:
  /// Operations after which a buffer that was to be born and was not is given up.
  static constexpr uint64_t patience = 256;

  /// Throws std::bad_alloc. At most `most` parts are expected at once.
  Pairing(Cast &cast, uint32_t most, std::pmr::memory_resource *memory)
      : cast_(cast), expected_(most, memory) {}

  /// Who plays that life's role now: a part that lives, or none.
  uint32_t player_of(const Life &life) const noexcept;
  /// It has its own part, and that lives.
  bool has_part(const Life &life) const noexcept { return lives(life.own); }
  /// Gives a buffer that lives its own part: the one that plays `role`, if that is expected and role is not nullptr. Throws
  /// std::bad_alloc with nothing changed.
  void give_part(Life &life, const Life *role);
  /// The role is taken by that life's part.
  void cast_as(Life &role, const Life &by) noexcept { role.played = by.own; }
  /// The buffer has been destroyed.
  void end_part(const Life &life) noexcept {
    if (lives(life.own)) cast_.end(life.own.part);
  }

  /// Nobody is expected any more.
  void rewind() noexcept;
  /// The role is to be played by a buffer of so many bytes that is to be born at the operation `due`. Cast::none: too many are
  /// expected. Throws std::bad_alloc with nothing changed.
  uint32_t expect(Life &role, uint64_t bytes, uint64_t due);
  /// That part is not expected any more.
  void withdraw(uint32_t part) noexcept { cast_.end(part); }
  /// That operation has begun: those that were to be born long before are given up.
  void give_up(uint64_t now) noexcept;
  const Cast &cast() const noexcept { return cast_; }

  size_t bytes() const noexcept { return expected_.bytes(); }
  static size_t bytes_each() noexcept { return sizeof(Expected); }

 private:
  struct Expected {
    PartRef ref;
    uint64_t due;
  };
  bool lives(const PartRef &ref) const noexcept { return cast_.lives(ref.part, ref.life); }
  bool is_expected(const PartRef &ref) const noexcept {
    return lives(ref) && cast_[ref.part].buffer == Cast::none;
  }

  Cast &cast_;
  LogRing<Expected> expected_;  ///< in the order of their births
};

}  // namespace weir::policy
