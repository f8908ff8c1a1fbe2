// SPDX-License-Identifier: Apache-2.0
//
// The STORAGE tier's store at work: what is written is read back, in every way it can do its work and at every size and
// place; what lies in the files; what is left in the end.

#include "tests/unit/storage_fixture.hpp"

#include <fcntl.h>
#include <sys/wait.h>

#include <csignal>
#include <numeric>
#include <random>

namespace {

using namespace weir::test;

bool slot_made(UnitSlot slot) { return static_cast<bool>(slot); }

/// Sizes around every edge there is, at places that the sizes before make odd.
void round_trips(void **) {
  const uint64_t sizes[] = {
      1,         unit - 1,      unit,           unit + 1, 3 * unit,    512 * kib - unit,
      512 * kib, 512 * kib + 1, mib + unit,     2 * mib,  5 * mib + 7, 64 * kib,
      9 * mib,   unit,          2 * mib - unit, 100};
  constexpr uint64_t total = 32 * mib;
  each_way([&](const Way &way) {
    Place place(way, total);
    StorageStore &store = place.open();
    print_message("%s: %s\n", way.name().c_str(), store.how());
    std::vector<UnitSlot> slots;
    std::vector<StorageIo> writes(std::size(sizes)), reads(std::size(sizes));
    Memory from(total), to(total);
    store.add_memory(to.data(), to.bytes());
    uint64_t at = 0;
    uint64_t units = 0;
    for (size_t i = 0; i < std::size(sizes); ++i) {
      slots.push_back(store.allocate(sizes[i]));
      assert_true(slot_made(slots[i]));
      assert_true(store.bytes(slots[i]) >= sizes[i]);
      from.fill(i, at, weir::tier::UnitArena::rounded(sizes[i]));
      set(&writes[i], slots[i], from.data() + at, sizes[i], true, i % 3 == 0);
      store.submit(&writes[i]);
      at += weir::tier::UnitArena::rounded(sizes[i]);
      units += weir::tier::UnitArena::rounded(sizes[i]);
    }
    for (StorageIo &io : writes) good(store.wait(&io));
    at = 0;
    for (size_t i = 0; i < std::size(sizes); ++i) {
      set(&reads[i], slots[i], to.data() + at, sizes[i], false, i % 2 == 0);
      store.submit(&reads[i]);
      at += weir::tier::UnitArena::rounded(sizes[i]);
    }
    at = 0;
    for (size_t i = 0; i < std::size(sizes); ++i) {
      good(store.wait(&reads[i]));
      assert_true(to.holds(i, at, weir::tier::UnitArena::rounded(sizes[i])));
      assert_true(from.holds(i, at, weir::tier::UnitArena::rounded(sizes[i])));  // only read
      at += weir::tier::UnitArena::rounded(sizes[i]);
    }
    assert_int_equal(store.written_bytes(), units);
    assert_int_equal(store.read_bytes(), units);
    assert_int_equal(store.errors(), 0);
    store.remove_memory(to.data());
    // The front of a slot alone, into memory that was registered.
    std::memset(to.data(), 0, unit);
    good(transfer(store, slots[9], to.data(), 100, false));
    assert_true(to.holds(9, 0, unit));
    for (const UnitSlot slot : slots) store.free(slot);
    assert_int_equal(store.used(), 0);
  });
}

/// Every unit of the store holds bytes, and no two slots meet.
void a_full_store(void **) {
  each_way([&](const Way &way) {
    constexpr uint64_t budget = 7 * mib + 3 * unit;
    Place place(way, budget + 100);  // what is less than a unit is of no use
    StorageStore &store = place.open();
    assert_int_equal(store.budget(), budget);
    std::vector<UnitSlot> slots;
    uint64_t step = 0;
    while (store.room() != 0) {
      const uint64_t bytes = std::min(store.room(), (step++ % 5 + 1) * 33 * unit);
      const UnitSlot slot = store.allocate(bytes);
      assert_true(slot_made(slot));
      slots.push_back(slot);
    }
    assert_false(slot_made(store.allocate(1)));
    assert_int_equal(store.used(), budget);
    Memory memory(165 * unit);
    for (size_t i = 0; i < slots.size(); ++i) {
      memory.fill(i);
      good(transfer(store, slots[i], memory.data(), store.bytes(slots[i]), true));
    }
    for (size_t i = 0; i < slots.size(); ++i) {
      good(transfer(store, slots[i], memory.data(), store.bytes(slots[i]), false));
      assert_true(memory.holds(i, 0, store.bytes(slots[i])));
    }
  });
}

/// No other user can open the files, and they have no name.
void private_files(void **) {
  Place place(Way{true, true, 3, false}, 4 * mib);
  place.open();
  uint64_t total = 0;
  for (const std::string &directory : place.config.directories) {
    assert_int_equal(entries_in(directory), 0);
    const std::vector<int> files = files_in(directory);
    assert_int_equal(files.size(), 1);
    struct stat about {};
    assert_int_equal(fstat(files[0], &about), 0);
    assert_int_equal(about.st_mode, S_IFREG | 0600);
    assert_int_equal(about.st_nlink, 0);
    assert_int_equal(fcntl(files[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    total += static_cast<uint64_t>(about.st_size);
    assert_true(static_cast<uint64_t>(about.st_blocks) * 512 >=
                static_cast<uint64_t>(about.st_size));  // all of it is there
  }
  assert_int_equal(total, 4 * mib);
  place.close();
  for (const std::string &directory : place.config.directories)
    assert_int_equal(files_in(directory).size(), 0);
}

/// Where unnamed files are not to be had.
class NoUnnamedFiles : public IoHook {
 public:
  int64_t before(IoCall call, uint64_t) noexcept override {
    return call == IoCall::open && opens_.fetch_add(1) == 0 ? -EOPNOTSUPP : 0;
  }

 private:
  std::atomic<int> opens_{0};
};

void a_named_file_at_first(void **) {
  NoUnnamedFiles hook;
  Place place(Way{false, false, 1, false}, mib, &hook);
  StorageStore &store = place.open();
  assert_int_equal(entries_in(place.config.directories[0]), 0);
  const std::vector<int> files = files_in(place.config.directories[0]);
  assert_int_equal(files.size(), 1);
  struct stat about {};
  assert_int_equal(fstat(files[0], &about), 0);
  assert_int_equal(about.st_mode, S_IFREG | 0600);
  assert_int_equal(about.st_nlink, 0);
  const UnitSlot slot = store.allocate(mib);
  Memory memory(mib);
  memory.fill(1);
  good(transfer(store, slot, memory.data(), mib, true));
}

void nothing_is_left_of_a_killed_process(void **) {
  Directory directory;
  int ready[2];
  assert_int_equal(pipe(ready), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    StorageConfig config;
    config.directories = {directory.path()};
    config.budget = 16 * mib;
    StorageStore store(config, {}, std::pmr::new_delete_resource());
    Memory memory(mib);
    bool works = store.start().ok();
    const UnitSlot slot = works ? store.allocate(mib) : UnitSlot{};
    works = works && transfer(store, slot, memory.data(), mib, true).ok();
    const char said = works ? '+' : '-';
    if (write(ready[1], &said, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char said = 0;
  assert_int_equal(read(ready[0], &said, 1), 1);
  assert_int_equal(said, '+');
  assert_int_equal(kill(child, SIGKILL), 0);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(entries_in(directory.path()), 0);
  close(ready[0]);
  close(ready[1]);
}

void two_stores_in_one_directory(void **) {
  Directory directory;
  StorageConfig config;
  config.directories = {directory.path(), directory.path()};
  config.budget = 4 * mib;
  StorageStore one(config, {}, std::pmr::new_delete_resource());
  StorageStore other(config, {}, std::pmr::new_delete_resource());
  good(one.start());
  good(other.start());
  const UnitSlot first = one.allocate(4 * mib);
  const UnitSlot second = other.allocate(4 * mib);
  Memory memory(4 * mib);
  memory.fill(1);
  good(transfer(one, first, memory.data(), 4 * mib, true));
  memory.fill(2);
  good(transfer(other, second, memory.data(), 4 * mib, true));
  good(transfer(one, first, memory.data(), 4 * mib, false));
  assert_true(memory.holds(1));
  good(transfer(other, second, memory.data(), 4 * mib, false));
  assert_true(memory.holds(2));
}

/// What a store of one file wrote at its start, as it lies in the file.
std::vector<unsigned char> in_file(const std::string &directory, uint64_t bytes) {
  const std::vector<int> files = files_in(directory);
  assert_int_equal(files.size(), 1);
  const std::string name = "/proc/self/fd/" + std::to_string(files[0]);
  const int file = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  assert_true(file >= 0);
  std::vector<unsigned char> found(bytes);
  assert_int_equal(pread(file, found.data(), bytes, 0), bytes);
  close(file);
  return found;
}

void encrypted_on_disk(void **) {
  if (!can_encrypt()) skip();
  for (const bool uring : {true, false}) {
    Place place(Way{uring, true, 1, true}, mib);
    StorageStore &store = place.open();
    assert_non_null(std::strstr(store.how(), "AES-256-XTS"));
    const UnitSlot slot = store.allocate(mib);
    Memory memory(mib);
    std::memset(memory.data(), 0x5A, mib);
    good(transfer(store, slot, memory.data(), mib, true));
    const auto first = in_file(place.config.directories[0], mib);
    // Nothing of it shows: not the bytes, nor that every unit and every block is the same as the next.
    for (uint64_t at = 0; at < mib; at += unit) {
      assert_memory_not_equal(first.data() + at, memory.data(), 16);
      assert_memory_not_equal(first.data() + at, first.data() + (at + unit) % mib, 16);
      assert_memory_not_equal(first.data() + at, first.data() + at + 16, 16);
    }
    // Another store has another key.
    Place second(Way{uring, true, 1, true}, mib);
    StorageStore &again = second.open();
    good(transfer(again, again.allocate(mib), memory.data(), mib, true));
    assert_memory_not_equal(first.data(), in_file(second.config.directories[0], mib).data(), mib);
  }
}

/// Memory comes and goes while others transfer; registered or not is all the same.
void memory_comes_and_goes(void **) {
  for (const bool encrypt : {false, can_encrypt()}) {
    Place place(Way{true, true, 1, encrypt}, 8 * mib);
    StorageStore &store = place.open();
    const UnitSlot slot = store.allocate(4 * mib);
    Memory from(4 * mib);
    for (uint64_t round = 0; round < 20; ++round) {
      Memory to(4 * mib + unit);
      from.fill(round);
      if (round % 2 == 0) store.add_memory(from.data(), from.bytes());
      store.add_memory(to.data(), 2 * mib);  // only a part of what is used
      good(transfer(store, slot, from.data(), 4 * mib, true));
      good(transfer(store, slot, to.data() + unit, 4 * mib, false));
      assert_true(to.holds(round, unit, 4 * mib));
      store.remove_memory(to.data());
      if (round % 2 == 0) store.remove_memory(from.data());
      store.remove_memory(to.data());  // once more is nothing
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(round_trips),
      cmocka_unit_test(a_full_store),
      cmocka_unit_test(private_files),
      cmocka_unit_test(a_named_file_at_first),
      cmocka_unit_test(nothing_is_left_of_a_killed_process),
      cmocka_unit_test(two_stores_in_one_directory),
      cmocka_unit_test(encrypted_on_disk),
      cmocka_unit_test(memory_comes_and_goes),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
