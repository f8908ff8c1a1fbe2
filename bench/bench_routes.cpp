// SPDX-License-Identifier: Apache-2.0
//
// How fast a buffer goes from device to device by each kind of way, on links of the host backend that are held to a few hundred
// megabytes a second, so that the links and not this machine's memory set the pace. The yardstick is what the links of the ways
// taken carry, each measured alone by plain copies in the same run (weir_topology_calibrate): of two hops the slower
// one, of several ways at once their sum.
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if a call fails or a byte is wrong.

#include "common.hpp"

#include <weir/topology.h>

namespace {

using namespace weir::bench;

constexpr uint64_t size = 64 * mib;
constexpr int repetitions = 5;

struct Case {
  const char *name;
  const char *links;
  uint32_t ways[3][3];  ///< devices on the way, the host as such; ended by `none`
  const char *goal;
};
constexpr uint32_t none = UINT32_MAX - 1;
constexpr uint32_t host = WEIR_DEVICE_HOST;

constexpr Case cases[] = {
    {"direct",
     "0-1:nvlink:300M,0-2:none:0,1-2:none:0,h-0:pcie:20M,h-1:pcie:20M,h-2:pcie:20M",
     {{0, 1, none}, {none}, {none}},
     ""},
    {"relay",
     "0-1:none:0,0-2:nvlink:200M,1-2:nvlink:260M,h-0:pcie:20M,h-1:pcie:20M,h-2:pcie:20M",
     {{0, 2, 1}, {none}, {none}},
     "ratio >= 0.85"},
    {"host",
     "0-1:none:0,0-2:none:0,1-2:none:0,h-0:pcie:200M,h-1:pcie:260M,h-2:pcie:200M",
     {{0, host, 1}, {none}, {none}},
     "ratio >= 0.85"},
    {"direct and relay",
     "0-1:nvlink:300M,0-2:nvlink:200M,1-2:nvlink:200M,h-0:pcie:20M,h-1:pcie:20M,h-2:pcie:20M",
     {{0, 1, none}, {0, 2, 1}, {none}},
     "ratio >= 0.85"},
    {"direct, relay and host",
     "0-1:nvlink:200M,0-2:nvlink:150M,1-2:nvlink:150M,h-0:pcie:150M,h-1:pcie:150M,h-2:pcie:150M",
     {{0, 1, none}, {0, 2, 1}, {0, host, 1}},
     "ratio >= 0.85"},
};

class Machine {
 public:
  explicit Machine(const Case &of) {
    const std::string options =
        std::string(
            "topology.cache=0;host.memory=256M;host.granule=2M;host.granule_large=0;"
            "host.devices=3;host.link_slowdown=1;host.links=") +
        of.links;
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.options = options.c_str();
    WEIR_BENCH_TRY(weir_context_create(&desc, &context_));
    weir_calibrate_desc bounds = WEIR_CALIBRATE_DESC_INIT;
    bounds.max_ns = 3'000'000'000;
    weir_calibrate_report report = WEIR_CALIBRATE_REPORT_INIT;
    WEIR_BENCH_TRY(weir_topology_calibrate(context_, &bounds, &report));
    for (const auto &way : of.ways) {
      double slowest = 0;
      for (size_t i = 0; i + 1 < 3 && way[0] != none && way[i + 1] != none; ++i) {
        const double rate = rate_of(way[i], way[i + 1]);
        slowest = slowest == 0 ? rate : std::min(slowest, rate);
      }
      ideal_ += slowest;
    }
    weir_pool_device devices[3] = {};
    for (uint32_t i = 0; i < 3; ++i) devices[i] = {i, 0, 2 * size, {0, 0}};
    weir_pool_desc pool = WEIR_POOL_DESC_INIT;
    pool.devices = devices;
    pool.device_count = 3;
    pool.host_budget = size;
    pool.flags = WEIR_POOL_NO_BACKGROUND;
    WEIR_BENCH_TRY(weir_pool_create(context_, &pool, &pool_));
    for (uint32_t i = 0; i < 2; ++i)
      WEIR_BENCH_TRY(weir_stream_create(context_, i, 0, &streams_[i]));
    weir_buffer_desc buffer = WEIR_BUFFER_DESC_INIT;
    buffer.size = size;
    buffer.home = 0;
    WEIR_BENCH_TRY(weir_buffer_create(pool_, &buffer, &buffer_));
    (void)move(0);
    (void)move(1);
  }
  ~Machine() {
    WEIR_BENCH_TRY(weir_buffer_destroy(pool_, buffer_));
    WEIR_BENCH_TRY(weir_pool_destroy(pool_));
    for (weir_stream stream : streams_) WEIR_BENCH_TRY(weir_stream_close(stream));
    WEIR_BENCH_TRY(weir_context_destroy(context_));
  }
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;

