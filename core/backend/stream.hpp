// SPDX-License-Identifier: Apache-2.0
//
// Streams and the table of their slots. A Stream object is never freed before the context: a stamp may name
// its slot long after it was closed. Closing keeps the timeline until its last point has passed, then the slot is reused.
#pragma once

#include "core/backend/timeline.hpp"
#include "core/base/memory.hpp"
#include "core/base/mutex.hpp"

#include <memory_resource>
#include <string>
#include <vector>

namespace weir::backend {

struct Stream {
  static constexpr uint64_t alive_magic = 0x57656972'53747231;

  std::atomic<uint64_t> magic{0};
  uint32_t slot = 0;
  uint32_t generation = 0;         ///< lives of this slot so far
  const Device *device = nullptr;  ///< nullptr: the CPU
  weir_be_stream native = nullptr;
  void *owner = nullptr;     ///< the context, for handle checks
  bool wrapped = false;      ///< the native stream is the caller's
  bool may_capture = false;  ///< the runtime can make the stream record a graph
  Timeline timeline;

  /// Whether threads of Weir's own may enqueue on it.
  bool any_thread() const noexcept {
    return !wrapped || device == nullptr || device->has(WEIR_CAP_STREAM_ANY_THREAD);
  }
  /// STREAM_CAPTURING while the stream records a graph.
  Status check_capture() const noexcept {
    if (!may_capture) return {};
    return device->check(device->table().stream_check(device->state(), native), "stream_check");
  }
  Status copy(const weir_be_copy &one) const noexcept {
    return device->check(device->table().copy_async(device->state(), native, &one), "copy_async");
  }
  /// Gives a stamp of the end of all that has been enqueued.
  Status mark(Stamp *stamp, bool write = true) noexcept {
    uint64_t point = 0;
    WEIR_TRY(timeline.record(&point));
    *stamp = Stamp::make(slot, point, write);
    return {};
  }
  void synchronize() const noexcept {
    (void)device->table().stream_synchronize(device->state(), native);
  }
  bool alive() const noexcept { return magic.load(std::memory_order_acquire) == alive_magic; }
};

class StreamTable {
 public:
  static constexpr uint32_t max_slots = 0x7fff;

  StreamTable(std::pmr::memory_resource *memory, Ticks *ticks);
  ~StreamTable();

  /// Creates a native stream, or wraps `native` (which may be NULL: the runtime's default stream). device == nullptr is
  /// the CPU.
  Status open(const Device *device, bool wrap, void *native, void *owner, Stream **stream);
  /// One for copies, fills, waits and fences of Weir's own: on copy engines, where the device has such streams.
  Status open_transfer(const Device &device, void *owner, Stream **stream);
  /// Ends the wrapper. Its stamps stay good.
  Status close(Stream *stream);

  /// Those of the owner that are open, for people: "2 streams: number 3 on device 0, number 4 of the CPU"; "": none. With `wait` false
  /// also "" while another thread opens or closes one. Throws std::bad_alloc.
  std::string describe_open(const void *owner, bool wait = true);

  Stream &at(uint32_t slot) noexcept { return *slots_[slot]; }
  Timeline &timeline(Stamp stamp) noexcept { return slots_[stamp.slot()]->timeline; }
  bool passed(Stamp stamp) noexcept { return !stamp || timeline(stamp).passed(stamp.point()); }
  /// Whether its work was done, as far as is known, and is not only over with its device.
  bool done(Stamp stamp) noexcept {
    return !stamp || (passed(stamp) && timeline(stamp).done(stamp.point()));
  }
  Status wait(Stamp stamp, uint64_t timeout_ns) noexcept {
    return stamp ? timeline(stamp).wait(stamp.point(), timeout_ns) : Status{};
  }
  Status finish(Stamp stamp) noexcept { return timeline(stamp).finish(stamp.point()); }
  /// Makes `stream` run after the stamp's point.
  Status enqueue_wait(Stream &stream, Stamp stamp) noexcept;

 private:
  /// With the mutex held, by a Guard or a TryGuard, of which the analysis knows only the first.
  std::string list_open(const void *owner) const;
  Status take_slot(Stream **stream) WEIR_REQUIRES(mutex_);
  /// `make` gives the slot its native stream.
  template <class Make>
  Status fill_slot(const Device *device, bool wrap, void *owner, Stream **stream, Make make);

  std::pmr::memory_resource *memory_;
  Ticks *ticks_;
  RankedMutex<Rank::leaf> mutex_;
  /// Reserved once for all slots, so that at() needs no lock while another thread opens a stream. It grows with the mutex held.
  std::pmr::vector<Owned<Stream>> slots_;
  std::pmr::vector<uint32_t> closed_ WEIR_GUARDED_BY(mutex_);  ///< waiting for their last point
};

}  // namespace weir::backend
