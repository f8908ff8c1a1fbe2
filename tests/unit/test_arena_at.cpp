// SPDX-License-Identifier: Apache-2.0
//
// Ranges of the offset allocator at places of the caller's choice: granted exactly where they are free, refused
// everywhere else with nothing changed, among ordinary allocations.

#include "core/physical/arena.hpp"

#include <map>
#include <random>

#include "tests/support/cmocka.hpp"

namespace {

using weir::physical::Arena;

struct Range {
  uint64_t size;
  Arena::Node node;
};

/// Whether it is free, and which range comes next.
bool is_free(const std::map<uint64_t, Range> &line, uint64_t length, uint64_t offset, uint64_t size,
             Arena::Node *next) {
  const auto after = line.lower_bound(offset);
  *next = after != line.end() ? after->second.node : Arena::none;
  const uint64_t end = after != line.end() ? after->first : length;
  if (offset + size > end) return false;
  return after == line.begin() || std::prev(after)->first + std::prev(after)->second.size <= offset;
}

void ranges_lie_where_they_are_asked_for(void **) {
  constexpr uint64_t length = 1 << 16;
  constexpr uint64_t quantum = 16;
  std::mt19937_64 random(1);
  Arena arena(length, quantum, std::pmr::get_default_resource());
  std::map<uint64_t, Range> line;
  int granted = 0;
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t size = quantum * (1 + random() % 40);
    const uint64_t kind = random() % 5;
    if (kind == 0) {
      if (const auto got = arena.allocate(size)) line.emplace(got.offset, Range{size, got.node});
    } else if (kind <= 2 && !line.empty()) {
      auto victim = line.lower_bound(random() % length);
      if (victim == line.end()) victim = line.begin();
      arena.free(victim->second.node);
      line.erase(victim);
    } else {
      const uint64_t offset = random() % (length / quantum) * quantum;
      Arena::Node next = Arena::none;
      const bool fits = is_free(line, length, offset, size, &next);
      const uint64_t used = arena.used();
      const auto got = arena.allocate_before(next, offset, size);
      assert_int_equal(static_cast<bool>(got), fits);
      (fits ? granted : refused) += 1;
      if (fits) {
        assert_int_equal(got.offset, offset);
        assert_int_equal(arena.offset(got.node), offset);
        line.emplace(offset, Range{size, got.node});
      } else {
        assert_int_equal(arena.used(), used);
      }
    }
    if (i % 100 == 0) assert_string_equal(arena.validate().c_str(), "");
    assert_int_equal(arena.allocations(), line.size());
  }
  assert_true(granted > 500 && refused > 500);
  assert_string_equal(arena.validate().c_str(), "");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(ranges_lie_where_they_are_asked_for)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
