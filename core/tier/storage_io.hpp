// SPDX-License-Identifier: Apache-2.0
//
// What the STORAGE tier and its parts talk about: the transfer of a slot, and a test's say in the system calls.
// No behaviour of its own.
#pragma once

#include "core/tier/unit_slot.hpp"

#include <atomic>
#include <cstdint>

namespace weir::tier {

enum class IoCall : uint8_t { open, preallocate, read, write };

/// A test's say in the system calls of a store. Called from any thread.
class IoHook {
 public:
  /// 0: go ahead; negative: fail with that errno, without the call; positive (read, write): do that many bytes only
  /// (a file under O_DIRECT: in whole units).
  virtual int64_t before(IoCall call, uint64_t bytes) noexcept = 0;
  /// Bytes as they came from the file, before they are decrypted.
  virtual void after_read(void * /*bytes*/, uint64_t /*count*/) noexcept {}

 protected:
  ~IoHook() = default;
};

/// One transfer of the front of a slot. The caller keeps it in place until wait() has returned or done() is true; then
/// it may be submitted again.
struct StorageIo {
  UnitSlot slot;
  void *memory = nullptr;  ///< aligned to 4 KiB; read and written in whole units
  uint64_t bytes = 0;      ///< of content; the rest of the last unit is read or written too
  bool write = false;
  bool background = false;  ///< no thread waits for it

  /// Not 0: under way. What the store wrote before it became 0 may be read once it is.
  std::atomic<uint32_t> pending{0};

  // The store's own, under the lock of its queue while the transfer is under way:
  int32_t error = 0;          ///< errno of the first piece that failed
  uint32_t error_file = 0;    ///< and where that was
  uint64_t error_offset = 0;  ///< in the file
  uint64_t total = 0;         ///< bytes in whole units
  uint64_t started = 0;       ///< bytes in pieces handed out so far
  uint32_t running = 0;       ///< pieces handed out and not finished
  StorageIo *next = nullptr;  ///< in its queue
};

}  // namespace weir::tier
