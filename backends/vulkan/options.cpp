// SPDX-License-Identifier: Apache-2.0
//
// Parsing of options. The tables of keys are the only list of them.

#include "backends/vulkan/options.hpp"

#include "backends/common/options.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

namespace weir::vulkan {
namespace {

struct Flag {
  std::string_view name;
  bool Options::*value;
};
constexpr std::array<Flag, 9> option_flags{{
    {"cpu", &Options::cpu},
    {"vmm", &Options::vmm},
    {"multi_map", &Options::multi_map},
    {"map_run", &Options::map_run},
    {"batch_copy", &Options::batch_copy},
    {"export_fd", &Options::export_fd},
    {"transfer_stream", &Options::transfer_stream},
    {"register", &Options::host_register},
    {"integrated", &Options::integrated},
}};

struct Size {
  std::string_view name;
  uint64_t Options::*value;
  bool power;  ///< of two
};
constexpr std::array<Size, 3> option_sizes{{
    {"memory", &Options::memory, false},
    {"granule", &Options::granule, true},
    {"granule_large", &Options::granule_large, true},
}};

std::string take_option(std::string_view key, std::string_view value, Options *options) {
  for (const Flag &flag : option_flags) {
    if (flag.name == key) return common::read_flag(key, value, &(options->*(flag.value)));
  }
  for (const Size &size : option_sizes) {
    if (size.name != key) continue;
    uint64_t bytes = 0;
    if (!common::parse_number(value, 1024, &bytes))
      return common::bad_option(key, value, "a size with K, M or G after it is needed");
    if (size.power && bytes != 0 && !std::has_single_bit(bytes))
      return common::bad_option(key, value, "a power of two is needed");
    if (key == "granule" && bytes == 0)
      return common::bad_option(key, value, "a size that is not 0 is needed");
    options->*(size.value) = bytes;
    return {};
  }
  if (key == "library") {
    options->library = value;
    return value.empty() ? common::bad_option(key, value, "the file of a Vulkan loader is needed")
                         : std::string{};
  }
  std::string known = "library, ";
  for (const Flag &flag : option_flags) known += std::string(flag.name) + ", ";
  for (const Size &size : option_sizes) known += std::string(size.name) + ", ";
  known.resize(known.size() - 2);
  return common::unknown_option(key, known);
}

}  // namespace

std::string parse_options(const char *text, Options *options) {
  Options parsed;
  std::string reason =
      common::read_options(text, [&](std::string_view key, std::string_view value) {
        return take_option(key, value, &parsed);
      });
  if (reason.empty()) *options = parsed;
  return reason;
}

}  // namespace weir::vulkan
