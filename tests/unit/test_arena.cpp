// SPDX-License-Identifier: Apache-2.0
//
// The offset allocator, edge by edge: exhaustion and recovery, also of 16 TiB, alignment, growth and shrinking, the
// longest line, and a failing memory resource at every position. Random operations are in test_arena_random.cpp.
//
// Must be reproducible: nothing depends on time, and every random order has a fixed seed.

#include "core/physical/arena.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <memory_resource>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

using weir::physical::Arena;
using weir::physical::SmallArena;

constexpr uint64_t ki = 1024;

std::pmr::memory_resource *heap() { return std::pmr::new_delete_resource(); }

bool placed(const auto &allocation) { return static_cast<bool>(allocation); }

template <class A>
void check_valid(const A &arena) {
  const std::string broken = arena.validate();
  if (!broken.empty()) print_error("broken invariant: %s\n", broken.c_str());
  assert_true(broken.empty());
}

// ---- the edges ----

template <class A>
void exhaustion_and_recovery(void **) {
  constexpr uint64_t count = 1000;
  A arena(count * 16, 16, heap());
  std::vector<uint32_t> nodes;
  for (uint64_t i = 0; i < count; ++i) {
    const auto place = arena.allocate(1);
    assert_true(placed(place));
    assert_int_equal(arena.size(place.node), 16);
    nodes.push_back(place.node);
  }
  assert_false(placed(arena.allocate(1)));
  assert_int_equal(arena.largest_free(), 0);
  assert_int_equal(arena.free_ranges(), 0);
  assert_int_equal(arena.used(), arena.size());
  std::shuffle(nodes.begin(), nodes.end(), std::mt19937_64(5));
  for (const uint32_t node : nodes) {
    arena.free(node);
    check_valid(arena);
  }
  const auto all = arena.allocate(count * 16);
  assert_true(placed(all));
  assert_int_equal(all.offset, 0);
  assert_false(placed(arena.allocate(count * 16 + 1)));
}

/// Filled to the first refusal with sizes up to 64 GiB, then to the last unit, and empty again.
void sixteen_tebibytes_are_used_up_and_come_back(void **) {
  constexpr uint64_t size = uint64_t{16} << 40;
  Arena arena(size, 256, heap());
  std::mt19937_64 random(7);
  std::vector<uint32_t> nodes;
  for (;;) {
    const auto place = arena.allocate(1 + (random() & ((uint64_t{1} << (8 + random() % 29)) - 1)));
    if (!place) break;
    nodes.push_back(place.node);
    if (random() % 3 != 0) continue;
    std::swap(nodes[random() % nodes.size()], nodes.back());
    arena.free(nodes.back());
    nodes.pop_back();
  }
  check_valid(arena);
  assert_true(arena.used() > size / 10 * 9);
  while (arena.free_units() != 0) {  // what it tells, it gives
    const auto place = arena.allocate(arena.largest_free());
    assert_true(placed(place));
    nodes.push_back(place.node);
  }
  check_valid(arena);
  assert_false(placed(arena.allocate(1)));
  std::shuffle(nodes.begin(), nodes.end(), random);
  for (const uint32_t node : nodes) arena.free(node);
  check_valid(arena);
  assert_int_equal(arena.largest_free(), size);
  assert_true(placed(arena.allocate(size, Arena::max_alignment)));
}

void neighbours_join_in_every_order(void **) {
  std::vector<size_t> order(4);
  std::iota(order.begin(), order.end(), 0);
  do {
    Arena arena(64, 1, heap());
    std::vector<uint32_t> nodes;
    for (int i = 0; i < 5; ++i) nodes.push_back(arena.allocate(10).node);
    for (const size_t i : order) arena.free(nodes[i]);
    check_valid(arena);
    assert_int_equal(arena.free_ranges(), 2);
    assert_int_equal(arena.largest_free(), 40);
  } while (std::next_permutation(order.begin(), order.end()));
}

void the_longest_line(void **) {
  constexpr uint64_t size = uint64_t{1} << 48;
  Arena arena(size, 1, heap());
  const auto all = arena.allocate(size);
  assert_true(placed(all));
  assert_int_equal(arena.size(all.node), size);
  arena.free(all.node);
  // Holes of more than 2^32 units, one of them in a class that only a 64-bit map reaches.
  const auto low = arena.allocate(size / 2 - 7);
  const auto wall = arena.allocate(1);
  const auto high = arena.allocate(size / 4);
  assert_true(low && wall && high);
  arena.free(low.node);
  check_valid(arena);
  assert_int_equal(arena.largest_free(), size / 2 - 7);
  assert_int_equal(arena.allocate(size / 2 - 7).offset, 0);
  const auto aligned = arena.allocate(5, Arena::max_alignment);
  assert_int_equal(aligned.offset % Arena::max_alignment, 0);
  check_valid(arena);
  assert_false(arena.resize(size + 1));
  SmallArena small(SmallArena::max_quanta * 256, 256, heap());
  const auto most = small.allocate(SmallArena::max_quanta * 256 - 1);
  assert_true(placed(most));
  assert_int_equal(small.size(most.node), SmallArena::max_quanta * 256);
  assert_false(small.resize(SmallArena::max_quanta * 256 + 256));
  check_valid(small);
}

