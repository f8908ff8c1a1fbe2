// SPDX-License-Identifier: Apache-2.0
//
// weir snapshot: what weir_pool_snapshot wrote is read back, shown, and written as the page pytorch.org/memory_viz takes it. The shape is
// checked as torch/cuda/_memory_viz.py (2.6) reads it, by our own reader of pickles and, where there is Python, by Python's.
#include "tests/tools/program.hpp"

#include "tools/weir/import/memory_viz.hpp"
#include "tools/weir/import/pickle.hpp"
#include "tools/weir/import/pickle_writer.hpp"
#include "tools/weir/import/pool_snapshot.hpp"
#include "tools/weir/import/torch_snapshot.hpp"

#include <weir/weir.h>

#include <numeric>

namespace {

using namespace weir::tool;
using weir::test::contains;
using weir::test::error_of;
using weir::test::Outcome;
using weir::test::run_program;
using weir::test::run_weir;
using weir::test::TemporaryFile;
using weir::test::text_of;

constexpr uint64_t page = 65536;

void good(weir_result result) {
  if (result != WEIR_SUCCESS) fail_msg("%s", weir_last_error());
}

/// Of a pool with a named buffer on the device, one in HOST, one of a client's that is half on each, and one that is nowhere.
std::string document() {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.options = "host.devices=1;host.memory=16M;host.granule=65536;host.granule_large=0";
  desc.flags = WEIR_CONTEXT_NO_SEARCH | WEIR_CONTEXT_STACKS;
  weir_context context = nullptr;
  good(weir_context_create(&desc, &context));
  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  device.budget = 16 * page;
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.device_count = 1;
  pool_desc.devices = &device;
  pool_desc.host_budget = uint64_t{8} << 20;
  pool_desc.page_size = pool_desc.large_page_size = page;
  pool_desc.flags = WEIR_POOL_NO_BACKGROUND;
  pool_desc.name = "shown";
  weir_pool pool = nullptr;
  good(weir_pool_create(context, &pool_desc, &pool));
  weir_client_desc client_desc = WEIR_CLIENT_DESC_INIT;
  client_desc.name = "someone";
  weir_client client = nullptr;
  good(weir_client_create(pool, &client_desc, &client));
  weir_stream stream = nullptr;
  good(weir_stream_create(context, 0, 0, &stream));
  const auto buffer = [&](const char *name, uint64_t pages, weir_client of) {
    weir_buffer_desc one = WEIR_BUFFER_DESC_INIT;
    one.size = pages * page;
    one.name = name;
    one.client = of;
    weir_buffer made = nullptr;
    good(weir_buffer_create(pool, &one, &made));
    return made;
  };
  const auto use = [&](weir_buffer one, uint64_t pages) {
    weir_use wanted = WEIR_USE(one, WEIR_DISCARD_WRITE);
    wanted.length = pages * page;
    weir_lease lease = nullptr;
    good(weir_acquire(pool, stream, &wanted, 1, nullptr, &lease));
    good(weir_release(lease, stream));
  };
  use(buffer("we\"ights\xff", 4, nullptr), 4);
  const weir_buffer cold = buffer("cold", 3, nullptr);
  const std::vector<char> bytes(3 * page, 'x');
  good(weir_buffer_write(pool, cold, 0, bytes.size(), bytes.data()));
  use(buffer(nullptr, 4, client), 2);
  buffer("unused", 100, client);
  size_t needed = 0;
  good(weir_pool_snapshot(pool, nullptr, 0, &needed));
  std::string text(needed, '\0');
  good(weir_pool_snapshot(pool, text.data(), text.size(), &needed));
  text.resize(needed - 1);
  good(weir_stream_close(stream));
  good(weir_pool_destroy(pool));
  good(weir_context_destroy(context));
  return text;
}

void a_snapshot_is_read_back(void **) {
  const PoolSnapshot snapshot = parse_pool_snapshot(document(), "test");
  assert_string_equal(snapshot.pool.c_str(), "shown");
  assert_int_equal(snapshot.devices.size(), 1);
  assert_int_equal(snapshot.devices[0].budget, 16 * page);
  assert_int_equal(snapshot.buffers.size(), 4);
  assert_int_equal(snapshot.buffers[0].device_bytes, 4 * page);
  assert_int_equal(snapshot.buffers[1].host_bytes, 3 * page);
  assert_int_equal(snapshot.buffers[2].device_bytes, 2 * page);
  assert_string_equal(snapshot.clients[snapshot.buffers[2].client].c_str(), "someone");
  assert_false(snapshot.stacks.empty());
  assert_true(snapshot.stacks.contains(snapshot.buffers[0].stack));
  assert_int_equal(snapshot.stat("buffers"), 4);
}

/// Blocks fill their segment, as segsum() of _memory_viz.py asserts.
void check_segment(const Pickle &pickle, const PickleValue &segment) {
  for (const char *key : {"device", "address", "total_size", "allocated_size", "active_size",
                          "requested_size", "stream"})
    assert_true(pickle.integer(segment, key, -1) >= 0);
  assert_string_equal(std::string(pickle.text(segment, "segment_type")).c_str(), "large");
  const PickleValue *blocks = pickle.find(segment, "blocks");
  assert_non_null(blocks);
  int64_t at = pickle.integer(segment, "address", 0), used = 0;
  for (const PickleValue &block : pickle.elements(*blocks)) {
    assert_int_equal(pickle.integer(block, "address", -1), at);
    const int64_t size = pickle.integer(block, "size", -1);
    assert_true(size > 0 && pickle.integer(block, "requested_size", -1) == size);
    at += size;
    const std::string_view state = pickle.text(block, "state");
    assert_true(state == "active_allocated" || state == "inactive");
    if (state == "active_allocated") used += size;
    const PickleValue *frames = pickle.find(block, "frames");
    assert_true(frames != nullptr && !pickle.elements(*frames).empty());
    for (const PickleValue &frame : pickle.elements(*frames)) {
      assert_true(pickle.integer(frame, "line", -1) >= 0);
      assert_true(pickle.find(frame, "name") != nullptr);
      assert_true(pickle.find(frame, "filename") != nullptr);
    }
  }
  const int64_t total = pickle.integer(segment, "total_size", -1);
  assert_int_equal(at, pickle.integer(segment, "address", 0) + total);
  assert_int_equal(used, pickle.integer(segment, "allocated_size", -1));
}

void it_has_the_shape_that_memory_viz_reads(void **) {
  const Pickle pickle(memory_viz(parse_pool_snapshot(document(), "test"), {}), "viz");
  const PickleValue *segments = pickle.find(pickle.root(), "segments");
  const PickleValue *traces = pickle.find(pickle.root(), "device_traces");
  assert_true(segments != nullptr && traces != nullptr);
  assert_int_equal(pickle.elements(*segments).size(), 2);  // the device, and HOST
  for (const PickleValue &segment : pickle.elements(*segments)) check_segment(pickle, segment);
  assert_int_equal(pickle.elements(*traces).size(), 4);
  const PickleValue &first =
      pickle.elements(*pickle.find(pickle.elements(*segments)[0], "blocks"))[0];
  const std::vector<PickleValue> &frames = pickle.elements(*pickle.find(first, "frames"));
  assert_string_equal(std::string(pickle.text(frames[0], "name")).c_str(), "we\"ights\\xff");
  assert_true(frames.size() > 1);  // its stack
  const PickleValue &second =
      pickle.elements(*pickle.find(pickle.elements(*segments)[0], "blocks"))[1];
  assert_true(contains(
      std::string(pickle.text(pickle.elements(*pickle.find(second, "frames"))[0], "filename")),
      "client someone"));
  // It is what weir import takes, too: what was allocated is allocated again.
  const TorchSnapshot again = read_torch_snapshot(pickle);
  assert_int_equal(again.left_out, 0);
  assert_int_equal(again.blocks.size(), 3);
}

constexpr const char *python_check = R"(
import pickle, sys
data = pickle.load(open(sys.argv[1], "rb"))
assert set(data) == {"segments", "device_traces", "allocator_settings", "external_annotations"}, data.keys()
for seg in data["segments"]:
    free = used = 0
    for b in seg["blocks"]:
        if b["state"] == "active_allocated":
            used += b["requested_size"]
        else:
            free += b["size"]
        for f in b["frames"]:
            f["name"], f["filename"], f["line"] + 0
    assert used + free == seg["total_size"], seg
    assert seg["segment_pool_id"] == (0, 0) and seg["is_expandable"] is False
live = 0
for trace in data["device_traces"]:
    for e in trace:
        assert e["action"] in ("segment_alloc", "alloc")
        live += e["size"] if e["action"] == "alloc" else 0
        e["addr"], e["stream"], e["time_us"], e["frames"]
print(len(data["segments"]), live, data["segments"][0]["address"])
)";

