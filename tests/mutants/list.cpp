// SPDX-License-Identifier: Apache-2.0
//
// Prints the planted faults, one a line: name, requirements that are to catch it, the sentence, and the options of the devices
// on which it shows, with tabs between. scripts/check-mutants reads it.

#include "tests/mutants/mutant.hpp"

#include <cstdio>

int main() {
  weir::mutants::each_fault([](const weir::mutants::Fault &fault) {
    std::printf("%s\t%s\t%s\t%s\n", fault.name, fault.caught_by, fault.wrong, fault.options);
  });
  return 0;
}
