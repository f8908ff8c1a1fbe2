// SPDX-License-Identifier: Apache-2.0
//
// UseWriter: the rings of streams that are learned from, and what goes into them of acquires that the hit path has not granted: all uses as the
// caller gave them, in his order, so that an operation looks the same whether it hit or missed.
#pragma once

#include "core/backend/stream.hpp"
#include "core/lease/lease.hpp"
#include "core/lease/use_log.hpp"
#include "core/page/buffer_directory.hpp"

#include <span>

namespace weir::lease {

class UseWriter {
 public:
  UseWriter(UseLog &log, page::BufferDirectory &buffers) noexcept : log_(log), buffers_(buffers) {}

  /// The calling thread's, made if there is none yet. nullptr: there can be none, and the stream is not learned from any more. May take
  /// the timeline's lock.
  UseRing *ring(backend::Stream &stream, StreamState &state) noexcept;
  /// What has been granted to the calling thread, which has a ring. The buffers are leased. May take the timeline's lock.
  void add(backend::Stream &stream, StreamState &state, std::span<const weir_use> uses,
           uint32_t operation) noexcept;

 private:
  UseRing *make_ring(backend::Stream &stream, StreamState &state) noexcept;
  /// No other thread writes into the ring meanwhile.
  void write(UseRing &ring, std::span<const weir_use> uses, uint64_t when) noexcept;

  UseLog &log_;
  page::BufferDirectory &buffers_;
};

}  // namespace weir::lease
