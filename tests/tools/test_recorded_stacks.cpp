// SPDX-License-Identifier: Apache-2.0
//
// Stacks on their way from a program to a picture: a recording has files and offsets, weir frag shows functions where addr2line knows them, and
// offsets where it is not installed, the file has gone, or is another build. Traces of others may say anything. The same program, linked
// at a fixed address, is a test of its own (WEIR_TEST_FIXED): there the loader moves nothing, and an offset is the address itself.
#include "tests/tools/program.hpp"

#include "tools/weir/import/memory_viz.hpp"
#include "tools/weir/import/pool_snapshot.hpp"
#include "tools/weir/recorded/program_blocks.hpp"
#include "tools/weir/symbols.hpp"

#include <weir/weir.h>

#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace {

using namespace weir::tool;
using namespace weir::test;

void good(weir_result result) {
  if (result != WEIR_SUCCESS) fail_msg("%s", weir_last_error());
}

struct Made {
  std::string recording, snapshot;
};

[[gnu::noinline]] weir_buffer make_weights(weir_pool pool, const char *name) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = 65536;
  desc.name = name;
  weir_buffer made = nullptr;
  good(weir_buffer_create(pool, &desc, &made));
  asm volatile("" : : : "memory");  // no tail call
  return made;
}
[[gnu::noinline]] uint64_t make_scratch(weir_pool pool, weir_stream stream) {
  uint64_t address = 0;
  good(weir_malloc(pool, 0, stream, 1000, &address));
  asm volatile("" : : : "memory");
  return address;
}

/// A program whose context keeps stacks.
Made record() {
  const TemporaryFile place("");
  const std::string path = place.path() + ".vmt";
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.options = "host.memory=16M;host.granule=65536;host.granule_large=0";
  desc.flags = WEIR_CONTEXT_NO_SEARCH | WEIR_CONTEXT_STACKS;
  weir_context context = nullptr;
  good(weir_context_create(&desc, &context));
  weir_trace_desc trace = WEIR_TRACE_DESC_INIT;
  trace.kind = WEIR_TRACE_RECORDING;
  trace.path = path.c_str();
  good(weir_trace_start(context, &trace));
  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  device.budget = 1 << 20;
  weir_pool_desc pools = WEIR_POOL_DESC_INIT;
  pools.devices = &device;
  pools.device_count = 1;
  pools.flags = WEIR_POOL_NO_BACKGROUND;
  pools.host_budget = 1 << 20;
  pools.page_size = pools.large_page_size = 65536;
  weir_pool pool = nullptr;
  good(weir_pool_create(context, &pools, &pool));
  weir_stream stream = nullptr;
  good(weir_stream_create(context, 0, 0, &stream));
  Made made;
  volatile size_t times = 3;  // from one place: not unrolled
  const char *names[] = {"first", nullptr, nullptr};
  weir_buffer buffers[3] = {};
  for (size_t i = 0; i < times; ++i) buffers[i] = make_weights(pool, names[i]);
  weir_use use = WEIR_USE(buffers[0], WEIR_DISCARD_WRITE);  // it has bytes
  weir_lease lease = nullptr;
  good(weir_acquire(pool, stream, &use, 1, nullptr, &lease));
  good(weir_release(lease, stream));
  const uint64_t scratch = make_scratch(pool, stream);
  size_t needed = 0;
  good(weir_pool_snapshot(pool, nullptr, 0, &needed));
  made.snapshot.resize(needed);
  good(weir_pool_snapshot(pool, made.snapshot.data(), needed, &needed));
  made.snapshot.resize(needed - 1);
  good(weir_free(pool, stream, scratch));
  good(weir_stream_close(stream));
  good(weir_pool_destroy(pool));
  good(weir_context_destroy(context));
  made.recording = text_of(path);
  (void)unlink(path.c_str());
  return made;
}

struct Tags {
  std::vector<std::string> tags, notes;
};

Tags tags_in(const std::string &recording) {
  const TemporaryFile file(recording);
  TraceReader reader(file.path(), TraceReader::Tags::stacks);
  Tags found;
  TraceEvent event;
  while (reader.next(event))
    if (event.kind == TraceEvent::Kind::alloc) found.tags.emplace_back(event.text);
  found.notes = reader.notes();
  return found;
}

