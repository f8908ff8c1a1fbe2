// SPDX-License-Identifier: Apache-2.0
//
// The STORAGE tier's store against the plainest way to do the same: as many threads as there are pages under way, each
// with pread or pwrite of whole pages under O_DIRECT, on a file of its own in the same directory. Whole pages in order
// and at random; then how long a demand read takes, alone and beside writes that never end.
//
//   bench_storage [directory] [MiB of each file]
//
// WEIR_BENCH_THREADS=1: the store without io_uring; WEIR_BENCH_ENCRYPT=1: the store with its cipher (raw without).
//
// The files are written once before anything is timed. It must never judge: it exits 0 whatever the numbers are, and 1
// only if a call fails or a byte is wrong. It uses twice the MiB told (1024 by default).

#include "bench/common.hpp"
#include "bench/raw_file.hpp"
#include "core/tier/storage_store.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <numeric>
#include <random>
#include <thread>

namespace {

using namespace weir::bench;
using weir::tier::StorageConfig;
using weir::tier::StorageIo;
using weir::tier::StorageStore;
using weir::tier::UnitSlot;

constexpr int repetitions = 5;
constexpr int latencies = 400;

void check(weir::Status status) {
  if (status) return;
  std::fprintf(stderr, "bench_storage: %s\n", weir::last_error().text);
  std::exit(1);
}

class Store {
 public:
  Store(const char *directory, uint64_t bytes, const Memory &memory)
      : store_(config(directory, bytes), {}, std::pmr::new_delete_resource()) {
    check(store_.start());
    whole_ = store_.allocate(bytes);
    store_.add_memory(memory.at(0), window_bytes);
  }
  StorageStore &store() { return store_; }

  /// A page as a slot: a part of the one that is all of the store.
  void set(StorageIo *io, uint64_t page, uint64_t number, bool write, unsigned char *memory) const {
    io->slot = whole_;
    io->slot.first = static_cast<uint32_t>(number * page / StorageStore::unit);
    io->memory = memory;
    io->bytes = page;
    io->write = write;
  }

  double run(uint64_t page, const Order &order, bool write, const Memory &memory) {
    const uint64_t depth = window_bytes / page;
    const std::unique_ptr<StorageIo[]> ios = std::make_unique<StorageIo[]>(depth);
    const double start = now_ns();
    const auto end = [&](uint64_t at) {
      check(store_.wait(&ios[at % depth]));
      if (!write) verify(memory.at(at % depth * page), order[at]);
    };
    for (uint64_t at = 0; at < order.size(); ++at) {
      if (at >= depth) end(at - depth);
      unsigned char *place = memory.at(at % depth * page);
      if (write) mark(place, order[at]);
      set(&ios[at % depth], page, order[at], write, place);
      store_.submit(&ios[at % depth]);
    }
    for (uint64_t at = order.size() < depth ? 0 : order.size() - depth; at < order.size(); ++at)
      end(at);
    return now_ns() - start;
  }

 private:
  static StorageConfig config(const char *directory, uint64_t bytes) {
    StorageConfig config;
    config.directories = {directory};
    config.budget = bytes;
    config.encrypt = std::getenv("WEIR_BENCH_ENCRYPT") != nullptr;
    config.uring = std::getenv("WEIR_BENCH_THREADS") == nullptr;
    return config;
  }

  StorageStore store_;
  UnitSlot whole_;
};

/// Half of the file's pages: in order from one end or the other, or at random.
Order order_of(uint64_t pages, bool random, unsigned round) {
  Order order(pages);
  std::iota(order.begin(), order.end(), 0);
  if (random) std::shuffle(order.begin(), order.end(), std::mt19937_64(round));
  if (!random && round % 2 != 0)
    std::rotate(order.begin(), order.begin() + static_cast<int64_t>(pages / 2), order.end());
  order.resize(pages / 2);
  return order;
}

void throughput(Store &store, const Raw &raw, uint64_t bytes, const Memory &memory) {
  for (const uint64_t page : {2 * mib, 32 * mib}) {
    Order all(bytes / page);
    std::iota(all.begin(), all.end(), 0);
    store.run(page, all, true, memory);
    raw.run(page, all, true, memory);
    for (const bool random : {false, true}) {
      for (const bool write : {true, false}) {
        unsigned round = 0;
        unsigned raw_round = 0;
        const auto speed = [&](double ns) {
          return static_cast<double>(bytes / 2 / mib) / ns * 1e9;
        };
        const Pair pair = interleave(
            repetitions,
            [&] {
              return speed(store.run(page, order_of(bytes / page, random, round++), write, memory));
            },
            [&] {
              return speed(
                  raw.run(page, order_of(bytes / page, random, raw_round++), write, memory));
            });
        Json(write ? "storage_write" : "storage_read")
            .text("order", random ? "random" : "sequential")
            .text("how", store.store().how())
            .text("raw", raw.direct() ? "threads, O_DIRECT" : "threads, page cache")
            .number("page_mib", static_cast<double>(page / mib))
            .pair("weir_mib_per_s", "raw_mib_per_s", pair)
            .text("goal", "ratio >= 0.9")
            .print();
      }
    }
  }
}

/// Writes that never end, as a demotion in the background makes them: some pages queued at all times.
class StoreWriter {
 public:
  StoreWriter(Store &store, uint64_t pages, const Memory &memory)
      : store_(store), pages_(pages), memory_(memory), thread_([this] { run(); }) {}
  double stop() {
    stopping_.store(true);
    thread_.join();
    return mib_per_s_;
  }

