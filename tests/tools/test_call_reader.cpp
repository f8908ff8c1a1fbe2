// SPDX-License-Identifier: Apache-2.0
//
// Version 2 of the trace format, line by line: what the library writes is read back as it was given; what is malformed is refused with its number
// and text; what is not known is named and counted; and a trace that is cut anywhere is read to its last whole event.
#include "tests/tools/trace_files.hpp"

#include "core/record/vmt_line.hpp"
#include "tools/weir/recorded/call_reader.hpp"

#include <weir/weir.h>

#include <zstd.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace {

using namespace weir::tool::recorded;
using weir::record::vmt_none;
using weir::record::VmtLines;
using weir::test::contains;
using weir::test::error_of;
using weir::test::TemporaryFile;
using weir::tool::TraceFile;

/// Lines behind "#vmt 2".
std::string written(const std::function<void(VmtLines &)> &write) {
  std::vector<char> memory(weir::record::vmt_longest_line * 2);
  VmtLines lines(memory.data(), memory.size());
  assert_true(lines.begin());
  write(lines);
  return std::string(lines.text());
}

struct Reading {
  std::vector<Call> calls;
  std::vector<std::string> notes;
};

Reading read_all(const std::string &text) {
  const TemporaryFile file(text);
  TraceFile trace(file.path());
  assert_int_equal(trace.version(), 2);
  CallReader reader(trace);
  Reading reading;
  Call call;
  while (reader.next(call)) reading.calls.push_back(call);
  reading.notes = reader.notes();
  return reading;
}

/// What takes the one call of a text apart.
void with_call(const std::string &text,
               const std::function<void(const CallReader &, const Call &)> &look) {
  const TemporaryFile file(text);
  TraceFile trace(file.path());
  CallReader reader(trace);
  Call call;
  assert_true(reader.next(call));
  look(reader, call);
}

void acquires_come_with_their_uses(void **) {
  const Reading reading = read_all(written([](VmtLines &lines) {
    weir::record::VmtAcquire acquire;
    acquire.lease = UINT64_MAX - 1;
    acquire.pool = 2;
    acquire.stream = 3;
    acquire.operation.name = "a b";
    acquire.uses = 3;
    acquire.flags = WEIR_ACQUIRE_SOLE_HOLDER;
    acquire.timeout_ns = WEIR_INFINITE;
    assert_true(lines.acquire(acquire));
    assert_true(lines.use({7, 0, vmt_none, WEIR_READ, 0}));
    assert_true(lines.use({8, 4096, vmt_none, WEIR_DISCARD_WRITE, WEIR_USE_ALLOW_REMOTE}));
    assert_true(lines.use({9, 0, 12, WEIR_READ_WRITE, 4 | WEIR_USE_ALLOW_REMOTE}));
    assert_true(lines.end());
  }));
  assert_int_equal(reading.calls.size(), 2);
  assert_true(reading.notes.empty());
  const Call &call = reading.calls[0];
  assert_true(call.kind == CallKind::acquire);
  assert_true(call.fields[0] == UINT64_MAX - 1 && call.fields[1] == 2 && call.fields[2] == 3);
  assert_int_equal(call.fields[3], 0);
  assert_string_equal(call.text.c_str(), "a b");
  assert_int_equal(call.uses.size(), 3);
  assert_true(call.uses[0].buffer == 7 && call.uses[0].length == call_none);
  assert_true(call.uses[0].mode == WEIR_READ && call.uses[0].flags == 0);
  assert_true(call.uses[1].offset == 4096 && call.uses[1].length == call_none);
  assert_true(call.uses[1].mode == WEIR_DISCARD_WRITE && call.uses[1].flags == 1);
  assert_true(call.uses[2].offset == 0 && call.uses[2].length == 12 && call.uses[2].flags == 5);
  assert_true(call.uses[2].mode == WEIR_READ_WRITE);
  assert_int_equal(call.keys.size(), 2);
}

