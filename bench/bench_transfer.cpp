// SPDX-License-Identifier: Apache-2.0
//
// How fast whole pages go down to HOST and come back up on the host backend, against memcpy of the same
// bytes between warm memory in the same run. Every page and chunk is touched before anything is timed.
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if a call fails or a byte is wrong.

#include "common.hpp"

#include <cstring>

namespace {

using namespace weir::bench;

constexpr uint64_t page = 32 * mib;
constexpr int pages = 4;
constexpr int repetitions = 9;

double gib_per_s(double ns) { return static_cast<double>(pages * page) / ns * 1e9 / (1024.0 * 1024 * 1024); }

/// memcpy of as many bytes, from and to memory of its own that has been touched.
class Memcpy {
 public:
  Memcpy() : from_(pages * page, 1), to_(pages * page, 2) {}
  double ns() {
    const double start = now_ns();
    for (int i = 0; i < pages; ++i) std::memcpy(&to_[i * page], &from_[i * page], page);
    const double spent = now_ns() - start;
    asm volatile("" : : "r"(to_.data()) : "memory");
    return spent;
  }

 private:
  std::vector<char> from_;
  std::vector<char> to_;
};

class Cycle {
 public:
  Cycle() : rig_("host.memory=256M;host.granule=2M;host.granule_large=32M", pool(), pages * page) {
    for (weir_buffer &buffer : buffers_) buffer = rig_.add_buffer(page);
  }

  /// All buffers resident and newer than any copy in HOST; one byte of each page is written.
  void make_dirty(unsigned char mark) {
    for (weir_buffer buffer : buffers_) {
      const uint64_t address = rig_.touch(buffer, WEIR_READ_WRITE);
      rig_.synchronize();
      reinterpret_cast<unsigned char *>(address)[page - 1] = mark;
    }
  }
  /// Everything goes down.
  double demote_ns() {
    const uint64_t before = rig_.stats().demoted_bytes;
    uint64_t freed = 0;
    const double start = now_ns();
    WEIR_BENCH_TRY(weir_pool_trim(rig_.pool(), 0, WEIR_TRIM_SELECTIVE, pages * page, &freed));
    const double spent = now_ns() - start;
    expect("demoted", rig_.stats().demoted_bytes - before);
    return spent;
  }
  /// Everything comes back; each acquire returns when its copy is under way, the stream ends the last one.
  double promote_ns() {
    const uint64_t before = rig_.stats().promoted_bytes;
    const double start = now_ns();
    for (weir_buffer buffer : buffers_) rig_.touch(buffer, WEIR_READ);
    rig_.synchronize();
    const double spent = now_ns() - start;
    expect("promoted", rig_.stats().promoted_bytes - before);
    return spent;
  }
  void verify(unsigned char mark) {
    for (weir_buffer buffer : buffers_) {
      unsigned char seen = 0;
      WEIR_BENCH_TRY(weir_buffer_read(rig_.pool(), buffer, page - 1, 1, &seen));
      if (seen == mark) continue;
      std::fprintf(stderr, "bench_transfer: a page holds %u, not %u\n", unsigned{seen}, unsigned{mark});
      std::exit(1);
    }
  }

 private:
  static weir_pool_desc pool() {
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = 2 * pages * page;
    desc.page_size = page;
    desc.large_page_size = page;
    return desc;
  }
  static void expect(const char *what, uint64_t bytes) {
    if (bytes == pages * page) return;
    std::fprintf(stderr, "bench_transfer: %s %" PRIu64 " bytes, not %" PRIu64 "\n", what, bytes,
                 pages * page);
    std::exit(1);
  }

  Rig rig_;
  weir_buffer buffers_[pages] = {};
};

void print(const char *name, const Pair &pair) {
  Json(name)
      .number("page_mib", static_cast<double>(page / mib))
      .number("pages", pages)
      .number("weir_gib_per_s", gib_per_s(pair.subject))
      .number("memcpy_gib_per_s", gib_per_s(pair.yardstick))
      // Times, so memcpy's share is the inverse of the time ratio.
      .number("ratio", 1 / pair.ratio)
      .number("ratio_low", 1 / pair.ratio_high)
      .number("ratio_high", 1 / pair.ratio_low)
      .text("goal", "ratio >= 0.9")
      .print();
}

}  // namespace

int main() {
  Memcpy yardstick;
  Cycle cycle;
  unsigned char mark = 1;
  cycle.make_dirty(mark);
  yardstick.ns();
  for (int i = 0; i < 2; ++i) {
    cycle.demote_ns();
    cycle.promote_ns();
    cycle.make_dirty(++mark);
  }
  const Pair down = interleave(
      repetitions,
      [&] {
        const double ns = cycle.demote_ns();
        cycle.verify(mark);
        cycle.promote_ns();
        cycle.make_dirty(++mark);
        return ns;
      },
      [&] { return yardstick.ns(); });
  print("demote", down);
  const Pair up = interleave(
      repetitions,
      [&] {
        cycle.demote_ns();
        const double ns = cycle.promote_ns();
        cycle.verify(mark);
        cycle.make_dirty(++mark);
        return ns;
      },
      [&] { return yardstick.ns(); });
  print("promote", up);
  return 0;
}
