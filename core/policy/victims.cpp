// SPDX-License-Identifier: Apache-2.0
//
// Heaps that know where each of their entries is, so that one in the middle can be moved or taken out.

#include "core/policy/victims.hpp"

#include "core/base/grow.hpp"

namespace weir::policy {

void Victims::make_room(uint32_t parts) {
  for (std::pmr::vector<Entry> &heap : heaps_) grow_to(heap, parts);
  if (parts <= places_.size()) return;
  grow_to(places_, parts);
  places_.resize(parts);
}

/// Moves the hole at `index` up to where the entry belongs.
void Victims::up(uint32_t heap, uint32_t index, const Entry &entry) noexcept {
  while (index != 0) {
    const uint32_t above = (index - 1) / 2;
    if (!before(entry, heaps_[heap][above])) break;
    at(heap, index, heaps_[heap][above]);
    index = above;
  }
  at(heap, index, entry);
}

void Victims::down(uint32_t heap, uint32_t index, const Entry &entry) noexcept {
  const std::pmr::vector<Entry> &entries = heaps_[heap];
  for (uint64_t below = 2 * uint64_t{index} + 1; below < entries.size(); below = 2 * below + 1) {
    if (below + 1 < entries.size() && before(entries[below + 1], entries[below])) ++below;
    if (!before(entries[below], entry)) break;
    at(heap, index, entries[below]);
    index = static_cast<uint32_t>(below);
  }
  at(heap, index, entry);
}

void Victims::settle(uint32_t heap, uint32_t index, const Entry &entry) noexcept {
  if (index != 0 && before(entry, heaps_[heap][(index - 1) / 2]))
    up(heap, index, entry);
  else
    down(heap, index, entry);
}

void Victims::put(const Entry &entry, Cost cost) noexcept {
  const auto heap = static_cast<uint32_t>(cost);
  const Place place = places_[entry.part];
  if (place.heap == heap) {
    settle(heap, place.index, entry);
    return;
  }
  if (place.heap != none) remove(entry.part);
  heaps_[heap].push_back(entry);
  up(heap, static_cast<uint32_t>(heaps_[heap].size() - 1), entry);
}

void Victims::remove(uint32_t part) noexcept {
  if (part >= places_.size() || places_[part].heap == none) return;
  const Place place = places_[part];
  const Entry last = heaps_[place.heap].back();
  heaps_[place.heap].pop_back();
  places_[part] = Place{};
  if (last.part != part) settle(place.heap, place.index, last);
}

void Victims::clear() noexcept {
  for (std::pmr::vector<Entry> &heap : heaps_) {
    for (const Entry &entry : heap) places_[entry.part] = Place{};
    heap.clear();
  }
}

uint64_t Victims::bytes() const noexcept {
  uint64_t entries = 0;
  for (const std::pmr::vector<Entry> &heap : heaps_) entries += heap.capacity();
  return entries * sizeof(Entry) + places_.capacity() * sizeof(Place);
}

}  // namespace weir::policy