  /// Takes the buffer to the device for writing; the time until its bytes are there, in ns. A byte of each page is
  /// looked at and written.
  double move(uint32_t device) {
    weir_use use = WEIR_USE(buffer_, WEIR_READ_WRITE);
    weir_lease lease = nullptr;
    const double start = now_ns();
    WEIR_BENCH_TRY(weir_acquire(pool_, streams_[device], &use, 1, nullptr, &lease));
    WEIR_BENCH_TRY(weir_stream_synchronize(streams_[device]));
    const double spent = now_ns() - start;
    auto *bytes = reinterpret_cast<unsigned char *>(use.address);
    for (uint64_t at = 0; at < size; at += 64 * kib) {
      if (bytes[at] != mark_) {
        std::fprintf(stderr, "bench_routes: byte %" PRIu64 " is wrong\n", at);
        std::exit(1);
      }
      bytes[at] = static_cast<unsigned char>(mark_ + 1);
    }
    ++mark_;
    WEIR_BENCH_TRY(weir_release(lease, streams_[device]));
    return spent;
  }
  double ideal() const { return ideal_; }
  weir_pool_stats stats() const {
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    WEIR_BENCH_TRY(weir_pool_stats_get(pool_, &stats));
    return stats;
  }

 private:
  double rate_of(uint32_t from, uint32_t to) const {
    weir_link_info info = WEIR_LINK_INFO_INIT;
    WEIR_BENCH_TRY(weir_link_info_get(context_, from, to, &info));
    return static_cast<double>(info.bandwidth);
  }

  weir_context context_ = nullptr;
  weir_pool pool_ = nullptr;
  weir_stream streams_[2] = {};
  weir_buffer buffer_ = nullptr;
  double ideal_ = 0;  ///< bytes a second
  unsigned char mark_ = 0;
};

void measure(const Case &of) {
  Machine machine(of);
  const weir_pool_stats before = machine.stats();
  std::vector<double> rates;
  for (int i = 0; i < repetitions; ++i) {
    (void)machine.move(0);
    rates.push_back(static_cast<double>(size) * 1e9 / machine.move(1));
  }
  const weir_pool_stats after = machine.stats();
  const auto [low, high] = std::minmax_element(rates.begin(), rates.end());
  const auto share = [&](uint64_t weir_pool_stats::*field) {
    return static_cast<double>(after.*field - before.*field) /
           static_cast<double>(after.peer_bytes - before.peer_bytes);
  };
  Json(("routes: " + std::string(of.name)).c_str())
      .number("mib", static_cast<double>(size / mib))
      .number("mb_per_s", median(rates) / 1e6)
      .number("links_mb_per_s", machine.ideal() / 1e6)
      .number("ratio", median(rates) / machine.ideal())
      .number("ratio_low", *low / machine.ideal())
      .number("ratio_high", *high / machine.ideal())
      .number("relayed", share(&weir_pool_stats::relayed_bytes))
      .number("through_host", share(&weir_pool_stats::host_relayed_bytes))
      .number("split", share(&weir_pool_stats::split_bytes))
      .text("goal", of.goal)
      .print();
}

}  // namespace

int main() {
  for (const Case &each : cases) measure(each);
  return 0;
}