void keys_come_back(void **) {
  const uint32_t users[] = {0, WEIR_DEVICE_HOST, 5};
  const uint32_t weights[] = {1, 65535};
  const std::string text = written([&](VmtLines &lines) {
    weir::record::VmtBuffer buffer;
    buffer.buffer = 1;
    buffer.size = 5;
    buffer.client = 0;
    buffer.home = WEIR_DEVICE_ANY;
    buffer.tag = UINT64_MAX - 3;
    buffer.priority = -2;
    buffer.name = "-";
    buffer.users = users;
    buffer.shard_weights = weights;
    buffer.stripe = WEIR_NONE;
    assert_true(lines.buffer(buffer));
  });
  with_call(text, [](const CallReader &reader, const Call &call) {
    assert_int_equal(reader.number(call, "client", 77), 0);
    assert_int_equal(reader.device(call, "home", 0), WEIR_DEVICE_ANY);
    assert_true(reader.number(call, "tag") == UINT64_MAX - 3);
    assert_int_equal(reader.signed_number(call, "priority"), -2);
    assert_string_equal(reader.text(call, "name").c_str(), "-");
    assert_true(reader.devices(call, "users") == std::vector<uint32_t>({0, WEIR_DEVICE_HOST, 5}));
    assert_true(reader.numbers(call, "shard_weights") == std::vector<uint32_t>({1, 65535}));
    assert_true(reader.number(call, "stripe") == WEIR_NONE);
    assert_int_equal(reader.number(call, "alignment", 256), 256);
    assert_true(reader.devices(call, "shard_devices").empty());
  });
}

/// Every line that the library can write is known here, with its keys.
void every_line_of_the_library_is_known(void **) {
  const std::string text = written([](VmtLines &lines) {
    using namespace weir::record;
    const uint32_t list[] = {1};
    bool all = lines.header("name", "all") && lines.context(0, "host.devices=1");
    all = all && lines.device({0, 0, "host", "a", 1, 2, 3});
    all = all && lines.link({0, WEIR_DEVICE_HOST, 0, "pcie", 5, 6});
    const VmtPace pace{1, 2, 3, 4, 5, 6, 7, 8, 9};
    all = all && lines.pool({0, 0, "p", "auto", "lz4", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, pace});
    all = all && lines.pool_device(0, 0, WEIR_UNLIMITED) && lines.remove_device(0, 1);
    const VmtFigure figure{"hits", 3};
    all = all && lines.stats(0, {&figure, 1}) && lines.client({0, 0, "c", -1, 1, 2, 3, 4});
    all = all && lines.stream(0, 0, 0, true) && lines.operation_name(0, 1, "op");
    all = all && lines.buffer({0, 0, 1, 0, 1, 1, 2, 3, 4, 1, "b", list, 1, list, list, 5});
    all = all && lines.rename(0, "") && lines.priority(0, -1);
    for (const VmtBytes what : {VmtBytes::read, VmtBytes::write, VmtBytes::discard})
      all = all && lines.bytes(what, {0, 1, vmt_none});
    all = all && lines.advise({0, 0, 5}, 2) && lines.hold(0, 0, WEIR_READ_WRITE, 1);
    all = all && lines.unhold(0) && lines.register_host(0, 1) && lines.unregister_host(0);
    all = all && lines.allocate(0, 0, 0, 0, 5, "m") && lines.free(0, vmt_none);
    const VmtAcquire acquire{0, 0, 0, {1, ""}, 1, 1, 2, true};
    all = all && lines.acquire(acquire) && lines.use({0, 1, 2, WEIR_READ, 6});
    all = all && lines.refused(acquire, -6) && lines.use({0, 0, vmt_none, WEIR_READ, 1});
    all = all && lines.release(0, 0) && lines.kernel(0, 9);
    all = all && lines.prefetch(0, 0, 1) && lines.use({0, 0, vmt_none, WEIR_READ, 0});
    all = all && lines.announce(0, 0, 2, 1) && lines.operation({0, "x"}, 1);
    all = all && lines.use({0, 0, vmt_none, WEIR_READ, 0}) && lines.operation({}, 0);
    all = all && lines.synchronize(0) && lines.trim(0, WEIR_DEVICE_ALL, 1, WEIR_UNLIMITED);
    all = all && lines.rebalance(0, 5) && lines.defragment({0, WEIR_DEVICE_ALL, 1, 2, 3, 4, 5});
    all = all && lines.defragmentation({0, 1, 2, 3, 4}) && lines.policy_load(0, 5);
    all = all && lines.module(0, "/bin/x", "0a") && lines.stack(1, "@0+5;main");
    all = all && lines.time(5) && lines.thread(1) && lines.phase("p") && lines.lost(1);
    for (const VmtThing thing :
         {VmtThing::pool, VmtThing::client, VmtThing::stream, VmtThing::buffer})
      all = all && lines.ends(thing, 0);
    assert_true(all && lines.end());
  });
  const Reading reading = read_all(text);
  for (const std::string &note : reading.notes) print_error("%s\n", note.c_str());
  assert_true(reading.notes.empty());
  std::vector<bool> seen(static_cast<size_t>(CallKind::end) + 1);
  for (const Call &call : reading.calls) seen[static_cast<size_t>(call.kind)] = true;
  for (size_t kind = static_cast<size_t>(CallKind::buffer); kind < seen.size(); ++kind)
    if (!seen[kind]) fail_msg("no line of kind %zu came back", kind);
}

