// SPDX-License-Identifier: Apache-2.0
//
// Parsing of options and the checks between them. The table of keys is the only list of them.

#include "backends/host/options.hpp"

#include "backends/common/options.hpp"
#include "backends/host/machine_options.hpp"

#include <weir/backend.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <string_view>

namespace weir::host {
namespace {

using common::bad_option;
using common::parse_number;

constexpr uint32_t max_devices = 64;

struct Key {
  std::string_view name;
  bool Options::*flag = nullptr;
  uint64_t Options::*number = nullptr;
  uint64_t unit = 1024;  ///< what K stands for
};

constexpr std::array<Key, 24> keys{{
    {"memory", nullptr, &Options::memory},
    {"granule", nullptr, &Options::granule},
    {"granule_large", nullptr, &Options::granule_large},
    {"vmm", &Options::vmm},
    {"multi_map", &Options::multi_map},
    {"map_part", &Options::map_part},
    {"peer", &Options::peer},
    {"shared_range", &Options::shared_range},
    {"map_run", &Options::map_run},
    {"access_later", &Options::access_later},
    {"transfer_stream", &Options::transfer_stream},
    {"batch_copy", &Options::batch_copy},
    {"export_fd", &Options::export_fd},
    {"host_call", &Options::host_call},
    {"any_thread", &Options::any_thread},
    {"map_any_thread", &Options::map_any_thread},
    {"register", &Options::host_register},
    {"map_may_block", &Options::map_may_block},
    {"punch_hole", &Options::punch_hole},
    {"contents", &Options::contents},
    {"link_bandwidth", nullptr, &Options::link_bandwidth, 1000},
    {"peer_bandwidth", nullptr, &Options::peer_bandwidth, 1000},
    {"link_latency_ns", nullptr, &Options::link_latency_ns, 1000},
    {"link_slowdown", nullptr, &Options::link_slowdown, 1000},
}};

std::string known_keys() {
  std::string list = "devices, prefault, link_log, names, pci, numa, integrated, links";
  for (const Key &key : keys) list += ", " + std::string(key.name);
  return list;
}

/// "" if the pair was understood, else why not.
std::string apply(std::string_view name, std::string_view value, Options *options,
                  bool *large_given) {
  if (name == "devices") {
    uint64_t count = 0;
    if (!parse_number(value, 1024, &count) || count == 0 || count > max_devices) {
      return bad_option(name, value,
                        "a number from 1 to " + std::to_string(max_devices) + " is needed");
    }
    options->devices = static_cast<uint32_t>(count);
    return {};
  }
  if (name == "prefault") {
    if (value != "0" && value != "1" && value != "2")
      return bad_option(name, value,
                        "0 (never), 1 (from the second mapping on) or 2 (always) is needed");
    options->prefault = static_cast<Prefault>(value[0] - '0');
    return {};
  }
  if (name == "link_log") {
    uint64_t file = 0;
    if (!parse_number(value, 1000, &file) || file > INT_MAX)
      return bad_option(name, value, "the number of a file that is open is needed");
    options->link_log = static_cast<int>(file);
    return {};
  }
  std::string reason;
  if (read_machine_option(name, value, options, &reason)) return reason;
  const auto key =
      std::find_if(keys.begin(), keys.end(), [&](const Key &k) { return k.name == name; });
  if (key == keys.end()) return common::unknown_option(name, known_keys());
  if (key->flag != nullptr) return common::read_flag(name, value, &(options->*(key->flag)));
  if (!parse_number(value, key->unit, &(options->*(key->number)))) {
    return bad_option(name, value, "a number is needed, with K, M or G after it if wanted");
  }
  if (name == "granule_large") *large_given = true;
  if (name == "memory" && options->memory == 0) return bad_option(name, value, "it must not be 0");
  return {};
}

std::string check_sizes(Options *o, bool large_given) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (!std::has_single_bit(o->granule) || o->granule < page || o->granule > uint64_t{1} << 40U) {
    return bad_option("granule", std::to_string(o->granule),
                      "a power of two from " + std::to_string(page) + " to 2^40 is needed");
  }
  const bool fits = o->granule_large % o->granule == 0 && o->granule_large != o->granule;
  if (!fits && large_given) {
    return bad_option(
        "granule_large", std::to_string(o->granule_large),
        "0 or a larger multiple of granule=" + std::to_string(o->granule) + " is needed");
  }
  if (!fits) o->granule_large = 0;
  if (o->memory == 0) {
    o->memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * page / 2;
  }
  const uint64_t memory = o->memory / o->granule * o->granule;
  if (memory == 0 || memory > uint64_t{1} << 46U) {
    return bad_option(
        "memory", std::to_string(o->memory),
        "from one granule (" + std::to_string(o->granule) + ") to 2^46 bytes are needed");
  }
  o->memory = memory;
  return {};
}

}  // namespace

uint64_t Options::capabilities() const noexcept {
  const auto when = [](bool on, uint64_t capability) { return on ? capability : uint64_t{0}; };
  return when(contents, WEIR_CAP_HOST_ACCESS) | when(vmm, WEIR_CAP_VMM) |
         when(vmm && multi_map, WEIR_CAP_MULTI_MAP) | when(vmm && map_part, WEIR_CAP_MAP_PART) |
         when(vmm && export_fd && contents, WEIR_CAP_EXPORT_FD) | when(peer, WEIR_CAP_PEER) |
         when(vmm && peer && shared_range, WEIR_CAP_SHARED_RANGE) |
         when(vmm && map_run, WEIR_CAP_MAP_RUN) |
         when(vmm && peer && access_later, WEIR_CAP_ACCESS_LATER) |
         when(transfer_stream, WEIR_CAP_TRANSFER_STREAM) | when(batch_copy, WEIR_CAP_BATCH_COPY) |
         when(host_call, WEIR_CAP_HOST_CALL) | when(any_thread, WEIR_CAP_STREAM_ANY_THREAD) |
         when(vmm && map_any_thread, WEIR_CAP_MAP_ANY_THREAD) |
         when(host_register, WEIR_CAP_HOST_REGISTER) |
         when(vmm && map_may_block, WEIR_CAP_MAP_MAY_BLOCK_DEVICE);
}

weir_result parse_options(const char *text, Options *options, std::string *reason) {
  Options parsed;
  bool large_given = false;
  *reason = common::read_options(text, [&](std::string_view key, std::string_view value) {
    return apply(key, value, &parsed, &large_given);
  });
  if (reason->empty()) *reason = check_sizes(&parsed, large_given);
  if (reason->empty()) *reason = check_machine_options(parsed);
  if (!reason->empty()) return WEIR_ERROR_INVALID_ARGUMENT;
  *options = parsed;
  return WEIR_SUCCESS;
}

}  // namespace weir::host