void python_reads_it(void **) {
  const std::string python = weir::test::installed("python3");
  if (python.empty()) {
    std::puts("skipped: python3 is not installed: its pickle does not read what is written");
    skip();
  }
  const TemporaryFile json(document());
  const TemporaryFile script(python_check);
  const std::string output = json.path() + ".pickle";
  const Outcome outcome = run_weir({"snapshot", "--memory-viz", json.path(), "-o", output});
  assert_string_equal(outcome.errors.c_str(), "");
  assert_int_equal(outcome.status, 0);
  const Outcome read = run_program({python, script.path(), output});
  unlink(output.c_str());
  assert_string_equal(read.errors.c_str(), "");
  assert_string_equal(read.output.c_str(),
                      ("2 " + std::to_string(9 * page) + " 17592186044416\n").c_str());
}

/// Each form of a number, and texts that are no UTF-8.
void written_values_come_back(void **) {
  PickleWriter writer;
  writer.begin_list();
  const uint64_t numbers[] = {
      0, 255, 256, 65535, 65536, 0x7fffffff, 0x80000000u, uint64_t{1} << 53, INT64_MAX};
  for (const uint64_t number : numbers) writer.number(number);
  writer.text("h\xc3\xa9\xff\xed\xa0\x80\xf4\x90\x80\x80\xc0\x80\xe2\x82");
  writer.number(UINT64_MAX);
  writer.end_list();
  const Pickle pickle(writer.take(), "test");
  const std::vector<PickleValue> &values = pickle.elements(pickle.root());
  for (size_t i = 0; i < std::size(numbers); ++i)
    assert_true(values[i].integer == static_cast<int64_t>(numbers[i]));
  assert_string_equal(std::string(pickle.text(values[std::size(numbers)])).c_str(),
                      "h\xc3\xa9????????????");
  assert_true(values.back().integer == -1 || values.back().type == PickleValue::Type::none);
}

