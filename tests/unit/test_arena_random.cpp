// SPDX-License-Identifier: Apache-2.0
//
// The offset allocator: random operations against a map of ranges that knows the truth, on short lines and on the
// longest. 10^6 operations; with WEIR_SOAK=1 10^8. What the edges do is in test_arena.cpp.
//
// Must be reproducible: every random run prints its seed, and nothing depends on time.

#include "core/physical/arena.hpp"
#include "core/physical/arena_report.hpp"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory_resource>
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

struct Line {
  uint64_t size;
  uint64_t quantum;
  uint64_t longest;        ///< of one allocation
  unsigned max_alignment;  ///< log2
};

/// An arena beside the truth about it.
template <class A>
class Shadow {
 public:
  Shadow(const Line &line, uint64_t seed)
      : line_(line), arena_(line.size, line.quantum, heap()), random_(seed), size_(arena_.size()) {}

  void run(uint64_t operations) {
    for (uint64_t i = 0; i < operations; ++i) {
      const uint64_t draw = random_() % 1000;
      const uint64_t growing = i / 3000 % 2 != 0 ? 640 : 400;  // fills up and drains in turn
      if (draw < 2) {
        resize();
      } else if (draw < growing) {
        allocate();
      } else if (!live_.empty()) {
        free(random_() % live_.size());
      }
      if (i % 997 == 0) check_all();
    }
    while (!live_.empty()) free(live_.size() - 1);
    check_all();
    assert_true(refused_ > 0);
    assert_int_equal(arena_.free_ranges(), 1);
    assert_int_equal(arena_.largest_free(), size_);
  }

 private:
  struct Range {
    uint64_t offset;
    uint64_t size;
    uint32_t node, generation, owner;
  };

  uint64_t any_size() {
    const double bits = std::log2(double(line_.longest)) * double(random_() % 4096) / 4095;
    return std::clamp<uint64_t>(static_cast<uint64_t>(std::exp2(bits)), 1, line_.longest);
  }
  uint64_t rounded(uint64_t size) const {
    return (size + line_.quantum - 1) / line_.quantum * line_.quantum;
  }

  void allocate() {
    const uint64_t size = any_size();
    const uint64_t alignment =
        random_() % 2 == 0 ? 1 : uint64_t{1} << random_() % (line_.max_alignment + 1);
    const auto place = arena_.allocate(size, alignment);
    if (!place) return check_refusal(size, alignment);
    const Range range{place.offset, rounded(size), place.node, arena_.generation(place.node),
                      static_cast<uint32_t>(random_())};
    assert_int_equal(range.offset % std::max(alignment, line_.quantum), 0);
    assert_true(range.offset + range.size <= size_);
    const auto after = taken_.lower_bound(range.offset);
    assert_true(after == taken_.end() || range.offset + range.size <= after->first);
    assert_true(after == taken_.begin() || std::prev(after)->second <= range.offset);
    taken_.emplace_hint(after, range.offset, range.offset + range.size);
    arena_.set_owner(range.node, range.owner);
    live_.push_back(range);
    used_ += range.size;
  }

  /// A range of the class above is always found; below, only the bounded search may miss one.
  void check_refusal(uint64_t size, uint64_t alignment) {
    ++refused_;
    if (refused_ % 16 != 0) return;
    const uint64_t enough = rounded(size) + std::max(alignment, line_.quantum) - line_.quantum;
    const uint64_t class_width = A::max_quanta > UINT32_MAX ? enough / 32 : enough / 8;
    assert_true(longest_hole() <= enough + class_width + line_.quantum);
    if (alignment <= line_.quantum && arena_.largest_free() >= line_.quantum) {
      const auto place = arena_.allocate(arena_.largest_free(), 1);
      assert_true(placed(place));  // what it tells, it gives
      arena_.free(place.node);
    }
  }

  void free(size_t index) {
    const Range range = live_[index];
    assert_true(arena_.live(range.node));
    assert_int_equal(arena_.generation(range.node), range.generation);
    assert_int_equal(arena_.offset(range.node), range.offset);
    assert_int_equal(arena_.size(range.node), range.size);
    assert_int_equal(arena_.owner(range.node), range.owner);
    arena_.free(range.node);
    assert_false(arena_.live(range.node));
    taken_.erase(range.offset);
    used_ -= range.size;
    live_[index] = live_.back();
    live_.pop_back();
  }

  void resize() {
    const uint64_t wanted = line_.size / 2 + random_() % (line_.size + 1);
    const uint64_t whole = wanted / line_.quantum * line_.quantum;
    const uint64_t in_use = taken_.empty() ? 0 : taken_.rbegin()->second;
    assert_int_equal(arena_.resize(wanted), in_use <= whole);
    if (in_use <= whole) size_ = whole;
  }

