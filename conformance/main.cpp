// SPDX-License-Identifier: Apache-2.0
//
// weir-conformance: proves a backend against the backend ABI and knows nothing else of Weir. The same program
// is the runner and, started by it, the process of each test.
#include "conformance/child.hpp"
#include "conformance/runner.hpp"
#include "conformance/settings.hpp"

#include <cstdio>
#include <exception>

int main(int count, char **values) {
  using weir::conformance::Settings;
  try {
    Settings settings;
    if (count > 0 && *values[0] != '\0') settings.program = values[0];
    const std::string why =
        weir::conformance::read_arguments({values + 1, values + count}, &settings);
    if (settings.help) {
      std::fputs(weir::conformance::usage(), stdout);
      return 0;
    }
    if (!why.empty()) {
      std::fprintf(stderr, "weir-conformance: %s\n%s", why.c_str(), weir::conformance::usage());
      return 2;
    }
    if (settings.list) {
      weir::conformance::print_list();
      return 0;
    }
    if (settings.role != Settings::Role::runner) return weir::conformance::run_role(settings);
    return weir::conformance::run_suite(settings);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "weir-conformance: %s\n", error.what());
    return 2;
  }
}
