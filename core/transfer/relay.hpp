// SPDX-License-Identifier: Apache-2.0
//
// Relay: between a device and the caller's memory bytes pass a megabyte of pinned staging, piece by piece. Staging
// holds no page's copy: HOST need not have room for it. All without the pool's lock; each copy is waited for, because the
// staging is the next one's. Nothing stays there of a buffer that is to be scrubbed.
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/mutex.hpp"
#include "core/base/numa.hpp"

namespace weir::transfer {

class Relay {
 public:
  ~Relay();

  /// Staging is taken from this node's memory.
  void start(const numa::Nodes &nodes, uint32_t node) noexcept {
    nodes_ = &nodes;
    node_ = node;
  }
  /// Between an address of the stream's device and the caller's memory: into `out`, or if `in` is set from there.
  Status copy(backend::Stream &stream, uint64_t address, unsigned char *out,
              const unsigned char *in, uint64_t bytes, bool secret) WEIR_EXCLUDES(mutex_);

 private:
  static constexpr uint64_t staging_bytes = uint64_t{1} << 20U;
  Status take_staging(const backend::Device &device) WEIR_REQUIRES(mutex_);
  static Status copy_through(backend::Stream &stream, uint64_t to, uint64_t from, uint64_t bytes);

  const numa::Nodes *nodes_ = nullptr;
  uint32_t node_ = numa::unknown;
  RankedMutex<Rank::transfer> mutex_;  ///< never taken with the pool's lock held
  void *staging_ WEIR_GUARDED_BY(mutex_) = nullptr;
  backend::Runtime *runtime_ = nullptr;  ///< whose memory it is
};

}  // namespace weir::transfer
