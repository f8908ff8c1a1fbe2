// SPDX-License-Identifier: Apache-2.0
//
// Lists, separated by commas: names=, pci=, numa=, integrated=, memory_with=, and links=A-B:KIND:BANDWIDTH[:HOPS[:LATENCY_NS[:direct|staged]]].

#include "backends/host/machine_options.hpp"

#include "backends/common/options.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace weir::host {
namespace {

using common::bad_option;
using common::parse_number;

constexpr uint64_t most_hops = 1000, most_slowdown = 1'000'000;

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::string read_names(std::string_view key, std::string_view value, size_t most,
                       std::vector<std::string> *out) {
  out->clear();
  for (const std::string_view each : split(value, ',')) {
    if (each.size() > most || !printable(each))
      return bad_option(key, each,
                        "at most " + std::to_string(most) + " printable characters are needed");
    out->emplace_back(each);
  }
  return {};
}

std::string read_nodes(std::string_view value, std::vector<uint32_t> *out) {
  out->clear();
  for (const std::string_view each : split(value, ',')) {
    uint64_t node = UINT32_MAX;
    if (each != "-" && (!parse_number(each, 1, &node) || node >= UINT32_MAX))
      return bad_option("numa", each, "a number, or - for unknown, is needed");
    out->push_back(static_cast<uint32_t>(node));
  }
  return {};
}

std::string read_devices(std::string_view key, std::string_view value, std::vector<uint32_t> *out) {
  out->clear();
  if (value.empty()) return {};
  for (const std::string_view each : split(value, ',')) {
    uint64_t device = 0;
    if (!parse_number(each, 1, &device) || device >= UINT32_MAX)
      return bad_option(key, each, "a device's number is needed");
    out->push_back(static_cast<uint32_t>(device));
  }
  return {};
}

std::optional<uint32_t> kind_of(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, uint32_t>, 8> kinds{{
      {"none", WEIR_LINK_NONE},
      {"pcie", WEIR_LINK_PCIE},
      {"nvlink", WEIR_LINK_NVLINK},
      {"infinity_fabric", WEIR_LINK_INFINITY_FABRIC},
      {"xe", WEIR_LINK_XE},
      {"memory", WEIR_LINK_MEMORY},
      {"c2c", WEIR_LINK_C2C},
      {"network", WEIR_LINK_NETWORK},
  }};
  for (const auto &[each, kind] : kinds)
    if (each == name) return kind;
  return {};
}

bool read_end(std::string_view text, uint32_t *end) {
  uint64_t value = WEIR_DEVICE_HOST;
  if (text != "h" && (!parse_number(text, 1, &value) || value >= WEIR_DEVICE_HOST)) return false;
  *end = static_cast<uint32_t>(value);
  return true;
}

/// "" or what is wrong with it.
std::string read_link(std::string_view text, LinkOption *link) {
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() < 3 || parts.size() > 6)
    return "FROM-TO:KIND:BANDWIDTH[:HOPS[:LATENCY_NS[:direct or staged]]] is needed";
  const size_t dash = parts[0].find('-');
  if (dash == std::string_view::npos || !read_end(parts[0].substr(0, dash), &link->a) ||
      !read_end(parts[0].substr(dash + 1), &link->b) || link->a == link->b)
    return "two different ends are needed: numbers of devices, or h for the host";
  const std::optional<uint32_t> kind = kind_of(parts[1]);
  if (!kind)
    return "the kind is one of none, pcie, nvlink, infinity_fabric, xe, memory, c2c, network";
  link->kind = *kind;
  if (!parse_number(parts[2], 1000, &link->bandwidth)) return "the bandwidth is no number";
  uint64_t hops = 1;
  if (parts.size() > 3 && (!parse_number(parts[3], 1, &hops) || hops == 0 || hops > most_hops))
    return "the hops are a number from 1 to " + std::to_string(most_hops);
  link->hops = static_cast<uint32_t>(hops);
  if (parts.size() > 4 && !parse_number(parts[4], 1000, &link->latency_ns))
    return "the latency is no number of nanoseconds";
  if (parts.size() > 5 && parts[5] != "direct" && parts[5] != "staged")
    return "direct or staged is needed";
  link->direct = link->kind != WEIR_LINK_NONE && (parts.size() < 6 || parts[5] == "direct");
  const bool host = link->a == WEIR_DEVICE_HOST || link->b == WEIR_DEVICE_HOST;
  if (host && !link->direct) return "a link to the host is of a kind, and direct";
  if (link->kind == WEIR_LINK_NONE && parts.size() == 6 && parts[5] == "direct")
    return "a link of no kind is not direct";
  return {};
}

