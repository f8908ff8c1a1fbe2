// SPDX-License-Identifier: Apache-2.0
//
// Reads WEIR_SIM_ZE.
#include "tests/drivers/level_zero/options.hpp"

#include "backends/common/options.hpp"

#include <bit>

namespace weir::sim::ze {

std::string parse_options(const char *text, DriverOptions *options) {
  DriverOptions parsed;
  const auto take = [&](std::string_view key, std::string_view value) -> std::string {
    if (key == "max_alloc") {
      if (common::parse_number(value, 1024, &parsed.max_alloc)) return "";
      return common::bad_option(key, value, "a size in bytes, with K, M or G");
    }
    if (key == "large_page") {
      if (common::parse_number(value, 1024, &parsed.large_page) &&
          std::has_single_bit(parsed.large_page) && parsed.large_page <= uint64_t{2} << 20U)
        return "";
      return common::bad_option(key, value, "a power of two up to 2M");
    }
    if (key == "hold_us" || key == "barrier_us") {
      uint64_t microseconds = 0;
      if (!common::parse_number(value, 1000, &microseconds) || microseconds > 60'000'000) {
        return common::bad_option(key, value, "microseconds, at most a minute");
      }
      (key == "hold_us" ? parsed.hold_ns : parsed.barrier_ns) = microseconds * 1000;
      return "";
    }
    if (key == "units") {
      if (value != "time" && value != "clock") {
        return common::bad_option(key, value, "time or clock");
      }
      parsed.clock_units = value == "clock";
      return "";
    }
    if (key == "tiles") {
      if (common::parse_number(value, 1000, &parsed.tiles) && parsed.tiles != 0) return "";
      return common::bad_option(key, value, "a number of devices, not 0");
    }
    if (key == "stale_imports") return common::read_flag(key, value, &parsed.stale_imports);
    if (key == "multi_map") return common::read_flag(key, value, &parsed.multi_map);
    if (key == "import") return common::read_flag(key, value, &parsed.import);
    return common::unknown_option(key,
                                  "max_alloc, large_page, multi_map, import, hold_us, barrier_us, "
                                  "units, tiles, stale_imports");
  };
  std::string reason = common::read_options(text, take);
  if (reason.empty()) *options = parsed;
  return reason;
}

}  // namespace weir::sim::ze