void alignment_leaves_its_gap_free(void **) {
  Arena arena(3 * Arena::max_alignment, 256, heap());
  const auto first = arena.allocate(1);
  const auto aligned = arena.allocate(512, Arena::max_alignment);
  assert_int_equal(aligned.offset, Arena::max_alignment);
  assert_int_equal(arena.used(), 256 + 512);
  assert_int_equal(arena.free_ranges(), 2);
  // The gap serves exactly what fits, although the request's alignment could ask for a larger class.
  const auto gap = arena.allocate(Arena::max_alignment - 256, 256);
  assert_int_equal(gap.offset, 256);
  arena.free(gap.node);
  const auto part = arena.allocate(Arena::max_alignment / 2, Arena::max_alignment / 2);
  assert_int_equal(part.offset, Arena::max_alignment / 2);
  check_valid(arena);
  arena.free(first.node);
  arena.free(part.node);
  arena.free(aligned.node);
  assert_int_equal(arena.largest_free(), arena.size());
}

void holes_fill_before_the_end(void **) {
  Arena arena(1000, 1, heap());
  const auto a = arena.allocate(200);
  const auto wall = arena.allocate(1);
  arena.free(a.node);
  for (uint64_t i = 0; i < 20; ++i) assert_true(arena.allocate(10).offset < wall.offset);
  assert_true(arena.allocate(10).offset > wall.offset);
  assert_true(arena.resize(211));
}

void largest_is_given_wherever_it_stands(void **) {
  Arena arena(1 << 20, 1, heap());
  std::vector<uint32_t> nodes;
  for (uint64_t i = 0; i < 20;
       ++i) {  // all of one class, the largest freed first: last in its list
    nodes.push_back(arena.allocate(1019 - i).node);
    arena.allocate(1);
  }
  assert_true(arena.resize((1 << 20) - arena.free_units()));
  for (const uint32_t node : nodes) arena.free(node);
  for (uint64_t i = 0; i < 20; ++i) {
    if (i % 2 == 0) {  // a bounded look tells one that can be had, if not the largest
      const uint64_t large = arena.large_free();
      assert_in_range(large, 1000, 1019 - i);
      const auto place = arena.allocate(large);
      assert_true(placed(place));
      arena.free(place.node);
    }
    assert_int_equal(arena.largest_free(), 1019 - i);
    assert_false(placed(arena.allocate(1020 - i)));
    assert_true(placed(arena.allocate(1019 - i)));
    check_valid(arena);
  }
  assert_int_equal(arena.largest_free(), 0);
}

void walks_in_address_order(void **) {
  SmallArena arena(1000, 1, heap());
  assert_int_equal(arena.first(), SmallArena::none);
  arena.set_owner(arena.allocate(5).node, 7);
  const uint32_t generation = arena.generation(arena.first());
  arena.free(arena.first());
  std::vector<uint32_t> nodes;
  for (uint32_t i = 0; i < 10; ++i) {
    nodes.push_back(arena.allocate(100).node);
    assert_int_equal(arena.owner(nodes[i]), 0);  // nothing of a former tenant's
    arena.set_owner(nodes[i], 1000 + i);
  }
  assert_true(arena.generation(nodes[0]) > generation);
  for (const size_t i : {0u, 3u, 4u, 9u}) arena.free(nodes[i]);
  std::vector<uint32_t> owners;
  for (auto n = arena.first(); n != SmallArena::none; n = arena.next(n)) {
    owners.push_back(arena.owner(n));
  }
  assert_true(owners == (std::vector<uint32_t>{1001, 1002, 1005, 1006, 1007, 1008}));
  assert_false(arena.live(SmallArena::none));
  assert_false(arena.live(0));
  assert_false(arena.live(nodes[3]));
}

void resizes_at_the_end_only(void **) {
  Arena arena(10 * 256, 256, heap());
  assert_int_equal(Arena(1000, 256, heap()).size(), 768);  // whole quanta
  const auto a = arena.allocate(4 * 256);
  const auto b = arena.allocate(2 * 256);
  assert_false(arena.resize(5 * 256));
  assert_true(arena.resize(6 * 256));  // the end is now in use
  assert_int_equal(arena.free_ranges(), 0);
  assert_false(arena.resize(6 * 256 - 1));
  arena.free(a.node);
  assert_false(arena.resize(5 * 256));
  assert_true(arena.resize(uint64_t{1} << 40));  // more classes than the table had
  check_valid(arena);
  assert_int_equal(arena.allocate(uint64_t{1} << 39).offset, 6 * 256);
  arena.free(b.node);
  arena.free(arena.first());
  assert_true(arena.resize(0));
  check_valid(arena);
  assert_int_equal(arena.free_ranges(), 0);
  assert_false(placed(arena.allocate(1)));
  assert_true(arena.resize(256));
  assert_true(placed(arena.allocate(1)));
  check_valid(arena);
}

