// SPDX-License-Identifier: Apache-2.0
//
// First fit in the oldest slab with room, so that the youngest become empty. One empty slab is kept for the next piece.

#include "backends/vulkan/slabs.hpp"

#include <algorithm>
#include <iterator>

namespace weir::vulkan {
namespace {

constexpr uint64_t slab_bytes = uint64_t{64} << 20U;
/// Pieces from this part of a slab on are allocations of their own.
constexpr uint64_t whole_from = slab_bytes / 4;

}  // namespace

Slabs::~Slabs() {
  for (const Slab &slab : slabs_) device_.api().FreeMemory(device_.handle(), slab.memory, nullptr);
}

bool Slabs::carve(Slab *slab, uint64_t bytes, Piece *piece) {
  const auto space = std::find_if(slab->spaces.begin(), slab->spaces.end(),
                                  [&](const auto &each) { return each.second >= bytes; });
  if (slab->whole || space == slab->spaces.end()) return false;
  *piece = {slab, space->first, bytes, false};
  const uint64_t left = space->second - bytes;
  if (left == 0) {
    slab->spaces.erase(space);
  } else {
    auto node = slab->spaces.extract(space);
    node.key() += bytes;
    node.mapped() = left;
    slab->spaces.insert(std::move(node));
  }
  slab->used += bytes;
  return true;
}

weir_result Slabs::take_whole(uint64_t bytes, bool exported, int fd, Piece *piece) {
  std::list<Slab> made(1);
  Slab &slab = made.front();
  slab.bytes = slab.used = bytes;
  slab.whole = true;
  WEIR_BACKEND_TRY(device_.allocate(bytes, exported, fd, &slab.memory));
  *piece = {&slab, 0, bytes, fd >= 0};
  const std::lock_guard hold(mutex_);
  slabs_.splice(slabs_.end(), made);
  return WEIR_SUCCESS;
}

weir_result Slabs::import(int fd, uint64_t bytes, Piece *piece) {
  return take_whole(bytes, false, fd, piece);
}

weir_result Slabs::take(uint64_t bytes, bool exported, Piece *piece) {
  if (exported || bytes >= whole_from) return take_whole(bytes, exported, -1, piece);
  {
    const std::lock_guard hold(mutex_);
    for (Slab &slab : slabs_)
      if (carve(&slab, bytes, piece)) return WEIR_SUCCESS;
  }
  // A device that is nearly full has no room for a whole slab, but perhaps for a smaller one.
  std::list<Slab> made(1);
  Slab &slab = made.front();
  const uint64_t wanted = std::min(slab_bytes, device_.memory());
  weir_result result = WEIR_ERROR_DEVICE_OOM;
  for (slab.bytes = std::max(wanted / bytes * bytes, bytes); result == WEIR_ERROR_DEVICE_OOM;
       slab.bytes = std::max(slab.bytes / 2 / bytes * bytes, bytes)) {
    result = device_.allocate(slab.bytes, false, -1, &slab.memory);
    if (result == WEIR_SUCCESS || slab.bytes == bytes) break;
  }
  if (result != WEIR_SUCCESS) return result;
  try {
    slab.spaces.emplace(0, slab.bytes);
  } catch (...) {
    device_.api().FreeMemory(device_.handle(), slab.memory, nullptr);
    throw;
  }
  (void)carve(&slab, bytes, piece);
  const std::lock_guard hold(mutex_);
  slabs_.splice(slabs_.end(), made);
  return WEIR_SUCCESS;
}

void Slabs::give(const Piece &piece) noexcept {
  std::list<Slab> gone;
  {
    const std::lock_guard hold(mutex_);
    Slab &slab = *piece.slab;
    slab.used -= piece.bytes;
    bool kept = !slab.whole;
    if (kept) {
      // Room for a space is not to be had at times: then these bytes are lost until the slab is empty.
      try {
        auto place = slab.spaces.emplace(piece.offset, piece.bytes).first;
        const auto next = std::next(place);
        if (next != slab.spaces.end() && place->first + place->second == next->first) {
          place->second += next->second;
          slab.spaces.erase(next);
        }
        if (place != slab.spaces.begin()) {
          const auto before = std::prev(place);
          if (before->first + before->second == place->first) {
            before->second += place->second;
            slab.spaces.erase(place);
          }
        }
      } catch (const std::bad_alloc &) {
      }
      const bool spare = std::any_of(slabs_.begin(), slabs_.end(), [&](const Slab &other) {
        return &other != &slab && other.used == 0;
      });
      kept = slab.used != 0 || !spare;
    }
    if (!kept) {
      const auto place = std::find_if(slabs_.begin(), slabs_.end(),
                                      [&](const Slab &each) { return &each == &slab; });
      gone.splice(gone.end(), slabs_, place);
    }
  }
  for (const Slab &slab : gone) device_.api().FreeMemory(device_.handle(), slab.memory, nullptr);
}

}  // namespace weir::vulkan
