// SPDX-License-Identifier: Apache-2.0
//
// Reading the JSON: which places have rows follows core/topology's rows_of(), and a test compares the two.
#include "tools/weir/topo/machine.hpp"

#include "tools/weir/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace weir::tool::topo {
namespace {

using Json = nlohmann::json;

uint32_t number_of(const Json &json, const char *key) {
  const auto value = json.find(key);
  return value != json.end() && value->is_number() ? value->get<uint32_t>() : none;
}

PlaceTold place_of(const Json &json, size_t index) {
  PlaceTold place;
  place.kind = json.at("kind").get<std::string>();
  place.parent = number_of(json, "parent");
  if (index != 0 && place.parent >= index)
    throw ToolError("the topology's place " + std::to_string(index) + " comes before its parent");
  place.number = number_of(json, "number");
  place.name = json.value("name", "");
  place.pci_address = json.value("pci_address", "");
  place.memory = json.value("memory", uint64_t{0});
  place.memory_shared = json.value("memory_shared_with", uint64_t{1});
  place.integrated = json.value("integrated", false);
  place.upstream = json.value("pcie_bandwidth", uint64_t{0});
  place.end = json.contains("known_as");
  place.device = number_of(json, "device");
  place.numa_node = number_of(json, "numa_node");
  return place;
}

std::vector<RowTold> rows_of(const std::vector<PlaceTold> &places) {
  const auto card = [&](uint32_t i) {
    return places[i].kind == "subdevice" ? places[i].parent : i;
  };
  std::vector<bool> in_parts(places.size());
  for (uint32_t i = 0; i < places.size(); ++i)
    if (places[i].end && card(i) != i) in_parts[card(i)] = true;
  std::vector<RowTold> rows;
  uint32_t count = 0;
  for (uint32_t i = 0; i < places.size(); ++i) {
    if (!places[i].end) continue;
    const uint32_t number = count++;
    if (places[i].device != none)
      rows.push_back({i, "D" + std::to_string(places[i].device)});
    else if (places[card(i)].device == none && !in_parts[i])
      rows.push_back({i, "G" + std::to_string(number)});
  }
  std::ranges::stable_sort(rows, {}, [&](const RowTold &row) { return places[row.place].device; });
  return rows;
}

}  // namespace

const LinkTold &MachineTold::link(uint32_t from, uint32_t to) const {
  static const LinkTold nothing;
  const auto found = links.find({from, to});
  return found == links.end() ? nothing : found->second;
}

uint32_t MachineTold::above(uint32_t place, const char *kind) const {
  do place = places[place].parent;
  while (place != none && places[place].kind != kind);
  return place;
}

uint32_t MachineTold::node_of(uint32_t place) const {
  uint32_t only = none, count = 0;
  for (uint32_t i = 0; i < places.size(); ++i) {
    if (places[i].kind != "numa_node") continue;
    if (places[place].numa_node != none && places[i].number == places[place].numa_node) return i;
    only = i;
    ++count;
  }
  const uint32_t holds = above(place, "numa_node");
  return holds != none ? holds : count == 1 ? only : none;
}

MachineTold machine_of(const std::string &json) {
  MachineTold machine;
  try {
    const Json document = Json::parse(json);
    machine.origin = document.at("origin").get<std::string>();
    for (const Json &place : document.at("places"))
      machine.places.push_back(place_of(place, machine.places.size()));
    if (machine.places.empty()) throw ToolError("the topology has no places");
    for (const Json &link : document.at("links")) {
      LinkTold told;
      told.kind = link.at("kind").get<std::string>();
      told.bandwidth = link.at("bandwidth").get<uint64_t>();
      told.source = link.at("source").get<std::string>();
      told.direct = link.at("direct").get<bool>();
      told.shared = link.at("shared_with").get<uint64_t>();
      machine.links[{link.at("from").get<uint32_t>(), link.at("to").get<uint32_t>()}] = told;
    }
  } catch (const Json::exception &error) {
    throw ToolError(std::string("the topology's JSON cannot be read: ") + error.what());
  }
  machine.rows = rows_of(machine.places);
  return machine;
}

}  // namespace weir::tool::topo
