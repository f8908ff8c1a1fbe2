// SPDX-License-Identifier: Apache-2.0
//
// Chunks and the free list of indices.

#include "core/page/buffer_table.hpp"

#include <memory>
#include <new>

namespace weir::page {

BufferTable::BufferTable(std::pmr::memory_resource *memory, uint32_t pool_id)
    : memory_(memory), pool_id_(pool_id), hot_(memory), cold_(memory) {
  hot_.reserve(max_chunks);
  cold_.reserve(max_chunks);
}

BufferTable::~BufferTable() {
  for (size_t chunk = 0; chunk < hot_.size();) {
    const size_t count = chunks_at(chunk);
    memory_->deallocate(hot_[chunk], count * chunk_size * sizeof(Hot), count == 1 ? 64 : huge_page);
    memory_->deallocate(cold_[chunk], count * chunk_size * sizeof(Cold), alignof(Cold));
    chunk += count;
  }
}

/// Room for another chunk's records, not yet constructed. Throws std::bad_alloc with nothing changed.
void BufferTable::add_chunks() {
  if (hot_.size() == max_chunks) throw std::bad_alloc();
  const size_t count = chunks_at(hot_.size());
  const size_t hot_bytes = count * chunk_size * sizeof(Hot);
  const size_t alignment = count == 1 ? 64 : huge_page;
  auto *hot = static_cast<Hot *>(memory_->allocate(hot_bytes, alignment));
  Cold *cold = nullptr;
  try {
    cold = static_cast<Cold *>(memory_->allocate(count * chunk_size * sizeof(Cold), alignof(Cold)));
  } catch (...) {
    memory_->deallocate(hot, hot_bytes, alignment);
    throw;
  }
  if (count != 1) advise_huge_pages(hot, hot_bytes);
  for (size_t i = 0; i < count; ++i) {
    hot_.push_back(hot + i * chunk_size);
    cold_.push_back(cold + i * chunk_size);
  }
}

uint64_t BufferTable::bytes_of_next() const noexcept {
  const bool full = free_ == none && fresh_ >> chunk_shift == hot_.size();
  return full ? chunks_at(hot_.size()) * chunk_size * (sizeof(Hot) + sizeof(Cold)) : 0;
}

uint32_t BufferTable::take() {
  if (free_ != none) {
    const uint32_t index = free_;
    free_ = cold(index).node;
    cold(index) = Cold{};
    ++live_;
    return index;
  }
  const uint32_t chunk = fresh_ >> chunk_shift;
  if (fresh_ == end_.load(std::memory_order_relaxed)) {
    if (chunk == hot_.size()) add_chunks();
    std::uninitialized_default_construct_n(hot_[chunk], chunk_size);
    std::uninitialized_default_construct_n(cold_[chunk], chunk_size);
    end_.store(fresh_ + chunk_size, std::memory_order_release);
  }
  const uint32_t index = (chunk << chunk_shift) | spread(fresh_ & chunk_mask);
  ++fresh_;
  ++live_;
  return index;
}

void BufferTable::give(uint32_t index) noexcept {
  cold(index) = Cold{none, free_};
  free_ = index;
  --live_;
}

uint64_t BufferTable::next_generation(uint32_t index) noexcept {
  constexpr uint64_t first = uint64_t{1} << Word::generation_shift;
  const uint64_t generation = (hot(index).generation() + first) & Word::generation_mask;
  return generation != 0 ? generation : first;
}

weir_buffer BufferTable::handle(uint32_t index, uint64_t word) const noexcept {
  const uint64_t generation = (word & Word::generation_mask) >> Word::generation_shift;
  return reinterpret_cast<weir_buffer>((uint64_t{pool_id_} << 52) | (generation << 32) | index);
}

}  // namespace weir::page
