// SPDX-License-Identifier: Apache-2.0
//
// ProgramLog: what a program has done: its operations in the order in which they were observed, the uses of each, and the buffers that
// were born before it and died after it. All streams are in one log; each operation names those before and after it in its stream.
// Memory is allocated once; when a part of it is full, the oldest operations are forgotten. Guarded by whoever owns it.
//
// Invariants: operations and uses are called by numbers that only grow. A use's links name uses of the same buffer, or (`twin`) the use
// that had its place when the program was here before; older ones may have been forgotten, so whoever follows a link asks holds_use().
#pragma once

#include "core/policy/lives.hpp"
#include "core/policy/log_ring.hpp"

#include <span>

namespace weir::policy {

/// What a use does to a buffer.
enum UseMode : uint8_t {
  use_needs = 1,   ///< it needs the content that is there
  use_writes = 2,  ///< it changes it
  use_whole = 4    ///< all of the buffer is written before any of it is read
};

/// A use as it happened.
struct ObservedUse {
  uint32_t buffer;
  uint8_t mode;         ///< UseMode
  uint64_t begin, end;  ///< bytes of the buffer
};

/// An operation as it happened.
struct ObservedOperation {
  uint32_t name = 0;    ///< 0: it has none
  uint32_t stream = 0;  ///< a small number
  std::span<const ObservedUse> uses;
};

struct LoggedUse {
  uint32_t life;
  uint32_t operation;
  uint32_t previous, next;  ///< of the same buffer
  uint32_t twin;
  uint32_t begin, end;  ///< in units of 256 bytes, rounded outwards
  uint16_t mode;
  uint16_t slot;  ///< among the operation's uses, those that are not logged counted
};

struct LoggedOperation {
  uint32_t name;
  uint32_t shape;     ///< of its name and the number of its uses: the same operation has the same
  uint32_t position;  ///< in its stream
  uint32_t first_use;
  uint32_t previous, next;         ///< in its stream
  uint32_t first_born, last_born;  ///< lives, linked by next_born
  uint32_t first_died, last_died;
  uint16_t uses;    ///< that are logged
  uint16_t births;  ///< those of buffers that are not followed counted
  uint16_t given;   ///< uses, those that are not logged counted
  uint8_t stream;
  bool
      resized;  ///< here the sizes of buffers began to differ by another ratio from those of the round before
};

class ProgramLog {
 public:
  static constexpr uint32_t none = UINT32_MAX;
  static constexpr uint32_t no_stream = UINT32_MAX;
  static constexpr uint64_t unit = 256;  ///< of the ranges of uses

  struct Sizes {
    uint32_t operations = 1, uses = 1, lives = 1;
    uint32_t streams = 1;              ///< numbers of streams are below this; at most 256
    uint32_t most_entries = none - 1;  ///< numbered before the log is to be cleared
  };

  /// Throws std::bad_alloc.
  ProgramLog(const Sizes &sizes, std::pmr::memory_resource *memory);

  // What happens.
  /// A buffer has been created, before the next operation of the stream (no_stream: of any). One that had its number has died.
  /// Returns its life, or none: there is no room for it.
  uint32_t born(uint32_t buffer, uint64_t generation, uint64_t bytes, uint32_t stream) noexcept;
  /// One that is not followed has been created: it is counted only.
  void born_unfollowed(uint32_t stream) noexcept { count_birth(slot_of(stream)); }
  /// So many that are not followed have been created.
  void skip_births(uint32_t stream, uint32_t count) noexcept;
  /// One that was there before the log begins: it is born before no operation of it. As born().
  uint32_t known(uint32_t buffer, uint64_t generation, uint64_t bytes) noexcept;
  /// A buffer has been destroyed, after the newest operation of the stream that used it last. Unknown ones are passed over.
  void died(uint32_t buffer) noexcept;
  /// What becomes of a buffer is not known: its number may be another's from now on. Unknown ones are passed over.
  void left(uint32_t buffer) noexcept;
  /// An operation begins, with the births that have waited for it. Returns its number. `uses`: that follow, at most
  /// Sizes::uses, for which room is made, and 65535. The operation's stream is below Sizes::streams.
  uint32_t begin_operation(uint32_t name, uint32_t shape, uint32_t stream, uint32_t uses) noexcept;
  /// The newest operation uses a buffer that lives, as its use number `slot`. Several uses of one buffer become one.
  void add_use(uint32_t life, const ObservedUse &use, uint32_t slot) noexcept;

  /// So many have been numbered that the log is to be cleared before the next operation.
  bool used_up() const noexcept;
  /// Forgets all operations and uses. The buffers that live stay known.
  void clear() noexcept;

  // What has happened.
  const LoggedOperation &operation(uint32_t number) const noexcept { return operations_[number]; }
  bool holds(uint32_t operation) const noexcept { return operations_.holds(operation); }
  /// The oldest operation.
  uint32_t first() const noexcept { return operations_.first(); }
  /// One beyond the newest operation.
  uint32_t end() const noexcept { return operations_.end(); }
  uint32_t held() const noexcept { return operations_.size(); }
  const LoggedUse &use(uint32_t number) const noexcept { return uses_[number]; }
  bool holds_use(uint32_t use) const noexcept { return uses_.holds(use); }
  bool same(uint32_t one, uint32_t other) const noexcept {
    return operations_[one].shape == operations_[other].shape;
  }
  /// The next operation in its stream, or none.
  uint32_t next(uint32_t operation) const noexcept { return operations_[operation].next; }
  /// The operation before it in its stream, if that is held, or none.
  uint32_t previous(uint32_t operation) const noexcept {
    const uint32_t before = operations_[operation].previous;
    return before != none && holds(before) ? before : none;
  }
  /// The newest operation of a stream, or none.
  uint32_t newest(uint32_t stream) const noexcept { return streams_[stream].newest; }

  Lives &lives() noexcept { return lives_; }
  const Lives &lives() const noexcept { return lives_; }

  // What is found out.
  void set_twin(uint32_t use, uint32_t twin) noexcept { uses_[use].twin = twin; }
  void set_resized(uint32_t operation) noexcept { operations_[operation].resized = true; }
  void set_given(uint32_t operation, uint16_t uses) noexcept {
    operations_[operation].given = uses;
  }

  size_t bytes() const noexcept {
    return operations_.bytes() + uses_.bytes() + lives_.bytes() +
           streams_.capacity() * sizeof(Stream);
  }

 private:
  struct Stream {
    uint32_t newest = none;
    uint32_t position = 0;                               ///< of the next operation
    uint32_t first_waiting = none, last_waiting = none;  ///< births, linked by next_born
    uint16_t births = 0;  ///< since the last operation, as far as it counts
  };
  size_t slot_of(uint32_t stream) const noexcept {
    return stream < streams_.size() ? stream : streams_.size() - 1;
  }
  /// Its rank.
  uint16_t count_birth(size_t slot) noexcept {
    Stream &its = streams_[slot];
    return its.births != UINT16_MAX ? its.births++ : its.births;
  }
  void forget_oldest() noexcept;
  void stop_waiting(Life &life) noexcept;
  void add_birth(uint32_t operation, uint32_t born, uint32_t rank) noexcept;
  void take_waiting(Stream &stream, uint32_t number) noexcept;
  bool make_room_for_a_life() noexcept;

  Lives lives_;
  LogRing<LoggedOperation> operations_;
  LogRing<LoggedUse> uses_;
  std::pmr::vector<Stream> streams_;  ///< the last is for births of no stream
  uint32_t most_entries_;
};

}  // namespace weir::policy
