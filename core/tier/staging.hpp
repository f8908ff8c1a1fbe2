// SPDX-License-Identifier: Apache-2.0
//
// Staging: the pinned memory that bytes pass through between a device and the tiers below HOST. Allocated once, so
// that no eviction needs memory, and divided into slots of one part of a page each; every slot has pageable memory
// beside it for a compressed part. A slot is given back with the stamp of the copy that may still use it.
//
// What passed a slot is overwritten where its buffer is to be scrubbed: as it is given back, or once the copy that still uses it
// has ended, by the thread that takes the slot next or scrubs.
//
// A thread that holds a slot waits only for that copy, I/O, codecs and a round of demotion, which takes no slot; a thread that waits
// for a slot holds none. So slots always come back.
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/mutex.hpp"
#include "core/base/scratch.hpp"
#include "core/tier/storage_store.hpp"

#include <array>

namespace weir::tier {

struct StagingSlot {
  unsigned char *pinned = nullptr;
  unsigned char *blob = nullptr;
  StorageIo io;  ///< for the holder's use
  backend::Stamp busy;
  bool taken = false;
  bool secret = false;  ///< the holder's to set: what was in it is to be overwritten
};

class Staging {
 public:
  static constexpr uint32_t max_slots = 8;

  explicit Staging(backend::StreamTable &streams) noexcept : streams_(streams) {}
  ~Staging();

  Status start(backend::Runtime &runtime, uint32_t slots, uint64_t part_bytes, uint64_t blob_bytes);
  uint64_t part_bytes() const noexcept { return part_bytes_; }
  /// Bytes of pinned memory, in all.
  uint64_t bytes() const noexcept { return count_ * part_bytes_; }
  unsigned char *base() const noexcept { return pinned_; }
  /// Room for one compressed part, for the thread that demotes pages from HOST: one at a time.
  unsigned char *spare_blob() const noexcept { return blobs_.data() + count_ * blob_stride_; }

  /// A slot, or nullptr if none is free without waiting.
  StagingSlot *try_take() noexcept;
  /// Waits for a slot. The caller holds no slot and no lock.
  StagingSlot *take() noexcept;
  void give(StagingSlot *slot, backend::Stamp busy) noexcept;
  /// Overwrites what slots given back have left in them; `wait`: once the copies that use it have ended, which it waits for.
  /// False: there are such left.
  bool scrub(bool wait) noexcept;

 private:
  StagingSlot *claim(bool idle) noexcept WEIR_REQUIRES(mutex_);
  void await(const StagingSlot &slot) noexcept;
  void clear(StagingSlot &slot) const noexcept;

  backend::StreamTable &streams_;
  backend::Runtime *runtime_ = nullptr;
  void *allocation_ = nullptr;
  unsigned char *pinned_ = nullptr;
  Scratch blobs_;
  uint64_t part_bytes_ = 0, blob_stride_ = 0;
  uint32_t count_ = 0;
  RankedMutex<Rank::leaf> mutex_;
  Signal given_;
  /// A slot that is taken belongs to its holder; `taken` changes with the mutex held.
  std::array<StagingSlot, max_slots> slots_;
};

}  // namespace weir::tier
