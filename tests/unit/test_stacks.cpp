// SPDX-License-Identifier: Apache-2.0
//
// Stacks: one number for what is the same, bounds that hold, no memory, several threads at once, and lines that lead back here.

#include "core/base/build_id.hpp"
#include "core/base/stacks.hpp"

#include "tests/unit/blocked_streams.hpp"  // Scarce

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
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

/// The file is where it is, whatever the program was called by; the offset is what a tool can look up.
void frames_name_their_file(void **) {
  Stacks stacks(std::pmr::get_default_resource());
  std::array<char, PATH_MAX> own{};
  assert_true(readlink("/proc/self/exe", own.data(), own.size() - 1) > 0);
  size_t of_this_program = 0;
  std::string build_id;
  for (void *frame : stacks.frames(from_here(stacks))) {
    const FrameSight sight = look_up_frame(frame);
    assert_string_equal(sight.line.c_str(), describe_frame(frame).c_str());
    assert_true(sight.offset != 0 && sight.file[0] == '/');
    if (sight.file != own.data()) continue;
    ++of_this_program;
    assert_true(sight.offset < reinterpret_cast<uintptr_t>(frame) || sight.offset < (1U << 30U));
    if (build_id.empty()) build_id = sight.build_id;
    assert_string_equal(sight.build_id.c_str(), build_id.c_str());
  }
  assert_true(of_this_program > 0);
  // No file's.
  std::array<int, 1> data{};
  const FrameSight nowhere = look_up_frame(data.data());
  assert_true(nowhere.file.empty() && nowhere.build_id.empty());
  assert_true(nowhere.line.starts_with("0x"));
}

struct LoadedFile {
  uintptr_t code = 0;
  std::string path, build_id;
};

/// Small files lie beside each other.
void each_file_has_its_own_build_id(void **) {
  for (const char *small : {"libdl.so.2", "librt.so.1", "libutil.so.1", "libpthread.so.0"})
    (void)dlopen(small, RTLD_NOW | RTLD_LOCAL);
  std::vector<LoadedFile> files;
  const auto look = [](dl_phdr_info *file, size_t, void *to) {
    LoadedFile one;
    one.path = file->dlpi_name;
    for (ElfW(Half) i = 0; i < file->dlpi_phnum; ++i) {
      const ElfW(Phdr) &part = file->dlpi_phdr[i];
      const uintptr_t at = file->dlpi_addr + part.p_vaddr;
      if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0 && one.code == 0) one.code = at;
      if (part.p_type == PT_NOTE && one.build_id.empty())
        one.build_id = build_id_of_notes({reinterpret_cast<const std::byte *>(at), part.p_memsz});
    }
    // The kernel's page of code has no file.
    if (one.code != 0 && (one.path.empty() || one.path[0] == '/'))
      static_cast<std::vector<LoadedFile> *>(to)->push_back(one);
    return 0;
  };
  (void)dl_iterate_phdr(look, &files);
  assert_true(files.size() > 4);
  for (const LoadedFile &each : files) {
    const FrameSight sight = look_up_frame(reinterpret_cast<void *>(each.code + 1));
    if (sight.build_id != each.build_id) print_error("of %s\n", each.path.c_str());
    assert_string_equal(sight.build_id.c_str(), each.build_id.c_str());
  }
}

std::span<const std::byte> bytes_of(const std::string &text) {
  return std::as_bytes(std::span(text));
}

void notes_have_the_build_id(void **) {
  const auto number = [](uint32_t value) {
    std::string text(4, '\0');
    std::memcpy(text.data(), &value, 4);
    return text;
  };
  const std::string other =
      number(4) + number(5) + number(1) + std::string("GNU\0", 4) + "abcde" + std::string(3, '\0');
  const std::string id = number(4) + number(2) + number(3) + std::string("GNU\0", 4) + "\xab\x01" +
                         std::string(2, '\0');
  assert_string_equal(build_id_of_notes(bytes_of(other + id)).c_str(), "ab01");
  assert_string_equal(build_id_of_notes(bytes_of(other)).c_str(), "");
  // Each beginning of it, and lengths that no notes have.
  for (size_t length = 0; length + 2 < id.size(); ++length)
    assert_string_equal(build_id_of_notes(bytes_of(id.substr(0, length))).c_str(), "");
  for (const uint32_t huge : {0xffffffffU, 0xfffffffcU, 0x80000000U}) {
    assert_string_equal(
        build_id_of_notes(bytes_of(number(huge) + number(2) + number(3) + id)).c_str(), "");
    assert_string_equal(
        build_id_of_notes(bytes_of(number(4) + number(huge) + number(3) + id)).c_str(), "");
  }
}

/// Each trace that begins is told of each stack anew.
void a_stack_is_told_once_a_trace(void **) {
  Stacks stacks(std::pmr::get_default_resource());
  const uint32_t one = stacks.keep(frames(1)), two = stacks.keep(frames(2));
  const uint32_t first = stacks.telling();
  assert_false(stacks.told(one, first));
  stacks.set_told(one, first);
  assert_true(stacks.told(one, first));
  assert_false(stacks.told(two, first));
  stacks.tell_again();
  assert_false(stacks.told(one, stacks.telling()));
  stacks.set_told(two, first);  // what was told for the trace before comes late
  assert_false(stacks.told(two, stacks.telling()));
  assert_true(stacks.told(0, stacks.telling()));
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
      cmocka_unit_test(equal_stacks_have_one_number),   cmocka_unit_test(stacks_lead_back),
      cmocka_unit_test(stacks_begin_at_the_caller),     cmocka_unit_test(deep_stacks_are_cut),
      cmocka_unit_test(what_has_no_room_is_counted),    cmocka_unit_test(frames_name_their_file),
      cmocka_unit_test(each_file_has_its_own_build_id), cmocka_unit_test(notes_have_the_build_id),
      cmocka_unit_test(a_stack_is_told_once_a_trace),   cmocka_unit_test(threads_meet),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
