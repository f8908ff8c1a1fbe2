// SPDX-License-Identifier: Apache-2.0
//
// Prices from waits: shares of the time lost, forgotten over thousands of operations.

#include "core/policy/prices.hpp"

#include <algorithm>
#include <cmath>

namespace weir::policy {
namespace {

constexpr double wait_kept = 1 - 1.0 / 4096;           ///< of a wait, an operation later
constexpr double least_price = 0.05;                   ///< no direction is for nothing
constexpr double handling_price = Prices::clean_dead;  ///< every eviction costs something
constexpr double no_wait = 1e-3;  ///< ns: so that the shares of no waits are halves

}  // namespace

void Prices::advance(uint64_t operations) noexcept {
  const double left =
      operations == 1 ? wait_kept : std::pow(wait_kept, static_cast<double>(operations));
  fetch_lost_ = std::max(fetch_lost_ * left, no_wait);
  room_lost_ = std::max(room_lost_ * left, no_wait);
}

void Prices::note_stall(uint64_t fetch_ns, uint64_t room_ns) noexcept {
  fetch_lost_ += static_cast<double>(fetch_ns);
  room_lost_ += static_cast<double>(room_ns);
}

double Prices::fetch() const noexcept {
  return std::clamp(fetch_lost_ / (fetch_lost_ + room_lost_), least_price, 1 - least_price);
}

std::array<double, costs> Prices::of_classes() const noexcept {
  return {fetch() + handling_price, 1 + handling_price, write_back() + 2 * handling_price};
}

}  // namespace weir::policy