 private:
  static constexpr uint64_t page = 2 * mib;
  static constexpr uint64_t depth = 16;
  void run() {
    StorageIo ios[depth];
    const double start = now_ns();
    uint64_t count = 0;
    for (; !stopping_.load(); ++count) {
      StorageIo &io = ios[count % depth];
      check(store_.store().wait(&io));
      store_.set(&io, page, pages_ / 2 + count % (pages_ / 2), true, memory_.at(count * page));
      io.background = true;
      store_.store().submit(&io);
    }
    for (StorageIo &io : ios) check(store_.store().wait(&io));
    mib_per_s_ = static_cast<double>(count * page / mib) / (now_ns() - start) * 1e9;
  }
  Store &store_;
  uint64_t pages_;
  const Memory &memory_;
  double mib_per_s_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// The same with nothing that minds the reads: as many threads as the store's writer has pages.
class RawWriter {
 public:
  RawWriter(const Raw &raw, uint64_t pages, const Memory &memory) : start_(now_ns()) {
    for (uint64_t i = 0; i < 16; ++i) {
      threads_.emplace_back([this, &raw, pages, place = memory.at(i * page)] {
        while (!stopping_.load())
          raw.transfer(page, pages / 2 + count_.fetch_add(1) % (pages / 2), true, place);
      });
    }
  }
  double stop() {
    stopping_.store(true);
    for (std::thread &thread : threads_) thread.join();
    return static_cast<double>(count_.load() * page / mib) / (now_ns() - start_) * 1e9;
  }

 private:
  static constexpr uint64_t page = 2 * mib;
  double start_;
  std::atomic<uint64_t> count_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

/// One page at a time, at random in the half of the file that nobody writes.
void latency(Store &store, const Raw &raw, uint64_t bytes, const Memory &memory) {
  constexpr uint64_t page = 2 * mib;
  const uint64_t pages = bytes / page;
  const Memory target;
  store.store().add_memory(target.at(0), page);
  std::mt19937_64 random(1);
  const auto number = [&] { return random() % (pages / 2); };
  const auto store_read = [&] {
    StorageIo io;
    store.set(&io, page, number(), false, target.at(0));
    const double start = now_ns();
    store.store().submit(&io);
    check(store.store().wait(&io));
    return (now_ns() - start) / 1e3;
  };
  const auto raw_read = [&] {
    const uint64_t at = number();
    const double start = now_ns();
    raw.transfer(page, at, false, target.at(0));
    return (now_ns() - start) / 1e3;
  };
  for (const bool writing : {false, true}) {
    std::vector<double> store_times, raw_times;
    double store_rate = 0, raw_rate = 0;
    for (int part = 0; part < 4; ++part) {  // alternating, as in interleave()
      const auto measure_store = [&] {
        std::unique_ptr<StoreWriter> writer;
        if (writing) writer = std::make_unique<StoreWriter>(store, pages, memory);
        for (int i = 0; i < latencies / 4; ++i) store_times.push_back(store_read());
        if (writer) store_rate += writer->stop() / 4;
      };
      const auto measure_raw = [&] {
        std::unique_ptr<RawWriter> writer;
        if (writing) writer = std::make_unique<RawWriter>(raw, pages, memory);
        for (int i = 0; i < latencies / 4; ++i) raw_times.push_back(raw_read());
        if (writer) raw_rate += writer->stop() / 4;
      };
      if (part % 2 == 0) measure_store();
      measure_raw();
      if (part % 2 != 0) measure_store();
    }
    Json(writing ? "storage_demand_read_beside_writes" : "storage_demand_read")
        .text("how", store.store().how())
        .number("page_mib", static_cast<double>(page / mib))
        .number("weir_p50_us", at_share(store_times, 0.5))
        .number("weir_p99_us", at_share(store_times, 0.99))
        .number("raw_p50_us", at_share(raw_times, 0.5))
        .number("raw_p99_us", at_share(raw_times, 0.99))
        .number("ratio_p50", at_share(store_times, 0.5) / at_share(raw_times, 0.5))
        .number("ratio_p99", at_share(store_times, 0.99) / at_share(raw_times, 0.99))
        .number("weir_write_mib_per_s", store_rate)
        .number("raw_write_mib_per_s", raw_rate)
        .print();
  }
  store.store().remove_memory(target.at(0));
}

}  // namespace

int main(int argc, char **argv) {
  const char *directory = argc > 1 ? argv[1] : ".";
  const uint64_t size = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024;
  if (size < 256 || size % 64 != 0) {
    std::fprintf(stderr, "bench_storage: the files' MiB: a multiple of 64 from 256\n");
    return 1;
  }
  const uint64_t bytes = size * mib;
  const Memory memory;
  Store store(directory, bytes, memory);
  const Raw raw(directory, bytes);
  throughput(store, raw, bytes, memory);
  latency(store, raw, bytes, memory);
  return 0;
}
