// SPDX-License-Identifier: Apache-2.0
//
// The trace reader: every kind of line is taken apart rightly, plain or compressed, and every malformed line is refused
// with its number and its text. What lines mean together is test_trace_plan.cpp's.
#include "tests/tools/trace_files.hpp"

#include "tools/weir/trace_reader.hpp"

#include <zstd.h>

#include <vector>

namespace {

using weir::test::contains;
using weir::test::error_of;
using weir::test::TemporaryFile;
using weir::tool::TraceEvent;
using weir::tool::TraceReader;
using Kind = TraceEvent::Kind;

constexpr const char *every_kind =
    "#vmt 1\n#name a trace\n#units bytes\n"
    "a 0 4096 param\nt 17\np iter\ng 3 0\no 0 12 mm\nu 0 r\nu 0 w 16 32\nu 0 x 1 9 4\nu @3 r\ne\nd "
    "3\nf 0\n";

struct Copy {
  TraceEvent event;
  std::string text;
};

std::vector<Copy> read_all(const std::string &path, std::string *name = nullptr) {
  TraceReader reader(path);
  std::vector<Copy> events;
  TraceEvent event;
  while (reader.next(event)) events.push_back({event, std::string(event.text)});
  if (name != nullptr) *name = reader.name();
  return events;
}

std::string compressed(std::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

void check_every_kind(const std::string &path) {
  std::string name;
  const std::vector<Copy> events = read_all(path, &name);
  assert_string_equal(name.c_str(), "a trace");
  assert_int_equal(events.size(), 12);
  const Kind kinds[] = {Kind::alloc,     Kind::time, Kind::phase,    Kind::join,
                        Kind::operation, Kind::use,  Kind::use,      Kind::use,
                        Kind::use_group, Kind::end,  Kind::dissolve, Kind::free};
  for (size_t i = 0; i < events.size(); ++i) assert_true(events[i].event.kind == kinds[i]);
  assert_int_equal(events[0].event.bytes, 4096);
  assert_string_equal(events[0].text.c_str(), "param");
  assert_int_equal(events[1].event.id, 17);
  assert_int_equal(events[3].event.id, 3);
  assert_int_equal(events[4].event.bytes, 12);
  assert_string_equal(events[4].text.c_str(), "mm");
  assert_false(events[5].event.span);
  assert_int_equal(events[5].event.mode, 'r');
  assert_true(events[6].event.span);
  assert_int_equal(events[6].event.offset, 16);
  assert_int_equal(events[6].event.length, 32);
  assert_int_equal(events[6].event.touched, 32);
  assert_int_equal(events[7].event.mode, 'x');
  assert_int_equal(events[7].event.touched, 4);
  assert_int_equal(events[8].event.id, 3);
}

void reads_every_kind_of_line(void **) {
  const TemporaryFile file(every_kind);
  check_every_kind(file.path());
}

void reads_zstd_by_its_first_bytes(void **) {
  const TemporaryFile file(compressed(every_kind));
  check_every_kind(file.path());
}

/// Every length of the header moves the lines, so that each byte of a line comes first in a refilled buffer once.
void reads_lines_across_buffers(void **) {
  constexpr uint64_t lines = 60'000;
  std::string body;
  for (uint64_t i = 0; i < lines; ++i) body += "t " + std::to_string(1'000'000 + i) + "\n";
  for (size_t shift = 1; shift <= 10; ++shift) {
    const std::string text = "#vmt 1\n#pad " + std::string(shift, '.') + "\n" + body;
    for (const std::string &stored : {text, compressed(text)}) {
      const TemporaryFile file(stored);
      TraceReader reader(file.path());
      TraceEvent event;
      uint64_t seen = 0;
      while (reader.next(event)) assert_int_equal(event.id, 1'000'000 + seen++);
      assert_int_equal(seen, lines);
      assert_int_equal(reader.line_number(), lines + 2);
    }
  }
}

void refuses_malformed_lines(void **) {
  const char *lines[] = {
      "z 1",    "",           " a 0 1 x", "a",        "a 0",        "a 0 1",
      "a 0 1 ", "a 0 1 x y",  "a  0 1 x", "a -1 1 x", "a 0 1.5 x",  "a 0 99999999999999999999 x",
      "f",      "f x",        "f 0 ",     "f 0 1",    "u 0",        "u 0 q",
      "u 0 rr", "u 0 r ",     "u 0 r 1",  "u 0 r 1 ", "u 0 r 1 2 ", "u 0 r 1 2 3 4",
      "u @ r",  "u @1 r 0 1", "o 0 mm",   "o 0 1",    "o 0 1 a b",  "e ",
      "e 1",    "g 1",        "g 1 2 3",  "d",        "d 1 2",      "p",
      "p ",     "p a b",      "t",        "t 1 2",    "t 1\r",      "p \x01"};
  for (const char *line : lines) {
    const TemporaryFile file(std::string("#vmt 1\nt 1\n") + line + "\nt 2\n");
    const std::string error = error_of([&] { read_all(file.path()); });
    if (!contains(error, "line 3:")) fail_msg("'%s' was answered with '%s'", line, error.c_str());
    if (line[0] > ' ' && line[0] != 'p' &&
        std::string_view(line).find('\r') == std::string_view::npos)
      assert_true(contains(error, std::string("'") + line + "'"));
  }
}

void refuses_broken_files(void **) {
  const std::string packed = compressed(every_kind);
  std::string damaged = packed;
  damaged[packed.size() / 2] = static_cast<char>(damaged[packed.size() / 2] ^ 0x55);
  struct {
    std::string contents;
    const char *reason;
  } const cases[] = {
      {"", "empty"},
      {"#vmt 3\n", "line 1"},
      {"a 0 1 x\n", "line 1"},
      {"#vmt 1\n#key\n", "line 2"},
      {"#vmt 1\n# value\n", "line 2"},
      {"#vmt 1\nt 1\n#late header\n", "line 3"},
      {"#vmt 1\nt 1\nt 2", "line 3"},
      {std::string("#vmt 1\nt 1\0\n", 12), "line 2"},
      {"#vmt 1\n" + std::string(3 << 20, 'a') + "\n", "1 MiB"},
      {packed.substr(0, packed.size() - 5), "cut short"},
      {damaged, ""},
  };
  for (const auto &broken : cases) {
    const TemporaryFile file(broken.contents);
    const std::string error = error_of([&] { read_all(file.path()); });
    assert_string_not_equal(error.c_str(), "");
    assert_true(contains(error, file.path()));
    if (!contains(error, broken.reason))
      fail_msg("expected '%s' in '%s'", broken.reason, error.c_str());
  }
}

void names_a_missing_file(void **) {
  const std::string error = error_of([] { read_all("/nonexistent/trace.vmt"); });
  assert_true(contains(error, "/nonexistent/trace.vmt"));
  assert_true(contains(error_of([] { read_all("/"); }), "directory"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(reads_every_kind_of_line),   cmocka_unit_test(reads_zstd_by_its_first_bytes),
      cmocka_unit_test(reads_lines_across_buffers), cmocka_unit_test(refuses_malformed_lines),
      cmocka_unit_test(refuses_broken_files),       cmocka_unit_test(names_a_missing_file),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
