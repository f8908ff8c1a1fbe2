// SPDX-License-Identifier: Apache-2.0
//
// TransferStreams: the streams on which a pool copies for one of its devices: up for copies and fills towards it, down for copies from
// it, side for copies within it that may have to wait for work of the caller's, so that no other copy waits behind them, and fills for
// zeroes alone, so that what is only zeroed does not wait behind copies. The first two are there from open() to close(); the others are
// opened by the first thread that needs them. No other thread may use them during close().
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/mutex.hpp"

#include <atomic>
#include <new>

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
  Status open_side(StreamTable &streams, Stream **side) { return open_once(streams, &side_, side); }
  /// The stream for fills; up where it can't be opened, which is tried once. Never with the pool's lock held.
  Stream &have_fills(StreamTable &streams) noexcept {
    Stream *open = fills();
    if (open != nullptr || no_fills_.load(std::memory_order_relaxed))
      return open != nullptr ? *open : *up_;
    const KeepError keep;
    try {
      if (open_once(streams, &fills_, &open)) return *open;
    } catch (const std::bad_alloc &) {
    }
    no_fills_.store(true, std::memory_order_relaxed);
    return *up_;
  }
  Stream *up() const noexcept { return up_; }
  Stream *down() const noexcept { return down_; }
  /// nullptr: no thread has needed it yet.
  Stream *side() const noexcept { return side_.load(std::memory_order_acquire); }
  Stream *fills() const noexcept { return fills_.load(std::memory_order_acquire); }
  /// Waits until everything enqueued so far has passed.
  void drain() noexcept {
    for (Stream *stream : {side(), fills(), up_, down_})
      if (stream != nullptr) stream->timeline.drain();
  }
  void close(StreamTable &streams) noexcept {
    for (Stream *stream : {side(), fills(), up_, down_})
      if (stream != nullptr) (void)streams.close(stream);
  }

 private:
  Status open_once(StreamTable &streams, std::atomic<Stream *> *where, Stream **stream) {
    const Guard hold(opening_);
    *stream = where->load(std::memory_order_acquire);
    if (*stream != nullptr) return {};
    WEIR_TRY(streams.open_transfer(*up_->device, up_->owner, stream));
    where->store(*stream, std::memory_order_release);
    return {};
  }

  Stream *up_ = nullptr, *down_ = nullptr;
  std::atomic<Stream *> side_{nullptr}, fills_{nullptr};
  std::atomic<bool> no_fills_{false};
  RankedMutex<Rank::transfer> opening_;
};

}  // namespace weir::backend
