// SPDX-License-Identifier: Apache-2.0
//
// Parsing of options. The table of keys is the only list of them.

#include "backends/cuda/options.hpp"

#include "backends/common/options.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace weir::cuda {
namespace {

struct Flag {
  std::string_view name;
  bool Options::*value;
};
constexpr std::array<Flag, 12> flags{{
    {"vmm", &Options::vmm},
    {"multi_map", &Options::multi_map},
    {"peer", &Options::peer},
    {"shared_range", &Options::shared_range},
    {"map_run", &Options::map_run},
    {"access_later", &Options::access_later},
    {"batch_copy", &Options::batch_copy},
    {"rdma", &Options::rdma},
    {"export_fd", &Options::export_fd},
    {"export_fabric", &Options::export_fabric},
    {"host_call", &Options::host_call},
    {"register", &Options::host_register},
}};

std::string apply(std::string_view key, std::string_view value, Options *options) {
  if (key == "batch_copy") options->batch_copy_given = true;
  if (key == "granule_large") {
    if (common::parse_number(value, 1024, &options->granule_large)) return {};
    return common::bad_option(key, value, "a number is needed, with K, M or G after it if wanted");
  }
  const auto flag =
      std::find_if(flags.begin(), flags.end(), [&](const Flag &f) { return f.name == key; });
  if (flag != flags.end()) return common::read_flag(key, value, &(options->*(flag->value)));
  std::string known = "granule_large";
  for (const Flag &each : flags) known += ", " + std::string(each.name);
  return common::unknown_option(key, known);
}

}  // namespace

weir_result parse_options(const char *text, Options *options, std::string *reason) {
  Options parsed;
  *reason = common::read_options(text, [&](std::string_view key, std::string_view value) {
    return apply(key, value, &parsed);
  });
  if (!reason->empty()) return WEIR_ERROR_INVALID_ARGUMENT;
  *options = parsed;
  return WEIR_SUCCESS;
}

}  // namespace weir::cuda
