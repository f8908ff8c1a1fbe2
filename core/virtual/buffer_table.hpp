// SPDX-License-Identifier: Apache-2.0
//
// BufferTable: every live buffer of a pool, addressed by index. What the hit path needs is packed in 32
// bytes (Hot), in chunks that never move, so that a million buffers used at random cost one cache miss each.
// A handle is index, generation and pool, never a pointer: a dead or foreign one is recognised.
#pragma once

#include "core/backend/timeline.hpp"
#include "core/base/memory.hpp"

#include <atomic>
#include <vector>

namespace weir::vm {

/// The buffer's state word. The hit path changes it by compare-and-swap, everything else under the pool's lock.
///   readers 16 | writer | resident | history | partial | sole | closing | virgin | generation 20 | alive
struct Word {
  static constexpr uint64_t reader = 1;
  static constexpr uint64_t readers_mask = 0xffff;
  static constexpr uint64_t writer = uint64_t{1} << 16;
  /// Every page of the buffer has its latest version on the home device, mapped at Hot::address.
  static constexpr uint64_t resident = uint64_t{1} << 17;
  /// There are fences beyond Hot::stamp: in the history, or of a copy still in flight.
  static constexpr uint64_t history = uint64_t{1} << 18;
  /// There are unreleased leases on parts of it.
  static constexpr uint64_t partial = uint64_t{1} << 19;
  /// No page has a latest copy elsewhere: a write needs no invalidation.
  static constexpr uint64_t sole = uint64_t{1} << 20;
  static constexpr uint64_t closing = uint64_t{1} << 21;
  /// A tenant never written: its place in the slab may hold another's bytes.
  static constexpr uint64_t virgin = uint64_t{1} << 22;
  static constexpr unsigned generation_shift = 40;
  static constexpr uint64_t generation_mask = uint64_t{0xfffff} << generation_shift;
  static constexpr uint64_t alive = uint64_t{1} << 63;

  static constexpr uint64_t leases(uint64_t word) noexcept {
    return word & (readers_mask | writer);
  }
};

struct alignas(32) Hot {
  std::atomic<uint64_t> word{0};
  std::atomic<uint64_t> stamp{0};  ///< backend::Stamp of the last whole uses, all on one stream
  uint64_t address = 0;            ///< on the home device; valid while `resident`
  uint64_t size_home = 0;          ///< size (48) | home device's id in the context (16)

  uint64_t size() const noexcept { return size_home & ((uint64_t{1} << 48) - 1); }
  uint32_t home() const noexcept { return static_cast<uint32_t>(size_home >> 48); }
};
static_assert(sizeof(Hot) == 32);

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

  Hot &hot(uint32_t index) noexcept {
    return chunks_[index >> chunk_shift]->hot[index & chunk_mask];
  }
  Cold &cold(uint32_t index) noexcept {
    return chunks_[index >> chunk_shift]->cold[index & chunk_mask];
  }
  uint32_t live() const noexcept { return live_; }
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
  static constexpr uint32_t chunk_mask = (1U << chunk_shift) - 1;
  static constexpr uint32_t max_chunks = 1U << 15;
  struct alignas(64) Chunk {
    Hot hot[chunk_mask + 1];
    Cold cold[chunk_mask + 1];
  };

  std::pmr::memory_resource *memory_;
  const uint32_t pool_id_;
  std::pmr::vector<Chunk *> chunks_;  // reserved once: read without a lock while it grows
  std::atomic<uint32_t> end_{0};
  uint32_t free_ = none;  // a list through Cold::node
  uint32_t live_ = 0;
};

}  // namespace weir::vm
