// SPDX-License-Identifier: Apache-2.0
//
// Paths listed, timed, and the best set of them searched for.

#include "core/transfer/paths.hpp"

#include <algorithm>
#include <cmath>

namespace weir::transfer {
namespace {

/// Where nothing of a rank is known at all: little, so that what is known is preferred. Bytes per ns.
constexpr std::array<double, 3> least_known{4, 8, 25};
/// Measured figures of equal links differ by so much.
constexpr double alike = 1.1;
/// A path more has to bring more than this.
constexpr double near_best = 1.05;
/// Sets are searched among so many paths: the best of each pair of ports, and of those with ports of their own.
constexpr size_t most_searched = 12;

}  // namespace

uint64_t Paths::Path::chunk(uint64_t bytes) const noexcept {
  if (direct()) return bytes;
  const double best = std::sqrt(static_cast<double>(bytes) * step_ns * fast());
  const double least = static_cast<double>(unit), most = static_cast<double>(largest_chunk);
  const uint64_t below = static_cast<uint64_t>(std::clamp(best, least, most)) / unit * unit;
  const auto ns_at = [&](uint64_t chunk) {
    return fixed_ns(chunk) + static_cast<double>(bytes) * byte_ns(chunk);
  };
  if (below == largest_chunk) return below;
  return ns_at(below + unit) < ns_at(below) ? below + unit : below;
}

double Paths::Path::fixed_ns(uint64_t chunk) const noexcept {
  if (direct()) return first.latency_ns;
  return first.latency_ns + second.latency_ns + static_cast<double>(chunk) / fast();
}

double Paths::Path::byte_ns(uint64_t chunk) const noexcept {
  return 1 / slow() + (direct() ? 0 : step_ns / static_cast<double>(chunk));
}

double Paths::Path::ns(uint64_t bytes) const noexcept {
  const uint64_t piece = std::min(chunk(bytes), bytes);
  return fixed_ns(piece) + static_cast<double>(bytes) * byte_ns(piece);
}

void Paths::find(const Routes &routes, const SplitSizes &sizes) {
  routes_ = routes;
  sizes_ = sizes;
  usual_ = {};
  slowest_ = 0;
  const size_t count = routes_.count() < 2 ? 0 : routes_.count();
  const auto lesser = [](double &least, double value) {
    least = least == 0 ? value : std::min(least, value);
  };
  for (size_t a = 0; a <= count && count != 0; ++a) {
    for (size_t b = 0; b <= count; ++b) {
      const Way &way = routes_.way(a, b);
      if (a == b || way.bandwidth == 0) continue;
      const double rate = static_cast<double>(way.bandwidth) / 1e9;
      lesser(usual_[static_cast<size_t>(rank_of(way.kind))], rate);
      lesser(slowest_, rate);
    }
  }
  if (slowest_ == 0) slowest_ = least_known[0];
  for (size_t i = 0; i < usual_.size(); ++i)
    if (usual_[i] == 0) usual_[i] = least_known[i];
  for (size_t d = 0; d < switched_.size(); ++d) switched_[d] = d < count && at_switch(d);
}

/// All that the device's links of a fabric are said to have is the same, to at least two others.
bool Paths::at_switch(size_t device) const noexcept {
  uint64_t least = UINT64_MAX, most = 0;
  size_t links = 0;
  for (size_t other = 0; other < routes_.count(); ++other) {
    if (other == device) continue;
    const Way &way = routes_.way(device, other);
    if (!way.direct || rank_of(way.kind) != 2) continue;
    ++links;
    least = std::min(least, way.bandwidth);
    most = std::max(most, way.bandwidth);
  }
  return links >= 2 && static_cast<double>(most) <= alike * static_cast<double>(least);
}

Paths::Hop Paths::hop(size_t from, size_t to) const noexcept {
  const Way &way = routes_.way(from, to);
  const auto rank = static_cast<size_t>(rank_of(way.kind));
  const bool host = from == routes_.count() || to == routes_.count();
  const bool known = way.bandwidth != 0;
  const double rate = known  ? static_cast<double>(way.bandwidth) / 1e9
                      : host ? slowest_
                             : usual_[rank];
  return {rate, way.latency_ns != 0 ? static_cast<double>(way.latency_ns) : usual_latency_ns,
          rank == 1 ? Port::slot : Port::own, known};
}

Paths::List Paths::list(uint8_t from, uint8_t to, uint32_t relays, bool direct) const noexcept {
  List list;
  const auto add = [&](uint8_t via) {
    Path &path = list.paths[list.count++];
    const size_t between = via == Share::host ? routes_.count() : via;
    path.via = via;
    path.first = hop(from, path.direct() ? to : between);
    path.second = path.direct() ? path.first : hop(between, to);
    // What is at a switch has one port into it; a link to the host is none of a switch's.
    const auto into = [&](Hop &of, bool switched) {
      if (via != Share::host && of.port == Port::own && switched) of.port = Port::fabric;
    };
    into(path.first, switched_[from] || (path.direct() && switched_[to]));
    into(path.second, switched_[to] || (path.direct() && switched_[from]));
  };
  if (direct && routes_.direct(from, to)) add(Share::direct);
  for (uint8_t r = 0; r < routes_.count() && r < most_devices; ++r) {
    if (r == from || r == to || (relays & (uint32_t{1} << r)) == 0) continue;
    if (routes_.direct(from, r) && routes_.direct(r, to)) add(r);
  }
  add(Share::host);
  return list;
}

bool Paths::together(const Path &a, const Path &b) noexcept {
  const auto same = [](Port x, Port y) { return x == y && x != Port::own; };
  return !same(a.leaves(), b.leaves()) && !same(a.enters(), b.enters());
}

/// Shares that end at once. False: one of them would be too small to be worth it.
bool Paths::divide(const Path *const *paths, size_t count, uint64_t bytes,
                   Ways *ways) const noexcept {
  std::array<uint64_t, Ways::most> chunks{};
  double rates = 0, head = 0, sum = 0;
  for (size_t i = 0; i < count; ++i) sum += paths[i]->slow();
  for (size_t i = 0; i < count; ++i) {
    const double part = static_cast<double>(bytes) * paths[i]->slow() / sum;
    chunks[i] = paths[i]->chunk(static_cast<uint64_t>(part));
    const double rate = 1 / paths[i]->byte_ns(chunks[i]);
    rates += rate;
    head += paths[i]->fixed_ns(chunks[i]) * rate;
  }
  const double end = (static_cast<double>(bytes) + head) / rates;
  uint64_t rest = bytes;
  ways->ns = 0;
  for (size_t i = count; i-- > 0;) {
    const double left = end - paths[i]->fixed_ns(chunks[i]);
    if (left <= 0) return false;
    const auto exact = static_cast<uint64_t>(left / paths[i]->byte_ns(chunks[i]));
    const uint64_t share = i == 0 ? rest : exact / unit * unit;
    if (share < sizes_.share || share > rest || (i != 0 && share == rest)) return false;
    rest -= share;
    ways->shares[i] = Share{paths[i]->via, share, paths[i]->direct() ? share : chunks[i]};
    ways->ns = std::max(ways->ns, paths[i]->fixed_ns(chunks[i]) +
                                      static_cast<double>(share) * paths[i]->byte_ns(chunks[i]));
  }
  ways->count = static_cast<uint8_t>(count);
  return true;
}

struct Paths::Search {
  std::array<const Path *, most_searched> among{};
  size_t count = 0;
  std::array<const Path *, Ways::most> taken{};
  uint64_t bytes = 0;
  std::array<Ways, Ways::most + 1> best;  ///< of each number of paths
};

void Paths::search(Search &s, size_t from, size_t taken) const noexcept {
  Ways ways;
  if (taken >= 2 && divide(s.taken.data(), taken, s.bytes, &ways) && ways.ns < s.best[taken].ns)
    s.best[taken] = ways;
  if (taken == Ways::most) return;
  for (size_t i = from; i < s.count; ++i) {
    bool free = true;
    for (size_t t = 0; t < taken; ++t) free = free && together(*s.taken[t], *s.among[i]);
    if (!free) continue;
    s.taken[taken] = s.among[i];
    search(s, i + 1, taken + 1);
  }
}

Ways Paths::choose(uint8_t from, uint8_t to, uint64_t bytes, uint32_t relays,
                   bool may_direct) const noexcept {
  List all = list(from, to, relays, may_direct);
  const auto begin = all.paths.begin();
  const auto end = begin + static_cast<ptrdiff_t>(all.count);
  // Listed first, the direct one stays first among equals.
  const Path *direct = all.paths[0].direct() ? begin : nullptr;
  const Path *single = begin;
  for (auto path = begin; path != end; ++path) {
    if (path->ns(bytes) < single->ns(bytes)) single = path;
  }
  if (direct != nullptr && single != direct) {
    const bool sure = direct->known() && single->known();
    if (!sure || single->ns(bytes) * worth > direct->ns(bytes)) single = direct;
  }
  Ways ways;
  ways.count = 1;
  ways.ns = single->ns(bytes);
  ways.shares[0] = Share{single->via, bytes, single->chunk(bytes)};
  if (bytes < sizes_.whole || !single->known()) return ways;

  // The best few for every pair of ports: of those by shared ones only one can be taken anyway.
  std::sort(begin, end, [bytes](const Path &a, const Path &b) {
    return a.ns(bytes) != b.ns(bytes) ? a.ns(bytes) < b.ns(bytes) : a.via > b.via;
  });
  Search s;
  s.bytes = bytes;
  s.best.fill(ways);
  std::array<size_t, 9> kept{};
  for (auto path = begin; path != end && s.count < most_searched; ++path) {
    if (!path->known()) continue;
    const auto ports =
        3 * static_cast<size_t>(path->leaves()) + static_cast<size_t>(path->enters());
    if (kept[ports]++ < (ports == 0 ? Ways::most : 1)) s.among[s.count++] = path;
  }
  search(s, 0, 0);
  // Of as few as come near the best: what adds little is spared.
  const Ways *best = &*std::min_element(s.best.begin(), s.best.end(),
                                        [](const Ways &a, const Ways &b) { return a.ns < b.ns; });
  const double near = best->ns * near_best;
  for (size_t few = Ways::most; few >= 2; --few) {
    if (s.best[few].split() && s.best[few].ns <= near) best = &s.best[few];
  }
  return best->split() && best->ns * worth <= ways.ns ? *best : ways;
}

double Paths::from_host_ns(uint8_t to, uint64_t bytes) const noexcept {
  const Hop last = hop(routes_.count(), to);
  return last.latency_ns + static_cast<double>(bytes) / last.bytes_per_ns;
}

}  // namespace weir::transfer
