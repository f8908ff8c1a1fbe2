// SPDX-License-Identifier: Apache-2.0
//
// IoQueue: the transfers of a store that wait or are under way, and the order in which their pieces are done. Lanes
// (threads that do I/O) take pieces from it; it knows nothing of how they do them and makes no system call but to
// wake a lane.
//
// The order: demand reads, background reads, demand writes, background writes; each first come, first served.
// Invariants:
//  - demand reads find room: pieces of anything else are never all that can be under way, and only so many bytes of
//    writes are, fewer while a thread waits for a read or just did (a device serves what it was given first);
//  - nothing starves: a class with nothing under way may always start a piece when its turn comes, and writes get a
//    turn every so many bytes of reads;
//  - no more than `write_behind` bytes of writes are queued, or a single transfer: submit() waits, first come first
//    served;
//  - a transfer's memory is not touched once its `pending` is 0, nor the transfer itself.
//
// Nothing here allocates: transfers are linked through themselves. The lock is a leaf: nothing is called with it held.
#pragma once

#include "core/base/mutex.hpp"
#include "core/tier/storage_io.hpp"
#include "core/tier/stripes.hpp"

#include <cstdint>

namespace weir::tier {

/// What a lane does in one go: a part of one transfer that lies in one piece in one file.
struct Piece {
  StorageIo *io = nullptr;
  unsigned char *memory = nullptr;
  uint64_t line = 0;  ///< where it lies in the store's line
  uint32_t file = 0;
  uint64_t offset = 0;  ///< in the file
  uint64_t bytes = 0;
  // The lane's own:
  uint64_t done = 0;
  uint64_t asked = 0;             ///< of the attempt under way
  unsigned char *from = nullptr;  ///< what is written in place of `memory`, if not it
  uint32_t stalls = 0;            ///< attempts in a row that brought nothing
};

/// A thread that takes pieces and sleeps when there is none.
class IoSleeper {
 public:
  /// Ends its sleep, or the next one. From any thread, with no lock held.
  virtual void wake() noexcept = 0;

  // The queue's own, under its lock:
  bool asleep = false;
  IoSleeper *next_asleep = nullptr;

 protected:
  ~IoSleeper() = default;
};

class IoQueue {
 public:
  /// Bytes under way at a time, of each kind, and others.
  struct Limits {
    uint64_t demand_reads = uint64_t{32} << 20U;
    uint64_t background_reads = uint64_t{8} << 20U;
    uint64_t writes = uint64_t{4} << 20U;
    uint64_t writes_beside_demand = uint64_t{1} << 20U;  ///< while a demand read is not done ...
    uint64_t quiet_ns = 5'000'000;  ///< ... and so long after one: where one was, more come
    uint32_t other_pieces = 192;    ///< under way that are not of demand reads
    uint64_t reads_per_write = uint64_t{16} << 20U;  ///< after which a write gets a turn
    uint64_t write_behind = uint64_t{64} << 20U;     ///< of writes queued or under way

    /// The limits for a store of so many files, each taken for a device of its own.
    static Limits of_files(uint32_t files) noexcept {
      Limits limits;
      limits.demand_reads *= files;
      limits.background_reads *= files;
      limits.writes *= files;
      limits.writes_beside_demand *= files;
      return limits;
    }
  };

  IoQueue(const Stripes &stripes, const Limits &limits) noexcept
      : stripes_(stripes), limits_(limits) {}

  void submit(StorageIo *io) noexcept;
  void wait(StorageIo *io) noexcept;

  // ---- for lanes ----
  enum class Next : uint8_t { piece, none, stop };
  /// The piece to do now. None: the lane counts as asleep from now until it comes back, and will be woken. A lane
  /// that can't take writes now says so.
  Next next(IoSleeper *lane, bool writes, Piece *piece) noexcept;
  /// `error`: errno, or 0.
  void finish(const Piece &piece, int error) noexcept;
  /// Lanes end when they have nothing under way. No transfer may be under way.
  void stop() noexcept;

  uint64_t written_bytes() const noexcept { return written_.load(std::memory_order_relaxed); }
  uint64_t read_bytes() const noexcept { return read_.load(std::memory_order_relaxed); }
  uint64_t errors() const noexcept { return errors_.load(std::memory_order_relaxed); }

 private:
  enum Class : uint8_t { demand_read, background_read, demand_write, background_write, classes };
  struct Line {
    StorageIo *first = nullptr;
    StorageIo *last = nullptr;
  };

  static Class class_of(const StorageIo &io) noexcept;
  bool may_start(Class which, uint64_t bytes) const noexcept WEIR_REQUIRES(mutex_);
  Class choose(bool writes) const noexcept WEIR_REQUIRES(mutex_);
  Stripes::Run next_run(const StorageIo &io) const noexcept;
  void take(Class which, Piece *piece) noexcept WEIR_REQUIRES(mutex_);
  void pop(Class which) noexcept WEIR_REQUIRES(mutex_);
  void complete(StorageIo *io) noexcept WEIR_REQUIRES(mutex_);
  IoSleeper *take_sleeper() noexcept WEIR_REQUIRES(mutex_);
  Signal &signal_of(const StorageIo *io) noexcept;

  const Stripes stripes_;
  const Limits limits_;

  RankedMutex<Rank::leaf> mutex_;
  Line lines_[classes] WEIR_GUARDED_BY(mutex_);
  uint64_t running_[classes] WEIR_GUARDED_BY(mutex_) = {};  ///< bytes under way
  uint32_t other_pieces_ WEIR_GUARDED_BY(mutex_) = 0;  ///< under way that are not of demand reads
  uint32_t demand_ WEIR_GUARDED_BY(mutex_) = 0;        ///< demand reads that are not done
  uint64_t quiet_at_ WEIR_GUARDED_BY(mutex_) = 0;      ///< when the last of them counts as long ago
  /// Bytes started while a write was waiting.
  uint64_t reads_since_write_ WEIR_GUARDED_BY(mutex_) = 0;
  bool stopping_ WEIR_GUARDED_BY(mutex_) = false;
  IoSleeper *asleep_ WEIR_GUARDED_BY(mutex_) = nullptr;

  // Writers that wait to submit: served by number.
  uint64_t behind_ WEIR_GUARDED_BY(mutex_) = 0;
  uint64_t next_ticket_ WEIR_GUARDED_BY(mutex_) = 0;
  uint64_t serving_ WEIR_GUARDED_BY(mutex_) = 0;
  Signal room_;
  /// Several, so that few threads are woken in vain.
  Signal done_[8];

  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> read_{0};
  std::atomic<uint64_t> errors_{0};
};

}  // namespace weir::tier
