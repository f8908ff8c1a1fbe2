// SPDX-License-Identifier: Apache-2.0
//
// How fast whole pages go down to HOST and come back up on the host backend, against memcpy of the same
// bytes between warm memory in the same run; and how long a set takes to take another's place over links of a given speed, against
// the slower way alone. Every page and chunk is touched before anything is timed.
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if a call fails or a byte is wrong.

#include "common.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <optional>

namespace {

using namespace weir::bench;

constexpr uint64_t page = 32 * mib;
constexpr int pages = 8;
constexpr int repetitions = 9;

double gib_per_s(double ns) {
  return static_cast<double>(pages * page) / ns * 1e9 / (1024.0 * 1024 * 1024);
}

/// memcpy of as many bytes, from and to memory of its own that has been touched.
class Memcpy {
 public:
  Memcpy() : from_(pages * page, 1), to_(pages * page, 2) {}
  double ns() {
    const double start = now_ns();
    for (uint64_t at = 0; at < pages * page; at += page) std::memcpy(&to_[at], &from_[at], page);
    const double spent = now_ns() - start;
    asm volatile("" : : "r"(to_.data()) : "memory");
    return spent;
  }

 private:
  std::vector<char> from_;
  std::vector<char> to_;
};

/// The same with the mapping that a move of pages cannot do without on the host backend: the bare calls,
/// one page of a memfd unmapped and another mapped in its place with its page tables filled, then memcpy.
class RemapMemcpy {
 public:
  RemapMemcpy() : from_(page, 1), file_(memfd_create("bench", MFD_CLOEXEC)) {
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(2 * page)) != 0) std::exit(1);
    void *place =
        mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) std::exit(1);
    place_ = static_cast<char *>(place);
    for (int i = 0; i < 2; ++i) step(i);
  }
  ~RemapMemcpy() {
    munmap(place_, page);
    close(file_);
  }
  RemapMemcpy(const RemapMemcpy &) = delete;
  RemapMemcpy &operator=(const RemapMemcpy &) = delete;

  double ns() {
    const double start = now_ns();
    for (int i = 0; i < pages; ++i) step(i);
    return now_ns() - start;
  }

 private:
  void step(int i) {
    mmap(place_, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (mmap(place_, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, file_,
             static_cast<off_t>((i & 1) * static_cast<off_t>(page))) == MAP_FAILED) {
      std::exit(1);
    }
    std::memcpy(place_, from_.data(), page);
    asm volatile("" : : "r"(place_) : "memory");
  }

  std::vector<char> from_;
  int file_;
  char *place_;
};

/// Two sets of buffers that share room for one: while one is on the device the other is in HOST.
class Cycle {
 public:
  explicit Cycle(const char *prefault)
      : rig_(std::string("host.memory=512M;host.granule=2M;host.granule_large=32M;host.prefault=") +
                 prefault,
             pool(), pages * page) {
    for (weir_buffer &buffer : data_) buffer = rig_.add_buffer(page);
    for (weir_buffer &buffer : other_) buffer = rig_.add_buffer(page);
  }

  /// All data resident and newer than any copy in HOST; one byte of each page is written.
  void make_dirty(unsigned char mark) {
    for (weir_buffer buffer : data_) {
      const uint64_t address = rig_.touch(buffer, WEIR_READ_WRITE);
      rig_.synchronize();
      reinterpret_cast<unsigned char *>(address)[page - 1] = mark;
    }
  }
  /// The other buffers take the room one by one without needing their old bytes: nothing is copied but what goes
  /// down, by demand and by the background thread ahead of it. Time for as many bytes as all pages have.
  double demote_ns() {
    const weir_pool_stats before = rig_.stats();
    const double start = now_ns();
    for (weir_buffer buffer : other_) rig_.touch(buffer, WEIR_DISCARD_WRITE);
    const double spent = now_ns() - start;
    const weir_pool_stats after = rig_.stats();
    expect("promoted", after.promoted_bytes - before.promoted_bytes, 0);
    return spent * pages * page / static_cast<double>(after.demoted_bytes - before.demoted_bytes);
  }
  /// The other buffers are dropped first, so that nothing is copied but what comes up. Each acquire returns
  /// when its copy is under way; the stream's end is the last one's. Time for as many bytes as all pages have; none if the background
  /// thread, late on a busy machine, was still copying down.
  std::optional<double> promote_ns() {
    for (weir_buffer buffer : other_) {
      WEIR_BENCH_TRY(weir_discard(rig_.pool(), buffer, 0, WEIR_WHOLE));
    }
    const weir_pool_stats before = rig_.stats();
    const double start = now_ns();
    for (weir_buffer buffer : data_) rig_.touch(buffer, WEIR_READ);
    rig_.synchronize();
    const double spent = now_ns() - start;
    const weir_pool_stats after = rig_.stats();
    const uint64_t promoted = after.promoted_bytes - before.promoted_bytes;
    if (after.demoted_bytes != before.demoted_bytes || promoted == 0) return std::nullopt;
    return spent * pages * page / static_cast<double>(promoted);
  }
  void verify(unsigned char mark) {
    for (weir_buffer buffer : data_) {
      unsigned char seen = 0;
      WEIR_BENCH_TRY(weir_buffer_read(rig_.pool(), buffer, page - 1, 1, &seen));
      if (seen == mark) continue;
      std::fprintf(stderr, "bench_transfer: a page holds %u, not %u\n", unsigned{seen},
                   unsigned{mark});
      std::exit(1);
    }
  }

