// SPDX-License-Identifier: Apache-2.0
//
// How fast a pool uses a device that joins, and lets go of one that leaves: the time until spilled buffers have followed to
// its memory (weir_pool_add_device and weir_pool_rebalance), and until buffers that only it has are safe in HOST
// (weir_pool_remove_device), against moving the same bytes at the speed of the link. Links of the host backend are held to a few hundred megabytes a second, so that they and
// not this machine's memory set the pace; the yardstick is the link measured alone in the same run (weir_topology_calibrate).
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if a call fails or a byte is wrong.

#include "common.hpp"

#include <weir/topology.h>

namespace {

using namespace weir::bench;

constexpr uint64_t size = 8 * mib;
constexpr uint32_t count = 8;
constexpr int repetitions = 5;
constexpr uint64_t stays_bytes = 4 * mib;
constexpr const char *options =
    "topology.cache=0;host.memory=256M;host.granule=2M;host.granule_large=0;host.devices=2;"
    "host.link_slowdown=1;host.links=0-1:nvlink:400M,h-0:pcie:250M,h-1:pcie:250M";

class Site {
 public:
  Site() {
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.options = options;
    WEIR_BENCH_TRY(weir_context_create(&desc, &context_));
    weir_calibrate_desc bounds = WEIR_CALIBRATE_DESC_INIT;
    bounds.max_ns = 3'000'000'000;
    weir_calibrate_report report = WEIR_CALIBRATE_REPORT_INIT;
    WEIR_BENCH_TRY(weir_topology_calibrate(context_, &bounds, &report));
    // The device that stays has room for little: what leaves the other goes to HOST.
    const weir_pool_device stays = {0, 0, stays_bytes, {0, 0}};
    weir_pool_desc pool = WEIR_POOL_DESC_INIT;
    pool.devices = &stays;
    pool.device_count = 1;
    pool.host_budget = 2 * count * size;
    pool.flags = WEIR_POOL_NO_BACKGROUND;
    WEIR_BENCH_TRY(weir_pool_create(context_, &pool, &pool_));
    WEIR_BENCH_TRY(weir_stream_create(context_, 1, 0, &stream_));
    std::vector<unsigned char> bytes(size);
    for (uint32_t i = 0; i < count; ++i) {
      weir_buffer_desc buffer = WEIR_BUFFER_DESC_INIT;
      buffer.size = size;
      WEIR_BENCH_TRY(weir_buffer_create(pool_, &buffer, &buffers_[i]));
      for (uint64_t at = 0; at < size; at += 4 * kib) bytes[at] = mark(i);
      WEIR_BENCH_TRY(weir_buffer_write(pool_, buffers_[i], 0, size, bytes.data()));
    }
  }
  ~Site() {
    for (weir_buffer buffer : buffers_) WEIR_BENCH_TRY(weir_buffer_destroy(pool_, buffer));
    WEIR_BENCH_TRY(weir_pool_destroy(pool_));
    WEIR_BENCH_TRY(weir_stream_close(stream_));
    WEIR_BENCH_TRY(weir_context_destroy(context_));
  }
  Site(const Site &) = delete;
  Site &operator=(const Site &) = delete;

  /// Bytes a second, until all of it is in the new device's memory.
  double join() {
    const weir_pool_device comes = {1, 0, 2 * count * size, {0, 0}};
    const double start = now_ns();
    WEIR_BENCH_TRY(weir_pool_add_device(pool_, &comes));
    uint64_t moved = 0;
    WEIR_BENCH_TRY(weir_pool_rebalance(pool_, WEIR_WHOLE, &moved));
    use(WEIR_READ);
    const double spent = now_ns() - start;
    // All but what the device that stays has taken from the one that left.
    if (moved + stays_bytes < count * size) wrong("not all of it was moved");
    return static_cast<double>(moved) * 1e9 / spent;
  }
  /// Bytes a second, until nothing is only there any more.
  double leave() {
    use(WEIR_READ_WRITE);
    const double start = now_ns();
    WEIR_BENCH_TRY(weir_pool_remove_device(pool_, 1, WEIR_INFINITE));
    return static_cast<double>(count * size) * 1e9 / (now_ns() - start);
  }
  double link(uint32_t from, uint32_t to) const {
    weir_link_info info = WEIR_LINK_INFO_INIT;
    WEIR_BENCH_TRY(weir_link_info_get(context_, from, to, &info));
    return static_cast<double>(info.bandwidth);
  }

 private:
  static unsigned char mark(uint32_t i) noexcept { return static_cast<unsigned char>(17 * i + 1); }
  [[noreturn]] static void wrong(const char *what) {
    std::fprintf(stderr, "bench_rebalance: %s\n", what);
    std::exit(1);
  }
  /// On the device that joined; waits for what is in flight, and looks at the bytes.
  void use(uint32_t mode) {
    weir_use uses[count];
    for (uint32_t i = 0; i < count; ++i) uses[i] = WEIR_USE(buffers_[i], mode);
    weir_lease lease = nullptr;
    WEIR_BENCH_TRY(weir_acquire(pool_, stream_, uses, count, nullptr, &lease));
    WEIR_BENCH_TRY(weir_stream_synchronize(stream_));
    for (uint32_t i = 0; i < count; ++i) {
      const auto *bytes = reinterpret_cast<const unsigned char *>(uses[i].address);
      for (uint64_t at = 0; at < size; at += 256 * kib)
        if (bytes[at] != mark(i)) wrong("a byte is wrong");
    }
    WEIR_BENCH_TRY(weir_release(lease, stream_));
  }

  weir_context context_ = nullptr;
  weir_pool pool_ = nullptr;
  weir_stream stream_ = nullptr;
  weir_buffer buffers_[count] = {};
};

void tell(const char *name, const std::vector<double> &rates, double link) {
  const auto [low, high] = std::minmax_element(rates.begin(), rates.end());
  Json(name)
      .number("mib", static_cast<double>(count * size / mib))
      .number("mb_per_s", median(rates) / 1e6)
      .number("link_mb_per_s", link / 1e6)
      .number("ratio", median(rates) / link)
      .number("ratio_low", *low / link)
      .number("ratio_high", *high / link)
      .print();
}

}  // namespace

int main() {
  Site site;
  std::vector<double> joined, left;
  for (int i = 0; i < repetitions; ++i) {
    joined.push_back(site.join());
    left.push_back(site.leave());
  }
  tell("a device joins", joined, site.link(WEIR_DEVICE_HOST, 1));
  tell("a device leaves", left, site.link(1, WEIR_DEVICE_HOST));
  return 0;
}
