// SPDX-License-Identifier: Apache-2.0
//
// The cost model, and its use for the buffers of an engine.

#include "core/residency/placement.hpp"

#include "core/residency/plan.hpp"

#include <algorithm>
#include <tuple>

namespace weir::residency {
namespace {

/// Costs that differ by no more than this share are alike.
constexpr double alike = 1.0 / 50;

}  // namespace

/// Where bytes go that a home has no room for: the CPU's memory unless a neighbour has promised less than it could.
uint8_t Placement::spill_of(uint8_t home, uint64_t bytes) const noexcept {
  uint8_t best = transfer::Routes::host;
  for (uint8_t i = 0; i < places_.size(); ++i) {
    if (i == home || !places_[i].usable || places_[i].room() < bytes) continue;
    if (!routes_.beats_host(home, i)) continue;
    if (routes_.pace(home, i).byte < routes_.pace(home, best).byte) best = i;
  }
  return best;
}

double Placement::cost(uint8_t home, uint64_t bytes, const Users &users) const noexcept {
  const uint64_t room = places_[home].room();
  const uint64_t over = bytes > room ? bytes - room : 0;
  const uint8_t spill = over != 0 ? spill_of(home, over) : transfer::Routes::host;
  const double swap = 2 * routes_.pace(home, spill).of(over);
  double sum = users.any() ? 0 : swap;
  for (size_t i = 0; i < users.times.size(); ++i) {
    if (users.times[i] == 0) continue;
    const auto user = i != Users::cpu ? static_cast<uint8_t>(i) : transfer::Routes::host;
    const double once = user == home ? swap
                                     : routes_.pace(user, home).of(bytes - over) +
                                           routes_.pace(user, spill).of(over);
    sum += once * users.times[i];
  }
  return sum;
}

double Placement::load(uint8_t home, uint64_t bytes) const noexcept {
  const Place &place = places_[home];
  return (static_cast<double>(place.promised) + static_cast<double>(bytes)) /
         static_cast<double>(std::max<uint64_t>(place.budget, 1));
}

uint8_t Placement::choose(uint64_t bytes, const Users &users, uint32_t node) const noexcept {
  double least = 0;
  bool found = false;
  for (uint8_t i = 0; i < places_.size(); ++i) {
    if (!places_[i].usable) continue;
    const double here = cost(i, bytes, users);
    least = found ? std::min(least, here) : here;
    found = true;
  }
  const bool used = users.any();
  uint8_t best = nowhere;
  std::tuple<double, double> best_rank;
  for (uint8_t i = 0; i < places_.size(); ++i) {
    if (!places_[i].usable || cost(i, bytes, users) > least * (1 + alike)) continue;
    const double away = nodes_.distance(node, places_[i].node);
    const double full = load(i, bytes);
    const auto rank = used ? std::tuple(away, full) : std::tuple(full, away);
    if (best != nowhere && !(rank < best_rank)) continue;
    best = i;
    best_rank = rank;
  }
  return best;
}

// ---- of an engine ----

/// The descriptor's list as positions in the pool.
Status Engine::read_users(const weir_buffer_desc &desc, Users *users) {
  if (desc.reserved != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, "reserved is %u", desc.reserved);
  if (desc.user_count > UINT16_MAX || (desc.user_count != 0 && desc.users == nullptr))
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "user_count is %u%s", desc.user_count,
                desc.users == nullptr ? ", and users is NULL" : ", more than 65535");
  for (uint32_t i = 0; i < desc.user_count; ++i) {
    size_t at = Users::cpu;
    if (desc.users[i] != WEIR_DEVICE_HOST) {
      uint8_t place = 0;
      if (!place_of(desc.users[i], &place))
        return fail(WEIR_ERROR_INVALID_ARGUMENT, "users[%u] is %u, no device of this pool", i,
                    desc.users[i]);
      at = place;
    }
    ++users->times[at];
  }
  return {};
}

uint8_t Engine::choose_home(uint64_t bytes, const Users &users, uint32_t leave_out) {
  std::pmr::vector<Placement::Place> places(&memory_);
  for (const auto &device : devices_) {
    Placement::Place place;
    place.budget = device->granules->budget();
    place.promised = device->promised;
    place.node = device->node;
    place.usable = !device->lost && (leave_out & device->bit()) == 0;
    places.push_back(place);
  }
  return Placement(config_.routes, config_.nodes, places)
      .choose(bytes, users, numa::current_node());
}

/// The home that a descriptor names or leaves to Weir.
Status Engine::home_for(const weir_buffer_desc &desc, const Users &users, uint8_t *home) {
  if (desc.home != WEIR_DEVICE_ANY) return place_of(desc.home, home);
  uint32_t unfit = 0;
  for (const auto &device : devices_) {
    const bool stable = (desc.flags & WEIR_BUFFER_STABLE_ADDRESS) == 0 || device->vmm();
    if (!stable || desc.alignment > device->page_size) unfit |= device->bit();
  }
  uint8_t chosen = choose_home(desc.size, users, unfit);
  // Then it is said of one of them what it lacks.
  if (chosen == Placement::nowhere) chosen = choose_home(desc.size, users, 0);
  if (chosen == Placement::nowhere)
    return fail(WEIR_ERROR_DEVICE_LOST,
                "home is WEIR_DEVICE_ANY, and every device of the pool is lost");
  *home = chosen;
  return {};
}

}  // namespace weir::residency