void the_table_shows_it(void **) {
  const TemporaryFile json(document());
  const Outcome outcome = run_weir({"snapshot", json.path()});
  assert_int_equal(outcome.status, 0);
  for (const char *part :
       {"pool 'shown': 4 buffers", "device 0", "1.00 MiB", "host", "unused", "6.25 MiB", "cold"})
    if (!contains(outcome.output, part))
      fail_msg("'%s' is not in %s", part, outcome.output.c_str());
}

/// Names in any script are shown as they are, in columns as wide as their characters are many; what could break a terminal is not.
void names_in_any_script_are_shown(void **) {
  const TemporaryFile json(
      R"({"pool": "Größe", "devices": [], "buffers": [)"
      R"({"name": "poids réseau", "size": 3}, {"name": "a\u001b[2Jb", "size": 2}, {"name": "重み", "size": 1}]})");
  const Outcome outcome = run_weir({"snapshot", json.path()});
  assert_int_equal(outcome.status, 0);
  const auto row = [](const std::string &name, size_t wide) {
    return "  " + name + std::string(26 - wide, ' ');
  };
  for (const std::string &part : {std::string("pool 'Größe': 3 buffers"), row("poids réseau", 12),
                                  row("a\\x1b[2Jb", 9), row("重み", 2)})
    if (!contains(outcome.output, part.c_str()))
      fail_msg("'%s' is not in %s", part.c_str(), outcome.output.c_str());
}

void what_is_no_snapshot_is_refused(void **) {
  const auto error = [](const std::string &text) {
    return error_of([&] { (void)parse_pool_snapshot(text, "bad"); });
  };
  assert_true(contains(error(""), "'bad': it is no JSON"));
  assert_true(contains(error("{\"pool\": "), "it is no JSON"));
  assert_true(contains(error("[]"), "no snapshot of a pool"));
  assert_true(contains(error("{\"pool\": \"p\", \"devices\": []}"), "no snapshot of a pool"));
  const std::string head = "{\"pool\": \"p\", \"devices\": [], \"buffers\": ";
  assert_string_equal(error(head + "[]}").c_str(), "");
  assert_true(contains(error(head + "[{\"size\": -1}]}"), "'size' is no number: -1"));
  assert_true(contains(error(head + "[{\"size\": 1.5}]}"), "'size' is no number"));
  assert_true(contains(error(head + "[{\"size\": 1e400}]}"), "it is no JSON"));
  assert_true(contains(error(head + "[{\"name\": 7}]}"), "'name' is no text"));
  assert_true(contains(error(head + std::string(100'000, '[')), "nested deeper"));
  assert_true(contains(error("{\"pool\": 7, \"devices\": [], \"buffers\": []}"), "no text"));
  assert_true(contains(error("{\"pool\": \"p\", \"devices\": [7], \"buffers\": []}"), "has none"));
  assert_true(contains(error("{\"pool\": \"p\", \"devices\": 7, \"buffers\": []}"), "no list"));
  assert_true(contains(error(head + "[], \"stacks\": {\"99999999999\": []}}"), "no number"));
  const TemporaryFile empty("");
  assert_true(contains(run_weir({"snapshot", empty.path()}).errors, "no JSON"));
  assert_true(contains(run_weir({"snapshot", "/nonexistent"}).errors, "'/nonexistent'"));
  assert_true(contains(run_weir({"snapshot", empty.path(), "--memory-viz"}).errors,
                       "--memory-viz needs --output"));
  assert_true(
      contains(run_weir({"snapshot", empty.path(), "-o", "x"}).errors, "needs --memory-viz"));
}

/// Sums that no memory has are no reason to write what can't be read.
void sizes_that_can_not_be_are_left_out(void **) {
  std::string text =
      "{\"pool\": \"p\", \"devices\": [{\"device\": 0, \"bytes\": "
      "18446744073709551615}], \"buffers\": [";
  for (int i = 0; i < 4; ++i)
    text += std::string(i == 0 ? "" : ",") +
            "{\"home\": 0, \"device_bytes\": 18446744073709551615, " +
            "\"host_bytes\": 9000000000000, \"client\": 5, \"stack\": 7}";
  const Pickle pickle(memory_viz(parse_pool_snapshot(text + "]}", "test"), {}), "viz");
  for (const PickleValue &segment : pickle.elements(*pickle.find(pickle.root(), "segments")))
    check_segment(pickle, segment);
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_snapshot_is_read_back),
      cmocka_unit_test(it_has_the_shape_that_memory_viz_reads),
      cmocka_unit_test(python_reads_it),
      cmocka_unit_test(written_values_come_back),
      cmocka_unit_test(the_table_shows_it),
      cmocka_unit_test(names_in_any_script_are_shown),
      cmocka_unit_test(what_is_no_snapshot_is_refused),
      cmocka_unit_test(sizes_that_can_not_be_are_left_out),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
