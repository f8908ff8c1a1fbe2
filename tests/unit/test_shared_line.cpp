// SPDX-License-Identifier: Apache-2.0
//
// The line whose neighbours share pages: random buffers against a shadow that knows every range and counts the pages they
// touch; then places known by hand, and memory that fails at every position. WEIR_SOAK=1 runs 10^8 random operations.
//
// Must be reproducible: every random run prints its seed, and nothing depends on time.
#include "tests/support/cmocka.hpp"

#include "core/physical/shared_line.hpp"

#include <cstdlib>
#include <map>
#include <random>
#include <string>

namespace {

using weir::physical::SharedLine;
using Run = SharedLine::Run;

constexpr uint64_t page = 64 * 1024;
constexpr uint64_t q = SharedLine::quantum;
constexpr uint64_t line_bytes = uint64_t{1} << 40;

std::pmr::memory_resource *heap() { return std::pmr::new_delete_resource(); }

void check_valid(const SharedLine &line) {
  const std::string broken = line.validate();
  if (!broken.empty()) fail_msg("%s", broken.c_str());
}

Run place(SharedLine &line, uint64_t bytes, uint64_t owner = 0) {
  const Run run = line.commit(line.choose(bytes), owner);
  assert_true(static_cast<bool>(run));
  return run;
}

class Shadow {
 public:
  explicit Shadow(uint64_t seed) : line_(line_bytes, page, heap()), random_(seed) {}

  void run(uint64_t operations) {
    for (uint64_t i = 0; i < operations; ++i) {
      if (runs_.size() > 80 + random_() % 100 || (random_() % 100 < 45 && !runs_.empty())) {
        release(random_() % runs_.size());
      } else {
        take();
      }
      if (i % 512 == 0) check_all();
    }
    while (!runs_.empty()) release(runs_.size() - 1);
    check_all();
    assert_int_equal(line_.open_pages(), 0);
  }

 private:
  struct Kept {
    Run run;
    uint64_t address, bytes, owner;
  };

  void take() {
    const uint64_t bytes = 1 + random_() % (random_() % 3 == 0   ? 5 * page
                                            : random_() % 2 == 0 ? page
                                                                 : page / 20);
    const uint64_t alignment = uint64_t{1} << random_() % 17;
    const SharedLine::Plan plan = line_.choose(bytes, alignment);
    assert_true(static_cast<bool>(plan));
    assert_int_equal(plan.address % alignment, 0);
    assert_true(plan.bytes >= bytes && plan.bytes - bytes < bytes / 200 + q);
    const uint64_t owner = ++owners_, end = plan.address + plan.bytes;
    const auto after = taken_.lower_bound(plan.address);
    assert_true(after == taken_.end() || after->first >= end);
    assert_true(after == taken_.begin() || std::prev(after)->second <= plan.address);
    uint64_t opened = 0;
    for (uint64_t p = plan.address / page; p * page < end; ++p) {
      if (touched_[p]++ != 0) continue;
      ++opened;
      assert_true(p >= plan.opens.first && p < plan.opens.first + plan.opens.count);
    }
    assert_int_equal(opened, plan.opens.count);
    taken_[plan.address] = end;
    const Run run = line_.commit(plan, owner);
    runs_.push_back({run, plan.address, plan.bytes, owner});
  }

  void release(size_t index) {
    const Kept kept = runs_[index];
    assert_true(line_.live(kept.run));
    assert_int_equal(line_.address(kept.run), kept.address);
    assert_int_equal(line_.bytes(kept.run), kept.bytes);
    assert_int_equal(line_.owner(kept.run), kept.owner);
    const SharedLine::Pages closed = line_.release(kept.run);
    assert_false(line_.live(kept.run));
    uint64_t count = 0;
    for (uint64_t p = kept.address / page; p * page < kept.address + kept.bytes; ++p) {
      if (--touched_.at(p) != 0) continue;
      touched_.erase(p);
      ++count;
      assert_true(p >= closed.first && p < closed.first + closed.count);
    }
    assert_int_equal(count, closed.count);
    taken_.erase(kept.address);
    runs_[index] = runs_.back();
    runs_.pop_back();
  }

  void check_all() {
    check_valid(line_);
    assert_int_equal(line_.open_pages(), touched_.size());
    assert_int_equal(line_.runs(), runs_.size());
    auto expected = taken_.begin();
    for (Run run = line_.first(); run; run = line_.next(run), ++expected) {
      assert_true(expected != taken_.end());
      assert_int_equal(line_.address(run), expected->first);
    }
    assert_true(expected == taken_.end());
  }

