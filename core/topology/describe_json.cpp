// SPDX-License-Identifier: Apache-2.0
//
// Places by their index, links by the places they join; the host's end is place 0, the machine.

#include "core/topology/describe.hpp"

#include <nlohmann/json.hpp>

namespace weir::topology {
namespace {

using Json = nlohmann::ordered_json;

Json number(uint32_t value) { return value != none ? Json(value) : Json(nullptr); }

Json place_json(const Place &place, size_t index) {
  Json json{{"place", index}, {"kind", name_of(place.kind)}, {"parent", number(place.parent)}};
  if (place.number != none) json["number"] = place.number;
  if (!place.name.empty()) json["name"] = std::string(place.name);
  if (!place.pci_address.empty()) json["pci_address"] = std::string(place.pci_address);
  if (place.memory != 0) json["memory"] = place.memory;
  if (place.memory_shared > 1) json["memory_shared_with"] = place.memory_shared;
  if (place.integrated) json["integrated"] = true;
  if (place.upstream != 0) json["pcie_bandwidth"] = place.upstream;
  if (place.device == none) return json;
  json["device"] = number(place.context_device);
  json["numa_node"] = number(place.numa_node);
  json["known_as"] = std::string(place.aliases);
  return json;
}

}  // namespace

std::string describe_json(const Machine &machine) {
  Json document{{"origin", std::string(machine.origin())}};
  Json &places = document["places"] = Json::array();
  for (size_t i = 0; i < machine.places().size(); ++i)
    places.push_back(place_json(machine.places()[i], i));
  Json &links = document["links"] = Json::array();
  each_link(machine.device_count(), [&](uint32_t from, uint32_t to) {
    const Link link = machine.link(from, to);
    if (link.kind == WEIR_LINK_NONE) return;
    links.push_back({{"from", from == host_end ? 0 : machine.devices()[from]},
                     {"to", to == host_end ? 0 : machine.devices()[to]},
                     {"kind", link_kind_name(link.kind)},
                     {"bandwidth", link.bandwidth},
                     {"source", link_figure_name(link.source)},
                     {"latency_ns", link.latency_ns},
                     {"hops", link.hops},
                     {"direct", link.direct},
                     {"shared_with", machine.sharing(from, to)}});
  });
  return document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace weir::topology
