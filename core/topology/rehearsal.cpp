// SPDX-License-Identifier: Apache-2.0
//
// Writing the options. The host backend's links are the same both ways: of two that differ it gets the slower.

#include "core/topology/rehearsal.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

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

void add_link(const char *ends, const Link &link, std::pmr::string *options) {
  char text[160];
  std::snprintf(text, sizeof text, "%s%s:%s:%llu:%u:%llu:%s", options->ends_with('=') ? "" : ",",
                ends, link_kind_name(link.kind), llu(link.bandwidth),
                std::clamp<uint32_t>(link.hops, 1, 1000), llu(link.latency_ns),
                link.direct ? "direct" : "staged");
  *options += text;
}

/// Partitions whose memory is one: of each the first that has it, and itself of what shares with nobody.
void add_memory(const Machine &machine, const std::pmr::vector<uint32_t> &devices,
                std::pmr::string *options) {
  std::pmr::string with("memory_with=", machine.memory());
  bool any = false;
  for (size_t i = 0; i < devices.size(); ++i) {
    const Place &place = machine.device(devices[i]);
    size_t first = i;
    if (place.memory_shared > 1 && place.integrated)
      for (size_t k = i; k-- > 0;)
        if (machine.device(devices[k]).parent == place.parent) first = k;
    any = any || first != i;
    with += (i != 0 ? "," : "") + std::to_string(first);
  }
  if (any) options->append(";").append(with);
}

void add_integrated(const Machine &machine, const std::pmr::vector<uint32_t> &devices,
                    std::pmr::string *options) {
  const char *before = ";integrated=";
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!machine.device(devices[i]).integrated) continue;
    options->append(before).append(std::to_string(i));
    before = ",";
  }
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
  std::pmr::string names("names=", machine.memory()), pci("pci=", machine.memory()),
      numa("numa=", machine.memory()), links("links=", machine.memory());
  char text[64];
  bool peers = false;
  for (size_t i = 0; i < devices.size(); ++i) {
    const Place &place = machine.device(devices[i]);
    const char *comma = i != 0 ? "," : "";
    names.append(comma).append(place.name);
    pci.append(comma).append(place.pci_address);
    if (place.numa_node != none)
      std::snprintf(text, sizeof text, "%s%u", comma, place.numa_node);
    else
      std::snprintf(text, sizeof text, "%s-", comma);
    numa += text;
    const Link host = both_ways(machine, host_end, devices[i]);
    std::snprintf(text, sizeof text, "h-%zu", i);
    if (host.kind != WEIR_LINK_NONE && host.direct) add_link(text, host, &links);
    for (size_t k = i + 1; k < devices.size(); ++k) {
      const Link link = both_ways(machine, devices[i], devices[k]);
      peers = peers || link.direct;
      std::snprintf(text, sizeof text, "%zu-%zu", i, k);
      add_link(text, link, &links);
    }
  }
  std::snprintf(text, sizeof text, "devices=%zu;peer=%d;link_slowdown=%llu;", devices.size(),
                peers ? 1 : 0, llu(throttle));
  options->append(text).append(names).append(";").append(pci).append(";").append(numa);
  add_integrated(machine, devices, options);
  add_memory(machine, devices, options);
  if (!links.ends_with('=')) options->append(";").append(links);
  return {};
}

}  // namespace weir::topology