void malformed_lines_are_refused(void **) {
  const char *lines[] = {"r",
                         "r 1",
                         "r 1 ",
                         "r 1 2 ",
                         "r 1  2",
                         "r 1 2 3",
                         " r 1 2",
                         "r -1 2",
                         "r 1.5 2",
                         "r 18446744073709551616 2",
                         "r 18446744073709551615 2",
                         "r 1 2\r",
                         "R 1 2",
                         "",
                         "r 1 2 =3",
                         "r 1 2 key=",
                         "r 1 2 Key=3",
                         "u 0 r",
                         "o 1 0",
                         "hold 0 0 w",
                         "hold 0 1.5 r",
                         "hold 0 everywhere r",
                         "priority 0 --1",
                         "priority 0 9223372036854775808",
                         "name 0 a%",
                         "name 0 a%0",
                         "name 0 a%0G",
                         "name 0 a b",
                         "read 0 1",
                         "read 0 1 x",
                         "read 0 1 2 3",
                         "l 0 0 0 = 0",
                         "l 0 0 0 0 0",
                         "l 0 0 0 - 1",
                         "l 0 0 0 - 16777217",
                         "pool_device 0 0 all",
                         "pool_device 0 4294967040 1",
                         "b 0 0 1 flags=1 flags=1",
                         "announce 0 0 16777217",
                         "m 0 0 0 none 5",
                         "end 1"};
  for (const char *line : lines) {
    const std::string error =
        error_of([&] { read_all(std::string("#vmt 2\nt 1\n") + line + "\nt 2\nend\n"); });
    if (!contains(error, "line 3:") && !contains(error, "line 4:"))
      fail_msg("'%s' was answered with '%s'", line, error.c_str());
  }
  assert_true(contains(error_of([] { read_all("#vmt 2\nend\nt 1\n"); }), "after the end"));
  assert_true(contains(error_of([] { read_all("#vmt 2\nl 0 0 0 - 2\nu 0 r\nt 1\n"); }),
                       "1 uses of the call before are missing"));
  assert_true(contains(error_of([] { read_all("#vmt 2\nannounce 0 0 1\nu 0 r\n"); }),
                       "1 operations of the call before are missing"));
  assert_true(contains(error_of([] { read_all("#vmt 2\nt 1\n#late x\n"); }), "line 3"));
}

void values_that_can_not_be_are_refused(void **) {
  with_call(
      "#vmt 2\nb 0 0 1 tag=x priority=none home=1x users=0,,1 shard_weights=4294967296 "
      "name=%zz\n",
      [](const CallReader &reader, const Call &call) {
        assert_true(contains(error_of([&] { (void)reader.number(call, "tag"); }), "'tag'"));
        assert_true(contains(error_of([&] { (void)reader.signed_number(call, "priority"); }),
                             "'priority'"));
        assert_true(contains(error_of([&] { (void)reader.device(call, "home", 0); }), "'home'"));
        assert_true(contains(error_of([&] { (void)reader.devices(call, "users"); }), "'users'"));
        assert_true(contains(error_of([&] { (void)reader.numbers(call, "shard_weights"); }),
                             "'shard_weights'"));
        assert_true(contains(error_of([&] { (void)reader.text(call, "name"); }), "'name'"));
      });
}

void what_is_not_known_is_named_and_counted(void **) {
  const Reading reading =
      read_all("#vmt 2\nfrob 1 x=y \"\nl 0 0 0 - 1 colour=red\nfrob\nu 0 r size=4\nend\n");
  assert_int_equal(reading.calls.size(), 2);
  assert_int_equal(reading.calls[0].uses.size(), 1);
  assert_int_equal(reading.notes.size(), 3);
  assert_true(contains(reading.notes[0], "'colour' of 'l'"));
  assert_true(contains(reading.notes[1], "'frob'") && contains(reading.notes[1], "2 times"));
  assert_true(contains(reading.notes[2], "'size' of 'u'"));
  // A million names are not a million notes.
  std::string many = "#vmt 2\n";
  for (int i = 0; i < 1000; ++i) many += "kind_" + std::to_string(i) + "\n";
  const Reading crowd = read_all(many + "end\n");
  assert_int_equal(crowd.notes.size(), 33);
  assert_true(contains(crowd.notes.back(), "968 others"));
}

