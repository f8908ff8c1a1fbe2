// SPDX-License-Identifier: Apache-2.0
//
// Blobs of saved programs: what is written is read; what is cut, damaged or made up is refused, even where its checksum is right; what is
// another's is told apart from what is damaged.

#include "core/policy/policy_blob.hpp"

#include "core/codec/little_endian.hpp"
#include "tests/support/cmocka.hpp"
#include "tests/support/failing_memory.hpp"
#include "tests/unit/saved_programs.hpp"

#include <cstring>
#include <functional>
#include <random>

namespace {

using namespace weir;
using namespace weir::policy;
using test::blob_of;
using test::Bytes;
using test::seal;
using test::small_blob;
using test::usual_terms;

// Where things are in the header.
constexpr size_t order_at = 8, version_at = 12, policy_at = 32, page_size_at = 48, names_at = 56,
                 text_at = 60, logs_at = 64, reserved_at = 68, header_bytes = 72;

SavedProgram read(const Bytes &bytes) {
  assert_int_equal(check_blob(bytes, usual_terms).code(), WEIR_SUCCESS);
  SavedProgram program(std::pmr::new_delete_resource());
  read_blob(bytes, &program);
  return program;
}

void expect(weir_result code, const Bytes &bytes, const char *word) {
  assert_int_equal(check_blob(bytes, usual_terms).code(), code);
  if (std::strstr(last_error().text, word) == nullptr)
    fail_msg("\"%s\" is not in: %s", word, last_error().text);
}

template <class Word>
Bytes with(Bytes bytes, size_t at, Word word) {
  codec::store_little(bytes.data() + at, word);
  seal(&bytes);
  return bytes;
}

void what_is_written_is_read(void **) {
  const Bytes bytes = small_blob();
  const SavedProgram program = read(bytes);
  assert_int_equal(program.names.size(), 4);
  assert_true(program.names[1] == "operation 2");
  assert_int_equal(program.logs.size(), 1);
  assert_int_equal(program.logs[0].operations.size(), 13);
  assert_int_equal(program.logs[0].streams, 1);
  assert_int_equal(blob_bytes(program), bytes.size());
  assert_true(blob_of(program) == bytes);
}

void an_empty_program_is_written_and_read(void **) {
  SavedProgram program(std::pmr::new_delete_resource());
  assert_int_equal(read(blob_of(program)).logs.size(), 0);
  program.logs.emplace_back(std::pmr::new_delete_resource());
  assert_int_equal(read(blob_of(program)).logs.size(), 1);
}

void what_is_cut_is_refused(void **) {
  const Bytes bytes = small_blob();
  for (size_t length = 0; length < bytes.size(); ++length)
    expect(WEIR_ERROR_CORRUPT, Bytes(bytes.begin(), bytes.begin() + static_cast<long>(length)), "");
  Bytes longer = bytes;
  longer.push_back(0);
  expect(WEIR_ERROR_CORRUPT, longer, "had");
  seal(&longer);
  expect(WEIR_ERROR_CORRUPT, longer, "its counts");
}

/// A version that is damaged looks like another version; all else is damage.
void a_byte_that_is_another_is_refused(void **) {
  const Bytes bytes = small_blob();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int bits : {1, 0x80, 0xFF}) {
      Bytes other = bytes;
      other[at] = static_cast<unsigned char>(other[at] ^ bits);
      const bool version = at >= version_at && at < version_at + 4;
      assert_int_equal(check_blob(other, usual_terms).code(),
                       version ? WEIR_ERROR_NOT_SUPPORTED : WEIR_ERROR_CORRUPT);
    }
  }
}

void what_is_another_s_is_told_from_what_is_damaged(void **) {
  const Bytes bytes = small_blob();
  expect(WEIR_ERROR_NOT_SUPPORTED, with(bytes, version_at, uint32_t{2}), "version 2");
  expect(WEIR_ERROR_NOT_SUPPORTED, with(bytes, order_at, uint32_t{0x04030201}), "byte order");
  expect(WEIR_ERROR_CORRUPT, with(bytes, order_at, uint32_t{0x04030202}), "byte order");
  expect(WEIR_ERROR_NOT_SUPPORTED, with(bytes, page_size_at, uint64_t{4096}), "4096");
  expect(WEIR_ERROR_NOT_SUPPORTED, with(bytes, policy_at, uint32_t{0x7A7A7A7A}), "\"zzzz\"");
  Bytes endless = bytes;
  std::fill_n(endless.begin() + policy_at, 16, 'q');
  seal(&endless);
  expect(WEIR_ERROR_NOT_SUPPORTED, endless, "qqqqqqqqqqqqqqqq\"");
  expect(WEIR_ERROR_CORRUPT, with(bytes, 0, uint32_t{0}), "no saved policy");
  assert_int_equal(check_blob(bytes, {"auto", 65536}).code(), WEIR_SUCCESS);
  assert_int_equal(check_blob(bytes, {"autos", 65536}).code(), WEIR_ERROR_NOT_SUPPORTED);
}