 private:
  static weir_pool_desc pool() {
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.watermark_low_permille = 1000 / pages + 1;                  // a page is always free ...
    desc.watermark_high_permille = 2 * desc.watermark_low_permille;  // ... and as a rule two
    desc.host_budget = 2 * pages * page;
    desc.page_size = page;
    desc.large_page_size = page;
    return desc;
  }
  static void expect(const char *what, uint64_t bytes, uint64_t expected) {
    if (bytes == expected) return;
    std::fprintf(stderr, "bench_transfer: %s %" PRIu64 " bytes, not %" PRIu64 "\n", what, bytes,
                 expected);
    std::exit(1);
  }

  Rig rig_;
  weir_buffer data_[pages] = {};
  weir_buffer other_[pages] = {};
};

/// Two sets that each fill the device, over links of one speed: one leaves while the other comes.
class Exchange {
 public:
  Exchange() : rig_("host.memory=512M;host.granule=2M;host.link_bandwidth=2G", pool(), set_bytes) {
    for (weir_buffer &buffer : sets_) {
      buffer = rig_.add_buffer(set_bytes);
      use(buffer);
    }
  }
  /// Both ways: what is on the device is newer than any copy.
  double exchange_ns() { return use(sets_[next_ ^= 1]); }
  /// The slower of the two ways, each alone.
  double alone_ns() {
    const double start = now_ns();
    WEIR_BENCH_TRY(weir_pool_trim(rig_.pool(), 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    const double down = now_ns() - start;
    return std::max(down, use(sets_[next_]));
  }

 private:
  static constexpr uint64_t set_bytes = 64 * 2 * mib;

  double use(weir_buffer set) {
    const double start = now_ns();
    rig_.touch(set, WEIR_READ_WRITE);
    rig_.synchronize();
    return now_ns() - start;
  }
  static weir_pool_desc pool() {
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = 4 * set_bytes;
    desc.page_size = desc.large_page_size = 2 * mib;
    return desc;
  }

  Rig rig_;
  weir_buffer sets_[2] = {};
  int next_ = 1;
};

void measure_exchange() {
  Exchange exchange;
  for (int i = 0; i < 2; ++i) exchange.exchange_ns();
  const Pair pair = interleave(
      repetitions, [&] { return exchange.exchange_ns(); }, [&] { return exchange.alone_ns(); });
  Json("exchange")
      .number("page_mib", 2)
      .number("pages", 64)
      .pair("exchange_ns", "slower_way_alone_ns", pair)
      .text("goal", "ratio <= 1.3")
      .print();
}

/// Times in, speeds out: a share of the yardstick's speed is the inverse of the ratio of times.
void print(const char *name, const char *prefault, const Pair &pair,
           const std::vector<double> &remap) {
  Json(name)
      .text("prefault", prefault)
      .number("page_mib", static_cast<double>(page / mib))
      .number("pages", pages)
      .number("weir_gib_per_s", gib_per_s(pair.subject))
      .number("memcpy_gib_per_s", gib_per_s(pair.yardstick))
      .number("ratio", 1 / pair.ratio)
      .number("ratio_low", 1 / pair.ratio_high)
      .number("ratio_high", 1 / pair.ratio_low)
      .text("goal", "ratio >= 0.9")
      .number("remap_memcpy_gib_per_s", gib_per_s(median(remap)))
      .number("ratio_to_remap_memcpy", median(remap) / pair.subject)
      .print();
}

/// Both ways, alternating with the yardsticks. `prefault`: whether the host backend fills page tables when it maps, as
/// it does as a rule and no GPU has to; else the first use of each page does, which is not in the time.
void measure(const char *prefault, Memcpy &yardstick, RemapMemcpy &remap_yardstick) {
  Cycle cycle(prefault);
  unsigned char mark = 1;
  cycle.make_dirty(mark);
  const auto step = [&](bool down) {
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double demote = cycle.demote_ns();
      if (down) cycle.verify(mark);
      const std::optional<double> promote = cycle.promote_ns();
      cycle.verify(mark);
      cycle.make_dirty(++mark);
      if (down || promote) return down ? demote : *promote;
    }
    std::fputs("bench_transfer: the background thread never comes to rest\n", stderr);
    std::exit(1);
  };
  for (int i = 0; i < 3; ++i) step(true);
  for (const bool down : {true, false}) {
    std::vector<double> remap;
    const Pair pair = interleave(
        repetitions,
        [&] {
          remap.push_back(remap_yardstick.ns());
          return step(down);
        },
        [&] { return yardstick.ns(); });
    print(down ? "demote" : "promote", prefault, pair, remap);
  }
}

}  // namespace

int main() {
  Memcpy yardstick;
  RemapMemcpy remap_yardstick;
  yardstick.ns();
  for (const char *prefault : {"0", "1"}) measure(prefault, yardstick, remap_yardstick);
  measure_exchange();
  return 0;
}
