// SPDX-License-Identifier: Apache-2.0
//
// Lists of one word (core/base/packed.hpp) and room that grows geometrically (core/base/grow.hpp): contents, what is
// allocated, and that a refused allocation changes nothing.

#include "core/base/grow.hpp"
#include "core/base/memory.hpp"
#include "core/base/packed.hpp"
#include "tests/support/cmocka.hpp"

#include <vector>

namespace {

using weir::Packed;

/// Counts what is out, and refuses when told.
struct Counting final : std::pmr::memory_resource {
  size_t out = 0, calls = 0;
  bool refuse = false;

  void *do_allocate(size_t bytes, size_t alignment) override {
    if (refuse) throw std::bad_alloc();
    ++calls;
    out += bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) override {
    out -= bytes;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

struct Thing {
  explicit Thing(std::pmr::memory_resource *memory) : words(memory) {}
  Packed<int> words;
  std::pmr::memory_resource *memory() const noexcept { return words.memory(); }
};

void a_list_is_a_word_and_what_it_holds(void **) {
  static_assert(sizeof(Packed<uint64_t>) == sizeof(void *));
  Counting memory;
  {
    Packed<uint64_t> list(&memory);
    assert_true(list.empty() && list.begin() == list.end() && list.memory() == &memory);
    list.resize(3);
    assert_int_equal(memory.out, 16 + 3 * 8);
    assert_int_equal(list[2], 0);
    for (uint64_t i = 0; i < 100; ++i) list.push_back(i);
    assert_int_equal(list.size(), 103);
    assert_int_equal(list.back(), 99);
    assert_true(memory.calls < 14);
    assert_int_equal(list.erase_if([](uint64_t value) { return value % 2 == 0; }), 53);
    assert_int_equal(list.size(), 50);
    assert_int_equal(list[0], 1);
    assert_int_equal(list[49], 99);
    list.resize(2);
    assert_int_equal(list.back(), 3);
    list.clear();
    assert_int_equal(memory.out, 0);
    assert_true(list.empty() && list.memory() == &memory);
    assert_int_equal(list.erase_if([](uint64_t) { return true; }), 0);
    list.push_back(7);
    assert_int_equal(list[0], 7);
  }
  assert_int_equal(memory.out, 0);
}

void elements_are_moved_and_ended(void **) {
  Counting memory;
  {
    Packed<weir::Compact<Thing>> things(&memory);
    for (int i = 0; i < 20; ++i) {
      weir::Compact<Thing> thing = weir::make_owned<Thing>(&memory, &memory);
      thing->words.push_back(i);
      things.push_back(std::move(thing));
    }
    (void)things.erase_if([](const auto &thing) { return thing->words[0] < 10; });
    assert_int_equal(things.size(), 10);
    assert_int_equal(things[9]->words[0], 19);
  }
  assert_int_equal(memory.out, 0);
}

void refused_memory_changes_nothing(void **) {
  Counting memory;
  Packed<int> list(&memory);
  list.push_back(5);
  const size_t out = memory.out;
  memory.refuse = true;
  const auto throws = [](auto &&call) {
    try {
      call();
    } catch (const std::bad_alloc &) {
      return true;
    }
    return false;
  };
  assert_true(throws([&] { list.push_back(6); }));
  assert_true(throws([&] { list.resize(100); }));
  assert_true(throws([&] { list.reserve(2); }));
  assert_true(throws([&] { list.reserve(SIZE_MAX); }));
  assert_int_equal(list.size(), 1);
  assert_int_equal(list[0], 5);
  assert_int_equal(memory.out, out);
  memory.refuse = false;
}

/// Room for one more, ten thousand times: allocations by the logarithm, not by the number.
void room_grows_by_a_share(void **) {
  Counting memory;
  std::pmr::vector<uint32_t> by(&memory), to(&memory);
  for (uint32_t i = 0; i < 10000; ++i) {
    weir::grow_by(by);
    assert_true(by.capacity() > by.size());
    by.push_back(i);
    weir::grow_to(to, i + size_t{1});
    assert_true(to.capacity() > i);
  }
  assert_true(memory.calls < 2 * 60);
  assert_true(by.capacity() <= by.size() + by.size() / 4 + 4);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_list_is_a_word_and_what_it_holds),
      cmocka_unit_test(elements_are_moved_and_ended),
      cmocka_unit_test(refused_memory_changes_nothing),
      cmocka_unit_test(room_grows_by_a_share),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