size_t count_of(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void a_recording_has_each_stack_once(void **) {
  const std::string text = record().recording;
  assert_int_equal(count_of(text, "\nstack "), 2);
  assert_true(count_of(text, "\nmodule ") >= 2);  // the program, and the C library
  assert_int_equal(count_of(text, "/test_recorded_stacks build_id="), 1);
  assert_true(text.find("\nstack ") < text.find("\nb "));
  assert_int_equal(count_of(text, " stack="), 4);
  // A replay makes nothing of it.
  const TemporaryFile file(text);
  const Outcome outcome = run_weir({"replay", file.path()});
  if (outcome.status != 0) fail_msg("%s", outcome.errors.c_str());
  assert_false(contains(outcome.output + outcome.errors, "not known"));
}

/// Where the loader has moved this program.
uintptr_t moved_by() {
  uintptr_t moved = UINTPTR_MAX;
  dl_iterate_phdr(
      [](dl_phdr_info *file, size_t, void *to) {
        *static_cast<uintptr_t *>(to) = file->dlpi_addr;
        return 1;  // the program is the first
      },
      &moved);
  return moved;
}

void it_is_linked_as_it_says(void **) {
#if defined(WEIR_TEST_FIXED)
  assert_int_equal(moved_by(), 0);
#else
  assert_int_not_equal(moved_by(), 0);
#endif
}

bool addr2line_is_there() {
  if (!installed("addr2line").empty()) return true;
  std::puts("skipped: addr2line (binutils) is not installed");
  return false;
}

void tags_are_stacks_with_functions(void **) {
  if (!addr2line_is_there()) skip();
  const Tags found = tags_in(record().recording);
  assert_true(found.notes.empty());
  assert_int_equal(found.tags.size(), 4);
  for (size_t i = 0; i < 4; ++i) {
    const std::string &tag = found.tags[i];
    const std::string inner = i < 3 ? "make_weights" : "make_scratch";
    const size_t outer = tag.find("main"), own = tag.find(inner);
    if (outer == tag.npos || own == tag.npos || outer > own) fail_msg("%s", tag.c_str());
  }
  assert_true(found.tags[0].ends_with(";first"));
  assert_string_equal((found.tags[1] + ";first").c_str(), found.tags[0].c_str());
  assert_string_equal(found.tags[1].c_str(), found.tags[2].c_str());
  // The page has them.
  const TemporaryFile file(record().recording), page("");
  const Outcome outcome = run_weir({"frag", file.path(), "--html", page.path()});
  if (outcome.status != 0) fail_msg("%s", outcome.errors.c_str());
  assert_true(contains(text_of(page.path()), "make_weights;first"));
}

/// The nearest function that a file exports is not the one that was called.
void a_stripped_file_names_nothing_wrong(void **) {
  const std::string strip = installed("strip");
  if (!addr2line_is_there() || strip.empty()) skip();
  std::string text = record().recording;
  const std::string copy = TemporaryFile("").path() + ".test_recorded_stacks";
  const size_t end = text.find(" build_id=", text.find("/test_recorded_stacks build_id="));
  const size_t begin = text.rfind(' ', end - 1) + 1;
  const std::string own = text.substr(begin, end - begin);
  assert_int_equal(run_program({strip, "-o", copy, own}).status, 0);
  text.replace(begin, own.size(), copy);
  const Tags found = tags_in(text);
  (void)unlink(copy.c_str());
  for (const std::string &tag : found.tags) {
    if (!contains(tag, ".test_recorded_stacks+0x") || contains(tag, ".test_recorded_stacks:"))
      fail_msg("%s", tag.c_str());
  }
}

void expect_offsets(const Tags &found) {
  for (const std::string &tag : found.tags) {
    if (!contains(tag, "test_recorded_stacks+0x")) fail_msg("%s", tag.c_str());
    assert_false(contains(tag, "make_weights"));
  }
}

void offsets_are_shown_where_nobody_knows_more(void **) {
  const std::string text = record().recording;
  const std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);
  const Tags alone = tags_in(text);
  assert_int_equal(setenv("PATH", path.c_str(), 1), 0);
  expect_offsets(alone);
  assert_int_equal(alone.notes.size(), 1);
  assert_true(contains(alone.notes[0], "addr2line (binutils) is not installed"));
  if (!addr2line_is_there()) skip();
  // Built anew since.
  const std::string key = "/test_recorded_stacks build_id=";
  std::string other = text;
  char &digit = other[other.find(key) + key.size()];
  digit = digit == '0' ? '1' : '0';
  const Tags anew = tags_in(other);
  expect_offsets(anew);
  assert_int_equal(anew.notes.size(), 1);
  assert_true(contains(anew.notes[0], "another build"));
  // Gone; and what is no file to be read, which would wait for ever.
  for (const char *wrong : {"/nonexistent/test_recorded_stacks", "/dev/test_recorded_stacks"}) {
    std::string gone = text;
    const size_t at = gone.rfind(' ', gone.find(key)) + 1;
    gone.replace(at, gone.find(" build_id", at) - at, wrong);
    const Tags found = tags_in(gone);
    expect_offsets(found);
    assert_true(contains(found.notes[0], "is not there"));
  }
  const std::string fifo = TemporaryFile("").path() + ".test_recorded_stacks";
  assert_int_equal(mkfifo(fifo.c_str(), 0600), 0);
  std::string waits = text;
  const size_t at = waits.rfind(' ', waits.find(key)) + 1;
  waits.replace(at, waits.find(" build_id", at) - at, fifo);
  assert_true(contains(tags_in(waits).notes[0], "is not there"));
  (void)unlink(fifo.c_str());
}

