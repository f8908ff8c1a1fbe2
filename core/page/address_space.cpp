// SPDX-License-Identifier: Apache-2.0
//
// Reservations and the ranges in them.

#include "core/page/address_space.hpp"

#include "core/base/grow.hpp"

#include <algorithm>

namespace weir::page {
namespace {

// Large pages map best at addresses that are multiples of their size.
constexpr uint64_t reservation_alignment = uint64_t{32} << 20U;

}  // namespace

AddressSpace::AddressSpace(const backend::Device &device, uint64_t page_size,
                           uint64_t expected_bytes, std::pmr::memory_resource *memory)
    : device_(device),
      page_size_(page_size),
      step_(std::clamp<uint64_t>(expected_bytes * 4, uint64_t{1} << 30U, uint64_t{1} << 40U) /
            page_size * page_size),
      memory_(memory),
      reservations_(memory) {}

AddressSpace::~AddressSpace() {
  for (auto &r : reservations_) {
    (void)device_.table().range_free(device_.state(), device_.index, r->address, r->arena.size());
  }
}

Status AddressSpace::allocate(uint64_t bytes, uint64_t alignment, AddressRange *range) {
  for (size_t i = 0; i < reservations_.size(); ++i) {
    Reservation &r = *reservations_[i];
    if (const auto place = r.arena.allocate(bytes, alignment)) {
      *range = AddressRange{static_cast<uint32_t>(i), place.node, r.address + place.offset};
      return {};
    }
  }
  grow_by(reservations_);
  uint64_t address = 0, size = 0;
  WEIR_TRY(reserve(bytes, &address, &size));
  Owned<Reservation> fresh;
  physical::Arena::Allocation place;
  try {
    fresh = make_owned<Reservation>(memory_, address, size, page_size_, memory_);
    place = fresh->arena.allocate(bytes, alignment);
  } catch (...) {
    (void)device_.table().range_free(device_.state(), device_.index, address, size);
    throw;
  }
  *range =
      AddressRange{static_cast<uint32_t>(reservations_.size()), place.node, address + place.offset};
  reservations_.push_back(std::move(fresh));
  reserved_ += size;
  return {};
}

/// As much again as there is, so that a million buffers come to a few dozen reservations; where the system has not so many
/// addresses in one place, half of it, and so on down to what is needed now.
Status AddressSpace::reserve(uint64_t bytes, uint64_t *address, uint64_t *size) {
  const uint64_t least = (bytes + page_size_ - 1) / page_size_ * page_size_;
  const uint64_t alignment = std::max(reservation_alignment, page_size_);
  uint64_t wanted = std::max({least, step_, reserved_ / page_size_ * page_size_});
  for (;;) {
    const Status status = device_.check(
        device_.table().range_reserve(device_.state(), device_.index, wanted, alignment, address),
        "range_reserve");
    if (status || wanted == least) {
      *size = wanted;
      return status;
    }
    wanted = std::max(least, wanted / 2 / page_size_ * page_size_);
  }
}

}  // namespace weir::page
