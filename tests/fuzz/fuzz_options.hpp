// SPDX-License-Identifier: Apache-2.0
//
// How long a fuzzer runs, and from which seed: the options that the small ones share.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace weir::test {

struct FuzzOptions {
  double seconds = 20;
  uint64_t seed = std::random_device{}();
  long runs = 0;  ///< 0: as many as the time allows
  long steps = 400;

  /// False: an option is unknown or has no value; the usage has been printed. Prints the seed, flushed, so that what ends the program
  /// leaves it behind.
  bool read(int argc, char **argv, const char *program) {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      const char *const value = i + 1 < argc ? argv[i + 1] : nullptr;
      if (value != nullptr && name == "--seconds") {
        seconds = std::atof(value);
      } else if (value != nullptr && name == "--seed") {
        seed = std::strtoull(value, nullptr, 10);
      } else if (value != nullptr && name == "--runs") {
        runs = std::atol(value);
      } else if (value != nullptr && name == "--steps") {
        steps = std::atol(value);
      } else {
        std::fprintf(stderr, "usage: %s [--seconds S] [--seed N] [--runs R] [--steps K]\n",
                     program);
        return false;
      }
    }
    std::printf("%s: seed %llu\n", program, static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    return true;
  }
};

}  // namespace weir::test