  SharedLine line_;
  std::mt19937_64 random_;
  std::map<uint64_t, uint64_t> taken_;    ///< begin -> end
  std::map<uint64_t, uint64_t> touched_;  ///< page -> live runs on it
  std::vector<Kept> runs_;
  uint64_t owners_ = 0;
};

void agrees_with_a_shadow(void **) {
  const uint64_t operations = std::getenv("WEIR_SOAK") != nullptr ? 25'000'000 : 60'000;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    print_message("seed %zu\n", size_t{seed});
    Shadow(seed).run(operations);
  }
}

void neighbours_share_a_page(void **) {
  SharedLine line(line_bytes, page, heap());
  const Run first = place(line, page + page / 4);
  const Run second = place(line, page / 2);
  const Run third = place(line, page + page / 4);
  assert_int_equal(line.open_pages(), 3);  // exactly the bytes that live
  assert_int_equal(line.address(second), page + page / 4);
  assert_int_equal(line.address(third), page + page * 3 / 4);
  // Both its pages have another buffer's bytes, but for the first.
  const SharedLine::Pages closed = line.release(second);
  assert_int_equal(closed.count, 0);
  assert_int_equal(line.release(first).count, 1);
  assert_int_equal(line.release(third).count, 2);
  check_valid(line);
}

void takes_the_hole_that_opens_least(void **) {
  SharedLine line(line_bytes, page, heap());
  place(line, page / 2);
  const Run hole = place(line, page * 2 - page / 16);  // from the first page to the third
  place(line, page / 2);
  line.release(hole);
  assert_int_equal(line.open_pages(), 2);
  // Nearly two pages fit there with one opened; at the end of the line they would open two.
  const SharedLine::Plan plan = line.choose(2 * page - page / 16);
  assert_int_equal(plan.opens.count, 1);
  assert_int_equal(plan.opens.first, 1);
  check_valid(line);
}

void whole_pages_stay_alone(void **) {
  SharedLine line(line_bytes, page, heap());
  place(line, page / 2);
  const SharedLine::Plan plan = line.choose(100 * page - q);
  assert_int_equal(plan.address % page, 0);
  assert_int_equal(plan.bytes, 100 * page);
  assert_int_equal(plan.opens.count, 100);
}

void ends_where_its_addresses_do(void **) {
  SharedLine line(4 * page, page, heap());
  assert_false(static_cast<bool>(line.choose(4 * page + 1)));
  const Run all = place(line, 4 * page);
  assert_false(static_cast<bool>(line.choose(1)));
  assert_int_equal(line.release(all).count, 4);
  const SharedLine::Plan stale = line.choose(1);
  place(line, 1);
  assert_false(static_cast<bool>(line.commit(stale, 0)));
  check_valid(line);
}

class FailingMemory final : public std::pmr::memory_resource {
 public:
  uint64_t left = UINT64_MAX, failures = 0;

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (left-- == 0) {
      ++failures;
      throw std::bad_alloc();
    }
    return heap()->allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) noexcept override {
    heap()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

void memory_fails_at_every_position(void **) {
  FailingMemory memory;
  uint64_t position = 6;  // the constructor's own are the caller's to catch
  do {
    memory.failures = 0;
    memory.left = position++;
    SharedLine line(line_bytes, page, &memory);
    for (uint64_t i = 0; i < 40; ++i) {
      const uint64_t bytes = 1 + i * 5000, open = line.open_pages(), runs = line.runs();
      const SharedLine::Plan plan = line.choose(bytes);
      try {
        line.commit(plan, i);
      } catch (const std::bad_alloc &) {
        check_valid(line);
        assert_int_equal(line.open_pages(), open);
        assert_int_equal(line.runs(), runs);
        assert_true(static_cast<bool>(line.commit(plan, i)));
      }
      if (i % 3 == 2) line.release(line.first());
    }
    check_valid(line);
  } while (memory.failures != 0);
  assert_true(position > 12);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(agrees_with_a_shadow),
      cmocka_unit_test(neighbours_share_a_page),
      cmocka_unit_test(takes_the_hole_that_opens_least),
      cmocka_unit_test(whole_pages_stay_alone),
      cmocka_unit_test(ends_where_its_addresses_do),
      cmocka_unit_test(memory_fails_at_every_position),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
