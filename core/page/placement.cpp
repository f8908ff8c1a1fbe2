// SPDX-License-Identifier: Apache-2.0
//
// The cost model, and the search for homes by it.

#include "core/page/placement.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

namespace weir::page {
namespace {

/// Costs that differ by no more than this share are alike.
constexpr double alike = 1.0 / 50;
/// Differences that are the arithmetic's.
constexpr double noise = 1e-9;
/// More buffers than these are not tried two by two.
constexpr size_t most_swapped = 256;
constexpr int most_turns = 32;

constexpr double bytes_of(uint64_t bytes) noexcept { return static_cast<double>(bytes); }

}  // namespace

void Promise::add(uint8_t home, uint64_t more, const Users &users) noexcept {
  if (!users.any()) return add(home, more);
  bytes += more;
  for (size_t user = 0; user < Users::count; ++user) traffic[user] += more * users.times[user];
}

Placement::Placement(const transfer::Routes &routes, const numa::Nodes &nodes, uint32_t node,
                     std::pmr::vector<Place> places)
    : places_(std::move(places)) {
  const auto end = [](size_t i) {
    return i != Users::cpu ? static_cast<uint8_t>(i) : transfer::Routes::host;
  };
  for (size_t a = 0; a < places_.size(); ++a) {
    away_[a] = nodes.distance(node, places_[a].node);
    for (size_t b = 0; b <= places_.size(); ++b) {
      const size_t other = b < places_.size() ? b : Users::cpu;
      pace_[a][other] = pace_[other][a] = routes.pace(end(a), end(other));
      if (a != b && b < places_.size() && routes.beats_host(end(a), end(b)))
        lenders_[a] |= uint32_t{1} << b;
    }
  }
}

/// What the uses of a home cost of whose bytes `over` lie elsewhere, taken from the neighbours' room.
double Placement::out_of_place(uint8_t home, double over,
                               std::array<double, Users::count> *room) const noexcept {
  const Promise &promise = places_[home].promise;
  const auto fetch = [&](size_t from, double share) {
    double sum = 0;
    for (size_t user = 0; user < Users::count; ++user) {
      if (promise.traffic[user] == 0) continue;
      const double byte = user == home ? 2 * pace_[home][from].byte
                                       : std::max(pace_[user][from].byte, pace_[user][home].byte);
      sum += bytes_of(promise.traffic[user]) * share * byte;
    }
    return sum;
  };
  const double all = bytes_of(promise.bytes);
  double sum = 0;
  while (over > 0) {
    size_t to = Users::cpu;
    for (uint8_t i = 0; i < places_.size(); ++i) {
      if ((*room)[i] > 0 && (lenders_[home] >> i & 1U) != 0 &&
          pace_[home][i].byte < pace_[home][to].byte)
        to = i;
    }
    const double taken = to == Users::cpu ? over : std::min(over, (*room)[to]);
    (*room)[to] -= taken;
    over -= taken;
    sum += fetch(to, taken / all);
  }
  return sum;
}

double Placement::cost() const noexcept {
  std::array<double, Users::count> room{};
  std::array<double, Users::count> over{};
  double sum = 0;
  for (uint8_t h = 0; h < places_.size(); ++h) {
    const Place &place = places_[h];
    const double spare = bytes_of(place.budget) - bytes_of(place.promise.bytes);
    room[h] = place.usable ? std::max(spare, 0.0) : 0;
    over[h] = std::max(-spare, 0.0);
    const double here = over[h] > 0 ? 1 - over[h] / bytes_of(place.promise.bytes) : 1;
    for (size_t user = 0; user < Users::count; ++user)
      sum += bytes_of(place.promise.traffic[user]) * here * pace_[h][user].byte;
  }
  for (uint8_t h = 0; h < places_.size(); ++h)
    if (over[h] > 0) sum += out_of_place(h, over[h], &room);
  return sum;
}

/// The latencies of its own links.
double Placement::reach(const Wish &wish, uint8_t home) const noexcept {
  double sum = 0;
  for (size_t user = 0; user < Users::count; ++user)
    sum += wish.users.times[user] * pace_[home][user].copy;
  return sum;
}

/// The cost with the buffer there.
double Placement::with(const Wish &wish, uint8_t home) noexcept {
  Promise &promise = places_[home].promise;
  promise.add(home, wish.bytes, wish.users);
  const double sum = cost() + reach(wish, home);
  promise.remove(home, wish.bytes, wish.users);
  return sum;
}

uint8_t Placement::choose(const Wish &wish) noexcept {
  const double before = cost();
  std::array<double, max_devices> growth{};
  double least = -1;
  for (uint8_t i = 0; i < places_.size(); ++i) {
    if (!fits(wish, i)) continue;
    growth[i] = std::max(with(wish, i) - before, 0.0);
    least = least < 0 ? growth[i] : std::min(least, growth[i]);
  }
  const bool used = wish.users.any();
  uint8_t best = nowhere;
  std::tuple<double, double> best_rank;
  for (uint8_t i = 0; i < places_.size(); ++i) {
    if (!fits(wish, i) || growth[i] > least * (1 + alike) + before * noise) continue;
    const Place &place = places_[i];
    const double full = (bytes_of(place.promise.bytes) + bytes_of(wish.bytes)) /
                        bytes_of(std::max<uint64_t>(place.budget, 1));
    const double away = away_[i];
    const auto rank = used ? std::tuple(away, full) : std::tuple(full, away);
    if (best != nowhere && !(rank < best_rank)) continue;
    best = i;
    best_rank = rank;
  }
  return best;
}

// ---- several at once ----

/// Moves each buffer that wins by it to where it wins most. False: none does.
bool Placement::move_each(std::pmr::vector<Wish> *wishes, double *least) noexcept {
  bool moved = false;
  for (Wish &wish : *wishes) {
    if (wish.home == nowhere) continue;
    places_[wish.home].promise.remove(wish.home, wish.bytes, wish.users);
    uint8_t best = wish.home;
    double there = with(wish, best);
    const double enough = there * noise;
    for (uint8_t i = 0; i < places_.size(); ++i) {
      const double cost_there = fits(wish, i) ? with(wish, i) : there;
      if (cost_there >= there - enough) continue;
      best = i;
      there = cost_there;
    }
    moved = moved || best != wish.home;
    wish.home = best;
    places_[best].promise.add(best, wish.bytes, wish.users);
  }
  *least = cost();
  return moved;
}

/// Lets the first two change places that win by it. False: none do.
bool Placement::swap_two(std::pmr::vector<Wish> *wishes, double *least) noexcept {
  if (wishes->size() > most_swapped) return false;
  const auto put = [this](Wish &wish, uint8_t home) {
    places_[wish.home].promise.remove(wish.home, wish.bytes, wish.users);
    places_[home].promise.add(home, wish.bytes, wish.users);
    wish.home = home;
  };
  for (size_t i = 0; i < wishes->size(); ++i) {
    for (size_t j = i + 1; j < wishes->size(); ++j) {
      Wish &a = (*wishes)[i], &b = (*wishes)[j];
      if (a.home == b.home || a.home == nowhere || b.home == nowhere || !fits(a, b.home) ||
          !fits(b, a.home))
        continue;
      const uint8_t of_a = a.home, of_b = b.home;
      put(a, of_b);
      put(b, of_a);
      const double here = cost();
      if (here < *least * (1 - noise)) {
        *least = here;
        return true;
      }
      put(a, of_a);
      put(b, of_b);
    }
  }
  return false;
}

void Placement::choose_all(std::pmr::vector<Wish> *wishes) {
  // What lies between a wrong home and the right one is the traffic.
  std::pmr::vector<Wish *> order(wishes->get_allocator().resource());
  for (Wish &wish : *wishes) {
    if (wish.home == nowhere)
      order.push_back(&wish);
    else
      places_[wish.home].promise.add(wish.home, wish.bytes, wish.users);
  }
  const auto traffic = [](const Wish *wish) {
    const auto &times = wish->users.times;
    return wish->bytes * std::accumulate(times.begin(), times.end(), uint64_t{0});
  };
  std::ranges::stable_sort(order, std::greater{}, traffic);
  std::pmr::vector<Wish> open(wishes->get_allocator());
  for (Wish *wish : order) {
    wish->home = choose(*wish);
    open.push_back(*wish);
    if (wish->home != nowhere)
      places_[wish->home].promise.add(wish->home, wish->bytes, wish->users);
  }
  double least = cost();
  for (int turn = 0; turn < most_turns; ++turn)
    if (!move_each(&open, &least) && !swap_two(&open, &least)) break;
  for (size_t i = 0; i < order.size(); ++i) order[i]->home = open[i].home;
}

}  // namespace weir::page
