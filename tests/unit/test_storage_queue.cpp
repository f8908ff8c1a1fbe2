// SPDX-License-Identifier: Apache-2.0
//
// The order in which the STORAGE tier's store does its work: first the queue alone, piece by piece, with nothing behind
// it; then stores, held at a point by their hook, and many threads at once.

#include "core/tier/io_queue.hpp"

#include "tests/unit/storage_fixture.hpp"

#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

namespace {

using namespace weir::test;
using weir::tier::IoQueue;
using weir::tier::IoSleeper;
using weir::tier::Piece;
using weir::tier::Stripes;

constexpr uint64_t stripe = 512 * kib;

// ---- the queue alone ----

class Lane : public IoSleeper {
 public:
  explicit Lane(IoQueue &queue) : queue_(queue) {}
  void wake() noexcept override { ++wakes; }
  /// The transfer whose piece is started now, or null.
  StorageIo *start(bool writes = true) {
    Piece piece;
    if (queue_.next(this, writes, &piece) != IoQueue::Next::piece) return nullptr;
    under_way.push_back(piece);
    return piece.io;
  }
  void finish(size_t index = 0, int error = 0) {
    const Piece piece = under_way[index];
    under_way.erase(under_way.begin() + static_cast<int64_t>(index));
    queue_.finish(piece, error);
  }
  void finish_all() {
    while (!under_way.empty()) finish();
  }

  std::vector<Piece> under_way;
  int wakes = 0;

 private:
  IoQueue &queue_;
};

/// Transfers that lie one after the other in the line. Nobody looks at their memory.
class Transfers {
 public:
  StorageIo *add(IoQueue &queue, bool write, bool background, uint64_t bytes = stripe) {
    all_.push_back(std::make_unique<StorageIo>());
    StorageIo *io = all_.back().get();
    UnitSlot slot;
    slot.node = 0;
    slot.first = static_cast<uint32_t>(end_ / unit);
    end_ += bytes;
    set(io, slot, reinterpret_cast<void *>(uintptr_t{1} << 40U), bytes, write, background);
    queue.submit(io);
    return io;
  }

