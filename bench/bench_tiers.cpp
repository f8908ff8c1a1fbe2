// SPDX-License-Identifier: Apache-2.0
//
// The tiers below HOST as a program meets them, through the C ABI: pages of 2 and of 32 MiB leased in order and at
// random from a pool whose device and host memory hold a small part of them, against the plainest way to move as many
// bytes between the same directory and memory (threads with pread or pwrite of whole pages under O_DIRECT), and how
// long one acquire of a page in STORAGE or COMPRESSED takes against a raw read of a page, alone and beside writes.
//
//   bench_tiers [directory] [MiB of contents]
//
// It must never judge: it exits 0 whatever the numbers are, and 1 only if a call fails or a byte is wrong.

#include "bench/common.hpp"
#include "bench/raw_file.hpp"

#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

namespace {

using namespace weir::bench;

constexpr int repetitions = 3;
Order order_of(uint64_t pages, bool random, unsigned round) {
  Order order(pages);
  std::iota(order.begin(), order.end(), 0);
  if (random) std::shuffle(order.begin(), order.end(), std::mt19937_64(round));
  return order;
}

/// A pool with one buffer a page; every page starts with its number and is noise (or not) beyond.
class Pages {
 public:
  Pages(const weir_pool_desc &desc, uint64_t page, uint64_t count, uint64_t device_bytes)
      : rig_("host.memory=1G;host.granule=2M;host.granule_large=32M;host.prefault=0", desc,
             device_bytes),
        page_(page) {
    for (uint64_t i = 0; i < count; ++i) buffers_.push_back(rig_.add_buffer(page));
  }

  /// Fills every page with bytes like `sample`: all but the last go down as far as STORAGE, and memory is warm.
  void load(const std::vector<unsigned char> &sample) {
    for (uint64_t i = 0; i < buffers_.size(); ++i) lease(rig_.stream(), i, true, &sample);
  }

  /// One page leased, looked at or marked, and released. The stream is idle in between: the CPU is the kernel.
  void lease(weir_stream stream, uint64_t number, bool write,
             const std::vector<unsigned char> *sample = nullptr) {
    weir_use use = WEIR_USE(buffers_[number], write ? WEIR_DISCARD_WRITE : WEIR_READ);
    weir_lease lease = nullptr;
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    options.timeout_ns = 10'000'000'000;
    WEIR_BENCH_TRY(weir_acquire(rig_.pool(), stream, &use, 1, &options, &lease));
    WEIR_BENCH_TRY(weir_stream_synchronize(stream));
    auto *bytes = reinterpret_cast<unsigned char *>(use.address);
    for (uint64_t at = 0; sample != nullptr && at < page_; at += sample->size())
      std::memcpy(bytes + at, sample->data(), std::min<uint64_t>(sample->size(), page_ - at));
    if (write) std::memcpy(bytes, &number, sizeof number);
    check(std::memcmp(bytes, &number, sizeof number) == 0, "wrong bytes");
    WEIR_BENCH_TRY(weir_release(lease, stream));
  }
  weir_stream add_stream() { return rig_.add_stream(); }
  /// Nanoseconds for each byte that was written to STORAGE, or read from it.
  double run(const Order &order, bool write) {
    announce(order, write);
    const uint64_t before = moved(write);
    const double start = now_ns();
    for (const uint64_t number : order) lease(rig_.stream(), number, write);
    const double time = now_ns() - start;
    return time / static_cast<double>(moved(write) - before);
  }
  uint64_t moved(bool write) {
    const weir_pool_stats stats = rig_.stats();
    return write ? stats.storage_written_bytes : stats.storage_read_bytes;
  }
  weir_pool_stats stats() { return rig_.stats(); }

 private:
  void announce(const Order &order, bool write) {
    std::vector<weir_use> uses(order.size());
    std::vector<weir_operation> operations(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      uses[i] = WEIR_USE(buffers_[order[i]], write ? WEIR_DISCARD_WRITE : WEIR_READ);
      operations[i] = weir_operation{"bench", &uses[i], 1, 0, {0, 0}};
    }
    WEIR_BENCH_TRY(weir_announce(rig_.pool(), rig_.stream(), operations.data(), operations.size(),
                                 WEIR_ANNOUNCE_REPLACE));
  }

