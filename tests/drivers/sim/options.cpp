// SPDX-License-Identifier: Apache-2.0
//
// The keys of the simulated machine and what their values may be.

#include "tests/drivers/sim/options.hpp"

#include "backends/common/options.hpp"

#include <bit>
#include <string_view>

namespace weir::sim {
namespace {

constexpr std::string_view known =
    "devices, memory, granule, mode, version, vmm, peer, batch_copy, export_fd, export_fabric, "
    "host_call, serial_host_calls, integrated, memfd, rdma, vmm_context, compute, "
    "reserve_alignment, links, "
    "link_bandwidth, peer_bandwidth, link_latency_ns, call_latency_ns, map_latency_ns, "
    "channel_depth, hang";

struct Flag {
  std::string_view key;
  bool Options::*field;
};
constexpr Flag flags[] = {{"vmm", &Options::vmm},
                          {"peer", &Options::peer},
                          {"batch_copy", &Options::batch_copy},
                          {"export_fd", &Options::export_fd},
                          {"export_fabric", &Options::export_fabric},
                          {"host_call", &Options::host_call},
                          {"integrated", &Options::integrated},
                          {"memfd", &Options::memfd},
                          {"rdma", &Options::rdma},
                          {"vmm_context", &Options::vmm_context},
                          {"serial_host_calls", &Options::serial_host_calls}};

struct NumberOption {
  std::string_view key;
  uint64_t Options::*field;
  uint64_t unit;
};
constexpr NumberOption numbers[] = {{"memory", &Options::memory, 1024},
                                    {"granule", &Options::granule, 1024},
                                    {"reserve_alignment", &Options::reserve_alignment, 1024},
                                    {"link_bandwidth", &Options::link_bandwidth, 1000},
                                    {"peer_bandwidth", &Options::peer_bandwidth, 1000},
                                    {"link_latency_ns", &Options::link_latency_ns, 1000},
                                    {"call_latency_ns", &Options::call_latency_ns, 1000},
                                    {"map_latency_ns", &Options::map_latency_ns, 1000},
                                    {"channel_depth", &Options::channel_depth, 1000}};

std::string read_small(std::string_view key, std::string_view value, uint64_t most, uint32_t *out) {
  uint64_t number = 0;
  if (!common::parse_number(value, 1000, &number) || number > most) {
    return common::bad_option(key, value, "a number up to " + std::to_string(most) + " is needed");
  }
  *out = static_cast<uint32_t>(number);
  return {};
}

std::string read_links(std::string_view value, Topology *out) {
  if (value == "none") {
    *out = Topology::none;
  } else if (value == "pcie") {
    *out = Topology::pcie;
  } else if (value == "nvlink") {
    *out = Topology::nvlink;
  } else if (value == "ring") {
    *out = Topology::ring;
  } else {
    return common::bad_option("links", value, "none, pcie, nvlink or ring is needed");
  }
  return {};
}

std::string take(std::string_view key, std::string_view value, Options *options) {
  for (const Flag &flag : flags) {
    if (flag.key == key) return common::read_flag(key, value, &(options->*flag.field));
  }
  for (const NumberOption &number : numbers) {
    if (number.key != key) continue;
    if (common::parse_number(value, number.unit, &(options->*number.field))) return {};
    return common::bad_option(key, value, "a number is needed, K, M or G may follow");
  }
  if (key == "devices") return read_small(key, value, max_devices, &options->devices);
  if (key == "version") return read_small(key, value, UINT32_MAX, &options->version);
  if (key == "compute") return read_small(key, value, 99, &options->compute);
  if (key == "links") return read_links(value, &options->links);
  if (key == "mode") {
    if (value != "alias" && value != "strict") {
      return common::bad_option(key, value, "alias or strict is needed");
    }
    options->strict = value == "strict";
    return {};
  }
  if (key == "hang") {
    options->hang = value;
    return {};
  }
  return common::unknown_option(key, known);
}

}  // namespace

std::string parse_options(const char *text, Options *options) {
  Options parsed;
  std::string reason = common::read_options(
      text,
      [&](std::string_view key, std::string_view value) { return take(key, value, &parsed); });
  if (!reason.empty()) return reason;
  if (parsed.granule < 4096 || !std::has_single_bit(parsed.granule)) {
    return common::bad_option("granule", std::to_string(parsed.granule),
                              "a power of two of at least 4096 is needed");
  }
  parsed.memory = parsed.memory / parsed.granule * parsed.granule;
  if (parsed.memory == 0) {
    return common::bad_option("memory", "0", "at least one granule is needed");
  }
  *options = std::move(parsed);
  return {};
}

bool linked(const Options &options, uint32_t a, uint32_t b) noexcept {
  if (a == b || a >= options.devices || b >= options.devices) return false;
  if (options.links == Topology::nvlink) return true;
  if (options.links != Topology::ring) return false;
  const uint32_t apart = a > b ? a - b : b - a;
  return apart == 1 || apart == options.devices - 1;
}

}  // namespace weir::sim
