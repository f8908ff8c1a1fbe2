// SPDX-License-Identifier: Apache-2.0
//
// Copier: gathers the copies and fills of one operation for one transfer stream and hands them to the
// backend in batches, so that small pages do not pay a call each and mapping overlaps with copying.
#pragma once

#include "core/backend/stream.hpp"

#include <array>

namespace weir::transfer {

class Copier {
 public:
  explicit Copier(backend::Stream &stream) noexcept : stream_(stream) {}

  Status copy(uint64_t destination, uint64_t source, uint64_t bytes) {
    if (bytes == 0) return {};
    batch_[count_++] = weir_be_copy{destination, source, bytes};
    gathered_ += bytes;
    return count_ == batch_.size() || gathered_ >= flush_bytes ? flush() : Status{};
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
    gathered_ = 0;
    if (count == 0) return {};
    enqueued_ = true;
    const backend::Device &device = *stream_.device;
    const weir_backend_table &table = device.table();
    if (count > 1 && device.has(WEIR_CAP_BATCH_COPY)) {
      return device.check(
          table.copy_batch_async(device.state(), stream_.native, batch_.data(), count),
          "copy_batch_async");
    }
    for (uint32_t i = 0; i < count; ++i) {
      WEIR_TRY(
          device.check(table.copy_async(device.state(), stream_.native, &batch_[i]), "copy_async"));
    }
    return {};
  }
  /// Whether the backend may have been handed anything.
  bool enqueued() const noexcept { return enqueued_; }
  backend::Stream &stream() noexcept { return stream_; }

 private:
  static constexpr uint64_t flush_bytes = uint64_t{4} << 20U;
  backend::Stream &stream_;
  std::array<weir_be_copy, 32> batch_;
  uint32_t count_ = 0;
  uint64_t gathered_ = 0;
  bool enqueued_ = false;
};

}  // namespace weir::transfer
