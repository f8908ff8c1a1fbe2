// SPDX-License-Identifier: Apache-2.0
//
// StorageStore: the STORAGE tier. One preallocated, unlinked spill file a directory; the budget is one line of 4 KiB
// units striped over them, and slots in it are placed by the offset allocator. Transfers are queued: reads go
// ahead of writes, and only so many bytes of writes are under way at a time. How they are done (io_uring, or threads
// with pread and pwrite; O_DIRECT or not) is found out at the start and told by how().
//
// allocate() and free() are bookkeeping under the pool's lock; transfers are made outside of it. A slot must not be
// freed while a transfer of it is under way. What a failed transfer leaves in the slot or in memory is undefined;
// nothing else is touched. The store does not check what it reads back: whoever wrote it has a checksum.
#pragma once

#include "core/base/log.hpp"
#include "core/base/memory.hpp"
#include "core/base/status.hpp"
#include "core/tier/unit_slot.hpp"

#include <atomic>
#include <string>
#include <vector>

namespace weir::tier {

enum class IoCall : uint8_t { open, preallocate, read, write };

/// A test's say in the system calls of a store. Called from any thread.
class IoHook {
 public:
  /// 0: go ahead; negative: fail with that errno, without the call; positive (read, write): do that many bytes only.
  virtual int64_t before(IoCall call, uint64_t bytes) noexcept = 0;
  /// Bytes as they came from the file, before they are decrypted.
  virtual void after_read(void *bytes, uint64_t count) noexcept {
    (void)bytes;
    (void)count;
  }

 protected:
  ~IoHook() = default;
};

struct StorageConfig {
  std::vector<std::string> directories;
  uint64_t budget = 0;
  bool encrypt = false;
  bool direct = true;  ///< O_DIRECT where it works
  bool uring = true;   ///< io_uring where it works
  IoHook *hook = nullptr;
};

/// One transfer of the front of a slot. The caller keeps it in place until wait() has returned.
struct StorageIo {
  UnitSlot slot;
  void *memory = nullptr;  ///< aligned to 4 KiB; read and written in whole units
  uint64_t bytes = 0;      ///< of content; the rest of the last unit is read or written too
  bool write = false;
  bool background = false;  ///< nobody waits for it

  // The store's own:
  std::atomic<uint32_t> pending{0};
  std::atomic<int32_t> error{0};
  void *bounce = nullptr;
};

class StorageStore {
 public:
  static constexpr uint64_t unit = UnitArena::unit;

  StorageStore(StorageConfig config, const Log &log, std::pmr::memory_resource *memory);
  ~StorageStore();  ///< no transfer may be under way
  StorageStore(const StorageStore &) = delete;
  StorageStore &operator=(const StorageStore &) = delete;

  /// Makes the files. IO with errno and the directory named; OVER_BUDGET where a file system has not the room;
  /// NOT_SUPPORTED for encryption without libcrypto.
  Status start();
  /// E.g. "io_uring, O_DIRECT, 2 files".
  const char *how() const noexcept;

  // ---- under the pool's lock ----
  UnitSlot allocate(uint64_t bytes);
  void free(UnitSlot slot) noexcept;
  uint64_t bytes(UnitSlot slot) const noexcept;
  uint64_t budget() const noexcept;
  uint64_t used() const noexcept;
  uint64_t room() const noexcept;

  // ---- outside of it, any thread ----
  /// Queues a transfer. A write may wait here until there is room in the write-behind.
  void submit(StorageIo *io) noexcept;
  /// Waits for it to end. IO with the errno.
  Status wait(StorageIo *io) noexcept;
  bool done(const StorageIo &io) const noexcept {
    return io.pending.load(std::memory_order_acquire) == 0;
  }

  /// Memory that transfers will use often: registered with the kernel where that helps. Hints; never fail.
  void add_memory(void *base, uint64_t bytes) noexcept;
  void remove_memory(void *base) noexcept;

  uint64_t written_bytes() const noexcept;
  uint64_t read_bytes() const noexcept;
  uint64_t errors() const noexcept;

 private:
  struct State;
  State *state_;
};

}  // namespace weir::tier
