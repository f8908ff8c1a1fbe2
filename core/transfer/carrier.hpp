// SPDX-License-Identifier: Apache-2.0
//
// Carrier: copies from one device to another over the ways that were chosen (paths.hpp): piece by piece through memory on a
// device in between (Bounce) or through pinned memory of the host, several pieces under way at once, and several ways at once.
// Nothing waits on the CPU: a piece's second hop waits for its first by a fence, a piece for the slot it passes through by
// the fence of the piece that had it before, and the caller's stream for all of it at the end.
//
// Each device has streams of its own for this, a pair for every way of a copy; so evictions and other refills wait behind none
// of it, and what a copy waits for (the writer of the source) keeps waiting only copies that pass the same devices. A thread that
// carries holds the carrier's mutex while it enqueues. If anything fails, all that was enqueued has ended before the failure is told:
// no copy uses the slots and pages any more then.
//
// Bytes that are to be scrubbed pass no device in between, only pinned memory, which is overwritten afterwards.
//
// What is in a slot is never a page's copy. Slots are never mapped into a buffer's addresses, and their granules are given back marked
// as of unknown content, so that the next owner's are zeroed first.
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/mutex.hpp"
#include "core/physical/granule_pool.hpp"
#include "core/physical/mapper.hpp"
#include "core/transfer/paths.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace weir::transfer {

using backend::Stamp;
using backend::Stream;

/// Memory that pieces pass through, taken in turn by units: the smaller the pieces, the more are under way. Guarded by the
/// carrier's mutex.
struct Ring {
  static constexpr uint32_t most = 64;
  uint64_t base = 0;
  uint64_t stride = 0;  ///< from one mapping of it to the next; a piece stays within one
  uint64_t unit_bytes = 0;
  uint32_t run = 1;  ///< units in a mapping
  uint32_t count = 0, next = 0;
  std::array<Stamp, most> busy{};  ///< of each unit the copy out of it

  void start(uint64_t address, uint64_t stride_bytes, uint64_t bytes) noexcept;
  /// The memory is gone.
  void stop() noexcept {
    count = 0;
    busy = {};
  }
  uint64_t address(uint32_t unit) const noexcept {
    return base + unit / run * stride + unit % run * unit_bytes;
  }
  /// At most a quarter of the memory, so that four pieces find room at once.
  uint64_t largest_piece() const noexcept {
    return unit_bytes * std::min(run, std::max(count / 4, 1U));
  }
};

/// The ring on one device: granules of the pool's, charged to the device's budget like pages, but to no client.
class Bounce {
 public:
  static constexpr uint32_t quarters = 4;
  static constexpr uint64_t quarter_bytes = Paths::largest_chunk;

  Bounce(const backend::Device &device, physical::GranulePool &pool, physical::Mapper &mapper)
      : device_(device), pool_(pool), mapper_(mapper) {}

  // ---- under the pool's lock ----
  static uint64_t bytes_on(const physical::GranulePool &pool) noexcept;
  bool claimed() const noexcept { return count_ != 0; }
  /// The generation of the devices that its memory is open to (physical/mapper.hpp); the latest while it is not mapped yet.
  uint16_t opened() const noexcept { return opened_.load(std::memory_order_relaxed); }
  /// Takes granules if there are `reserve` bytes more than they need, and none has to be destroyed for it.
  bool claim(uint64_t reserve) noexcept;
  /// After close(), or before open(). Returns the bytes that could not be unmapped: charged, and not reused.
  uint64_t release() noexcept;
  uint32_t users = 0;          ///< copies that are being enqueued, or about to be
  bool closing = false;        ///< on its way out: no copy may begin to use it
  uint32_t looks = 0;          ///< at what is idle, since it was used
  uint64_t not_before_ns = 0;  ///< its memory could not be had: it is left alone until then

  // ---- outside the lock; the carrier's mutex is held ----
  Status open();
  /// No piece is on its way through it.
  void close() noexcept;
  Ring ring;

 private:
  struct Piece {
    physical::GranuleId id = physical::no_granule;
    physical::Granule *memory = nullptr;
    bool mapped = false;
  };
  const backend::Device &device_;
  physical::GranulePool &pool_;
  physical::Mapper &mapper_;
  std::array<Piece, quarters> pieces_{};
  uint32_t count_ = 0;
  uint64_t address_ = 0;
  std::atomic<uint16_t> opened_{UINT16_MAX};
};

