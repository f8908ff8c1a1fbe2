// SPDX-License-Identifier: Apache-2.0
//
// Stacks: one number for what is the same, bounds that hold, no memory, several threads at once, and lines that lead back here.

#include "core/base/stacks.hpp"

#include "tests/unit/blocked_streams.hpp"  // Scarce

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <thread>

namespace {

using namespace weir;
using weir::test::Scarce;

std::vector<std::string> lines_of(const Stacks &stacks, uint32_t number) {
  std::vector<std::string> lines;
  for (void *frame : stacks.frames(number)) lines.push_back(describe_frame(frame));
  return lines;
}

std::array<void *, 3> frames(uintptr_t seed) {
  return {reinterpret_cast<void *>(seed), reinterpret_cast<void *>(seed + 1),
          reinterpret_cast<void *>(seed + 2)};
}

void equal_stacks_have_one_number(void **) {
  Stacks stacks(std::pmr::get_default_resource());
  std::set<uint32_t> numbers;
  for (uintptr_t seed = 1; seed <= 1000; ++seed) {
    const uint32_t number = stacks.keep(frames(seed));
    assert_true(number != 0 && numbers.insert(number).second);
  }
  for (uintptr_t seed = 1000; seed > 0; --seed)
    assert_true(numbers.contains(stacks.keep(frames(seed))));
  assert_int_equal(stacks.count(), 1000);
  const auto one = frames(7);
  assert_int_not_equal(stacks.keep(std::span(one).first(2)), stacks.keep(one));
  assert_int_equal(stacks.dropped(), 0);
}

[[gnu::noinline]] uint32_t from_here(Stacks &stacks) {
  const uint32_t number = stacks.take(nullptr);
  asm volatile("" : : : "memory");  // no tail call
  return number;
}
[[gnu::noinline]] uint32_t from_there(Stacks &stacks) {
  const uint32_t number = stacks.take(nullptr);
  asm volatile("" : : : "memory");
  return number;
}

void stacks_lead_back(void **) {
  Stacks stacks(std::pmr::get_default_resource());
  uint32_t here[2] = {0, 0};
  volatile size_t times = 2;  // from one place: not unrolled
  for (size_t i = 0; i < times; ++i) here[i] = from_here(stacks);
  const uint32_t there = from_there(stacks);
  assert_true(here[0] != 0 && here[0] == here[1] && there != 0 && there != here[0]);
  const auto lines = lines_of(stacks, here[0]);
  assert_true(lines.size() >= 2 && lines.size() <= Stacks::most_frames);
  for (const std::string &line : lines) assert_true(line.find('+') != std::string::npos);
  const auto is_here = [](const std::string &line) { return line.starts_with("test_stacks"); };
  assert_true(std::any_of(lines.begin(), lines.end(), is_here));  // this program's file
  assert_true(lines_of(stacks, 0).empty());
}

[[gnu::noinline]] uint32_t beyond(Stacks &stacks) {
  const uint32_t number = stacks.take(__builtin_return_address(0));
  asm volatile("" : : : "memory");
  return number;
}

/// What is Weir's own is left out.
void stacks_begin_at_the_caller(void **) {
  Stacks stacks(std::pmr::get_default_resource());
  const auto whole = lines_of(stacks, from_here(stacks)), outer = lines_of(stacks, beyond(stacks));
  assert_true(outer.size() + 2 <= whole.size());
  assert_string_equal(outer.back().c_str(), whole.back().c_str());
}

[[gnu::noinline]] uint32_t deep(Stacks &stacks, int depth) {
  const uint32_t number = depth > 0 ? deep(stacks, depth - 1) : stacks.take(nullptr);
  asm volatile("" : : : "memory");
  return number;
}

void deep_stacks_are_cut(void **) {
  Stacks stacks(std::pmr::get_default_resource());
  assert_int_equal(lines_of(stacks, deep(stacks, 100)).size(), Stacks::most_frames);
}

void what_has_no_room_is_counted(void **) {
  Stacks stacks(std::pmr::get_default_resource(), 10'000);
  uint32_t kept = 0, dropped = 0;
  for (uintptr_t seed = 1; seed <= 1000; ++seed)
    stacks.keep(frames(seed)) != 0 ? ++kept : ++dropped;
  assert_true(kept >= 50 && kept <= 10'000 / 24);
  assert_int_equal(stacks.dropped(), dropped);
  assert_int_not_equal(stacks.keep(frames(1)), 0);  // what is there is found
  Scarce memory;
  Stacks poor(&memory);
  memory.out = true;
  assert_int_equal(poor.keep(frames(1)), 0);
  assert_int_equal(poor.dropped(), 1);
  memory.out = false;
  assert_int_not_equal(poor.keep(frames(1)), 0);
}

void threads_meet(void **) {
  Stacks stacks(std::pmr::get_default_resource());
  std::array<std::array<uint32_t, 500>, 4> found{};
  std::vector<std::thread> threads;
  for (auto &mine : found)
    threads.emplace_back([&] {
      for (uintptr_t seed = 0; seed < mine.size(); ++seed)
        mine[seed] = stacks.keep(frames(seed % 100 + 1));
    });
  for (std::thread &each : threads) each.join();
  for (const auto &mine : found) assert_true(mine == found[0]);
  assert_int_equal(stacks.count(), 100);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(equal_stacks_have_one_number), cmocka_unit_test(stacks_lead_back),
      cmocka_unit_test(stacks_begin_at_the_caller),   cmocka_unit_test(deep_stacks_are_cut),
      cmocka_unit_test(what_has_no_room_is_counted),  cmocka_unit_test(threads_meet),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
