// SPDX-License-Identifier: Apache-2.0
//
// Where faults get into the table, and the library's entry point.

#include "tests/mutants/mutant.hpp"

#include "backends/host/table.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>

namespace weir::mutants {
namespace {

const weir_backend_table *mutated() {
  static weir_backend_table table = real();
  const char *wanted = std::getenv("WEIR_MUTANT");
  if (wanted == nullptr || *wanted == '\0') return &table;
  bool found = false;
  each_fault([&](const Fault &fault) {
    if (std::string_view(fault.name) != wanted) return;
    fault.plant(table);
    found = true;
  });
  // A name that is none must not pass for a conforming backend.
  return found ? &table : nullptr;
}

}  // namespace

const weir_backend_table *(*answer)(const weir_backend_table *, uint32_t) =
    [](const weir_backend_table *table, uint32_t abi_major) {
      return abi_major == WEIR_BACKEND_ABI_MAJOR ? table : nullptr;
    };

void window() {
  using std::chrono::nanoseconds;
  constexpr nanoseconds longest = std::chrono::milliseconds(250);
  static std::atomic<int64_t> left{nanoseconds(std::chrono::seconds(2)).count()};
  static std::atomic<int> inside{0};
  static std::atomic<uint64_t> meetings{0};
  const uint64_t before = meetings.load();
  const auto start = std::chrono::steady_clock::now();
  if (inside.fetch_add(1) != 0) {
    meetings.fetch_add(1);
  } else {
    nanoseconds waited{0};
    do {
      sched_yield();
      waited = std::chrono::steady_clock::now() - start;
    } while (meetings.load() == before && waited < std::min(longest, nanoseconds(left.load())));
    if (meetings.load() == before) left.fetch_sub(waited.count());
  }
  inside.fetch_sub(1);
}

const weir_backend_table &real() { return *weir_host_backend_query(WEIR_BACKEND_ABI_MAJOR); }

}  // namespace weir::mutants

extern "C" __attribute__((visibility("default"))) const weir_backend_table *weir_backend_query(
    uint32_t abi_major) {
  static const weir_backend_table *const table = weir::mutants::mutated();
  return table != nullptr ? weir::mutants::answer(table, abi_major) : nullptr;
}