/// A run of bytes to copy; within one mapping on both sides.
struct Cargo {
  uint64_t destination = 0, source = 0, bytes = 0;
};

/// What copies from one device to another within one operation have in common.
struct Order {
  const backend::Device *from = nullptr, *to = nullptr;
  uint8_t from_place = 0, to_place = 0;
  Stream *arrival = nullptr;  ///< the direct share's; it waits for all others in the end
  const Stamp *before = nullptr;
  size_t before_count = 0;  ///< what all of it comes after
  Ways ways;
  std::array<Bounce *, Ways::most> bounces{};  ///< where a share passes a device
  // how far it is:
  bool secret = false;                    ///< some of it is to be scrubbed wherever it has passed
  uint8_t begun = 0;                      ///< a bit a share: its streams wait for `before`
  std::array<Stamp, Ways::most> last{};   ///< of each share's copies
  std::array<Stamp, Ways::most> there{};  ///< of each share's copies to where they pass
  uint64_t relayed = 0, through_host = 0, split = 0;  ///< bytes
};

class Carrier {
 public:
  static constexpr uint64_t pinned_ring = uint64_t{4} << 20U;

  explicit Carrier(backend::StreamTable &streams) noexcept : streams_(streams) {}
  ~Carrier() { close(); }

  /// The memory that the order passes. A bounce that can't be opened is told in *closed, and nothing was enqueued.
  Status open(const Order &order, Bounce **closed);
  /// Enqueues the copies. `after`: what the destinations must wait for besides, or none.
  Status carry(Order &order, const Cargo *cargo, size_t count, Stamp after);
  /// Makes the arrival stream wait for all that was carried: once, so that what is carried in parts keeps its ways busy.
  Status finish(const Order &order);
  /// Waits for all that was enqueued for the order.
  void end(const Order &order) noexcept;
  /// Waits for the pieces on their way through it and unmaps it. False: they took longer than that; it stays open.
  bool close(Bounce &bounce, uint64_t timeout_ns) noexcept;
  /// Gives the pinned memory back, once its pieces are through. False: they took longer than that.
  bool close_pinned(uint64_t timeout_ns) noexcept;
  /// Overwrites what secret orders have left in the pinned memory, once all pieces are through; `wait`: it waits for them, and no
  /// thread carries meanwhile. False: they are not yet.
  bool scrub(bool wait) noexcept;
  uint64_t pinned_bytes() const noexcept { return pinned_bytes_.load(std::memory_order_relaxed); }
  /// Waits for everything and gives all streams and the pinned memory back. Bounces stay.
  void close() noexcept;

 private:
  struct Lane;
  struct Side {
    std::array<Stream *, Ways::most> out{}, in{};
  };

  Status open_pinned(const backend::Device &device) WEIR_REQUIRES(mutex_);
  Status stream(Stream **slot, const backend::Device &device) WEIR_REQUIRES(mutex_);
  Status begin(Order &order, Lane &lane) WEIR_REQUIRES(mutex_);
  Status piece(Lane &lane) WEIR_REQUIRES(mutex_);
  Status run(Order &order, const Cargo *cargo, size_t count, Stamp after) WEIR_REQUIRES(mutex_);
  bool await(const Ring *ring, uint64_t timeout_ns) noexcept;
  bool idle(const Ring &ring) noexcept WEIR_REQUIRES(mutex_);
  void end_locked(const Order &order) noexcept WEIR_REQUIRES(mutex_);

  backend::StreamTable &streams_;
  RankedMutex<Rank::transfer> mutex_;
  std::array<Side, Paths::most_devices> sides_ WEIR_GUARDED_BY(mutex_){};
  Ring pinned_ WEIR_GUARDED_BY(mutex_);
  void *memory_ WEIR_GUARDED_BY(mutex_) = nullptr;
  bool secret_ WEIR_GUARDED_BY(mutex_) = false;  ///< is or was in the pinned memory
  backend::Runtime *runtime_ WEIR_GUARDED_BY(mutex_) = nullptr;
  std::atomic<uint64_t> pinned_bytes_{0};
};

}  // namespace weir::transfer