  uint64_t longest_hole() const {
    uint64_t end = 0, longest = 0;
    for (const auto &[from, to] : taken_) {
      longest = std::max(longest, from - end);
      end = to;
    }
    return std::max(longest, size_ - end);
  }

  void check_all() {
    check_valid(arena_);
    assert_int_equal(arena_.size(), size_);
    assert_int_equal(arena_.used(), used_);
    assert_int_equal(arena_.free_units(), size_ - used_);
    assert_int_equal(arena_.allocations(), live_.size());
    assert_int_equal(arena_.empty(), live_.empty());
    assert_int_equal(arena_.largest_free(), longest_hole());
    check_valid(arena_);
    auto expected = taken_.begin();
    for (auto node = arena_.first(); node != A::none; node = arena_.next(node), ++expected) {
      assert_true(expected != taken_.end());
      assert_int_equal(arena_.offset(node), expected->first);
      assert_int_equal(arena_.offset(node) + arena_.size(node), expected->second);
    }
    assert_true(expected == taken_.end());
    check_report();
  }

  /// Every range is shown once, in order, without gaps, and counted in its class.
  void check_report() {
    uint64_t at = 0, tail = 0, free_ranges = 0;
    auto expected = taken_.begin();
    arena_.each_range([&](uint64_t offset, uint64_t size, auto node) {
      assert_int_equal(offset, at);
      at += size;
      tail = node == A::none ? size : 0;
      if (node == A::none) return ++free_ranges != 0;
      assert_true(expected != taken_.end());
      assert_int_equal(offset, expected->first);
      assert_int_equal(at, expected++->second);
      return true;
    });
    assert_int_equal(at, size_);
    assert_true(expected == taken_.end());
    const weir::physical::ArenaReport counted = weir::physical::report(arena_);
    assert_int_equal(counted.tail, tail);
    assert_int_equal(counted.free.ranges, free_ranges);
    assert_int_equal(counted.live.ranges, live_.size());
    assert_int_equal(counted.live.units, used_);
    assert_int_equal(counted.free.units, size_ - used_);
    assert_int_equal(counted.free.longest, longest_hole());
    uint64_t ranges = 0, units = 0;
    for (size_t i = 0; i < counted.free_classes.size(); ++i) {
      for (const auto &kind : {counted.free_classes[i], counted.live_classes[i]}) {
        ranges += kind.ranges;
        units += kind.units;
        assert_true(kind.units >> i >= kind.ranges && kind.longest >> i <= 1);
      }
    }
    assert_int_equal(ranges, free_ranges + live_.size());
    assert_int_equal(units, size_);
  }

  Line line_;
  A arena_;
  std::mt19937_64 random_;
  uint64_t size_;
  uint64_t used_ = 0;
  uint64_t refused_ = 0;
  std::map<uint64_t, uint64_t> taken_;  ///< begin -> end
  std::vector<Range> live_;
};

template <class A>
void random_runs(const Line &line) {
  const bool soak = std::getenv("WEIR_SOAK") != nullptr;
  const uint64_t operations = soak ? 4'200'000 : 42'000;  // x 4 seeds x 6 lines
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    print_message("line of %zu, quantum %zu: seed %zu\n", size_t{line.size}, size_t{line.quantum},
                  size_t{seed});
    Shadow<A>(line, seed).run(operations);
  }
}

void bytes_of_a_device(void **) { random_runs<Arena>({256 * ki * ki, 256, 8 * ki * ki, 22}); }
void single_units(void **) { random_runs<Arena>({100'003, 1, 5000, 12}); }
void tebibytes(void **) {
  random_runs<Arena>({16 * ki * ki * ki * ki, 256, 512 * ki * ki * ki, 30});
}
void units_up_to_2_to_the_48(void **) {  // growing by a half reaches the limit
  random_runs<Arena>({Arena::max_quanta / 3 * 2, 1, Arena::max_quanta / 48, 30});
}
void a_slab(void **) { random_runs<SmallArena>({2 * ki * ki, 256, 128 * ki, 16}); }
void a_short_line_of_units(void **) { random_runs<SmallArena>({3001, 1, 300, 9}); }

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(bytes_of_a_device),
      cmocka_unit_test(single_units),
      cmocka_unit_test(tebibytes),
      cmocka_unit_test(units_up_to_2_to_the_48),
      cmocka_unit_test(a_slab),
      cmocka_unit_test(a_short_line_of_units),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
