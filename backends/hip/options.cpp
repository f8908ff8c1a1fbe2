// SPDX-License-Identifier: Apache-2.0
//
// Keys and what they set.

#include "backends/hip/options.hpp"

#include "backends/common/options.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

namespace weir::hip {
namespace {

constexpr uint64_t longest_settle_us = 1'000'000;

struct Flag {
  std::string_view name;
  bool Options::*flag;
};
constexpr std::array flags{
    Flag{"vmm", &Options::vmm},
    Flag{"multi_map", &Options::multi_map},
    Flag{"peer", &Options::peer},
    Flag{"shared_range", &Options::shared_range},
    Flag{"map_run", &Options::map_run},
    Flag{"batch_copy", &Options::batch_copy},
    Flag{"export_fd", &Options::export_fd},
    Flag{"host_call", &Options::host_call},
    Flag{"register", &Options::host_register},
    Flag{"probe", &Options::probe},
};

constexpr std::string_view known =
    "vmm, multi_map, peer, shared_range, map_run, batch_copy, export_fd, host_call, register, "
    "probe, "
    "granule, "
    "granule_large, map_settle_us";

std::string apply(std::string_view key, std::string_view value, Options *options) {
  const auto flag =
      std::find_if(flags.begin(), flags.end(), [&](const Flag &f) { return f.name == key; });
  if (flag != flags.end()) return common::read_flag(key, value, &(options->*(flag->flag)));
  if (key == "granule") {
    if (!common::parse_number(value, 1024, &options->granule) ||
        !std::has_single_bit(options->granule)) {
      return common::bad_option(key, value,
                                "a power of two is needed, with K, M or G after it if wanted");
    }
    return {};
  }
  if (key == "granule_large") {
    if (!common::parse_number(value, 1024, &options->granule_large)) {
      return common::bad_option(key, value,
                                "bytes are needed, with K, M or G after them if wanted");
    }
    options->granule_large_given = true;
    return {};
  }
  if (key == "map_settle_us") {
    if (!common::parse_number(value, 1000, &options->map_settle_us) ||
        options->map_settle_us > longest_settle_us) {
      return common::bad_option(key, value, "microseconds from 0 to 1000000 are needed");
    }
    return {};
  }
  return common::unknown_option(key, known);
}

}  // namespace

std::string parse_options(const char *text, Options *options) {
  return common::read_options(text, [&](std::string_view key, std::string_view value) {
    return apply(key, value, options);
  });
}

}  // namespace weir::hip
