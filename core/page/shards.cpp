// SPDX-License-Identifier: Apache-2.0
//
// Layouts. Stripes go to the devices by smooth weighted round-robin (nginx's upstream balancing, commit 52327e0): each turn
// every device earns its weight, the richest gets the stripe and pays the sum of all weights. So in any run of stripes each
// device has its share to within one stripe, and equal weights give plain turns.

#include "core/page/shards.hpp"

#include <algorithm>

namespace weir::page {

Geometry Shards::shape_of(uint64_t size, uint64_t page, uint64_t large_page, uint64_t stripe,
                          uint32_t places) noexcept {
  const bool whole =
      stripe == 0 ? size / places >= least_large_pages * large_page : stripe % large_page == 0;
  return Geometry::paged(size, page, whole ? large_page : page);
}

/// Whose turn it is, among those that are not left out; there is one.
Shards::Place &Shards::next(uint32_t leave_out) noexcept {
  int64_t sum = 0;
  Place *richest = nullptr;
  for (uint32_t i = 0; i < count_; ++i) {
    Place &place = places_[i];
    if ((leave_out >> place.place & 1U) != 0) continue;
    place.credit += place.weight;
    sum += place.weight;
    if (richest == nullptr || place.credit > richest->credit) richest = &place;
  }
  richest->credit -= sum;
  return *richest;
}

void Shards::deal_stripes(const Geometry &shape, uint64_t stripe) {
  place_of_.resize(shape.pages());
  uint64_t end = 0;
  uint8_t place = 0;
  for (uint32_t p = 0; p < shape.pages(); ++p) {
    // A page lies in one stripe: the shape has been chosen so.
    while (shape.offset(p) >= end) {
      place = next(0).place;
      end += stripe;
    }
    place_of_[p] = place;
  }
}

void Shards::deal_blocks(const Geometry &shape) {
  place_of_.resize(shape.pages());
  uint64_t total = 0;
  for (uint32_t i = 0; i < count_; ++i) total += places_[i].weight;
  uint64_t below = 0;
  uint32_t p = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    below += places_[i].weight;
    // size x below / total; weights are small, so neither product overflows.
    const uint64_t end = shape.size / total * below + shape.size % total * below / total;
    // The page in which two blocks meet is whose it has more of.
    for (;
         p < shape.pages() && (i + 1 == count_ || shape.offset(p) + shape.used_bytes(p) / 2 < end);
         ++p)
      place_of_[p] = places_[i].place;
  }
}

bool Shards::deal_again(uint8_t place, uint32_t leave_out) noexcept {
  leave_out |= uint32_t{1} << place;
  if ((bits_ & ~leave_out) == 0) return false;
  for (Place &other : places_) other.credit = 0;
  for (uint8_t &of_page : place_of_) {
    if (of_page == place) of_page = next(leave_out).place;
  }
  const auto end = std::remove_if(places_.begin(), places_.begin() + count_,
                                  [place](const Place &p) { return p.place == place; });
  count_ = static_cast<uint32_t>(end - places_.begin());
  bits_ &= ~(uint32_t{1} << place);
  return true;
}

uint64_t Shards::bytes_on(const Geometry &shape, uint8_t place) const noexcept {
  uint64_t bytes = 0;
  for (uint32_t p = 0; p < place_of_.size(); ++p) {
    if (place_of_[p] == place) bytes += shape.used_bytes(p);
  }
  return bytes;
}

}  // namespace weir::page
