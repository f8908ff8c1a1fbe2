// SPDX-License-Identifier: Apache-2.0
//
// Transfers of the STORAGE tier's store that fail, fall short or are interrupted, at every position; and that what failed
// is told and can be done again.

#include "tests/unit/storage_fixture.hpp"

namespace {

using namespace weir::test;
using weir::Status;

constexpr uint64_t slot_bytes = 700 * kib;  // two or three pieces each

/// Every call does less than it is asked for.
void short_transfers(void **) {
  each_way([](const Way &way) {
    for (const int64_t most : {int64_t{1000}, int64_t{4096}, int64_t{70000}}) {
      Script hook;
      std::atomic<bool> started{false};
      std::atomic<uint64_t> calls{0};
      hook.answer = [&](IoCall call, uint64_t) -> int64_t {
        if (!started || (call != IoCall::read && call != IoCall::write)) return 0;
        ++calls;
        return most;
      };
      Place place(way, 4 * mib, &hook);
      StorageStore &store = place.open();
      started = true;
      Memory memory(slot_bytes);
      memory.fill(1);
      const UnitSlot slot = store.allocate(slot_bytes);
      good(transfer(store, slot, memory.data(), slot_bytes, true));
      std::memset(memory.data(), 0, slot_bytes);
      good(transfer(store, slot, memory.data(), slot_bytes, false));
      assert_true(memory.holds(1));
      assert_true(calls >= 2 * slot_bytes / 73728);
    }
  });
}

/// Interrupted calls are made again, but not for ever.
void interrupted_transfers(void **) {
  each_way([](const Way &way) {
    Script hook;
    std::atomic<bool> started{false};
    std::atomic<uint64_t> calls{0};
    std::atomic<bool> always{false};
    hook.answer = [&](IoCall, uint64_t) -> int64_t {
      if (!started) return 0;
      const uint64_t call = ++calls;
      if (always) return -EAGAIN;
      return call % 3 == 0 ? 0 : call % 3 == 1 ? -EINTR : -EAGAIN;
    };
    Place place(way, 4 * mib, &hook);
    StorageStore &store = place.open();
    started = true;
    Memory memory(slot_bytes);
    memory.fill(1);
    const UnitSlot slot = store.allocate(slot_bytes);
    good(transfer(store, slot, memory.data(), slot_bytes, true));
    std::memset(memory.data(), 0, slot_bytes);
    good(transfer(store, slot, memory.data(), slot_bytes, false));
    assert_true(memory.holds(1));
    assert_int_equal(store.errors(), 0);
    always = true;
    bad(transfer(store, slot, memory.data(), slot_bytes, false), WEIR_ERROR_IO, EAGAIN, "read");
    assert_int_equal(store.errors(), 1);
  });
}

/// The file is not as long as it was made: another program's doing, and an error like any other.
void a_file_that_ends_early(void **) {
  for (const bool uring : {true, false}) {
    Place place(Way{uring, true, 1, false}, 4 * mib);
    StorageStore &store = place.open();
    Memory memory(4 * mib);
    const UnitSlot slot = store.allocate(4 * mib);
    good(transfer(store, slot, memory.data(), 4 * mib, true));
    assert_int_equal(ftruncate(files_in(place.config.directories[0])[0], 2 * mib), 0);
    bad(transfer(store, slot, memory.data(), 4 * mib, false), WEIR_ERROR_IO, EIO,
        place.config.directories[0].c_str());
    // Of the pieces beyond the end, which are read in any order.
    assert_non_null(std::strstr(weir::last_error().text, "at offset "));
    assert_non_null(std::strstr(weir::last_error().text, ": Input/output error"));
    good(transfer(store, slot, memory.data(), 2 * mib, false));
  }
}

/// The n-th call fails, for every n there is: at the start, in a write, in a read. One thing fails and says so, or
/// there is another way to do it; done again, it works, and all else is as it was.
void every_call_fails_once(void **) {
  each_way([](const Way &way) {
    uint64_t calls_seen = 0;
    uint64_t starts = 0;
    uint64_t transfers = 0;
    for (uint64_t n = 1; n == 1 || n <= calls_seen; ++n) {
      Script hook;
      std::atomic<uint64_t> calls{0};
      hook.answer = [&](IoCall, uint64_t) -> int64_t { return ++calls == n ? -EIO : 0; };
      Place place(way, 4 * mib, &hook);
      StorageStore store(place.config, {}, std::pmr::new_delete_resource());
      if (const Status status = store.start(); !status) {
        ++starts;
        assert_int_equal(status.code(), WEIR_ERROR_IO);
        assert_int_equal(weir::last_error().detail.native, EIO);
        for (const std::string &path : place.config.directories)
          assert_int_equal(files_in(path).size(), 0);
        good(store.start());
      }
      Memory memory(slot_bytes);
      UnitSlot slots[3];
      const auto twice = [&](UnitSlot slot, bool write) {
        const Status status = transfer(store, slot, memory.data(), slot_bytes, write);
        if (status) return;
        ++transfers;
        assert_int_equal(store.errors(), 1);
        bad(status, WEIR_ERROR_IO, EIO, "/weir-test-");
        good(transfer(store, slot, memory.data(), slot_bytes, write));
      };
      for (uint64_t i = 0; i < 3; ++i) {
        slots[i] = store.allocate(slot_bytes);
        memory.fill(i);
        twice(slots[i], true);
      }
      for (uint64_t i = 0; i < 3; ++i) {
        std::memset(memory.data(), 0, slot_bytes);
        twice(slots[i], false);
        assert_true(memory.holds(i));
      }
      if (n == 1) calls_seen = calls.load();
    }
    assert_int_equal(
        starts,
        2 * way.directories);  // open and preallocate; the probe of O_DIRECT has another way
    assert_true(transfers >= 12);
  });
}

/// The store hands on what the disk gave it: to tell is its user's.
void damage_arrives(void **) {
  for (const bool encrypt : {false, can_encrypt()}) {
    Script hook;
    Place place(Way{true, true, 1, encrypt}, 4 * mib, &hook);
    StorageStore &store = place.open();
    Memory memory(slot_bytes);
    memory.fill(1);
    const UnitSlot slot = store.allocate(slot_bytes);
    good(transfer(store, slot, memory.data(), slot_bytes, true));
    std::atomic<bool> done{false};
    hook.damage = [&](unsigned char *bytes, uint64_t) {
      if (!done.exchange(true)) bytes[5000] ^= 1U;
    };
    good(transfer(store, slot, memory.data(), slot_bytes, false));
    assert_false(memory.holds(1));
    hook.damage = {};
    // In the clear it is the one byte; encrypted, the block of 16 it lies in.
    Memory expected(slot_bytes);
    expected.fill(1);
    uint64_t differ = 0;
    for (uint64_t i = 0; i < slot_bytes; ++i) {
      if (memory.data()[i] == expected.data()[i]) continue;
      ++differ;
      assert_true(encrypt ? i % (512 * kib) / 16 == 5000 / 16 : i % (512 * kib) == 5000);
    }
    assert_true(encrypt ? differ > 8 : differ == 1);
    good(transfer(store, slot, memory.data(), slot_bytes, false));
    assert_true(memory.holds(1));
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(short_transfers),        cmocka_unit_test(interrupted_transfers),
      cmocka_unit_test(a_file_that_ends_early), cmocka_unit_test(every_call_fails_once),
      cmocka_unit_test(damage_arrives),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
