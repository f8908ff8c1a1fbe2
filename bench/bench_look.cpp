// SPDX-License-Identifier: Apache-2.0
//
// Whom looking at a pool holds up: calls that need its lock, made while another thread takes snapshots or lists what was lost of many
// buffers, against the same calls by themselves. What counts is the longest of them.
//
//   bench_look [--buffers 200000] [--seconds 3]
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if a call fails.

#include "common.hpp"

#include <atomic>
#include <cstring>
#include <thread>

namespace {

using namespace weir::bench;

struct Waits {
  std::vector<double> ns;
  double at(double share) const {
    return ns[static_cast<size_t>(share * static_cast<double>(ns.size() - 1))];
  }
};

/// Buffers come and go, some thousand a second.
Waits make_and_destroy(Rig &rig, double seconds) {
  Waits waits;
  const double end = now_ns() + seconds * 1e9;
  while (now_ns() < end) {
    const double start = now_ns();
    const weir_buffer buffer = rig.add_buffer(256);
    WEIR_BENCH_TRY(weir_buffer_destroy(rig.pool(), buffer));
    waits.ns.push_back(now_ns() - start);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::sort(waits.ns.begin(), waits.ns.end());
  return waits;
}

template <class Look>
void beside(Rig &rig, const char *what, uint64_t buffers, double seconds, Look look) {
  const Waits alone = make_and_destroy(rig, seconds);
  std::atomic<bool> over{false};
  std::vector<double> looks;
  std::thread other([&] {
    while (!over) {
      const double start = now_ns();
      look();
      looks.push_back(now_ns() - start);
    }
  });
  const Waits waits = make_and_destroy(rig, seconds);
  over = true;
  other.join();
  Json("look")
      .text("beside", what)
      .count("buffers", buffers)
      .count("calls", waits.ns.size())
      .count("looks", looks.size())
      .number("look_ms", median(looks) / 1e6)
      .number("p99_ratio", waits.at(0.99) / alone.at(0.99))
      .number("longest_ms", waits.at(1) / 1e6)
      .number("longest_alone_ms", alone.at(1) / 1e6)
      .number("longest_share_of_a_look", waits.at(1) / median(looks))
      .print();
}

}  // namespace

int main(int argc, char **argv) {
  uint64_t buffers = 200000;
  double seconds = 3;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--buffers") == 0) buffers = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
  }
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.host_budget = 64 * mib;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  Rig rig("host.memory=1G;host.granule=2M", desc, 512 * mib);
  for (uint64_t i = 0; i < buffers; ++i) rig.add_buffer(256);
  beside(rig, "snapshots", buffers, seconds, [&] {
    size_t needed = 0;
    WEIR_BENCH_TRY(weir_pool_snapshot(rig.pool(), nullptr, 0, &needed));
  });
  beside(rig, "lists of what was lost", buffers, seconds, [&] {
    size_t count = 0;
    WEIR_BENCH_TRY(weir_pool_lost_ranges(rig.pool(), nullptr, 0, &count));
  });
  return 0;
}
