// SPDX-License-Identifier: Apache-2.0
//
// The command line. Bad arguments are named, never guessed at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::conformance {

struct Settings {
  std::string backend;
  std::string options;  ///< for start(), without the backend's prefix
  std::string filter;   ///< globs of ids, with ',' between them; "" = all
  std::string junit, bundle, waivers;
  uint32_t device = 0;
  uint32_t jobs = 1;
  uint64_t timeout_s = 60;  ///< for one test
  uint64_t seed = 1;
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
const char *usage();

}  // namespace weir::conformance
