// SPDX-License-Identifier: Apache-2.0
//
// Many buffers: a million of 2 MiB and of 16 MiB in a pool on 64 MiB, made one after the other, then destroyed in order, in
// reverse and at random. Told are nanoseconds of the first and the last 10,000, the pool's records a buffer, and the
// kernel's mappings. Each starts with a heap that has been given back, so that the first and the last take fresh memory alike.
// Nothing here waits, so times are the thread's own of a CPU: a busy machine lengthens them little. The
// yardstick does what any allocator has to for a record of 512 bytes: takes it from malloc, clears it and notes it in a
// table; gives them back in the same order.
//
// bench_scale [COUNT]. It must never judge: it exits 0 whatever the numbers are, and 1 only if a call fails.

#include "common.hpp"

#include <fstream>
#include <memory>
#include <numeric>
#include <random>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace {

using namespace weir::bench;

constexpr size_t part = 10'000;

double mappings() {
  std::ifstream maps("/proc/self/maps");
  double lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

void give_heap_back() {
#if defined(__GLIBC__)
  (void)malloc_trim(0);
#endif
}

/// Nanoseconds each of the first and last ones, and of all.
struct Course {
  double first = 0, last = 0, all = 0;
};

template <class Step>
Course run(size_t count, Step &&step) {
  const size_t edge = std::min(part, count);
  Course course;
  const double start = cpu_ns();
  for (size_t i = 0; i < edge; ++i) step(i);
  course.first = (cpu_ns() - start) / static_cast<double>(edge);
  for (size_t i = edge; i < count - edge; ++i) step(i);
  const double late = cpu_ns();
  for (size_t i = std::max(edge, count - edge); i < count; ++i) step(i);
  course.last = (cpu_ns() - late) / static_cast<double>(edge);
  course.all = (cpu_ns() - start) / static_cast<double>(count);
  return course;
}

std::vector<size_t> order_of(const std::string &name, size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  if (name == "reverse") std::reverse(order.begin(), order.end());
  if (name == "random") std::shuffle(order.begin(), order.end(), std::mt19937_64(7));
  return order;
}

void measure(size_t count, uint64_t bytes, const char *order_name, const char *goal) {
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 32 * mib;
  desc.record_budget = WEIR_UNLIMITED;
  Rig rig("host.memory=64M;host.granule=2M;host.granule_large=0", desc, 64 * mib);
  const std::vector<size_t> order = order_of(order_name, count);

  give_heap_back();
  std::vector<std::unique_ptr<char[]>> records;
  const Course make = run(count, [&](size_t) { records.push_back(std::make_unique<char[]>(512)); });
  const Course drop = run(count, [&](size_t i) { records[order[i]].reset(); });

  give_heap_back();
  std::vector<weir_buffer> buffers(count);
  const double maps_before = mappings();
  const auto before = static_cast<double>(rig.stats().bookkeeping_bytes);
  const Course create = run(count, [&](size_t i) { buffers[i] = rig.add_buffer(bytes); });
  const auto taken = static_cast<double>(rig.stats().bookkeeping_bytes) - before;
  const double maps_after = mappings();
  const Course destroy = run(
      count, [&](size_t i) { WEIR_BENCH_TRY(weir_buffer_destroy(rig.pool(), buffers[order[i]])); });
  Json("scale")
      .count("buffers", count)
      .count("bytes", bytes)
      .text("destroyed", order_name)
      .number("create_first_ns", create.first)
      .number("create_last_ns", create.last)
      .number("create_ns", create.all)
      .number("malloc_first_ns", make.first)
      .number("malloc_last_ns", make.last)
      .number("destroy_first_ns", destroy.first)
      .number("destroy_last_ns", destroy.last)
      .number("destroy_ns", destroy.all)
      .number("free_ns", drop.all)
      .number("records_each", taken / static_cast<double>(count))
      .number("mappings_before", maps_before)
      .number("mappings_after", maps_after)
      .text("goal", goal)
      .print();
}

}  // namespace

int main(int argc, char **argv) {
  const size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  if (count == 0) {
    std::fprintf(stderr, "bench_scale [COUNT]: how many buffers, 1000000 without it\n");
    return 1;
  }
  for (const char *order : {"in order", "reverse", "random"}) {
    measure(count, 2 * mib, order,
            "create: last <= 1.5 x first, <= 2000 ns; destroy <= 4000 ns; 512 B");
    measure(count, 16 * mib, order, "create: last <= 1.5 x first, <= 4000 ns; destroy <= 4000 ns");
  }
  return 0;
}
