// SPDX-License-Identifier: Apache-2.0
//
// The compressed store: slots that do not touch each other, memory that is resident while it is used and goes back to
// the system when it is not (asked of mincore), and refusals at the start.
//
// Must be reproducible: seeds are fixed, nothing depends on time.

#include "core/tier/compressed_store.hpp"
#include "tests/support/cmocka.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

using weir::tier::CompressedStore;
using weir::tier::UnitArena;
using weir::tier::UnitSlot;

constexpr uint64_t kib = uint64_t{1} << 10;
constexpr uint64_t mib = uint64_t{1} << 20;
constexpr uint64_t gib = uint64_t{1} << 30;
constexpr uint64_t unit = UnitArena::unit;

std::pmr::memory_resource *heap() { return std::pmr::new_delete_resource(); }

struct Store : CompressedStore {
  explicit Store(uint64_t budget) : CompressedStore(budget, heap()) { assert_true(start().ok()); }

  UnitSlot fill(uint64_t bytes, unsigned char value) {
    const UnitSlot slot = allocate(bytes);
    if (slot) std::memset(address(slot), value, bytes);
    return slot;
  }
  /// Bytes of the reservation that are in memory.
  uint64_t resident() {
    const uint64_t pages = budget() / unit;
    std::vector<unsigned char> map(pages);
    unsigned char *base = address(UnitSlot{0, 0});
    assert_int_equal(mincore(base, budget(), map.data()), 0);
    return unit * static_cast<uint64_t>(std::count_if(
                      map.begin(), map.end(), [](unsigned char m) { return (m & 1) != 0; }));
  }
};

void check_filled(const unsigned char *bytes, uint64_t count, unsigned char value) {
  for (uint64_t i = 0; i < count; ++i) {
    if (bytes[i] != value)
      fail_msg("byte %u is %u, not %u", static_cast<unsigned>(i), bytes[i], value);
  }
}

void slots(void **) {
  Store store(1 * mib + 100);
  assert_int_equal(store.budget(), 1 * mib);
  assert_false(static_cast<bool>(store.allocate(0)));
  assert_false(static_cast<bool>(store.allocate(1 * mib + 1)));
  const UnitSlot one = store.fill(1, 1), two = store.fill(4097, 2), three = store.fill(8192, 3);
  assert_int_equal(store.bytes(one), 4096);
  assert_int_equal(store.bytes(two), 8192);
  assert_int_equal(store.bytes(three), 8192);
  assert_int_equal(store.used(), 20480);
  assert_int_equal(store.room(), 1 * mib - 20480);
  check_filled(store.address(one), 1, 1);
  check_filled(store.address(two), 4097, 2);
  check_filled(store.address(three), 8192, 3);
  const UnitSlot rest = store.fill(1 * mib - 20480, 4);
  assert_true(static_cast<bool>(rest));
  assert_int_equal(store.room(), 0);
  assert_false(static_cast<bool>(store.allocate(1)));
  store.free(two);
  assert_int_equal(store.room(), 8192);
  const UnitSlot again = store.fill(8192, 5);
  assert_true(static_cast<bool>(again));
  check_filled(store.address(one), 1, 1);
  check_filled(store.address(rest), 1 * mib - 20480, 4);
  for (const UnitSlot slot : {one, three, rest, again}) store.free(slot);
  assert_int_equal(store.used(), 0);
}

void residency_follows_use(void **) {
  Store store(256 * mib);
  assert_int_equal(store.resident(), 0);
  std::vector<UnitSlot> slots;
  for (int i = 0; i < 64; ++i) slots.push_back(store.fill(1 * mib, 1));
  assert_int_equal(store.resident(), 64 * mib);
  // A little that is freed stays, and is used again.
  for (int i = 0; i < 8; ++i) store.free(slots[static_cast<size_t>(i)]);
  assert_int_equal(store.stale(), 8 * mib);
  assert_int_equal(store.resident(), 64 * mib);
  for (int i = 0; i < 8; ++i) slots[static_cast<size_t>(i)] = store.fill(1 * mib, 2);
  assert_int_equal(store.stale(), 0);
  assert_int_equal(store.resident(), 64 * mib);
  // Much does not, however often.
  for (int round = 0; round < 3; ++round) {
    for (const UnitSlot slot : slots) {
      store.free(slot);
      assert_true(store.stale() <= 16 * mib);
      assert_true(store.resident() <= store.used() + store.stale());
    }
    assert_int_equal(store.used(), 0);
    for (UnitSlot &slot : slots) slot = store.fill(1 * mib, 3);
  }
  for (const UnitSlot slot : slots) store.free(slot);
  // Nothing is left where it is asked for.
  const uint64_t left = store.resident();
  assert_true(store.trim() >= left);
  assert_int_equal(store.resident(), 0);
  assert_int_equal(store.stale(), 0);
  assert_int_equal(store.trim(), 0);
}

