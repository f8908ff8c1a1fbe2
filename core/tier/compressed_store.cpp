// SPDX-License-Identifier: Apache-2.0
//
// The compressed store's memory and its way back to the system.

#include "core/tier/compressed_store.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>

namespace weir::tier {
namespace {

/// Freed memory is kept for what comes next up to this much, or up to 1/16 of what is used if that is more.
constexpr uint64_t kept_units = (uint64_t{16} << 20U) / UnitArena::unit;
constexpr uint64_t kept_share = 16;
/// What one free() gives back besides twice its own size, and in how many calls, as it is made under the pool's lock.
constexpr uint64_t step_units = (uint64_t{4} << 20U) / UnitArena::unit;
constexpr uint64_t step_runs = 64;

void *reserve(uint64_t bytes) noexcept {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory != MAP_FAILED ? memory : nullptr;
}

}  // namespace

CompressedStore::CompressedStore(uint64_t budget, std::pmr::memory_resource *memory)
    : ColdStore(Place::compressed),
      asked_(budget),
      arena_(budget <= UnitArena::max_bytes ? budget : 0, memory) {
  use(&arena_);
}

CompressedStore::~CompressedStore() {
  if (base_ != nullptr) munmap(base_, budget());
  if (stale_map_ != nullptr) munmap(stale_map_, words() * sizeof(uint64_t));
}

Status CompressedStore::start() {
  ErrorDetail detail{
      .tier = WEIR_TIER_COMPRESSED, .asked = asked_, .available = UnitArena::max_bytes};
  if (asked_ > UnitArena::max_bytes)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, detail,
                "a compressed budget of %llu bytes is beyond what a store can place, %llu",
                llu(asked_), llu(UnitArena::max_bytes));
  if (base_ != nullptr || budget() == 0) return {};
  void *base = reserve(budget());
  void *map = base != nullptr ? reserve(words() * sizeof(uint64_t)) : nullptr;
  if (map == nullptr) {
    detail.native = errno;
    detail.available = 0;
    if (base != nullptr) munmap(base, budget());
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, detail,
                "address space for %llu bytes of compressed memory could not be reserved: %s",
                llu(budget()), strerrordesc_np(static_cast<int>(detail.native)));
  }
  // Hints all three: a child has no use for it, a core dump neither, and huge pages would keep resident what is given
  // back by the unit.
  (void)madvise(base, budget(), MADV_DONTFORK);
  (void)madvise(base, budget(), MADV_DONTDUMP);
  (void)madvise(base, budget(), MADV_NOHUGEPAGE);
  base_ = static_cast<unsigned char *>(base);
  stale_map_ = static_cast<uint64_t *>(map);
  return {};
}

UnitSlot CompressedStore::allocate(uint64_t bytes) {
  if (base_ == nullptr || bytes == 0) return {};
  const UnitSlot slot = bytes < note_mark ? arena_.allocate(bytes) : UnitSlot{};
  if (!slot) return {};
  mark<false>(slot.first, arena_.bytes(slot) / UnitArena::unit);
  arena_.set_note(slot, static_cast<uint32_t>(bytes));
  return slot;
}

void CompressedStore::free(UnitSlot slot, uint32_t client) noexcept {
  if (client != poison::nobody) poison::fill(address(slot), arena_.bytes(slot), client);
  const uint64_t units = arena_.bytes(slot) / UnitArena::unit;
  arena_.free(slot);
  mark<true>(slot.first, units);
  top_ = std::max(top_, slot.first + units);
  if (stale_ > std::max(kept_units, used() / UnitArena::unit / kept_share))
    (void)give_back(std::max(step_units, 2 * units), step_runs);
}

bool CompressedStore::free_secret(UnitSlot slot) noexcept {
  std::memset(address(slot), 0, bytes(slot));
  free(slot);
  return false;
}

void CompressedStore::put(UnitSlot slot, const unsigned char *blob, uint64_t bytes) noexcept {
  unsigned char *to = address(slot);
  std::memcpy(to, blob, bytes);
  std::memset(to + bytes, 0, UnitArena::rounded(bytes) - bytes);
}

uint64_t CompressedStore::trim() noexcept {
  cursor_ = 0;
  const uint64_t given = give_back(UINT64_MAX, UINT64_MAX) * UnitArena::unit;
  if (stale_ == 0) top_ = cursor_ = 0;
  return given;
}

// ---- the map of what is stale ----

/// The first unit at or after `from` with its bit set or clear; `top_` if there is none.
template <bool set>
uint64_t CompressedStore::find(uint64_t from) const noexcept {
  while (from < top_) {
    const uint64_t map = stale_map_[from / 64];
    const uint64_t word = (set ? map : ~map) >> (from % 64);
    if (word != 0) return std::min(from + static_cast<uint64_t>(std::countr_zero(word)), top_);
    from = (from / 64 + 1) * 64;
  }
  return top_;
}

template <bool set>
void CompressedStore::mark(uint64_t first, uint64_t count) noexcept {
  while (count > 0) {
    const uint64_t bit = first % 64;
    const uint64_t here = std::min(64 - bit, count);
    const uint64_t mask = (here == 64 ? UINT64_MAX : (uint64_t{1} << here) - 1) << bit;
    uint64_t &word = stale_map_[first / 64];
    if constexpr (set) {
      assert((word & mask) == 0);  // a slot's units are not stale
      word |= mask;
      stale_ += here;
    } else {
      stale_ -= static_cast<uint64_t>(std::popcount(word & mask));
      if ((word & mask) != 0) word &= ~mask;  // a write would make the map's page, a read does not
    }
    first += here;
    count -= here;
  }
}

/// Gives back about that many units, in no more runs than that, from where it left off; returns how many units.
uint64_t CompressedStore::give_back(uint64_t units, uint64_t runs) noexcept {
  uint64_t given = 0;
  bool wrapped = false;
  while (stale_ > 0 && given < units && runs > 0) {
    const uint64_t first = find<true>(cursor_);
    if (first >= top_) {
      if (wrapped) break;
      wrapped = true;
      cursor_ = 0;
      continue;
    }
    const uint64_t most = units - given;
    const uint64_t end = std::min(find<false>(first), most < top_ - first ? first + most : top_);
    cursor_ = end;
    --runs;
    unsigned char *from = base_ + first * UnitArena::unit;
    // It fails only for locked memory, which stays resident and stale.
    if (madvise(from, (end - first) * UnitArena::unit, MADV_DONTNEED) != 0) continue;
    mark<false>(first, end - first);
    given += end - first;
  }
  return given;
}

}  // namespace weir::tier