void more_bytes_than_there_may_be_are_refused(void **) {
  Bytes bytes = small_blob();
  bytes.resize(most_blob_bytes + 1);
  seal(&bytes);
  expect(WEIR_ERROR_CORRUPT, bytes, "at most");
}

/// Counts that are made up, with a checksum that is right.
void counts_that_do_not_fit_the_bytes_are_refused(void **) {
  const Bytes bytes = small_blob();
  for (size_t at = names_at; at < header_bytes + 24; at += 4) {
    const auto old = codec::load_little<uint32_t>(bytes.data() + at);
    for (const uint32_t count :
         {old + 1, old - 1, UINT32_MAX, uint32_t{1} << 31, uint32_t{65536}}) {
      // More streams than are used do no harm; their number has a limit.
      if (at == header_bytes && count == old + 1) continue;
      const Bytes other = with(bytes, at, count);
      assert_int_equal(check_blob(other, usual_terms).code(), WEIR_ERROR_CORRUPT);
    }
  }
}

/// A program with every kind of record, which the tests make wrong in one place each.
SavedProgram whole_program() {
  SavedProgram program(std::pmr::new_delete_resource());
  program.names = {"one", "two"};
  SavedLog &log = program.logs.emplace_back(std::pmr::new_delete_resource());
  log.streams = 2;
  log.lives = {65536, 4096, 300};
  log.operations = {
      {1, 1, 0, 4, 2, 3, 2}, {unnamed | 77, 1, 1, 1, 1, 0, 0}, {shared_name, 0, 1, 0, 0, 0, 0}};
  log.births = {{0, 0}, {1, 2}};
  log.deaths = {1, 2};
  log.uses = {{0, 0, 256, 1, 5}, {1, 0, 16, 3, 2}, {2, 1, 2, 0, 7}};
  return program;
}

void records_that_name_what_is_not_there_are_refused(void **) {
  assert_int_equal(check_blob(blob_of(whole_program()), usual_terms).code(), WEIR_SUCCESS);
  using Change = std::function<void(SavedProgram &, SavedLog &)>;
  const std::pair<Change, const char *> changes[] = {
      {[](auto &, auto &log) { log.operations[0].name = 0; }, "name"},
      {[](auto &, auto &log) { log.operations[0].name = 3; }, "name"},
      {[](auto &, auto &log) { log.operations[0].name = shared_name + 1; }, "name"},
      {[](auto &, auto &log) { log.operations[1].stream = 2; }, "stream"},
      {[](auto &, auto &log) { log.streams = 1; }, "stream"},
      {[](auto &, auto &log) { log.streams = 65; }, "streams"},
      {[](auto &, auto &log) { log.operations[0].given = 1; }, "more uses"},
      {[](auto &, auto &log) { log.operations[0].given = 3; }, "a use is of no buffer"},
      {[](auto &, auto &log) { log.operations[0].all_births = 1; }, "more uses or births"},
      {[](auto &, auto &log) { log.operations[0].all_births = 2; }, "a birth is of no buffer"},
      {[](auto &, auto &log) { log.operations[0].births = 1; }, "of no operation"},
      {[](auto &, auto &log) { log.operations[0].uses = 1; }, ""},
      {[](auto &, auto &log) { log.operations[2].uses = log.operations[2].given = 1; },
       "more records"},
      {[](auto &, auto &log) { log.operations[2].births = log.operations[2].all_births = 1; },
       "more records"},
      {[](auto &, auto &log) { log.operations[2].deaths = 1; }, "more records"},
      {[](auto &, auto &log) { log.operations[0].deaths = 0; }, "of no operation"},
      {[](auto &, auto &log) { log.births[0].life = 3; }, "birth"},
      {[](auto &, auto &log) { log.births[1].rank = 0; }, "birth"},
      {[](auto &, auto &log) { log.births[1].rank = 3; }, "birth"},
      {[](auto &, auto &log) { log.deaths[1] = 3; }, "death"},
      {[](auto &, auto &log) { log.uses[2].life = 3; }, "use"},
      {[](auto &, auto &log) { log.uses[1].slot = 1; }, "use"},
      {[](auto &, auto &log) { log.uses[1].slot = 4; }, "use"},
      {[](auto &, auto &log) { log.uses[0].begin = 257; }, "range"},
      {[](auto &, auto &log) { log.uses[0].mode = 8; }, "mode"},
      {[](auto &program, auto &) { program.names[0] = ""; }, "a name is empty"},
      {[](auto &program, auto &) { program.names[0] = std::string_view("a\0b", 3); }, "0 in it"},
  };
  for (const auto &[change, word] : changes) {
    SavedProgram program = whole_program();
    change(program, program.logs[0]);
    expect(WEIR_ERROR_CORRUPT, blob_of(program), word);
  }
}

