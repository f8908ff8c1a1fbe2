// SPDX-License-Identifier: Apache-2.0
//
// Chunks and the free list of indices.

#include "core/virtual/buffer_table.hpp"

#include <new>

namespace weir::vm {

BufferTable::BufferTable(std::pmr::memory_resource *memory, uint32_t pool_id)
    : memory_(memory), pool_id_(pool_id), chunks_(memory) {
  chunks_.reserve(max_chunks);
}

BufferTable::~BufferTable() {
  for (Chunk *chunk : chunks_) memory_->deallocate(chunk, sizeof(Chunk), alignof(Chunk));
}

uint32_t BufferTable::take() {
  if (free_ != none) {
    const uint32_t index = free_;
    free_ = cold(index).node;
    cold(index) = Cold{};
    ++live_;
    return index;
  }
  const uint32_t index = end_.load(std::memory_order_relaxed);
  if ((index >> chunk_shift) == chunks_.size()) {
    if (chunks_.size() == max_chunks) throw std::bad_alloc();
    chunks_.push_back(static_cast<Chunk *>(memory_->allocate(sizeof(Chunk), alignof(Chunk))));
  }
  // Entries come to life one by one, so that a small pool touches little memory.
  Chunk &chunk = *chunks_[index >> chunk_shift];
  ::new (&chunk.hot[index & chunk_mask]) Hot();
  ::new (&chunk.cold[index & chunk_mask]) Cold();
  end_.store(index + 1, std::memory_order_release);
  ++live_;
  return index;
}

void BufferTable::give(uint32_t index) noexcept {
  cold(index) = Cold{none, free_};
  free_ = index;
  --live_;
}

uint64_t BufferTable::next_generation(uint32_t index) noexcept {
  const uint64_t old = hot(index).word.load(std::memory_order_relaxed) & Word::generation_mask;
  uint64_t generation = (old + (uint64_t{1} << Word::generation_shift)) & Word::generation_mask;
  if (generation == 0) generation = uint64_t{1} << Word::generation_shift;
  return generation;
}

weir_buffer BufferTable::handle(uint32_t index, uint64_t word) const noexcept {
  const uint64_t generation = (word & Word::generation_mask) >> Word::generation_shift;
  return reinterpret_cast<weir_buffer>((uint64_t{pool_id_} << 52) | (generation << 32) | index);
}

}  // namespace weir::vm