/// A search in the topmost class looks past it, where no class is.
template <class A>
void last_class(void **) {
  constexpr uint64_t length = 1023;  // one more would begin another row
  A arena(length, 1, heap());
  const auto low = arena.allocate(1020);
  assert_true(placed(low));
  assert_true(placed(arena.allocate(3)));
  arena.free(low.node);
  const auto most = arena.allocate(1010);
  assert_true(placed(most));
  assert_int_equal(most.offset, 0);
  assert_false(placed(arena.allocate(11)));
  assert_true(placed(arena.allocate(10)));
  check_valid(arena);
}

void stays_small(void **) {
  SmallArena slab(2 * ki * ki, 256, heap());
  assert_true(slab.node_bytes() <= 600);
  Arena arena(40 * ki * ki * ki, 256, heap());
  const uint64_t bins = arena.node_bytes();
  for (uint64_t i = 0; i < 2000; ++i) {
    assert_true(placed(arena.allocate(256)));
    const uint64_t nodes = arena.allocations() + arena.free_ranges() + 1;
    assert_true(arena.node_bytes() - bins <= (nodes + nodes / 4 + 8) * 32);
  }
}

// ---- a memory resource that fails ----

class FailingMemory final : public std::pmr::memory_resource {
 public:
  uint64_t left = UINT64_MAX;  ///< allocations until one fails
  uint64_t failures = 0;
  int64_t bytes_out = 0;

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (left-- == 0) {
      ++failures;
      throw std::bad_alloc();
    }
    bytes_out += static_cast<int64_t>(bytes);
    return heap()->allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) noexcept override {
    bytes_out -= static_cast<int64_t>(bytes);
    heap()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

template <class A>
std::vector<uint64_t> picture(const A &arena) {
  std::vector<uint64_t> values{arena.size(), arena.used(), arena.allocations(), arena.free_ranges(),
                               arena.largest_free()};
  for (auto n = arena.first(); n != A::none; n = arena.next(n)) {
    values.insert(values.end(),
                  {arena.offset(n), arena.size(n), arena.generation(n), arena.owner(n)});
  }
  return values;
}

/// Runs a step; if memory fails, nothing may have changed, and the step must succeed the next time.
template <class A, class Step>
void step(A &arena, Step &&run) {
  const auto before = picture(arena);
  try {
    run();
  } catch (const std::bad_alloc &) {
    check_valid(arena);
    assert_true(picture(arena) == before);
    run();
  }
  check_valid(arena);
}

template <class A>
void scenario(FailingMemory *memory) {
  std::optional<A> arena;
  try {
    arena.emplace(64, 1, memory);
  } catch (const std::bad_alloc &) {
    assert_int_equal(memory->bytes_out, 0);
    arena.emplace(64, 1, memory);
  }
  std::vector<uint32_t> nodes;
  for (uint64_t i = 0; i < 30; ++i) {
    step(*arena, [&] { assert_true(arena->resize(uint64_t{64} << i % 10)); });
    const uint64_t alignment = uint64_t{1} << i % 4;
    step(*arena, [&] { nodes.push_back(arena->allocate(1 + i % 3, alignment).node); });
    if (nodes.back() == A::none) nodes.pop_back();
    if (i % 5 == 4) {
      arena->free(nodes[nodes.size() / 2]);
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(nodes.size() / 2));
    }
    step(*arena, [&] { arena->resize(0); });  // refused: in use
  }
  for (const uint32_t node : nodes) arena->free(node);
  assert_int_equal(arena->free_ranges(), 1);
  for (uint64_t size = 1; size <= 60; ++size) {  // grows a line that is full
    step(*arena, [&] { assert_true(arena->resize(size)); });
    step(*arena, [&] { assert_true(placed(arena->allocate(1))); });
  }
}

template <class A>
void memory_fails_at_every_position(void **) {
  FailingMemory memory;
  uint64_t position = 0;
  do {
    memory.failures = 0;
    memory.left = position++;
    scenario<A>(&memory);
    assert_int_equal(memory.bytes_out, 0);
  } while (memory.failures != 0);
  assert_true(position > 8);  // the constructor's two and some growth were met
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(exhaustion_and_recovery<Arena>),
      cmocka_unit_test(exhaustion_and_recovery<SmallArena>),
      cmocka_unit_test(sixteen_tebibytes_are_used_up_and_come_back),
      cmocka_unit_test(neighbours_join_in_every_order),
      cmocka_unit_test(the_longest_line),
      cmocka_unit_test(alignment_leaves_its_gap_free),
      cmocka_unit_test(holes_fill_before_the_end),
      cmocka_unit_test(largest_is_given_wherever_it_stands),
      cmocka_unit_test(walks_in_address_order),
      cmocka_unit_test(resizes_at_the_end_only),
      cmocka_unit_test(last_class<Arena>),
      cmocka_unit_test(last_class<SmallArena>),
      cmocka_unit_test(stays_small),
      cmocka_unit_test(memory_fails_at_every_position<Arena>),
      cmocka_unit_test(memory_fails_at_every_position<SmallArena>),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
