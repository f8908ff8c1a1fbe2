// SPDX-License-Identifier: Apache-2.0
//
// Losses: what the loss of a device takes along. The runtime answers DEVICE_LOST to some call; from then on the pool neither asks
// the device for anything nor believes in a copy that lies there. Pages with another latest copy live on; of the others it is
// remembered that they are lost until they are written anew as a whole. It counts the changes of the pool's devices (generations),
// by which mappers know whom they let in.
#pragma once

#include "core/lease/layer.hpp"
#include "core/page/doubts.hpp"
#include "core/page/env.hpp"
#include "core/page/page_table.hpp"

#include <atomic>

namespace weir::move {

class Losses {
 public:
  struct Others {
    page::Doubts &doubts WEIR_GUARDED;
  };
  Losses(const Env &env, const PageLayer &page, const LeaseLayer &lease, const Others &others,
         page::PageTable &pages) noexcept
      : env_(env), page_(page), lease_(lease), others_(others), pages_(pages) {}

  // ---- outside the lock ----
  /// Positions there are, of devices that have left too.
  uint8_t device_count() const noexcept;
  /// Whether the device itself says so. A copy between two does not tell which of them is gone. Waits for its copies down.
  static bool answers_lost(PoolDevice &device) noexcept;
  /// A call of the device's has said that a device is lost. It may be one whose fences were to be waited for.
  PoolDevice &lost_in(PoolDevice &device) noexcept;
  /// If the status says so; the stream's device.
  void note(const Stream &stream, const Status &status) noexcept;
  /// The point of what the stream has been given so far. Where no fence can be recorded it is waited for: the point is there even
  /// if the status says what failed.
  Status record_end(Stream &stream, uint64_t *point);
  /// Waits for the first loss after the one in *loss (generation 0: the first of all). False: `stop` was set.
  bool next(weir_device_loss *loss, const std::atomic<bool> &stop);

  // ---- under it ----
  void note(PoolDevice &device, const Status &status) noexcept WEIR_HELD {
    if (status.code() == WEIR_ERROR_DEVICE_LOST && !device.lost()) lose(device);
  }
  void lose(PoolDevice &device) noexcept WEIR_HELD;
  /// DevicePage::mapped has no more.
  static constexpr uint64_t most_generations = UINT16_MAX;
  /// Changes so far: devices came, left, were lost.
  uint64_t generation() const noexcept WEIR_HELD { return generation_; }
  uint64_t next_generation() noexcept WEIR_HELD { return ++generation_; }
  /// Tells the mappers who may access what they map from now on.
  void tell_peers() noexcept WEIR_HELD;

 private:
  uint64_t lose_carried(const PoolDevice &device) noexcept WEIR_HELD;
  uint64_t lose_remote_writes(const PoolDevice &writer) noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  page::PageTable &pages_;
  uint64_t generation_ WEIR_GUARDED = 0;
};

}  // namespace weir::move
