// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep of sets that come by parts (move/plan.hpp): each of two sets takes all of the device, so that the first
// pages of one arrive while the last ones of the other still leave, and the n-th fallible backend call or allocation of that fails.
// Whatever failed, a second try succeeds, every byte is right, and nothing is left in the end.

#include "tests/unit/fault_sweep_emptied.hpp"

namespace {

using namespace weir::test;

struct Scenario : Emptied {
  static constexpr uint64_t pages = 34;

  void open(Balance *balance, const char *options) {
    open_pages(balance, options, pages, 3 * pages);
    for (uint32_t i = 0; i < 2; ++i) {
      add(pages * page_bytes);
      fill(i, i + 1);
    }
    faults.armed.store(true);
  }
  void work() {
    for (uint32_t i = 0; i < 2; ++i) {
      check(i, "as it comes");
      fill(i, 3 + i);
      validate();
    }
    for (uint32_t i = 0; i < 2; ++i) check(i, "last look");
  }
  void end() {
    destroy_buffers();
    trim_to_nothing();
    close();
  }
};

}  // namespace

int main() { return Sweeps<Scenario>::run(); }