/// One slot of every two is freed: nothing lies together, and it goes back all the same.
void scattered(void **) {
  Store store(128 * mib);
  std::vector<UnitSlot> slots;
  for (uint64_t i = 0; i < 16384; ++i)
    slots.push_back(store.fill(4 * kib, static_cast<unsigned char>(i)));
  for (uint64_t i = 0; i < slots.size(); i += 2) {
    store.free(slots[i]);
    assert_true(store.stale() <= 16 * mib + 64 * kib);
  }
  assert_true(store.resident() <= store.used() + store.stale());
  store.trim();
  assert_int_equal(store.resident(), store.used());
  for (uint64_t i = 1; i < slots.size(); i += 2) {
    check_filled(store.address(slots[i]), 4 * kib, static_cast<unsigned char>(i));
  }
}

/// Of a big store a sixteenth stays; one that big is given back in steps.
void threshold_grows(void **) {
  Store store(2 * gib);
  std::vector<UnitSlot> slots;
  for (int i = 0; i < 64; ++i)
    slots.push_back(store.allocate(16 * mib));  // not touched: counts as it would be
  for (int i = 0; i < 3; ++i) store.free(slots[static_cast<size_t>(i)]);
  assert_int_equal(store.stale(), 48 * mib);  // of 976 used
  for (int i = 3; i < 6; ++i) store.free(slots[static_cast<size_t>(i)]);
  assert_true(store.stale() <= 928 / 16 * mib);
  assert_true(store.stale() >= 16 * mib);
  for (int i = 6; i < 64; ++i) store.free(slots[static_cast<size_t>(i)]);
  assert_true(store.stale() <= 16 * mib);
}

/// Slots of every size come and go. What is in them stays, and no more is resident than the store says.
void churn(void **) {
  std::mt19937_64 random(5);
  Store store(96 * mib);
  struct Held {
    UnitSlot slot;
    uint64_t bytes;
    unsigned char value;
  };
  std::vector<Held> held;
  uint64_t used = 0;
  for (int step = 0; step < 6000; ++step) {
    const uint64_t want =
        24 + (static_cast<uint64_t>(step) / 500 % 2) * 48;  // MiB, now few, now many
    if (used < want * mib && random() % 4 != 0) {
      const uint64_t bytes = 1 + random() % (uint64_t{1} << (8 + random() % 12));
      const auto value = static_cast<unsigned char>(random());
      const UnitSlot slot = store.fill(bytes, value);
      if (!slot) continue;
      assert_int_equal(store.bytes(slot), UnitArena::rounded(bytes));
      held.push_back({slot, bytes, value});
      used += UnitArena::rounded(bytes);
    } else if (!held.empty()) {
      const size_t at = random() % held.size();
      const Held out = held[at];
      check_filled(store.address(out.slot), std::min<uint64_t>(out.bytes, 64), out.value);
      assert_int_equal(store.address(out.slot)[out.bytes - 1], out.value);
      store.free(out.slot);
      used -= UnitArena::rounded(out.bytes);
      held[at] = held.back();
      held.pop_back();
    }
    assert_int_equal(store.used(), used);
    if (step % 200 == 0) assert_true(store.resident() <= store.used() + store.stale());
    if (step % 1500 == 700) {
      store.trim();
      assert_true(store.resident() <= store.used());
    }
  }
  for (const Held &one : held) check_filled(store.address(one.slot), one.bytes, one.value);
}

