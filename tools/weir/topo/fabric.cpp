// SPDX-License-Identifier: Apache-2.0
//
// Links are sorted by kind and speed, cut where the speed goes up by more than what measurements of equal links differ by, and
// then into what hangs together.
#include "tools/weir/topo/fabric.hpp"

#include <algorithm>
#include <map>

namespace weir::tool::topo {
namespace {

/// Measured bandwidths of equal links lie within it of the slowest.
constexpr double alike = 1.15;

struct Edge {
  std::string kind;
  FabricLink link;
  uint64_t low() const { return std::min(link.to_a, link.to_b); }
  uint64_t high() const { return std::max(link.to_a, link.to_b); }
};

bool is_drawn(const LinkTold &link) {
  if (!link.direct || link.kind == "none" || link.kind == "same" || link.kind == "pcie")
    return false;
  return link.kind != "memory" || link.bandwidth != 0;
}

std::vector<Edge> edges_of(const MachineTold &machine) {
  std::vector<Edge> edges;
  for (uint32_t a = 0; a < machine.rows.size(); ++a)
    for (uint32_t b = a + 1; b < machine.rows.size(); ++b) {
      const LinkTold &there = machine.link(machine.rows[a].place, machine.rows[b].place),
                     &back = machine.link(machine.rows[b].place, machine.rows[a].place);
      if (is_drawn(there) || is_drawn(back))
        edges.push_back(
            {is_drawn(there) ? there.kind : back.kind, {a, b, there.bandwidth, back.bandwidth}});
    }
  std::ranges::stable_sort(edges, [](const Edge &x, const Edge &y) {
    return x.kind != y.kind ? x.kind < y.kind : x.low() > y.low();
  });
  return edges;
}

using Neighbours = std::map<uint32_t, std::set<uint32_t>>;

Neighbours neighbours_of(const std::vector<FabricLink> &links) {
  Neighbours all;
  for (const FabricLink &link : links) {
    all[link.a].insert(link.b);
    all[link.b].insert(link.a);
  }
  return all;
}

/// Cuts links into what hangs together.
std::vector<FabricGroup> components(const std::vector<Edge> &edges) {
  std::map<uint32_t, uint32_t> leader;
  const auto find = [&](uint32_t i) {
    while (leader.try_emplace(i, i).first->second != i) i = leader[i];
    return i;
  };
  for (const Edge &edge : edges) {
    const uint32_t a = find(edge.link.a), b = find(edge.link.b);
    leader[std::max(a, b)] = std::min(a, b);
  }
  std::map<uint32_t, FabricGroup> groups;
  for (const Edge &edge : edges) {
    FabricGroup &group = groups[find(edge.link.a)];
    const bool first = group.links.empty();
    group.kind = edge.kind;
    group.bandwidth = {first ? edge.low() : std::min(group.bandwidth.low, edge.low()),
                       std::max(group.bandwidth.high, edge.high())};
    group.links.push_back(edge.link);
    group.members.insert({edge.link.a, edge.link.b});
  }
  std::vector<FabricGroup> list;
  for (auto &entry : groups) list.push_back(std::move(entry.second));
  return list;
}

/// Whether all members are joined, but for pairs that another link joins, which must be joined to the same other members. A line to each
/// member must be fewer than a line to each end of each link.
bool is_mesh(const FabricGroup &group, const Neighbours &joined) {
  const size_t count = group.members.size();
  if (count < 3 || (count > 3 && group.links.size() <= count)) return false;
  const Neighbours here = neighbours_of(group.links);
  for (const uint32_t a : group.members)
    for (const uint32_t b : group.members) {
      if (a >= b || here.at(a).count(b) != 0) continue;
      if (joined.at(a).count(b) == 0 || here.at(a) != here.at(b)) return false;
    }
  return true;
}

void join(const FabricGroup &group, FabricGroup *all) {
  const bool first = all->links.empty();
  all->shape = FabricGroup::Shape::some;
  all->kind = group.kind;
  all->bandwidth = {first ? group.bandwidth.low : std::min(all->bandwidth.low, group.bandwidth.low),
                    std::max(all->bandwidth.high, group.bandwidth.high)};
  all->links.insert(all->links.end(), group.links.begin(), group.links.end());
  all->members.insert(group.members.begin(), group.members.end());
}

/// What is no mesh, of one kind: link by link, or as one where they are too many to be followed.
void add_rest(const FabricGroup &rest, std::vector<FabricGroup> *list) {
  if (rest.links.size() > most_single_links) {
    list->push_back(rest);
    return;
  }
  for (const FabricLink &link : rest.links) {
    FabricGroup one{FabricGroup::Shape::single, rest.kind, {}, {link}, {link.a, link.b}};
    one.bandwidth = {std::min(link.to_a, link.to_b), std::max(link.to_a, link.to_b)};
    list->push_back(std::move(one));
  }
}

}  // namespace

std::vector<FabricGroup> fabric_of(const MachineTold &machine) {
  const std::vector<Edge> edges = edges_of(machine);
  std::vector<FabricLink> all;
  for (const Edge &edge : edges) all.push_back(edge.link);
  const Neighbours joined = neighbours_of(all);
  std::vector<FabricGroup> list;
  std::map<std::string, FabricGroup> rest;
  for (size_t from = 0, to = 0; from < edges.size(); from = to) {
    // From the fastest on: those whose speed is within reach of it.
    while (to < edges.size() && edges[to].kind == edges[from].kind &&
           static_cast<double>(edges[to].low()) * alike >= static_cast<double>(edges[from].low()))
      ++to;
    for (FabricGroup &group : components({edges.begin() + static_cast<std::ptrdiff_t>(from),
                                          edges.begin() + static_cast<std::ptrdiff_t>(to)})) {
      const size_t count = group.members.size();
      if (is_mesh(group, joined)) {
        group.shape = FabricGroup::Shape::mesh;
        group.every_two = group.links.size() == count * (count - 1) / 2;
        list.push_back(std::move(group));
      } else {
        join(group, &rest[group.kind]);
      }
    }
  }
  for (const auto &entry : rest) add_rest(entry.second, &list);
  return list;
}

}  // namespace weir::tool::topo
