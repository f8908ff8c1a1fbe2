// SPDX-License-Identifier: Apache-2.0
//
// weir import: pickles are read as plain data, whatever protocol they have; what would run code is refused by name, and what is too much or cut is
// refused too; and a snapshot of PyTorch becomes the trace of its allocations, with what was there before. The files of
// tests/tools/snapshots are in the shape of PyTorch's.
#include "tests/tools/program.hpp"

#include "tools/weir/allocator_replay.hpp"
#include "tools/weir/import/import_trace.hpp"
#include "tools/weir/import/pickle.hpp"
#include "tools/weir/import/pickle_writer.hpp"
#include "tools/weir/import/torch_snapshot.hpp"
#include "tools/weir/recorded/program.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>

namespace {

using namespace weir::tool;
using weir::test::contains;
using weir::test::error_of;
using weir::test::Outcome;
using weir::test::run_weir;
using weir::test::TemporaryFile;
using weir::test::text_of;
using Type = PickleValue::Type;

std::string snapshot_path(const char *name) {
  const char *source = std::getenv("WEIR_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/tests/tools/snapshots/" + name;
}

template <size_t size>
Pickle pickle(const char (&bytes)[size]) {
  return Pickle(std::string(bytes, size - 1), "test");
}
template <size_t size>
std::string refusal(const char (&bytes)[size], const PickleLimits &limits = {}) {
  const std::string text(bytes, size - 1);
  return error_of([&] { const Pickle read(text, "test", limits); });
}

void every_form_of_plain_data_is_read(void **) {
  // In one list: None, True, 5, 300, -2, 2^40, -1 by LONG1, 1.5, "ab" in each form of text, (), (1, 2), {"k": [7]}.
  const Pickle data = pickle(
      "\x80\x05\x95\0\0\0\0\0\0\0\0]("
      "N\x88K\x05M\x2c\x01J\xfe\xff\xff\xff\x8a\x06\0\0\0\0\0\x01\x8a\x01\xff"
      "G\x3f\xf8\0\0\0\0\0\0"
      "\x8c\x02"
      "abX\x02\0\0\0abU\x02"
      "abC\x02"
      "ab\x8d\x02\0\0\0\0\0\0\0abS'ab'\nVab\n"
      ")K\x01K\x02\x86}\x8c\x01k]K\x07"
      "as"
      "e.");
  const std::vector<PickleValue> &values = data.elements(data.root());
  assert_int_equal(values.size(), 18);
  assert_true(values[0].type == Type::none);
  assert_true(values[1].type == Type::boolean && values[1].integer == 1);
  const int64_t numbers[] = {5, 300, -2, int64_t{1} << 40, -1};
  for (size_t i = 0; i < 5; ++i) {
    assert_true(values[2 + i].type == Type::integer);
    assert_true(values[2 + i].integer == numbers[i]);
  }
  assert_true(values[7].type == Type::real && values[7].real == 1.5);
  for (size_t i = 8; i < 15; ++i)
    assert_string_equal(std::string(data.text(values[i])).c_str(), "ab");
  assert_int_equal(data.elements(values[15]).size(), 0);
  assert_int_equal(data.elements(values[16]).size(), 2);
  const PickleValue *list = data.find(values[17], "k");
  assert_non_null(list);
  assert_int_equal(data.elements(*list).front().integer, 7);
  assert_null(data.find(values[17], "l"));
  assert_null(data.find(values[16], "k"));
}

void old_protocols_are_read(void **) {
  // {"a": [1, 2L, True], "b": <the same list>} as protocol 0 has it.
  const Pickle data = pickle("(dp0\nVa\np1\n(lp2\nI1\naL2L\naI01\nasVb\np3\ng2\ns.");
  const PickleValue *first = data.find(data.root(), "a"), *second = data.find(data.root(), "b");
  assert_true(first != nullptr && second != nullptr);
  assert_true(first->at == second->at);
  assert_int_equal(data.elements(*first).size(), 3);
  assert_int_equal(data.elements(*first)[1].integer, 2);
  assert_true(data.elements(*first)[2].type == Type::boolean);
}

void what_would_run_code_is_refused_by_name(void **) {
  assert_true(contains(refusal("cos\nsystem\n(S'true'\ntR."),
                       "byte 0: it asks for GLOBAL "
                       "'os.system', which would run code"));
  const std::pair<const char *, const char *> others[] = {{"(\x93", "STACK_GLOBAL"},
                                                          {"(R", "REDUCE"},
                                                          {"(b", "BUILD"},
                                                          {"(ios\nsystem\n", "INST 'os.system'"},
                                                          {"(o", "OBJ"},
                                                          {"(\x81", "NEWOBJ"},
                                                          {"(\x92", "NEWOBJ_EX"},
                                                          {"(\x82\x01", "EXT1"},
                                                          {"(\x83\x01", "EXT2"},
                                                          {"(\x84\x01", "EXT4"},
                                                          {"(P1\n", "PERSID"},
                                                          {"(Q", "BINPERSID"},
                                                          {"(\x97", "NEXT_BUFFER"},
                                                          {"(\x98", "READONLY_BUFFER"}};
  for (const auto &[bytes, name] : others) {
    const std::string error =
        error_of([&, text = std::string(bytes)] { const Pickle read(text, "test"); });
    if (!contains(error, std::string("asks for ") + name))
      fail_msg("%s was answered with '%s'", name, error.c_str());
  }
  // Nothing of the name reaches the terminal as it is.
  assert_true(contains(refusal("c\x1b[2J\nx y\n."), "'?[2J.x?y'"));
}

void broken_pickles_are_refused(void **) {
  assert_true(contains(refusal(""), "cut short"));
  assert_true(contains(refusal("\x80"), "cut short"));
  assert_true(contains(refusal("\x80\x06N."), "protocol 6"));
  assert_true(contains(refusal("N"), "cut short"));
  assert_true(contains(refusal("NN."), "more than one value"));
  assert_true(contains(refusal("(N."), "more than one value"));
  assert_true(contains(refusal("."), "more than one value"));
  assert_true(contains(refusal("X\xff\xff\xff\xff"), "cut short"));
  assert_true(contains(refusal("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"), "4 GiB"));
  assert_true(contains(refusal("\x8b\xff\xff\xff\xff"), "cut short"));
  assert_true(contains(refusal("Vabc"), "cut short"));
  assert_true(contains(refusal("0"), "no mark") || contains(refusal("0"), "mark"));
  assert_true(contains(refusal("e"), "mark"));
  assert_true(contains(refusal("a"), "its stack is empty"));
  assert_true(contains(refusal("(a"), "its stack is empty"));
  assert_true(contains(refusal("NNa"), "no list"));
  assert_true(contains(refusal("]NNs"), "no dict"));
  assert_true(contains(refusal("}(Nu"), "a key without a value"));
  assert_true(contains(refusal("(Nd"), "a key without a value"));
  assert_true(contains(refusal("h\x05"), "entry 5 of its memo"));
  assert_true(contains(refusal("gx\n"), "index of the memo"));
  assert_true(contains(refusal("q\x05"), "its stack is empty"));
  assert_true(contains(refusal("I1x\n."), "a text where a number must be"));
  assert_true(contains(refusal("I-\n."), "a text where a number must be"));
  assert_true(contains(refusal("\xff."), "unknown opcode: 255"));
  // What has no room is no number, and no error: nothing looks at it.
  assert_true(pickle("\x8a\x0a\0\0\0\0\0\0\0\0\0\x01.").root().type == Type::none);
  assert_true(pickle("L99999999999999999999L\n.").root().type == Type::none);
}

void how_much_is_bounded(void **) {
  PickleLimits limits;
  limits.values = 100;
  limits.memo = 10;
  limits.depth = 8;
  limits.marks = 4;
  limits.stack = 50;
  const auto error = [&limits](const std::string &bytes) {
    return error_of([&] { const Pickle read(bytes, "test", limits); });
  };
  std::string values = "]";
  for (int i = 0; i < 100; ++i) values += "Na";
  assert_true(contains(error(values + "."), "more values than are allowed"));
  std::string memo = "N";
  for (char i = 0; i < 11; ++i) memo += std::string("q") + i;
  assert_true(contains(error(memo + "."), "more entries in the memo"));
  assert_true(contains(error(std::string(51, 'N')), "more values at once"));
  assert_true(contains(error("((((("), "marks in marks"));
  assert_true(contains(error(std::string(9, ']') + "aaaaaaaa."), "lists in lists"));
  assert_string_equal(error(std::string(8, ']') + "aaaaaaa.").c_str(), "");
  std::string tuples = ")";
  tuples.append(8, '\x85');
  assert_true(contains(error(tuples + "."), "lists in lists"));
  // A list that holds itself is a list.
  assert_string_equal(error("]q\x01h\x01"
                            "a.")
                          .c_str(),
                      "");
  // With the usual bounds a small file is refused before it takes much memory.
  assert_true(contains(error_of([] { const Pickle read(std::string(5 << 20, 'N'), "test"); }),
                       "more values at once"));
}

TorchSnapshot read(const char *name) { return read_torch_snapshot(Pickle(snapshot_path(name))); }

recorded::Program program_of(const ImportResult &result) {
  const TemporaryFile file(result.trace);
  TraceFile trace(file.path());
  return recorded::read_program(trace, {});
}

void a_history_becomes_a_trace(void **) {
  const TorchSnapshot snapshot = read("training.pickle");
  assert_int_equal(snapshot.left_out, 0);
  const ImportResult result = import_trace(snapshot, "training", true);
  // Six weights; each step has six activations, six gradients and what the optimizer needs.
  assert_int_equal(result.allocations, 6 + 4 * 13);
  assert_int_equal(result.before, 0);
  assert_int_equal(result.frees, 4 * 13);
  assert_int_equal(result.left_out, 0);
  const recorded::Program program = program_of(result);
  assert_true(program.notes.empty());
  assert_int_equal(program.allocations.size(), result.allocations);
  assert_int_equal(program.peak_live_bytes, result.peak_live_bytes);
  assert_string_equal(program.name.c_str(), "training");
  // Of a place in the user's own file, not in PyTorch's.
  assert_string_equal(program.names[program.allocations[0].name].c_str(), "train.py:12:weights");
  assert_int_equal(program.allocations[0].bytes, 256 * 256 * 4);
  // Which calls led there, for weir frag; what is within the user's own is PyTorch's.
  assert_string_equal(program.stacks[program.allocations[0].stack].c_str(),
                      "train.py:80:<module>;train.py:12:weights");
  const auto phase = std::find_if(
      program.calls.begin(), program.calls.end(),
      [](const recorded::ProgramCall &call) { return call.kind == recorded::CallKind::phase; });
  assert_true(phase != program.calls.end());
  assert_int_equal(program.pools[0].devices.size(), 1);
  assert_int_equal(program.pools[0].devices[0].second, result.peak_reserved_bytes);
}

void what_was_there_before_is_allocated_first(void **) {
  const TorchSnapshot snapshot = read("two_devices_cut.pickle");
  const ImportResult result = import_trace(snapshot, "cut", false);
  assert_int_equal(result.devices, 2);
  assert_int_equal(result.streams, 3);
  assert_int_equal(result.left_out, 0);
  assert_true(result.before > 9);  // all weights, and what the cut history frees
  const recorded::Program program = program_of(result);
  // Bytes at the end are those of the snapshot.
  std::map<uint64_t, uint64_t> live;
  for (const recorded::ProgramCall &call : program.calls) {
    if (call.kind == recorded::CallKind::allocate)
      live[call.thing] = program.allocations[call.thing].bytes;
    if (call.kind == recorded::CallKind::free) live.erase(call.thing);
  }
  uint64_t bytes = 0, wanted = 0;
  for (const auto &[number, size] : live) bytes += size;
  for (const TorchBlock &block : snapshot.blocks) wanted += block.bytes;
  assert_int_equal(bytes, wanted);
  assert_int_equal(live.size(), snapshot.blocks.size());
}

void the_older_shape_is_read(void **) {
  const TorchSnapshot snapshot = read("older.pickle");
  assert_false(snapshot.timed);
  const ImportResult result = import_trace(snapshot, "older", false);
  assert_int_equal(result.allocations, 7);
  assert_int_equal(result.left_out, 0);
  assert_false(contains(result.trace, "\nt "));
}

/// A snapshot of one segment, its blocks and events.
struct Made {
  std::string bytes;
  explicit Made(const std::function<void(PickleWriter &)> &events,
                const std::function<void(PickleWriter &)> &blocks) {
    PickleWriter writer;
    writer.begin_dict();
    writer.key("segments");
    writer.begin_list();
    writer.begin_dict();
    writer.key("address");
    writer.number(4096);
    writer.key("total_size");
    writer.number(1 << 21);
    writer.key("blocks");
    writer.begin_list();
    blocks(writer);
    writer.end_list();
    writer.end_dict();
    writer.end_list();
    writer.key("device_traces");
    writer.begin_list();
    writer.begin_list();
    events(writer);
    writer.end_list();
    writer.end_list();
    writer.end_dict();
    bytes = writer.take();
  }
};

void event(PickleWriter &writer, const char *action, uint64_t address, uint64_t size) {
  writer.begin_dict();
  writer.key("action");
  writer.text(action);
  writer.key("addr");
  writer.number(address);
  writer.key("size");
  writer.number(size);
  writer.end_dict();
}

void block(PickleWriter &writer, uint64_t size, const char *state) {
  writer.begin_dict();
  writer.key("size");
  writer.number(size);
  writer.key("state");
  writer.text(state);
  writer.end_dict();
}

void what_does_not_fit_is_left_out_and_counted(void **) {
  const Made made(
      [](PickleWriter &writer) {
        event(writer, "alloc", 4096, 512);           // is not there at the end
        event(writer, "free_requested", 8192, 512);  // is there at the end
        event(writer, "wonder", 1, 1);
        event(writer, "alloc", 4608, 100);
        event(writer, "alloc", 1, UINT64_MAX);
        event(writer, "free_requested", 999, 7);
        writer.number(5);  // no event at all
      },
      [](PickleWriter &writer) {
        block(writer, 512, "inactive");
        block(writer, 3584, "active_allocated");
        block(writer, 512, "active_allocated");
        block(writer, 512, "active_awaiting_free");
      });
  const ImportResult result =
      import_trace(read_torch_snapshot(Pickle(made.bytes, "made")), "made", false);
  // Before: what is freed at 999, and the block at 8192, which a free can't be of.
  assert_int_equal(result.before, 2);
  assert_int_equal(result.allocations, 3);
  assert_int_equal(result.frees, 1);
  assert_int_equal(result.left_out, 2 + 3);
  (void)program_of(result);
}

void other_pickles_are_named(void **) {
  const auto error = [](const std::string &bytes) {
    return error_of([&] { (void)read_torch_snapshot(Pickle(bytes, "other")); });
  };
  assert_true(contains(error("N."), "'other' is no memory snapshot of PyTorch"));
  assert_true(contains(error("}."), "no list 'segments'"));
  assert_true(contains(error("}\x8c\x08segmentsNs."), "no list 'segments'"));
  const std::string empty = "}\x8c\x08segments]s.";
  assert_true(contains(
      error_of([&] { (void)import_trace(read_torch_snapshot(Pickle(empty, "x")), "x", false); }),
      "neither segments nor allocations"));
}

/// Lists that are in others a million times are not looked at for hours.
void small_files_do_not_take_long(void **) {
  // A dict of 500,000 keys, a million times in a trace.
  std::string bytes = "}(X\x08";
  bytes.append(3, '\0');
  bytes += "segments]X\x0d";
  bytes.append(3, '\0');
  bytes += "device_traces](](}q\x01(";
  for (int i = 0; i < 500'000; ++i) bytes += "NN";
  bytes += "u";
  for (int i = 0; i < 1'000'000; ++i) bytes += "h\x01";
  bytes += "eeu.";
  const TorchSnapshot snapshot = read_torch_snapshot(Pickle(bytes, "large"));
  assert_true(snapshot.left_out >= 1'000'000);
}

void the_command_writes_a_trace_that_is_replayed(void **) {
  const TemporaryFile trace("");
  const std::string path = trace.path() + ".vmt.zst";
  Outcome outcome = run_weir({"import", snapshot_path("training.pickle"), "-o", path, "--json"});
  assert_string_equal(outcome.errors.c_str(), "");
  assert_int_equal(outcome.status, 0);
  assert_int_equal(nlohmann::json::parse(outcome.output)["allocations"].get<int>(), 58);
  assert_true(text_of(path).starts_with("\x28\xb5\x2f\xfd"));
  outcome = run_weir({"replay", path, "--json"});
  assert_int_equal(outcome.status, 0);
  assert_int_equal(nlohmann::json::parse(outcome.output)["allocations"].get<int>(), 58);
  outcome = run_weir({"replay", path, "--allocator-only", "--json"});
  assert_int_equal(outcome.status, 0);
  const AllocatorTrace allocations = read_allocator_trace(path);
  assert_int_equal(allocations.block_bytes.size(), 58);
  unlink(path.c_str());
  // What fails leaves nothing behind.
  const TemporaryFile code(std::string("cos\nsystem\n(S'true'\ntR."));
  outcome = run_weir({"import", code.path(), "--output", path});
  assert_int_equal(outcome.status, 1);
  assert_true(contains(outcome.errors, "GLOBAL 'os.system'"));
  assert_int_equal(access(path.c_str(), F_OK), -1);
  assert_true(contains(run_weir({"import", "/nonexistent", "-o", path}).errors, "/nonexistent"));
  assert_true(contains(run_weir({"import", "/", "-o", path}).errors, "directory"));
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_form_of_plain_data_is_read),
      cmocka_unit_test(old_protocols_are_read),
      cmocka_unit_test(what_would_run_code_is_refused_by_name),
      cmocka_unit_test(broken_pickles_are_refused),
      cmocka_unit_test(how_much_is_bounded),
      cmocka_unit_test(a_history_becomes_a_trace),
      cmocka_unit_test(what_was_there_before_is_allocated_first),
      cmocka_unit_test(the_older_shape_is_read),
      cmocka_unit_test(what_does_not_fit_is_left_out_and_counted),
      cmocka_unit_test(other_pickles_are_named),
      cmocka_unit_test(small_files_do_not_take_long),
      cmocka_unit_test(the_command_writes_a_trace_that_is_replayed),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
