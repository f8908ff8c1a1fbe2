// SPDX-License-Identifier: Apache-2.0
//
// BufferTable: every live buffer of a pool, addressed by index. What the hit path needs is packed in 32
// bytes (Hot), in chunks that never move, so that a million buffers used at random cost one cache miss each.
// Large tables lie in huge pages, where the system has them, so that the miss is not one of the TLB too. Buffers
// made one after the other, as a rule by one thread each, do not share a cache line. A handle is index, generation and pool, never a pointer: a dead or foreign one is recognised.
#pragma once

#include "core/base/memory.hpp"
#include "core/page/hot.hpp"

#include <atomic>
#include <vector>

namespace weir::page {

/// Where the buffer's bytes are: a region of its own (node == none) or a place in a slab.
struct Cold {
  uint32_t region = UINT32_MAX;
  uint32_t node = UINT32_MAX;
};

class BufferTable {
 public:
  static constexpr uint32_t none = UINT32_MAX;
  static constexpr uint64_t max_size = (uint64_t{1} << 48) - 1;

  BufferTable(std::pmr::memory_resource *memory, uint32_t pool_id);
  ~BufferTable();

  /// A free index, its word not alive yet. Throws std::bad_alloc with nothing changed.
  uint32_t take();
  void give(uint32_t index) noexcept;  ///< the word is dead already

  Hot &hot(uint32_t index) noexcept { return hot_[index >> chunk_shift][index & chunk_mask]; }
  Cold &cold(uint32_t index) noexcept { return cold_[index >> chunk_shift][index & chunk_mask]; }
  uint32_t live() const noexcept { return live_; }
  /// What the next take() adds to the records.
  uint64_t bytes_of_next() const noexcept;
  uint32_t end() const noexcept { return end_.load(std::memory_order_acquire); }

  /// The generation a new buffer at this index gets.
  uint64_t next_generation(uint32_t index) noexcept;
  weir_buffer handle(uint32_t index, uint64_t word) const noexcept;
  /// Splits a handle; false if it can't be one of this pool's. The generation is compared by the caller.
  bool decode(weir_buffer buffer, uint32_t *index, uint64_t *generation) const noexcept {
    const auto bits = reinterpret_cast<uint64_t>(buffer);
    *index = static_cast<uint32_t>(bits);
    *generation = ((bits >> 32) & 0xfffffU) << Word::generation_shift;
    return (bits >> 52) == pool_id_ && *index < end_.load(std::memory_order_acquire);
  }

 private:
  static constexpr uint32_t chunk_shift = 12;
  static constexpr uint32_t chunk_size = 1U << chunk_shift;
  static constexpr uint32_t chunk_mask = chunk_size - 1;
  static constexpr uint32_t max_chunks = 1U << 15;
  /// The first chunks come one by one, so that a small pool stays small; later ones by the block, a huge page of
  /// hot records each.
  static constexpr uint32_t block_chunks = 16;
  static constexpr size_t chunks_at(size_t chunk) noexcept {
    return chunk < block_chunks ? 1 : block_chunks;
  }
  static constexpr size_t huge_page = size_t{block_chunks} * chunk_size * sizeof(Hot);

  /// The n-th index of a chunk: first one record of every cache line, then the others.
  static constexpr uint32_t spread(uint32_t n) noexcept {
    return ((n << 1U) | (n >> (chunk_shift - 1))) & chunk_mask;
  }
  void add_chunks();

  std::pmr::memory_resource *memory_;
  const uint32_t pool_id_;
  // Both reserved once: read without a lock while they grow.
  std::pmr::vector<Hot *> hot_;
  std::pmr::vector<Cold *> cold_;
  std::atomic<uint32_t> end_{0};  ///< records that have been constructed: whole chunks
  uint32_t fresh_ = 0;            ///< indices handed out for the first time so far
  uint32_t free_ = none;          // a list through Cold::node
  uint32_t live_ = 0;
};

}  // namespace weir::page
