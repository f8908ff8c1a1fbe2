// SPDX-License-Identifier: Apache-2.0
//
// The order in which the STORAGE tier's store does its work: its queue alone, piece by piece, with nothing behind it.

#include "core/tier/io_queue.hpp"

#include "tests/unit/storage_fixture.hpp"

#include <thread>

namespace {

using namespace weir::test;
using weir::tier::IoQueue;
using weir::tier::IoSleeper;
using weir::tier::Piece;
using weir::tier::Stripes;

constexpr uint64_t stripe = 512 * kib;

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

/// Transfers that lie one after the other in the line. Their memory is not looked at.
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
  lane.finish();  // no thread waited for that one
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

/// A lane that sleeps is woken for what it can do, one at a time, each by the one before.
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

/// Writes beyond it wait to be submitted, and go in the order in which they came: a long one, and behind it a short one
/// that would fit.
void the_write_behind_is_bounded(void **) {
  IoQueue::Limits limits = limits_of(100);
  limits.write_behind = 4 * stripe;
  IoQueue queue(line, limits);
  Lane lane(queue);
  Transfers transfers;
  StorageIo *first = transfers.add(queue, true, true, 3 * stripe);
  StorageIo *read = transfers.add(queue, false, false);
  StorageIo ios[2];
  std::atomic<int> submitted{0};
  std::vector<std::thread> writers;
  for (uint32_t i = 0; i < 2; ++i) {
    UnitSlot slot;
    slot.node = 0;
    slot.first = 100 * (i + 1) * static_cast<uint32_t>(stripe / unit);
    set(&ios[i], slot, first->memory, i == 0 ? 4 * stripe : stripe, true, true);
    writers.emplace_back([&queue, &submitted, io = &ios[i]] {
      queue.submit(io);
      ++submitted;
    });
    // It counts as under way from when it has its number.
    while (ios[i].pending.load() == 0) std::this_thread::yield();
    assert_true(stays(submitted, 0));
  }
  assert_ptr_equal(lane.start(), read);  // reads are not kept
  lane.finish();
  for (int i = 0; i < 3; ++i) assert_ptr_equal(lane.start(), first);
  lane.finish();
  lane.finish();
  assert_true(stays(submitted, 0));  // it is not done yet
  lane.finish();
  writers[0].join();
  assert_true(stays(submitted, 1));
  for (int i = 0; i < 4; ++i) assert_ptr_equal(lane.start(), &ios[0]);
  lane.finish_all();
  writers[1].join();
  assert_ptr_equal(lane.start(), &ios[1]);
  lane.finish_all();
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
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
