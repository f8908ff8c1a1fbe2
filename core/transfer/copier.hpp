// SPDX-License-Identifier: Apache-2.0
//
// Copier: hands the copies and fills of one operation to one transfer stream, in their order. Small copies are gathered and go
// in batches, so that they do not pay a call each. Large ones go at once, each in a call of its own: there a batch saves
// nothing, and mapping overlaps with copying.
#pragma once

#include "core/backend/stream.hpp"

#include <array>

namespace weir::transfer {

using backend::Stamp;

class Copier {
 public:
  explicit Copier(backend::Stream &stream) noexcept : stream_(stream) {}

  Status copy(uint64_t destination, uint64_t source, uint64_t bytes) {
    if (bytes == 0) return {};
    const weir_be_copy one{destination, source, bytes};
    if (bytes > most_gathered) {
      WEIR_TRY(flush());
      return enqueue(one);
    }
    batch_[count_++] = one;
    return count_ == batch_.size() ? flush() : Status{};
  }
  Status zero(uint64_t address, uint64_t bytes) {
    if (bytes == 0) return {};
    WEIR_TRY(flush());
    enqueued_ = true;
    const backend::Device &device = *stream_.device;
    return device.check(
        device.table().fill_async(device.state(), stream_.native, address, 0, bytes), "fill_async");
  }
  Status flush() {
    const uint32_t count = count_;
    count_ = 0;
    if (count == 0) return {};
    const backend::Device &device = *stream_.device;
    if (count > 1 && device.has(WEIR_CAP_BATCH_COPY)) {
      enqueued_ = true;
      return device.check(
          device.table().copy_batch_async(device.state(), stream_.native, batch_.data(), count),
          "copy_batch_async");
    }
    for (uint32_t i = 0; i < count; ++i) WEIR_TRY(enqueue(batch_[i]));
    return {};
  }
  /// Hands over the rest. *end: when all of it, and what else the stream has been given so far, has ended.
  Status mark(Stamp *end, bool write = true) {
    WEIR_TRY(flush());
    return stream_.mark(end, write);
  }
  /// Hands over the rest, and waits for the end of all.
  Status finish() {
    Stamp end;
    WEIR_TRY(mark(&end));
    return stream_.timeline.finish(end.point());
  }
  /// Waits until the backend is at work on nothing that it was handed.
  void synchronize() noexcept {
    if (enqueued_) stream_.synchronize();
  }
  /// Whether the backend may have been handed anything.
  bool enqueued() const noexcept { return enqueued_; }

 private:
  /// Of a copy that takes so long a call's cost is nothing: some 5 us over PCIe.
  static constexpr uint64_t most_gathered = uint64_t{256} << 10U;

  Status enqueue(const weir_be_copy &copy) {
    enqueued_ = true;
    return stream_.copy(copy);
  }

  backend::Stream &stream_;
  std::array<weir_be_copy, 32> batch_;
  uint32_t count_ = 0;
  bool enqueued_ = false;
};

}  // namespace weir::transfer
