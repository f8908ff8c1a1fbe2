// SPDX-License-Identifier: Apache-2.0
//
// The host backend's options that make its devices look like those of a certain machine: their names, addresses, NUMA
// nodes, and what their links are said to be. Bad values are refused by name.
#pragma once

#include "backends/host/options.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace weir::host {

/// Whether `name` is one of these options; *reason then says why its value was refused, or is "".
bool read_machine_option(std::string_view name, std::string_view value, Options *options,
                         std::string *reason);

/// What only shows when all options are known: lists have an entry a device, links join devices that are there.
std::string check_machine_options(const Options &options);

/// Of each device the first that is on the same card: addresses that differ in the function at most are of one.
std::vector<uint32_t> cards_of(const Options &options);

}  // namespace weir::host
