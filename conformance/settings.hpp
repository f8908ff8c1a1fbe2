// SPDX-License-Identifier: Apache-2.0
//
// The command line. Bad arguments are named, never guessed at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::conformance {

struct Settings {
  std::string program = "weir-conformance";  ///< as it was called
  std::string backend;
  std::string options;  ///< for start(), without the backend's prefix
  std::string filter;  ///< globs of ids, with ',' between them, '-' before those left out; "" = all
  std::string junit, bundle, waivers;
  uint32_t device = 0;
  bool device_named = false;  ///< by --device
  bool all_devices = false;   ///< the whole list once for each device
  uint32_t jobs = 1;
  uint64_t timeout_s = 60;  ///< for one test
  uint64_t seed = 1;
  uint64_t soak_s =
      0;  ///< how long the random model runs with seed after seed when the list is done
  uint64_t least_order = 0;  ///< so many of the requirements of order must apply
  bool list = false, help = false;
  bool allow_oom = false;  ///< a device of any size may be filled to its last byte

  /// What the program says to itself.
  enum class Role : uint8_t { runner, one, describe, helper };
  Role role = Role::runner;
  std::string subject;  ///< the requirement to run, or the helper to be
};

/// "" or what is wrong.
std::string read_arguments(const std::vector<std::string> &arguments, Settings *settings);
/// The arguments of a process of this program that does one thing for these settings.
std::vector<std::string> arguments_for(const Settings &settings, Settings::Role role,
                                       const std::string &subject);
/// The command line that does one requirement again in a process of its own, as a shell takes it.
std::string again(const Settings &settings, const std::string &id);
const char *usage();

}  // namespace weir::conformance