/// What others write: texts as frames, no such module, lines that come late, twice or never.
void any_trace_is_read(void **) {
  const std::string head =
      "#vmt 2\ncontext 0\ndevice 0 0 memory=1048576 granule=65536\npool 0 0 page_size=65536\n"
      "pool_device 0 0 1048576\n";
  const Tags found = tags_in(
      head +
      "stack 5 train.py:1:main;model.py:2:forward\nb 0 0 1 name=x stack=5\nb 1 0 1 stack=6\n"
      "b 2 0 1 stack=99\nb 3 0 1 name=model.py:2:forward stack=5\nb 4 0 1 stack=7\n"
      "b 5 0 1 name=alone stack=8\nstack 6 @7+12;a%20b\nstack 6 other\nstack 7 @1+x;@1\nstack 8 -\n"
      "module 1 relative/file\nb 6 0 1 stack=9\nstack 9 "
      "@1+4096;@1+5:cos;@1+7:_ZN4weir3useEi\nend\n");
  const char *expected[] = {"train.py:1:main;model.py:2:forward;x", "@7+12;a b", "buffer",
                            "train.py:1:main;model.py:2:forward",   "@1+x;@1",   "alone",
                            "file+0x1000;file:cos;file:weir::use"};
  assert_int_equal(found.tags.size(), std::size(expected));
  for (size_t i = 0; i < found.tags.size(); ++i)
    assert_string_equal(found.tags[i].c_str(), expected[i]);
  // A few frames that a line of a megabyte has: the innermost.
  std::string many = "stack 1 ";
  for (int i = 0; i < 100'000; ++i) many += "f" + std::to_string(i) + ";";
  const Tags cut = tags_in(head + many + "last\nb 0 0 1 stack=1\nend\n");
  assert_true(cut.tags[0].ends_with(";f99999;last"));
  assert_int_equal(std::count(cut.tags[0].begin(), cut.tags[0].end(), ';'), 127);
}

void a_snapshot_s_stacks_have_functions(void **) {
  if (!addr2line_is_there()) skip();
  const std::string document = record().snapshot;
  const PoolSnapshot snapshot = parse_pool_snapshot(document, "test");
  const Symbols symbols = symbols_of(snapshot);
  assert_true(symbols.notes().empty());
  std::set<std::string> functions;
  for (const auto &[number, frames] : snapshot.stacks)
    for (const SnapshotFrame &of : frames)
      functions.insert(symbols.find(of.file, of.offset).function);
  const auto is_own = [](const std::string &text) { return text.ends_with("make_weights"); };
  assert_true(std::any_of(functions.begin(), functions.end(), is_own));
  const std::string viz = memory_viz(snapshot, symbols);
  assert_true(contains(viz, "make_weights"));
  assert_false(contains(memory_viz(snapshot, {}), "make_weights"));
  const TemporaryFile file(document);
  const Outcome outcome = run_weir({"snapshot", file.path()});
  assert_int_equal(outcome.status, 0);
  assert_true(contains(outcome.output, "make_weights"));
  assert_true(contains(outcome.output, "memory of weir_malloc"));
  assert_true(contains(viz, "memory of weir_malloc"));
}

}  // namespace

int main() {
  if (!weir_is_there()) return skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(it_is_linked_as_it_says),
      cmocka_unit_test(a_recording_has_each_stack_once),
      cmocka_unit_test(tags_are_stacks_with_functions),
      cmocka_unit_test(offsets_are_shown_where_nobody_knows_more),
      cmocka_unit_test(a_stripped_file_names_nothing_wrong),
      cmocka_unit_test(any_trace_is_read),
      cmocka_unit_test(a_snapshot_s_stacks_have_functions),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