 private:
  std::vector<std::unique_ptr<StorageIo>> all_;
  uint64_t end_ = 0;
};

IoQueue::Limits limits_of(uint64_t pieces) {
  IoQueue::Limits limits;
  limits.demand_reads = limits.background_reads = limits.writes = pieces * stripe;
  limits.writes_beside_demand = pieces * stripe;
  limits.reads_per_write = 1000 * stripe;
  limits.quiet_ns = 0;
  return limits;
}

const Stripes line(uint64_t{1} << 40U, 1, stripe);

void every_byte_once(void **) {
  for (const uint32_t files : {1U, 2U, 3U, 16U}) {
    for (const uint64_t bytes :
         {unit, stripe, 7 * stripe + unit, 48 * stripe, 48 * stripe - unit}) {
      const Stripes stripes(bytes, files, stripe);
      std::vector<uint64_t> ends(files, 0);
      uint64_t total = 0;
      for (uint64_t at = 0; at < bytes;) {
        const Stripes::Run run = stripes.run(at, bytes - at);
        assert_int_equal(run.offset, ends[run.file]);  // dense and in order in every file
        assert_true(run.bytes != 0 && run.bytes % unit == 0 && run.bytes <= stripe);
        ends[run.file] += run.bytes;
        at += run.bytes;
      }
      for (uint32_t i = 0; i < files; ++i) {
        assert_int_equal(stripes.file_bytes(i), ends[i]);
        total += ends[i];
      }
      assert_int_equal(total, bytes);
    }
  }
}

void reads_go_first(void **) {
  IoQueue queue(line, limits_of(100));
  Lane lane(queue);
  Transfers transfers;
  StorageIo *background_write = transfers.add(queue, true, true);
  StorageIo *write = transfers.add(queue, true, false);
  StorageIo *background_read = transfers.add(queue, false, true, 2 * stripe);
  StorageIo *first = transfers.add(queue, false, false);
  StorageIo *second = transfers.add(queue, false, false);
  assert_ptr_equal(lane.start(), first);
  assert_ptr_equal(lane.start(), second);
  assert_ptr_equal(lane.start(), background_read);
  StorageIo *late = transfers.add(queue, false, false);  // between two pieces of another
  assert_ptr_equal(lane.start(), late);
  assert_ptr_equal(lane.start(), background_read);
  assert_ptr_equal(lane.start(), write);
  assert_ptr_equal(lane.start(), background_write);
  assert_null(lane.start());
  lane.finish_all();
  assert_int_equal(late->pending.load(), 0);
}

void writes_are_few_beside_demand_reads(void **) {
  IoQueue::Limits limits = limits_of(8);
  limits.writes_beside_demand = 2 * stripe;
  IoQueue queue(line, limits);
  Lane lane(queue);
  Transfers transfers;
  for (int i = 0; i < 32; ++i) transfers.add(queue, true, i % 2 == 0);
  for (int i = 0; i < 8; ++i) assert_non_null(lane.start());
  assert_null(lane.start());
  StorageIo *read = transfers.add(queue, false, false);
  assert_ptr_equal(lane.start(), read);
  for (int i = 0; i < 6; ++i) {
    lane.finish();
    assert_null(lane.start());  // more than two are under way
  }
  lane.finish();
  assert_non_null(lane.start());
  assert_null(lane.start());
  assert_int_equal(lane.under_way.size(), 3);
  // The read is done, and writes are as many as before.
  for (size_t i = 0; i < lane.under_way.size(); ++i) {
    if (lane.under_way[i].io == read) {
      lane.finish(i);
      break;
    }
  }
  for (int i = 0; i < 6; ++i) assert_non_null(lane.start());
  assert_null(lane.start());
  lane.finish_all();
  while (lane.start() != nullptr) lane.finish_all();
}

/// Where a demand read was, more are to come: writes stay few for a while.
void writes_stay_few_after_demand_reads(void **) {
  IoQueue::Limits limits = limits_of(8);
  limits.writes_beside_demand = 2 * stripe;
  limits.quiet_ns = int64_t{3600} * 1'000'000'000;
  IoQueue queue(line, limits);
  Lane lane(queue);
  Transfers transfers;
  transfers.add(queue, false, true);
  assert_non_null(lane.start());
  lane.finish();  // nobody waited for that one
  for (int i = 0; i < 6; ++i) transfers.add(queue, true, true);
  for (int i = 0; i < 6; ++i) assert_non_null(lane.start());
  lane.finish_all();
  transfers.add(queue, false, false);
  assert_non_null(lane.start());
  lane.finish();
  for (int i = 0; i < 6; ++i) transfers.add(queue, true, true);
  assert_non_null(lane.start());
  assert_non_null(lane.start());
  assert_null(lane.start());
  lane.finish_all();
  while (lane.start() != nullptr) lane.finish_all();
}

/// A piece that is longer than a limit is still done.
void nothing_is_too_long(void **) {
  IoQueue::Limits limits = limits_of(1);
  limits.demand_reads = limits.background_reads = limits.writes = limits.writes_beside_demand =
      unit;
  limits.write_behind = unit;
  IoQueue queue(line, limits);
  Lane lane(queue);
  Transfers transfers;
  for (const bool write : {false, true}) {
    for (const bool background : {false, true}) {
      StorageIo *io = transfers.add(queue, write, background, 3 * stripe);
      for (int i = 0; i < 3; ++i) {
        assert_ptr_equal(lane.start(), io);
        assert_null(lane.start());
        lane.finish();
      }
      assert_int_equal(io->pending.load(), 0);
    }
  }
}

/// Whatever else there is, a demand read finds a lane that takes it.
void room_for_demand_reads(void **) {
  IoQueue::Limits limits = limits_of(100);
  limits.other_pieces = 6;
  IoQueue queue(line, limits);
  Lane lane(queue);
  Transfers transfers;
  for (int i = 0; i < 10; ++i) transfers.add(queue, i % 2 == 0, i % 3 == 0, unit);
  int demand = 0;
  while (const StorageIo *io = lane.start()) demand += !io->write && !io->background ? 1 : 0;
  assert_int_equal(lane.under_way.size(), static_cast<size_t>(demand) + 6);
  assert_non_null(transfers.add(queue, false, false));
  assert_non_null(lane.start());
  lane.finish_all();
  while (lane.start() != nullptr) lane.finish_all();
}

/// Reads without end do not keep a write from the disk for ever.
void writes_get_a_turn(void **) {
  IoQueue::Limits limits = limits_of(100);
  limits.reads_per_write = 4 * stripe;
  IoQueue queue(line, limits);
  Lane lane(queue);
  Transfers transfers;
  std::string order;
  for (int i = 0; i < 3; ++i) transfers.add(queue, true, true);
  for (int i = 0; i < 20; ++i) transfers.add(queue, false, i % 2 == 0);
  while (const StorageIo *io = lane.start()) {
    order += io->write ? 'w' : 'r';
    lane.finish();
  }
  assert_string_equal(order.c_str(), "rrrrwrrrrwrrrrwrrrrrrrr");
}

/// One piece fails: the rest of its transfer is not started, the others are not touched, and it is told once.
void a_piece_fails(void **) {
  IoQueue queue(line, limits_of(100));
  Lane lane(queue);
  Transfers transfers;
  StorageIo *io = transfers.add(queue, false, false, 5 * stripe);
  StorageIo *after = transfers.add(queue, false, false);
  for (int i = 0; i < 3; ++i) assert_ptr_equal(lane.start(), io);
  lane.finish(1, EIO);
  assert_ptr_equal(lane.start(), after);
  assert_null(lane.start());
  assert_int_equal(io->pending.load(), 1);  // two are still under way
  lane.finish(0, ENOSPC);
  assert_int_equal(io->pending.load(), 1);
  lane.finish(0);
  assert_int_equal(io->pending.load(), 0);
  assert_int_equal(io->error, EIO);
  assert_int_equal(io->error_offset, stripe);
  assert_int_equal(queue.errors(), 1);
  assert_int_equal(queue.read_bytes(), stripe);
  lane.finish();
  assert_int_equal(after->error, 0);
  assert_int_equal(after->pending.load(), 0);
}

/// Who sleeps is woken for what it can do, one at a time, each by the one before.
void lanes_are_woken(void **) {
  IoQueue queue(line, limits_of(2));
  Lane one(queue), other(queue);
  Transfers transfers;
  assert_null(one.start());
  assert_null(other.start());
  transfers.add(queue, false, false);
  assert_int_equal(one.wakes + other.wakes, 1);
  Lane &woken = one.wakes == 1 ? one : other;
  Lane &asleep = one.wakes == 1 ? other : one;
  assert_non_null(woken.start());
  assert_int_equal(asleep.wakes, 0);  // there is nothing for it
  assert_null(woken.start());         // asleep again
  transfers.add(queue, false, false, 2 * stripe);
  assert_int_equal(one.wakes + other.wakes, 2);
  assert_non_null(asleep.start());  // the other comes by itself
  assert_null(asleep.start());      // two are under way: it is at the limit
  woken.finish();
  assert_non_null(woken.start());
  woken.finish_all();
  asleep.finish_all();
  assert_null(one.start());
  assert_null(other.start());
  const int before = one.wakes + other.wakes;
  queue.stop();
  assert_int_equal(one.wakes + other.wakes, before + 2);
  Piece piece;
  assert_int_equal(queue.next(&one, true, &piece), IoQueue::Next::stop);
}

/// A thread that has got so far can't be told from one that is about to: it gets the time to be caught.
bool stays(const std::atomic<int> &value, int expected) {
  for (int i = 0; i < 2000; ++i) {
    if (value.load() != expected) return false;
    std::this_thread::yield();
  }
  return true;
}

void the_write_behind_is_bounded(void **) {
  IoQueue::Limits limits = limits_of(100);
  limits.write_behind = 4 * stripe;
  IoQueue queue(line, limits);
  Lane lane(queue);
  Transfers transfers;
  StorageIo *first = transfers.add(queue, true, true, 3 * stripe);
  std::atomic<int> submitted{0};
  // A long one, and behind it a short one that would fit: they go in the order in which they came.
  std::thread writer([&] {
    Transfers own;
    for (const uint64_t bytes : {4 * stripe, stripe}) {
      StorageIo *io = own.add(queue, true, true, bytes);
      ++submitted;
      queue.wait(io);
    }
  });
  assert_true(stays(submitted, 0));
  // Reads are not kept.
  StorageIo *read = transfers.add(queue, false, false);
  assert_ptr_equal(lane.start(), read);
  lane.finish();
  for (int i = 0; i < 3; ++i) assert_ptr_equal(lane.start(), first);
  lane.finish();
  lane.finish();
  assert_true(stays(submitted, 0));  // it is not done yet
  lane.finish();
  while (submitted.load() != 1) std::this_thread::yield();
  for (int i = 0; i < 4; ++i) assert_non_null(lane.start());
  lane.finish_all();
  while (submitted.load() != 2) std::this_thread::yield();
  assert_non_null(lane.start());
  lane.finish_all();
  writer.join();
}

// ---- stores ----

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
  gate.await(6);  // as many of its 8 threads as may write
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
      cmocka_unit_test(every_byte_once),
      cmocka_unit_test(reads_go_first),
      cmocka_unit_test(writes_are_few_beside_demand_reads),
      cmocka_unit_test(writes_stay_few_after_demand_reads),
      cmocka_unit_test(nothing_is_too_long),
      cmocka_unit_test(room_for_demand_reads),
      cmocka_unit_test(writes_get_a_turn),
      cmocka_unit_test(a_piece_fails),
      cmocka_unit_test(lanes_are_woken),
      cmocka_unit_test(the_write_behind_is_bounded),
      cmocka_unit_test(reads_overtake_writes),
      cmocka_unit_test(reads_do_not_wait_for_writes),
      cmocka_unit_test(a_full_write_behind),
      cmocka_unit_test(many_threads),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
