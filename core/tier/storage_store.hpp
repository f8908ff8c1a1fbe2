// SPDX-License-Identifier: Apache-2.0
//
// StorageStore: the STORAGE tier. One preallocated, unlinked spill file a directory; the budget is one line of 4 KiB
// units striped over them, and slots in it are placed by the offset allocator. Transfers are queued: reads go
// ahead of writes, and only so many bytes of writes are under way at a time. How they are done (io_uring, or threads
// with pread and pwrite; O_DIRECT or not) is found out at the start and told by how().
//
// allocate() and free() are bookkeeping under the pool's lock; transfers are made outside of it. A slot must not be
// freed while a transfer of it is under way. A slot that must be overwritten before it is used again is retired instead: listed in
// the slots themselves, so that it takes no memory, until it has been overwritten. What a failed transfer leaves in the slot or in memory is undefined;
// nothing else is touched. The store does not check what it reads back: the code that wrote it keeps a checksum.
#pragma once

#include "core/base/log.hpp"
#include "core/base/memory.hpp"
#include "core/base/poison.hpp"
#include "core/base/scratch.hpp"
#include "core/base/status.hpp"
#include "core/codec/cipher.hpp"
#include "core/tier/cold_store.hpp"
#include "core/tier/io_lane.hpp"
#include "core/tier/io_queue.hpp"
#include "core/tier/spill_file.hpp"
#include "core/tier/storage_io.hpp"
#include "core/tier/stripes.hpp"

#include <optional>
#include <string>
#include <vector>

namespace weir::tier {

struct StorageConfig {
  std::vector<std::string> directories;
  uint64_t budget = 0;
  bool encrypt = false;
  bool direct = true;    ///< O_DIRECT where it works
  bool uring = true;     ///< io_uring where it works
  uint32_t threads = 0;  ///< where there is no io_uring; 0: by the number of directories
  IoHook *hook = nullptr;
};

class StorageStore final : public ColdStore {
 public:
  static constexpr uint64_t unit = UnitArena::unit;
  static constexpr uint32_t max_directories = 16;

  StorageStore(StorageConfig config, const Log &log, std::pmr::memory_resource *memory)
      : ColdStore(Place::storage), config_(std::move(config)), log_(log), memory_(memory) {}
  ~StorageStore() override = default;  ///< no transfer may be under way

  /// Makes the files. IO with errno and the directory named; OVER_BUDGET where a file system has not the room;
  /// NOT_SUPPORTED for encryption without libcrypto. Throws std::bad_alloc. A start that fails leaves nothing behind
  /// and may be tried again.
  Status start();
  /// E.g. "io_uring, O_DIRECT, 2 files".
  const char *how() const noexcept { return running_ != nullptr ? running_->how : "not started"; }

  // ---- under the pool's lock ----
  UnitSlot allocate(uint64_t bytes) override { return arena().allocate(bytes); }
  void free(UnitSlot slot, uint32_t client = poison::nobody) noexcept override;
  /// The slot stays charged until it has been taken from the list, overwritten, and freed.
  bool free_secret(UnitSlot slot) noexcept override;
  bool retired() const noexcept { return static_cast<bool>(running_->retired); }
  /// The one that was retired last, to be overwritten; none: there is none.
  UnitSlot take_retired() noexcept;
  /// Frees a slot that has been overwritten.
  void free_overwritten(UnitSlot slot) noexcept { arena().free(slot); }
  void set_blob_bytes(UnitName slot, uint32_t bytes) noexcept { arena().set_note(slot, bytes); }

  // ---- outside of it, any thread ----
  /// Queues a transfer, from the start of its slot. A write may wait here until there is room in the write-behind.
  void submit(StorageIo *io) noexcept { running_->queue->submit(io); }
  /// Zeroes over all of the slot, and waits for them to be written. IO as wait() says.
  Status overwrite(UnitSlot slot, uint64_t bytes) noexcept;
  /// Waits for it to end. IO with the errno; says which directory, and where in its file.
  Status wait(StorageIo *io) noexcept;
  bool done(const StorageIo &io) const noexcept {
    return io.pending.load(std::memory_order_acquire) == 0;
  }

  /// Memory that transfers will use often: registered (and pinned) with the kernel where that helps, until it is
  /// removed, which must be before it is unmapped and while no transfer uses it. Hints; never fail.
  void add_memory(void *base, uint64_t bytes) noexcept;
  void remove_memory(void *base) noexcept;

  /// Bytes written, in whole units.
  uint64_t written_bytes() const noexcept { return counted(&IoQueue::written_bytes); }
  uint64_t read_bytes() const noexcept { return counted(&IoQueue::read_bytes); }
  /// Transfers that failed.
  uint64_t errors() const noexcept { return counted(&IoQueue::errors); }

 private:
  /// What start() makes; dropped whole if any of it fails. In the order in which it must be made: the lanes end before what
  /// they use.
  struct Running {
    Running(const Stripes &stripes_, uint64_t line, std::pmr::memory_resource *memory)
        : arena(line, memory), stripes(stripes_), files(memory), lanes(memory) {}
    ~Running();

    UnitArena arena;
    const Stripes stripes;
    UnitName retired;  ///< the first of their list, each of which notes the next
    Scratch zeroes;    ///< as long as a stripe; never written, so it takes no memory
    std::pmr::vector<SpillFile> files;
    std::optional<codec::CipherKey> key;
    std::optional<IoQueue> queue;
    std::pmr::vector<Owned<IoLane>> lanes;
    char how[128] = "";
  };

  UnitArena &arena() const noexcept { return running_->arena; }
  uint64_t counted(uint64_t (IoQueue::*what)() const noexcept) const noexcept {
    return running_ != nullptr ? (*running_->queue.*what)() : 0;
  }
  Status check() const;
  Status make_lanes(Running *fresh) const;
  void describe(bool uring, Running *fresh) const;
  void poison(UnitSlot slot, uint32_t client) noexcept;

  const StorageConfig config_;
  const Log log_;
  std::pmr::memory_resource *const memory_;
  Owned<Running> running_;
};

}  // namespace weir::tier
