// SPDX-License-Identifier: Apache-2.0
//
// What an acquire and its release of resident buffers cost on a stream of the device: against an uncontended mutex, and
// against the least that a runtime asks for to know when work has ended: a fence recorded, looked at and destroyed.

#include "bench/device/report.hpp"

#include <pthread.h>

namespace weir::bench {
namespace {

constexpr int rounds = 20000;
constexpr const char *unit = "ns";

double mutex_ns() {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  const double start = now_ns();
  for (int i = 0; i < rounds; ++i) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
  return (now_ns() - start) / rounds;
}

double fence_ns(const Backend &backend, const Queue &queue) {
  const weir_backend_table &table = backend.table();
  const double start = now_ns();
  for (int i = 0; i < rounds; ++i) {
    weir_be_fence fence = 0;
    backend.must(table.fence_record(backend.state(), queue.handle(), &fence), "fence_record");
    const weir_result passed = table.fence_poll(backend.state(), fence);
    if (passed != WEIR_NOT_READY) backend.must(passed, "fence_poll");
    backend.must(table.fence_destroy(backend.state(), fence), "fence_destroy");
  }
  const double each = (now_ns() - start) / rounds;
  queue.wait();
  return each;
}

/// Leases of all of the buffers at once.
double lease_ns(Rig &rig, std::vector<weir_use> uses) {
  const double start = now_ns();
  for (int i = 0; i < rounds; ++i) {
    weir_lease lease = nullptr;
    check(weir_acquire(rig.pool(), rig.stream(), uses.data(), uses.size(), nullptr, &lease),
          "weir_acquire");
    check(weir_release(lease, rig.stream()), "weir_release");
  }
  const double each = (now_ns() - start) / rounds;
  rig.synchronize();
  return each;
}

std::vector<weir_use> uses_of(const std::vector<weir_buffer> &buffers, size_t count,
                              uint32_t mode) {
  std::vector<weir_use> uses;
  for (size_t i = 0; i < count; ++i) uses.push_back(WEIR_USE(buffers[i], mode));
  return uses;
}

void tell(Report &report, const Meaning &meaning, const Series &series, size_t count,
          uint32_t mode) {
  report.figure(meaning, series, [&](Json &json) {
    json.count("buffers", count).text("mode", mode == WEIR_READ ? "READ" : "READ_WRITE");
  });
}

}  // namespace

void measure_leases(const Settings &settings, const Backend &backend, Report &report) {
  constexpr uint64_t size = 2 * mib;
  constexpr size_t most = 16;
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.host_budget = 64 * mib;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.large_page_size = desc.page_size = size;
  Rig rig(backend.context(), desc, 2 * most * size);
  const Queue queue(backend);
  std::vector<weir_buffer> buffers;
  for (size_t i = 0; i < most; ++i) {
    buffers.push_back(rig.add_buffer(size));
    rig.touch(buffers.back(), WEIR_DISCARD_WRITE);
    rig.touch(buffers.back(), WEIR_READ);
  }
  rig.synchronize();
  for (const size_t count : {size_t{1}, most}) {
    for (const uint32_t mode : {uint32_t{WEIR_READ}, uint32_t{WEIR_READ_WRITE}}) {
      Series to_mutex, to_fence;
      for (int i = -1; i < settings.repetitions; ++i) {
        const bool first = i % 2 == 0;
        double ours = first ? lease_ns(rig, uses_of(buffers, count, mode)) : 0;
        const double mutex = mutex_ns();
        const double fence = fence_ns(backend, queue);
        if (!first) ours = lease_ns(rig, uses_of(buffers, count, mode));
        if (i < 0) continue;
        to_mutex.add(ours, mutex);
        to_fence.add(ours, fence);
      }
      tell(report,
           {"lease_vs_mutex", "acquire and release of resident buffers, as one set",
            "lock and unlock of an uncontended mutex", unit},
           to_mutex, count, mode);
      tell(report,
           {"lease_vs_fence", "acquire and release of resident buffers, as one set",
            "fence_record, fence_poll and fence_destroy on an idle stream", unit},
           to_fence, count, mode);
    }
  }
}

}  // namespace weir::bench
