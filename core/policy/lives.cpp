// SPDX-License-Identifier: Apache-2.0
//
// Lives: found by the number of their buffer, and given away again when nobody mentions them.

#include "core/policy/lives.hpp"

#include <bit>

namespace weir::policy {

Lives::Lives(uint32_t capacity, std::pmr::memory_resource *memory)
    : lives_(capacity, memory), slots_(std::bit_ceil(size_t{capacity} * 2), none, memory) {
  shift_ = 64 - static_cast<uint32_t>(std::countr_zero(slots_.size()));
}

size_t Lives::slot_of(uint32_t buffer) const noexcept {
  const size_t mask = slots_.size() - 1;
  size_t slot = home(buffer);
  while (slots_[slot] != none && lives_[slots_[slot]].buffer != buffer) slot = (slot + 1) & mask;
  return slot;
}

uint32_t Lives::begin(uint32_t buffer, uint64_t generation, uint64_t bytes) noexcept {
  uint32_t life = free_;
  if (life != none)
    free_ = lives_[life].next_born;
  else
    life = used_++;
  lives_[life] = Life{};
  lives_[life].buffer = buffer;
  lives_[life].generation = generation;
  lives_[life].bytes = bytes;
  lives_[life].alive = true;
  slots_[slot_of(buffer)] = life;
  ++alive_;
  return life;
}

void Lives::end(uint32_t life) noexcept {
  // Whoever comes behind in the same chain moves up, so that a search still ends at the first empty slot.
  const size_t mask = slots_.size() - 1;
  size_t empty = slot_of(lives_[life].buffer);
  for (size_t slot = (empty + 1) & mask; slots_[slot] != none; slot = (slot + 1) & mask) {
    const size_t wanted = home(lives_[slots_[slot]].buffer);
    if (((slot - wanted) & mask) < ((slot - empty) & mask)) continue;
    slots_[empty] = slots_[slot];
    empty = slot;
  }
  slots_[empty] = none;
  --alive_;
  lives_[life].alive = false;
  if (lives_[life].mentions == 0) release(life);
}

void Lives::release(uint32_t life) noexcept {
  lives_[life] = Life{};
  lives_[life].next_born = free_;
  free_ = life;
}

}  // namespace weir::policy