  Rig rig_;
  const uint64_t page_;
  std::vector<weir_buffer> buffers_;
};

std::vector<unsigned char> noise(uint64_t bytes) {
  std::vector<unsigned char> out(bytes);
  std::mt19937_64 random(7);
  for (uint64_t at = 0; at + 8 <= bytes; at += 8) {
    const uint64_t word = random();
    std::memcpy(&out[at], &word, 8);
  }
  return out;
}

weir_pool_desc describe(uint64_t page, uint64_t storage, const char *const *directory) {
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.page_size = desc.large_page_size = page;
  desc.host_budget = 16 * 16 * mib;
  desc.watermark_low_permille = 100;  // of a device this small a hundredth is less than a page
  desc.watermark_high_permille = 200;
  desc.storage_budget = storage;
  desc.storage_paths = directory;
  desc.storage_path_count = 1;
  return desc;
}

void throughput(const char *directory, const Raw &raw, const Memory &memory, uint64_t bytes) {
  for (const uint64_t page : {2 * mib, 32 * mib}) {
    const uint64_t count = bytes / page;
    Pages pages(describe(page, bytes, &directory), page, count, 128 * mib);
    pages.load(noise(mib));
    for (const bool random : {false, true}) {
      for (const bool write : {true, false}) {
        unsigned round = 0;
        const auto speed = [](double ns) { return 1e9 / ns / static_cast<double>(mib); };
        const Pair pair = interleave(
            repetitions, [&] { return speed(pages.run(order_of(count, random, ++round), write)); },
            [&] {
              const Order order = order_of(count, random, round);
              return speed(raw.run(page, order, write, memory) / static_cast<double>(bytes));
            });
        Json(write ? "tiers_storage_write" : "tiers_storage_read")
            .text("order", random ? "random" : "sequential")
            .number("page_mib", static_cast<double>(page / mib))
            .pair("weir_mib_per_s", "raw_mib_per_s", pair)
            .text("goal", "ratio >= 0.9")
            .print();
      }
    }
  }
}

/// Acquires of single pages of 2 MiB, cold, at random, against raw reads; `writing`: half of the pages are written anew
/// all the time by another thread, in the pool and on the raw file.
void latency(const char *directory, const Raw &raw, const Memory &memory, uint64_t bytes,
             bool writing) {
  constexpr uint64_t page = 2 * mib;
  const uint64_t count = bytes / page;
  const uint64_t reads = count / 2 / 4 * 4;  // each page once
  Pages pages(describe(page, bytes, &directory), page, count, 64 * mib);
  pages.load(noise(mib));
  const weir_stream reading = pages.add_stream();
  const weir_stream writings = pages.add_stream();
  std::vector<double> ours, theirs;
  const Order order = order_of(count / 2, true, 3);
  const uint64_t before = pages.stats().lifted_bytes;
  size_t next_own = 0, next_raw = 0;
  for (int part = 0; part < 4; ++part) {
    for (const bool own : {part % 2 == 0, part % 2 != 0}) {
      std::atomic<bool> stop{false};
      std::thread writer([&] {
        std::mt19937_64 random(9);
        while (writing && !stop.load()) {
          const uint64_t number = count / 2 + random() % (count / 2);
          if (own) {
            pages.lease(writings, number, true);
          } else {
            raw.transfer(page, number, true, memory.at(page));
          }
        }
      });
      for (uint64_t i = 0; i < reads / 4; ++i) {
        const uint64_t number = order[own ? next_own++ : next_raw++];
        const double start = now_ns();
        if (own) {
          pages.lease(reading, number, false);
        } else {
          raw.transfer(page, number, false, memory.at(0));
        }
        (own ? ours : theirs).push_back((now_ns() - start) / 1e3);
      }
      stop.store(true);
      writer.join();
    }
  }
  check(pages.stats().lifted_bytes - before == reads * page, "a page was not in STORAGE");
  Json(writing ? "tiers_demand_refill_beside_writes" : "tiers_demand_refill")
      .number("page_mib", static_cast<double>(page / mib))
      .number("weir_p50_us", at_share(ours, 0.5))
      .number("weir_p99_us", at_share(ours, 0.99))
      .number("raw_p50_us", at_share(theirs, 0.5))
      .number("raw_p99_us", at_share(theirs, 0.99))
      .number("ratio_p50", at_share(ours, 0.5) / at_share(theirs, 0.5))
      .number("ratio_p99", at_share(ours, 0.99) / at_share(theirs, 0.99))
      .print();
}

}  // namespace

int main(int argc, char **argv) {
  const char *directory = argc > 1 ? argv[1] : ".";
  const uint64_t size = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024;
  if (size < 1024 || size % 64 != 0) {  // several times what the pool holds above STORAGE
    std::fprintf(stderr, "bench_tiers: the contents' MiB: a multiple of 64 from 1024\n");
    return 1;
  }
  const uint64_t bytes = size * mib;
  const Raw raw(directory, bytes);
  const Memory memory;
  (void)raw.run(2 * mib, order_of(bytes / (2 * mib), false, 0), true, memory);
  throughput(directory, raw, memory, bytes);
  for (const bool writing : {false, true}) latency(directory, raw, memory, bytes, writing);
  return 0;
}
