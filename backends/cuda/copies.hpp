// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills. Addresses are unified: the driver finds out by itself what lies where.
#pragma once

#include "backends/cuda/memory.hpp"
#include "backends/cuda/stream.hpp"

namespace weir::cuda {

class Copies {
 public:
  Copies(const Api &api, const Streams &streams, const HostMemory &host) noexcept
      : api_(api), streams_(streams), host_(host) {}

  weir_result copy(const Stream &stream, const weir_be_copy &copy) const noexcept;
  /// All or none.
  weir_result batch(const Stream &stream, const weir_be_copy *copies,
                    uint32_t count) const noexcept;
  weir_result fill(const Stream &stream, uint64_t address, uint8_t value,
                   uint64_t bytes) const noexcept;

 private:
  weir_result one_by_one(const Stream &stream, const weir_be_copy *copies,
                         uint32_t count) const noexcept;
  abi::Result enqueue(const Stream &stream, const weir_be_copy &copy) const noexcept;
  abi::Result enqueue_batch(const Stream &stream, const weir_be_copy *copies,
                            uint32_t count) const noexcept;
  bool crosses_seam(const weir_be_copy &copy) const noexcept;

  const Api &api_;
  const Streams &streams_;
  const HostMemory &host_;
};

}  // namespace weir::cuda
