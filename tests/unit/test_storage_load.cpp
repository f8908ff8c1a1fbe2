// SPDX-License-Identifier: Apache-2.0
//
// The STORAGE tier's store with much to do at once: held at a point by its hook, and by many threads.

#include "tests/unit/storage_fixture.hpp"

#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

namespace {

using namespace weir::test;

/// Holds every write at its start, until it is opened; keeps the order in which pieces are started.
class WriteGate : public IoHook {
 public:
  int64_t before(IoCall call, uint64_t) noexcept override {
    if (call != IoCall::read && call != IoCall::write) return 0;
    std::unique_lock hold(mutex_);
    if (!armed_) return 0;
    order_ += call == IoCall::read ? 'r' : 'w';
    changed_.notify_all();
    if (call == IoCall::write) changed_.wait(hold, [this] { return open_; });
    return 0;
  }
  void arm() {
    std::lock_guard hold(mutex_);
    armed_ = true;
  }
  void await(size_t count) {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [&] { return order_.size() >= count; });
  }
  void open() {
    std::lock_guard hold(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  std::string order() {
    std::lock_guard hold(mutex_);
    return order_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string order_;
  bool armed_ = false;
  bool open_ = false;
};

/// One lane, held in its first write: what came after it but is a read goes before the rest of it.
void reads_overtake_writes(void **) {
  for (const bool uring : {true, false}) {
    WriteGate gate;
    Place place(Way{uring, true, 1, false}, 8 * mib, &gate);
    place.config.threads = 1;
    StorageStore &store = place.open();
    Memory memory(8 * mib);
    const UnitSlot written = store.allocate(2 * mib);
    const UnitSlot slots[2] = {store.allocate(mib), store.allocate(mib)};
    gate.arm();
    StorageIo write, background, demand;
    set(&write, written, memory.data(), 2 * mib, true);
    store.submit(&write);
    gate.await(1);
    set(&background, slots[0], memory.data() + 2 * mib, mib, false, true);
    set(&demand, slots[1], memory.data() + 4 * mib, mib, false);
    store.submit(&background);
    store.submit(&demand);
    gate.open();
    good(store.wait(&write));
    good(store.wait(&background));
    good(store.wait(&demand));
    assert_string_equal(gate.order().c_str(), "wrrrrwww");
  }
}

/// With every write held, reads are done.
void reads_do_not_wait_for_writes(void **) {
  WriteGate gate;
  Place place(Way{false, true, 1, false}, 32 * mib, &gate);
  place.config.threads = 8;
  StorageStore &store = place.open();
  Memory memory(16 * mib);
  const UnitSlot slot = store.allocate(mib);
  std::vector<std::unique_ptr<StorageIo>> writes;
  gate.arm();
  for (int i = 0; i < 10; ++i) {
    writes.push_back(std::make_unique<StorageIo>());
    set(writes.back().get(), store.allocate(mib), memory.data(), mib, true, true);
    store.submit(writes.back().get());
  }
  gate.await(6);  // as many of its threads as may write
  good(transfer(store, slot, memory.data(), mib, false));
  gate.open();
  for (auto &io : writes) good(store.wait(io.get()));
}

/// A write that finds the write-behind full waits in submit().
void a_full_write_behind(void **) {
  WriteGate gate;
  Place place(Way{true, true, 1, false}, 80 * mib, &gate);
  StorageStore &store = place.open();
  Memory memory(16 * mib);
  gate.arm();
  std::vector<std::unique_ptr<StorageIo>> writes;
  for (int i = 0; i < 5; ++i) {
    writes.push_back(std::make_unique<StorageIo>());
    set(writes.back().get(), store.allocate(16 * mib), memory.data(), 16 * mib, true, true);
  }
  for (int i = 0; i < 4; ++i) store.submit(writes[static_cast<size_t>(i)].get());
  std::atomic<int> submitted{0};
  std::thread writer([&] {
    store.submit(writes[4].get());
    ++submitted;
  });
  const bool waits = stays(submitted, 0);
  gate.open();
  writer.join();
  assert_true(waits);
  for (auto &io : writes) good(store.wait(io.get()));
}

/// Threads with slots of their own, all of them at the same store; every byte is looked at.
void many_threads(void **) {
  each_way([](const Way &way) {
    constexpr uint64_t most = mib;
    constexpr int threads = 4;
    Place place(way, threads * 3 * most);
    StorageStore &store = place.open();
    std::mutex pool;  // allocate() and free() are made under one
    std::atomic<int> wrong{0};
    const auto work = [&](uint64_t seed) {
      std::mt19937_64 random(seed);
      Memory memory(2 * most);
      if (seed % 2 == 0) store.add_memory(memory.data(), memory.bytes());
      for (int round = 0; round < 15; ++round) {
        UnitSlot slots[2];
        uint64_t bytes[2];
        StorageIo ios[2];
        for (size_t i = 0; i < 2; ++i) {
          bytes[i] = (random() % (most / unit) + 1) * unit;
          std::lock_guard hold(pool);
          slots[i] = store.allocate(bytes[i]);
          if (!slots[i]) ++wrong;
        }
        for (const bool write : {true, false}) {
          for (size_t i = 0; i < 2; ++i) {
            unsigned char *at = memory.data() + i * most;
            if (write) memory.fill(seed + static_cast<uint64_t>(round), i * most, bytes[i]);
            if (!write) std::memset(at, 0, bytes[i]);
            set(&ios[i], slots[i], at, bytes[i], write, random() % 2 == 0);
            store.submit(&ios[i]);
          }
          for (StorageIo &io : ios) {
            if (!store.wait(&io)) ++wrong;
          }
        }
        for (size_t i = 0; i < 2; ++i) {
          if (!memory.holds(seed + static_cast<uint64_t>(round), i * most, bytes[i])) ++wrong;
          std::lock_guard hold(pool);
          store.free(slots[i]);
        }
      }
      if (seed % 2 == 0) store.remove_memory(memory.data());
    };
    std::vector<std::thread> all;
    for (uint64_t i = 0; i < threads; ++i) all.emplace_back(work, i * 101);
    for (std::thread &thread : all) thread.join();
    assert_int_equal(wrong.load(), 0);
    assert_int_equal(store.used(), 0);
  });
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(reads_overtake_writes),
      cmocka_unit_test(reads_do_not_wait_for_writes),
      cmocka_unit_test(a_full_write_behind),
      cmocka_unit_test(many_threads),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
