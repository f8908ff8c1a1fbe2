// SPDX-License-Identifier: Apache-2.0
//
// Names of operations and their numbers, without a pool: what a name gets, what the names beyond the last number get, many threads at
// once, and that a failed allocation leaves nothing.

#include "core/lease/operation_names.hpp"

#include <atomic>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/failing_memory.hpp"

#include "tests/support/cmocka.hpp"  // last: it has macros with plain names

namespace {

using weir::test::Failing;

using weir::CountingMemory;
using weir::lease::OperationNames;

/// Lets others run in the middle of each allocation, and sees whether one of them allocates too.
class Slow final : public std::pmr::memory_resource {
 public:
  std::atomic<bool> together{false};

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (++inside_ != 1) together = true;
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    --inside_;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }

  std::atomic<int> inside_{0};
};

std::string name_of(uint32_t number) {
  return "model.layers." + std::to_string(number) + ".forward";
}

void a_name_keeps_its_number(void **) {
  OperationNames names(std::pmr::new_delete_resource());
  assert_false(names.given(0));
  assert_false(names.given(1));
  for (uint32_t i = 1; i <= 1000; ++i) assert_int_equal(names.id_of(name_of(i)), i);
  for (uint32_t i = 1000; i >= 1; --i) assert_int_equal(names.id_of(name_of(i)), i);
  assert_true(names.given(1));
  assert_true(names.given(1000));
  assert_false(names.given(0));
  assert_false(names.given(1001));
  assert_false(names.given((uint64_t{1} << 32U) + 1));
  assert_int_equal(names.shared_calls(), 0);
}

void names_are_bytes_as_they_are(void **) {
  OperationNames names(std::pmr::new_delete_resource());
  std::set<uint32_t> numbers;
  for (const char *name : {"a", "A", "a ", " a", "\xc3\xa4", "a\n", "aa"}) {
    std::string kept = name;
    numbers.insert(names.id_of(kept));
    kept.assign(kept.size(), 'x');  // the caller's memory is his again
    assert_int_equal(names.id_of(name), numbers.size());
  }
  assert_int_equal(numbers.size(), 7);
}

void names_beyond_the_last_number_share_one(void **) {
  OperationNames names(std::pmr::new_delete_resource());
  for (uint32_t i = 1; i <= OperationNames::most; ++i) assert_int_equal(names.id_of(name_of(i)), i);
  assert_false(names.given(OperationNames::shared_id));
  assert_int_equal(names.shared_calls(), 0);
  assert_int_equal(names.id_of("one more"), OperationNames::shared_id);
  assert_true(names.given(OperationNames::shared_id));
  assert_false(names.given(OperationNames::shared_id + 1));
  assert_int_equal(names.id_of("another"), OperationNames::shared_id);
  assert_int_equal(names.id_of("one more"), OperationNames::shared_id);
  assert_int_equal(names.shared_calls(), 3);
  for (uint32_t i = 1; i <= OperationNames::most; i += 999)
    assert_int_equal(names.id_of(name_of(i)), i);
  assert_int_equal(names.shared_calls(), 3);
}

void who_would_go_on_without_gets_none(void **) {
  Failing memory;
  OperationNames names(&memory);
  const std::string longest(OperationNames::longest, 'n');
  assert_int_equal(names.try_id_of(""), 0);
  assert_int_equal(names.try_id_of((longest + "n").c_str()), 0);
  assert_int_equal(names.try_id_of(longest.c_str()), 1);
  memory.left = 0;
  assert_int_equal(names.try_id_of("no memory"), 0);
  assert_int_equal(names.try_id_of(longest.c_str()), 1);
  memory.left = SIZE_MAX;
  assert_int_equal(names.try_id_of("no memory"), 2);
}

/// Each allocation of each name fails once. The longer name needs memory of its own, and every power of two a table.
void a_failed_allocation_changes_nothing(void **) {
  Failing failing;
  CountingMemory memory(&failing);
  {
    OperationNames names(&memory);
    assert_int_equal(memory.bytes(), 0);
    for (uint32_t i = 1; i <= 300; ++i) {
      const uint64_t before = memory.bytes();
      uint32_t id = 0;
      size_t failures = 0;
      for (; id == 0; ++failures) {
        failing.left = failures;
        try {
          id = names.id_of(name_of(i));
        } catch (const std::bad_alloc &) {
          assert_int_equal(memory.bytes(), before);
          assert_false(names.given(i));
        }
      }
      assert_true(failures > 2);
      assert_int_equal(id, i);
      failing.left = 0;
      for (uint32_t known = 1; known <= i; ++known)
        assert_int_equal(names.id_of(name_of(known)), known);
    }
    assert_true(memory.bytes() > 300 * name_of(300).size());
  }
  assert_int_equal(memory.bytes(), 0);
}

/// All of them ask for the same new name at once, again and again, while the table grows.
void threads_agree_on_the_numbers(void **) {
  constexpr uint32_t count = 1000;
  constexpr uint32_t most_threads = 3;
  Slow memory;
  OperationNames names(&memory);
  std::vector<std::vector<uint32_t>> seen(most_threads, std::vector<uint32_t>(count));
  std::atomic<uint32_t> arrived{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < most_threads; ++t) {
    threads.emplace_back([&names, &arrived, &mine = seen[t]] {
      for (uint32_t i = 0; i < count; ++i) {
        const std::string name = name_of(i);
        ++arrived;
        while (arrived.load() < (i + 1) * most_threads) std::this_thread::yield();
        mine[i] = names.id_of(name);
        if (!names.given(mine[i]) || names.id_of(name_of(i / 2)) != mine[i / 2]) mine[i] = 0;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  assert_false(memory.together.load());
  for (uint32_t i = 0; i < count; ++i) {
    for (const auto &mine : seen) assert_int_equal(mine[i], i + 1);
  }
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_name_keeps_its_number),
      cmocka_unit_test(names_are_bytes_as_they_are),
      cmocka_unit_test(names_beyond_the_last_number_share_one),
      cmocka_unit_test(who_would_go_on_without_gets_none),
      cmocka_unit_test(a_failed_allocation_changes_nothing),
      cmocka_unit_test(threads_agree_on_the_numbers),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
