// SPDX-License-Identifier: Apache-2.0
//
// Writer: takes the notes of a tape, in order, on the thread that reads it.
#pragma once

#include "core/base/notes.hpp"

#include <string>
#include <vector>

namespace weir::trace {

/// What a pool has by now, which no note tells.
struct Sample {
  struct Tier {
    uint32_t device = 0;  ///< of the context, where the name is "device"
    const char *name = "";
    uint64_t used = 0, budget = 0;
  };
  uint32_t pool_id = 0;
  uint64_t ns = 0;
  std::vector<Tier> tiers;
  uint64_t promoted_bytes = 0, refaulted_bytes = 0;  ///< ever
};

/// What a writer may ask. Any answer may be "" for what has gone.
class Pools {
 public:
  /// The names of a pool's operations, from number 1 on.
  virtual std::vector<std::string> operations(uint32_t pool_id) = 0;
  /// The device at that position of the pool, of the context; UINT32_MAX: none.
  virtual uint32_t device_at(uint32_t pool_id, uint8_t place) = 0;
  /// Whether the work up to the stamp has ended.
  virtual bool passed(uint64_t stamp) = 0;

 protected:
  ~Pools() = default;
};

class Writer {
 public:
  virtual ~Writer() = default;
  virtual void take(const Note &note) = 0;
  virtual void take(const Sample &sample) = 0;
  /// Called now and then: polls for the end of work that no note tells, and writes what is there to the file. True: it is waiting for something.
  virtual bool poll() = 0;
  /// Called when no note comes any more. `lost`: how many notes found no room.
  virtual void finish(uint64_t lost) = 0;
  /// Why the writer has ended before its time, as the end of a sentence, or nullptr. It takes nothing any more then.
  virtual const char *ended() const noexcept = 0;
  /// Bits of Tape::wanted.
  virtual uint32_t wants() const noexcept = 0;
};

/// A note of that type, as its kind says.
template <class Of>
const Of &as(const Note &note) noexcept {
  return static_cast<const Of &>(note);
}

/// What follows a note's own struct of that type.
template <class Of>
const std::byte *behind(const Of &note) noexcept {
  return reinterpret_cast<const std::byte *>(&note) + Tape::rounded(sizeof note);
}

}  // namespace weir::trace