void names_that_are_too_long_are_refused(void **) {
  for (const size_t length : {longest_name, longest_name + 1}) {
    SavedProgram program = whole_program();
    const std::string name(length, 'n');
    program.names[1] = name;
    assert_int_equal(check_blob(blob_of(program), usual_terms).code(),
                     length == longest_name ? WEIR_SUCCESS : WEIR_ERROR_CORRUPT);
  }
}

void lengths_of_names_that_do_not_come_to_their_text_are_refused(void **) {
  const Bytes bytes = blob_of(whole_program());
  const size_t lengths_at = header_bytes + 24;
  expect(WEIR_ERROR_CORRUPT, with(bytes, lengths_at, uint32_t{2}), "come to their text");
  expect(WEIR_ERROR_CORRUPT, with(bytes, lengths_at, uint32_t{4}), "come to their text");
}

/// Bytes changed at random and sealed: what is taken can be read, and be learned from.
void what_is_taken_can_be_learned_from(void **) {
  std::mt19937 random(7);
  const Bytes blobs[] = {small_blob(), small_blob(5, 4), blob_of(whole_program())};
  size_t taken = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = blobs[random() % 3];
    for (uint32_t change = 1 + random() % 4; change != 0; --change) {
      const size_t at = header_bytes + random() % (bytes.size() - header_bytes);
      bytes[at] = static_cast<unsigned char>(random() % 3 == 0 ? random() : bytes[at] ^ 1);
    }
    seal(&bytes);
    if (!check_blob(bytes, usual_terms)) {
      ++refused;
      continue;
    }
    ++taken;
    const SavedProgram program = read(bytes);
    const std::vector<uint32_t> names(program.names.size(), 1);
    Cast cast(std::pmr::new_delete_resource());
    LearnedForecast forecast(cast, {size_t{64} << 10, 1}, std::pmr::new_delete_resource());
    forecast.load(program.logs[0], names);
    assert_int_equal(forecast.log().lives().alive(), 0);
    for (uint32_t part = 0; part < cast.size(); ++part) assert_false(cast[part].live);
  }
  assert_true(taken > 100 && refused > 100);
}

void an_allocation_that_fails_while_it_is_read_is_thrown(void **) {
  const Bytes bytes = small_blob();
  size_t granted = 0;
  for (bool done = false; !done; ++granted) {
    test::Failing memory;
    memory.left = granted;
    SavedProgram program(&memory);
    try {
      read_blob(bytes, &program);
      done = true;
    } catch (const std::bad_alloc &) {
    }
  }
  assert_true(granted > 6);
}

/// Nothing is allocated for bytes that are refused, nor for the check of those that are not: it has no memory to do it with. What is
/// learned finds none either: a part that there is no memory for is not there.
void what_finds_no_memory_is_learned_all_the_same(void **) {
  const SavedProgram program = read(small_blob());
  const std::vector<uint32_t> names = {1, 2, 3, 4};
  for (size_t granted = 0; granted < 40; ++granted) {
    test::Failing memory;
    Cast cast(&memory);
    LearnedForecast forecast(cast, {size_t{64} << 10, 1}, std::pmr::new_delete_resource());
    memory.left = granted;
    forecast.load(program.logs[0], names);
    assert_int_equal(forecast.log().held(), program.logs[0].operations.size());
    assert_int_equal(forecast.log().lives().alive(), 0);
    for (uint32_t part = 0; part < cast.size(); ++part) assert_false(cast[part].live);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(an_empty_program_is_written_and_read),
      cmocka_unit_test(what_is_cut_is_refused),
      cmocka_unit_test(a_byte_that_is_another_is_refused),
      cmocka_unit_test(what_is_another_s_is_told_from_what_is_damaged),
      cmocka_unit_test(more_bytes_than_there_may_be_are_refused),
      cmocka_unit_test(counts_that_do_not_fit_the_bytes_are_refused),
      cmocka_unit_test(records_that_name_what_is_not_there_are_refused),
      cmocka_unit_test(names_that_are_too_long_are_refused),
      cmocka_unit_test(lengths_of_names_that_do_not_come_to_their_text_are_refused),
      cmocka_unit_test(what_is_taken_can_be_learned_from),
      cmocka_unit_test(an_allocation_that_fails_while_it_is_read_is_thrown),
      cmocka_unit_test(what_finds_no_memory_is_learned_all_the_same),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