/// Bookkeeping that can't be had changes nothing.
void no_memory(void **) {
  struct Failing final : std::pmr::memory_resource {
    bool refuse = false;
    void *do_allocate(size_t bytes, size_t alignment) override {
      if (refuse) throw std::bad_alloc();
      return heap()->allocate(bytes, alignment);
    }
    void do_deallocate(void *memory, size_t bytes, size_t alignment) override {
      heap()->deallocate(memory, bytes, alignment);
    }
    bool do_is_equal(const memory_resource &other) const noexcept override {
      return this == &other;
    }
  } memory;
  CompressedStore store(1 * mib, &memory);
  assert_true(store.start().ok());
  memory.refuse = true;
  uint64_t slots = 0;
  bool thrown = false;
  while (!thrown) {
    try {
      assert_true(static_cast<bool>(store.allocate(unit)));
      ++slots;
    } catch (const std::bad_alloc &) {
      thrown = true;
    }
  }
  assert_int_equal(store.used(), slots * unit);
  memory.refuse = false;
  assert_true(static_cast<bool>(store.allocate(unit)));
}

void refusals(void **) {
  CompressedStore most(UnitArena::max_bytes + unit, heap());
  assert_int_equal(most.start().code(), WEIR_ERROR_INVALID_ARGUMENT);
  const weir::LastError &error = weir::last_error();
  assert_int_equal(error.detail.asked, UnitArena::max_bytes + unit);
  assert_int_equal(error.detail.available, UnitArena::max_bytes);
  assert_int_equal(error.detail.tier, WEIR_TIER_COMPRESSED);
  assert_non_null(std::strstr(error.text, std::to_string(UnitArena::max_bytes + unit).c_str()));
  assert_false(static_cast<bool>(most.allocate(1)));

  CompressedStore none(0, heap());
  assert_true(none.start().ok());
  assert_false(static_cast<bool>(none.allocate(1)));
  assert_int_equal(none.trim(), 0);

  CompressedStore early(1 * mib, heap());  // never started
  assert_false(static_cast<bool>(early.allocate(1)));
  assert_int_equal(early.trim(), 0);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;  // whose shadow needs more address space than any limit
#else
constexpr bool sanitized = false;
#endif

/// In a child, which then may have little address space.
void no_address_space(void **) {
  if (sanitized) skip();
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const rlimit limit{1 * gib, 1 * gib};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    CompressedStore store(4 * gib, heap());
    const weir_result result = store.start().code();
    const bool told = weir::last_error().detail.native == ENOMEM &&
                      std::strstr(weir::last_error().text, "4294967296") != nullptr;
    _exit(result == WEIR_ERROR_OUT_OF_HOST_MEMORY && told && !store.allocate(1) ? 0 : 1);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/// A child has none of the memory: it neither holds it twice nor can write into it.
void not_for_children(void **) {
  Store store(16 * mib);
  const UnitSlot slot = store.fill(unit, 1);
  unsigned char *address = store.address(slot);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    unsigned char resident = 0;
    _exit(mincore(address, unit, &resident) != 0 && errno == ENOMEM ? 0 : 1);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/// What a slot's own node remembers: how long the blob is, and one mark, which ends with the slot.
void blobs(void **) {
  Store store(64 * unit);
  std::vector<UnitSlot> slots;
  const auto bytes_of = [](size_t i) { return uint32_t{1} + static_cast<uint32_t>(i) * 1000; };
  for (size_t i = 0; i < 10; ++i) slots.push_back(store.allocate(bytes_of(i)));
  for (size_t i = 0; i < 10; i += 2) store.set_dense(slots[i]);
  for (int turn = 0; turn < 2; ++turn) {
    for (size_t i = 0; i < 10; ++i) {
      const weir::tier::UnitName name = slots[i];
      assert_int_equal(store.slot(name).first, slots[i].first);
      assert_int_equal(store.bytes(name), UnitArena::rounded(bytes_of(i)));
      assert_int_equal(store.blob_bytes(name), bytes_of(i));
      assert_int_equal(store.dense(name), turn == 0 && i % 2 == 0);
    }
    for (const UnitSlot slot : slots) store.free(slot);
    for (size_t i = 0; i < 10; ++i) slots[i] = store.allocate(bytes_of(i));
  }
  assert_false(static_cast<bool>(store.allocate(uint64_t{1} << 31U)));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(slots),
      cmocka_unit_test(blobs),
      cmocka_unit_test(residency_follows_use),
      cmocka_unit_test(scattered),
      cmocka_unit_test(threshold_grows),
      cmocka_unit_test(churn),
      cmocka_unit_test(no_memory),
      cmocka_unit_test(refusals),
      cmocka_unit_test(no_address_space),
      cmocka_unit_test(not_for_children),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
