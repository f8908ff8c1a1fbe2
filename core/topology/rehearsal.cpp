// SPDX-License-Identifier: Apache-2.0
//
// Writing the options. The host backend's links are the same both ways: of two that differ it gets the slower.

#include "core/topology/rehearsal.hpp"

#include "core/topology/text.hpp"

#include <algorithm>
#include <vector>

namespace weir::topology {
namespace {

constexpr size_t most_devices = 64;  // of the host backend

/// What a link's two ways have in common.
Link both_ways(const Machine &machine, uint32_t a, uint32_t b) {
  const Link there = machine.link(a, b), back = machine.link(b, a);
  if (there.kind != back.kind) return there;
  Link link = there.bandwidth <= back.bandwidth ? there : back;
  link.direct = there.direct && back.direct;
  link.hops = std::max(there.hops, back.hops);
  link.latency_ns = std::max(there.latency_ns, back.latency_ns);
  return link;
}

std::string link_text(const std::string &ends, const Link &link) {
  return ends + printed(":%s:%llu:%u:%llu:%s", link_kind_name(link.kind), llu(link.bandwidth),
                        std::clamp<uint32_t>(link.hops, 1, 1000), llu(link.latency_ns),
                        link.direct ? "direct" : "staged");
}

/// Of partitions that share one memory, the first of them; of a device that shares its memory with none, itself.
size_t first_with_memory(const Machine &machine, const std::pmr::vector<uint32_t> &devices,
                         size_t index) {
  const Place &place = machine.device(devices[index]);
  if (place.memory_shared < 2 || !place.integrated) return index;
  size_t first = 0;
  while (machine.device(devices[first]).parent != place.parent) ++first;
  return first;
}

/// "key=a,b,c;", or nothing of nothing.
std::string list(const char *key, const std::vector<std::string> &values) {
  std::string text;
  for (const std::string &each : values) text += (text.empty() ? key : ",") + each;
  return values.empty() ? text : text + ";";
}

}  // namespace

std::pmr::vector<uint32_t> rehearsed(const Machine &machine) {
  std::pmr::vector<uint32_t> devices(machine.memory());
  for (uint32_t i = 0; i < machine.device_count(); ++i)
    if (!machine.has_tiles(i)) devices.push_back(i);
  return devices;
}

Status rehearsal_options(const Machine &machine, uint64_t throttle, std::pmr::string *options) {
  const std::pmr::vector<uint32_t> devices = rehearsed(machine);
  if (devices.empty() || devices.size() > most_devices)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "topology %s: %zu devices cannot be rehearsed, only 1 to %zu",
                machine.origin().c_str(), devices.size(), most_devices);
  std::vector<std::string> names, addresses, nodes, integrated, memory, links;
  bool peers = false, memory_is_shared = false;
  for (size_t i = 0; i < devices.size(); ++i) {
    const Place &place = machine.device(devices[i]);
    const std::string number = std::to_string(i);
    names.emplace_back(place.name);
    addresses.emplace_back(place.pci_address);
    nodes.push_back(place.numa_node != none ? std::to_string(place.numa_node) : "-");
    if (place.integrated) integrated.push_back(number);
    const size_t with = first_with_memory(machine, devices, i);
    memory.push_back(std::to_string(with));
    memory_is_shared = memory_is_shared || with != i;
    const Link host = both_ways(machine, host_end, devices[i]);
    if (host.kind != WEIR_LINK_NONE && host.direct) links.push_back(link_text("h-" + number, host));
    for (size_t k = i + 1; k < devices.size(); ++k) {
      const Link link = both_ways(machine, devices[i], devices[k]);
      peers = peers || link.direct;
      links.push_back(link_text(number + "-" + std::to_string(k), link));
    }
  }
  if (!memory_is_shared) memory.clear();
  *options += printed("devices=%zu;peer=%d;link_slowdown=%llu;", devices.size(), peers ? 1 : 0,
                      llu(throttle)) +
              list("names=", names) + list("pci=", addresses) + list("numa=", nodes) +
              list("integrated=", integrated) + list("memory_with=", memory) +
              list("links=", links);
  options->pop_back();
  return {};
}

}  // namespace weir::topology
