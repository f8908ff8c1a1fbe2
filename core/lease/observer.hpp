// SPDX-License-Identifier: Apache-2.0
//
// Observer: who learns from what a program does with its buffers. UseLog tells it of operations in the order of each stream's acquires, and
// of large buffers that are created and destroyed in between.
//
// What must hold: a buffer is born before the first operation that uses it, and dies after the last. What did not fit into the log is
// missed, not waited for: an observer must bear operations that name buffers it does not know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::lease {

/// A stream by its slot; `life` counts the streams that have had the slot.
struct ObservedStream {
  uint32_t slot = 0;
  uint32_t life = 0;
  bool operator==(const ObservedStream &) const = default;
};

struct ObservedUse {
  uint32_t buffer = 0;      ///< its number in the pool's table
  uint64_t generation = 0;  ///< of the buffer, as page::Hot::generation() has it
  uint8_t mode = 0;         ///< WEIR_READ ...
  uint64_t begin = 0;       ///< bytes of the buffer that are used ...
  uint64_t end = 0;         ///< ... UINT64_MAX: all of it
};

/// What one acquire has been granted, in the order that the caller gave. Valid during the call.
struct ObservedOperation {
  ObservedStream stream;
  uint32_t name = 0;  ///< weir_acquire_options' operation id; 0: none
  std::span<const ObservedUse> uses;
};

/// Called by the code that drains the log, on one thread at a time. What it throws passes through the drain, and is not told again.
class Observer {
 public:
  virtual void observe(const ObservedOperation &operation) = 0;
  /// A large buffer has been created. Another of that number, if it is still known, has been destroyed before.
  virtual void born(uint32_t buffer, uint64_t generation, uint64_t bytes) = 0;
  virtual void died(uint32_t buffer, uint64_t generation) = 0;
  /// The stream's slot was another's until now, which has ended.
  virtual void began(const ObservedStream &stream) = 0;
  /// So many records of the stream's uses did not fit into the log, before the next operation.
  virtual void missed(const ObservedStream &stream, uint64_t records) = 0;
  /// So many births, deaths and beginnings did not fit.
  virtual void missed_lives(uint64_t records) = 0;

 protected:
  ~Observer() = default;
};

}  // namespace weir::lease