std::string read_links(std::string_view value, std::vector<LinkOption> *out) {
  out->clear();
  for (const std::string_view each : split(value, ',')) {
    LinkOption link;
    const std::string wrong =
        each.empty() && value.empty() ? std::string() : read_link(each, &link);
    if (!wrong.empty()) return bad_option("links", each, wrong);
    if (!each.empty()) out->push_back(link);
  }
  return {};
}

bool one_slot(std::string_view a, std::string_view b) {
  a = a.substr(0, a.rfind('.'));
  b = b.substr(0, b.rfind('.'));
  const auto lower = [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; };
  return !a.empty() && std::equal(a.begin(), a.end(), b.begin(), b.end(),
                                  [&](char x, char y) { return lower(x) == lower(y); });
}

std::string check_count(const char *key, size_t count, uint32_t devices) {
  if (count == 0 || count == devices) return {};
  return "option " + std::string(key) + " has " + std::to_string(count) + " entries for " +
         std::to_string(devices) + " devices";
}

}  // namespace

bool read_machine_option(std::string_view name, std::string_view value, Options *options,
                         std::string *reason) {
  if (name == "names")
    *reason = read_names(name, value, sizeof(weir_be_device::name) - 1, &options->names);
  else if (name == "pci")
    *reason = read_names(name, value, sizeof(weir_be_device::pci_address) - 1, &options->pci);
  else if (name == "numa")
    *reason = read_nodes(value, &options->numa);
  else if (name == "integrated")
    *reason = read_devices(name, value, &options->integrated);
  else if (name == "memory_with")
    *reason = read_devices(name, value, &options->memory_with);
  else if (name == "links")
    *reason = read_links(value, &options->links);
  else
    return false;
  return true;
}

std::string check_machine_options(const Options &options) {
  for (const auto &[key, count] :
       {std::pair{"names", options.names.size()}, std::pair{"pci", options.pci.size()},
        std::pair{"numa", options.numa.size()},
        std::pair{"memory_with", options.memory_with.size()}}) {
    std::string wrong = check_count(key, count, options.devices);
    if (!wrong.empty()) return wrong;
  }
  for (uint32_t device = 0; device < options.memory_with.size(); ++device) {
    const uint32_t with = options.memory_with[device];
    if (with > device || options.memory_with[with] != with)
      return "option memory_with has " + std::to_string(with) + " for device " +
             std::to_string(device) + ": the first device with that memory is needed";
  }
  for (const uint32_t device : options.integrated) {
    if (device >= options.devices)
      return "option integrated names device " + std::to_string(device) + ", and there are " +
             std::to_string(options.devices);
  }
  for (const LinkOption &link : options.links) {
    for (const uint32_t end : {link.a, link.b})
      if (end != WEIR_DEVICE_HOST && end >= options.devices)
        return "option links names device " + std::to_string(end) + ", and there are " +
               std::to_string(options.devices);
  }
  if (options.link_slowdown > most_slowdown)
    return bad_option("link_slowdown", std::to_string(options.link_slowdown),
                      "a number from 0 to " + std::to_string(most_slowdown) + " is needed");
  return {};
}

std::vector<uint32_t> cards_of(const Options &options) {
  std::vector<uint32_t> cards;
  for (uint32_t device = 0; device < options.devices; ++device) {
    uint32_t first = device;
    for (uint32_t other = device; other-- > 0 && device < options.pci.size();)
      if (one_slot(options.pci[other], options.pci[device])) first = other;
    cards.push_back(first);
  }
  return cards;
}

}  // namespace weir::host
