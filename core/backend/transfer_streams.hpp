// SPDX-License-Identifier: Apache-2.0
//
// TransferStreams: the streams on which a pool copies for one of its devices: up for copies and fills towards it, down for copies from
// it, and side for copies within it that may have to wait for work of the caller's, so that no other copy waits behind them. The first
// two are there from open() to close(); side is opened by the first thread that needs it. No other thread may use them during close().
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/mutex.hpp"

#include <atomic>

namespace weir::backend {

class TransferStreams {
 public:
  Status open(StreamTable &streams, const Device &device, void *owner) {
    WEIR_TRY(streams.open_transfer(device, owner, &up_));
    const Status down = streams.open_transfer(device, owner, &down_);
    if (down) return {};
    const KeepError keep;
    (void)streams.close(up_);
    up_ = nullptr;
    return down;
  }
  /// Never with the pool's lock held. May throw std::bad_alloc.
  Status open_side(StreamTable &streams, Stream **side) {
    const Guard hold(opening_);
    *side = this->side();
    if (*side != nullptr) return {};
    WEIR_TRY(streams.open_transfer(*up_->device, up_->owner, side));
    side_.store(*side, std::memory_order_release);
    return {};
  }
  Stream *up() const noexcept { return up_; }
  Stream *down() const noexcept { return down_; }
  /// nullptr: no thread has needed it yet.
  Stream *side() const noexcept { return side_.load(std::memory_order_acquire); }
  /// Waits until everything enqueued so far has passed.
  void drain() noexcept {
    for (Stream *stream : {side(), up_, down_})
      if (stream != nullptr) stream->timeline.drain();
  }
  void close(StreamTable &streams) noexcept {
    for (Stream *stream : {side(), up_, down_})
      if (stream != nullptr) (void)streams.close(stream);
  }

 private:
  Stream *up_ = nullptr, *down_ = nullptr;
  std::atomic<Stream *> side_{nullptr};
  RankedMutex<Rank::transfer> opening_;
};

}  // namespace weir::backend