std::string example() {
  std::string text = "#vmt 2\n#name cut\n";
  for (int i = 0; i < 40; ++i)
    text += "t " + std::to_string(i) + "\nl 1 0 0 - 2\nu 0 r\nu 1 w 5 -\nr 1 0\n";
  return text + "end\n";
}

/// Each event that is whole, and no other.
void check_cut(const Reading &reading, const Reading &whole, size_t whole_calls) {
  assert_int_equal(reading.calls.size(), whole_calls);
  for (size_t i = 0; i < whole_calls; ++i) {
    assert_true(reading.calls[i].kind == whole.calls[i].kind);
    assert_int_equal(reading.calls[i].uses.size(), whole.calls[i].uses.size());
  }
  const bool ended = whole_calls == whole.calls.size();
  assert_int_equal(reading.notes.size(), ended ? 0 : 1);
  if (!ended) assert_true(contains(reading.notes[0], "last whole event"));
}

void a_trace_may_be_cut_anywhere(void **) {
  const std::string text = example();
  const Reading whole = read_all(text);
  assert_true(whole.notes.empty());
  for (size_t length = 7; length <= text.size(); ++length) {
    // Events end where their last line does.
    std::string_view part = std::string_view(text).substr(0, length);
    part = part.substr(0, part.rfind('\n') + 1);
    size_t calls = 0, uses_missing = 0;
    for (size_t at = 0; at < part.size(); at = part.find('\n', at) + 1) {
      if (part[at] == 'u' && --uses_missing == 0) ++calls;
      if (part[at] == 'l') uses_missing = 2;
      if (part[at] == 't' || part[at] == 'r' || part[at] == 'e') ++calls;
    }
    check_cut(read_all(text.substr(0, length)), whole, calls);
  }
}

/// As a recorder does it that is killed: whole blocks, and then nothing.
void a_compressed_frame_may_be_cut(void **) {
  const std::string text = example();
  const Reading whole = read_all(text);
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx *)> zstd(ZSTD_createCCtx(), ZSTD_freeCCtx);
  std::string packed(ZSTD_compressBound(text.size()) + 4096, '\0');
  ZSTD_outBuffer out{packed.data(), packed.size(), 0};
  std::vector<size_t> flushed;
  for (size_t at = 0; at < text.size(); at += 512) {
    ZSTD_inBuffer in{text.data() + at, std::min<size_t>(512, text.size() - at), 0};
    assert_int_equal(ZSTD_compressStream2(zstd.get(), &out, &in, ZSTD_e_flush), 0);
    flushed.push_back(out.pos);
  }
  for (size_t length = flushed[0]; length < out.pos; ++length) {
    const Reading reading = read_all(packed.substr(0, length));
    const auto blocks = static_cast<size_t>(
        std::upper_bound(flushed.begin(), flushed.end(), length) - flushed.begin());
    const Reading plain = read_all(text.substr(0, std::min(blocks * 512, text.size())));
    assert_int_equal(reading.calls.size(), plain.calls.size());
    assert_true(reading.calls.size() <= whole.calls.size());
    // What is there is all there is, but for the mark that the frame ends.
    if (reading.calls.size() < whole.calls.size()) assert_int_equal(reading.notes.size(), 1);
  }
  std::string damaged = packed.substr(0, flushed[1]);
  damaged[flushed[0] + 1] = static_cast<char>(damaged[flushed[0] + 1] ^ 0x7f);
  damaged[flushed[0]] = static_cast<char>(0xff);
  assert_true(contains(error_of([&] { read_all(damaged); }), "cannot decompress"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(acquires_come_with_their_uses),
      cmocka_unit_test(keys_come_back),
      cmocka_unit_test(every_line_of_the_library_is_known),
      cmocka_unit_test(malformed_lines_are_refused),
      cmocka_unit_test(values_that_can_not_be_are_refused),
      cmocka_unit_test(what_is_not_known_is_named_and_counted),
      cmocka_unit_test(a_trace_may_be_cut_anywhere),
      cmocka_unit_test(a_compressed_frame_may_be_cut),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
