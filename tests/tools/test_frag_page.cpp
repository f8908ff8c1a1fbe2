// SPDX-License-Identifier: Apache-2.0
//
// The page of `weir frag` as its reader sees and uses it, without a browser: Node runs its scripts over a stand-in for the document
// (tests/tools/page/desk.js). What is written on the map and the timeline lies in them and nothing over anything else, in narrow
// and wide windows; the timeline is the trace's; searching, sorting, pointing and keys do what the page says. Without Node the test
// checks the timeline's data alone. WEIR_BIN_DIR says where the program is; without it the test skips.
#include "tests/tools/program.hpp"
#include "tools/weir/frag/film_json.hpp"
#include "tools/weir/frag/timeline.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <vector>

namespace {

using weir::test::contains;
using weir::test::Outcome;
using weir::test::TemporaryFile;
using weir::test::text_of;
using weir::tool::frag::unpacked;
using weir::tool::frag::unpacked_deltas;
using Json = nlohmann::json;
using Numbers = std::vector<uint64_t>;

struct Block {
  uint64_t bytes, born, dies;
  std::string tag;
  bool live_at(uint64_t time) const { return born <= time && time < dies; }
};

/// Blocks in layers, as a training step has them: weights stay, activations go in the order opposite to that in which they came.
struct Trace {
  std::string text = "#vmt 1\n#name steps\n";
  std::vector<Block> blocks;
  uint64_t events = 0;

  explicit Trace(int steps, int layers = 9) {
    const auto allocate = [&](uint64_t bytes, const std::string &tag) {
      text += "a " + std::to_string(blocks.size()) + " " + std::to_string(bytes) + " " + tag + "\n";
      blocks.push_back({bytes, ++events, UINT64_MAX, tag});
      return blocks.size() - 1;
    };
    const auto release = [&](uint64_t block) {
      text += "f " + std::to_string(block) + "\n";
      blocks[block].dies = ++events;
    };
    for (int i = 0; i < layers; ++i)
      allocate(static_cast<uint64_t>(400000 + i * 10000),
               "train.py:3:main;model.py:" + std::to_string(40 + i) + ":weights");
    for (int step = 0; step < steps; ++step) {
      text += "p step" + std::to_string(step) + "\n";
      std::vector<uint64_t> kept;
      for (int i = 0; i < layers; ++i) {
        kept.push_back(allocate(static_cast<uint64_t>(900000 - i * 20000), "activation"));
        release(allocate(static_cast<uint64_t>(50000 + i * 1000), "scratch"));
      }
      for (; !kept.empty(); kept.pop_back()) release(kept.back());
    }
  }
  uint64_t live_at(uint64_t time) const {
    uint64_t sum = 0;
    for (const Block &block : blocks) sum += block.live_at(time) ? block.bytes : 0;
    return sum;
  }
};

Outcome make_page(const Trace &trace, const std::string &page, std::vector<std::string> more = {}) {
  const TemporaryFile file(trace.text);
  std::vector<std::string> arguments = {"frag", file.path(), "--html", page, "--granule", "64K"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return weir::test::run_weir(std::move(arguments));
}

bool node_is_there() {
  if (!weir::test::installed("node").empty() && std::getenv("WEIR_SOURCE_DIR") != nullptr)
    return true;
  print_message("skipped: no node (Node.js) in PATH, or no WEIR_SOURCE_DIR\n");
  return false;
}

/// The answers of the page in a window of that width.
Json use(const std::string &page, int width, const Json &steps, const std::string &hash = "") {
  const TemporaryFile input(steps.dump());
  const std::string desk =
      std::string(std::getenv("WEIR_SOURCE_DIR")) + "/tests/tools/page/desk.js";
  const Outcome outcome = weir::test::run_program(
      {"/bin/sh", "-c", "exec node \"$0\" \"$1\" \"$2\" 900 \"$3\" < \"$4\"", desk, page,
       std::to_string(width), hash, input.path()});
  if (outcome.status != 0) fail_msg("%s", outcome.errors.c_str());
  return Json::parse(outcome.output);
}

const Json &seen(const Json &answers, size_t index = 0) { return answers.at(index); }
bool holds(const Json &list, const std::string &text) {
  return std::any_of(list.begin(), list.end(), [&](const Json &one) {
    return contains(one.is_string() ? one.get<std::string>() : one.dump(), text);
  });
}

void expect_legible(const Json &answer) {
  std::string all;
  for (const Json &fault : answer["faults"]) all += "\n  " + fault.get<std::string>();
  if (!all.empty()) fail_msg("%s", all.c_str());
  assert_true(answer["texts"].size() > 10);
}

void the_timeline_is_the_trace_s(void **) {
  const Trace trace(12);
  const TemporaryFile page("");
  const Outcome outcome = make_page(trace, page.path(), {"--frames", "30"});
  if (outcome.status != 0) fail_msg("%s", outcome.errors.c_str());
  const std::string text = text_of(page.path()), begin = "id=\"film\">";
  const size_t from = text.find(begin) + begin.size();
  const Json film = Json::parse(text.substr(from, text.find("</script>", from) - from));
  const Json &timeline = film["timeline"];
  const Numbers ids = unpacked_deltas(film["blocks"]["id"].get<std::string>());
  const Numbers told = unpacked_deltas(timeline["block"].get<std::string>());
  const Numbers times = unpacked_deltas(timeline["time"].get<std::string>());
  Numbers rest(times.size(), 0);
  for (const Json &column : timeline["others"]) {
    const Numbers sums = unpacked_deltas(column.get<std::string>());
    assert_int_equal(sums.size(), times.size());
    for (size_t i = 0; i < sums.size(); ++i) rest[i] += sums[i];
  }
  assert_int_equal(timeline["left_out"].get<uint64_t>(), 0);
  assert_int_equal(told.size(), trace.blocks.size());  // each lives at some time
  const Numbers high = unpacked_deltas(film["curves"][0]["high"].get<std::string>());
  assert_int_equal(times.size(), high.size());
  for (size_t i = 0; i < times.size(); ++i) {
    uint64_t sum = rest[i];
    for (const uint64_t index : told) {
      const Block &block = trace.blocks[ids.at(index)];
      sum += block.live_at(times[i]) ? block.bytes : 0;
    }
    assert_int_equal(sum, trace.live_at(times[i]));
    assert_int_equal(sum, high[i]);
  }
}

/// What has no band of its own is in the sum, and the bands are the largest.
void a_timeline_has_a_bound(void **) {
  using namespace weir::tool::frag;
  const Trace trace(40);
  Story story;
  for (const Block &block : trace.blocks)
    story.blocks.push_back({block.bytes, block.born, block.dies == UINT64_MAX ? never : block.dies,
                            block.tag == "scratch" ? 1U : 0U});
  story.tags = {"kept", "scratch"};
  const Timeline timeline = timeline_of(story, trace.events, 7, 25);
  assert_int_equal(timeline.blocks.size(), 25);
  assert_int_equal(timeline.times.size(), trace.events / 7 + 1);
  uint64_t least = UINT64_MAX, drawn = 0;
  for (const uint32_t block : timeline.blocks) least = std::min(least, trace.blocks[block].bytes);
  for (uint32_t i = 0; i < trace.blocks.size(); ++i) {
    const Block &block = trace.blocks[i];
    const bool at_some =
        std::ranges::any_of(timeline.times, [&](uint64_t t) { return block.live_at(t); });
    const bool told = std::ranges::binary_search(timeline.blocks, i);
    drawn += at_some ? 1 : 0;
    assert_true(at_some || !told);
    if (at_some && !told) assert_true(block.bytes <= least);
  }
  assert_int_equal(timeline.left_out, drawn - 25);
  const auto others = others_of(story, timeline, {0, 1}, 2);
  for (size_t i = 0; i < timeline.times.size(); ++i) {
    uint64_t sum = others[0][i] + others[1][i], scratch = 0;
    for (const uint32_t block : timeline.blocks)
      sum += trace.blocks[block].live_at(timeline.times[i]) ? trace.blocks[block].bytes : 0;
    assert_int_equal(sum, trace.live_at(timeline.times[i]));
    for (const Block &block : trace.blocks)  // none of which is among the largest
      scratch += block.tag == "scratch" && block.live_at(timeline.times[i]) ? block.bytes : 0;
    assert_int_equal(others[1][i], scratch);
    // The fullest of its bucket.
    for (uint64_t t = i * 7; t < std::min((i + 1) * 7, trace.events + 1); ++t)
      assert_true(trace.live_at(t) <= trace.live_at(timeline.times[i]));
  }
}

void nothing_is_cut_off_or_covered(void **) {
  if (!node_is_there()) skip();
  const Trace trace(12);
  const TemporaryFile page("");
  const std::vector<std::vector<std::string>> kinds = {
      {"--placement", "multi-map"},
      {"--placement", "pytorch"},
      {"--device-memory", "60%", "--host-memory", "100%", "--colour", "tier"}};
  for (const auto &kind : kinds) {
    Trace whole = trace;
    if (kind[0] == "--device-memory")  // a pool wants operations
      whole.text += "o 0 10 step\nu 0 r\ne\no 1 10 step\nu 1 r\ne\n";
    if (make_page(whole, page.path(), kind).status != 0)
      fail_msg("no page for %s", kind[1].c_str());
    Json steps = Json::array();
    for (const char *colour : {"tier", "size", "age", "tag"})
      steps.push_back({{"choose", colour}, {"on", "colour"}, {"look", colour}});
    steps.push_back({{"click", "in"}, {"look", "zoomed"}});
    for (const int width : {700, 1000, 1600, 2500}) {
      const Json answers = use(page.path(), width, steps);
      assert_int_equal(answers.size(), 5);
      for (const Json &answer : answers) {
        expect_legible(answer);
        // Each kind of block that is here has its line in the legend.
        const Json &legend = answer["legend"];
        assert_true(holds(legend, "not reserved") && holds(legend, "free, but reserved"));
        if (answer["title"] == "Blocks by tag" && kind[0] == "--placement")
          for (const char *name : {"activation", ":weights", "other tags"})
            if (!holds(legend, name)) fail_msg("no %s in %s", name, legend.dump().c_str());
      }
    }
  }
  // The check sees it where the page takes text for narrower than it is.
  make_page(trace, page.path(), {"--placement", "multi-map"});
  const Json planted = use(page.path(), 700, {{{"narrow", 0.3}}, {{"look", "planted"}}});
  assert_true(!seen(planted)["faults"].empty());
}

void blocks_are_found_and_sorted(void **) {
  if (!node_is_there()) skip();
  const Trace trace(12);
  const TemporaryFile page("");
  assert_int_equal(make_page(trace, page.path()).status, 0);
  const Json answers = use(page.path(), 1600,
                           {{{"look", "all"}},
                            {{"type", "WEIGHTS"}, {"on", "query"}, {"look", "weights"}},
                            {{"type", "main >0.45M"}, {"on", "query"}, {"look", "large weights"}},
                            {{"type", "#20"}, {"on", "query"}, {"look", "one"}},
                            {{"key", "Enter"}, {"on", "query"}, {"look", "gone to"}},
                            {{"type", "nothing like it"}, {"on", "query"}, {"look", "none"}},
                            {{"key", "Enter"}, {"on", "query"}},
                            {{"key", "Escape"}, {"on", "query"}},
                            {{"choose", "names"}, {"on", "group"}, {"look", "names"}}});
  const Json &all = seen(answers);
  // At the peak: what is listed is what is there, by bytes.
  const auto time = all["time"].get<uint64_t>();
  Numbers sizes;
  for (const Block &block : trace.blocks)
    if (block.live_at(time)) sizes.push_back(block.bytes);
  assert_int_equal(all["list"].size(), sizes.size());
  assert_int_equal(all["here"].size(), sizes.size());
  std::vector<uint64_t> listed;
  for (const Json &row : all["list"]) {
    const auto name = row[0].get<std::string>();
    listed.push_back(trace.blocks[std::stoull(name.substr(name.find('#') + 1))].bytes);
  }
  assert_true(std::ranges::is_sorted(listed, std::greater<>()));
  assert_true(seen(answers, 1)["matches"] == "9 here, 3.78 MiB; 9 in all");
  size_t large = 0;
  for (const Block &block : trace.blocks)
    large +=
        contains(block.tag, "main") && static_cast<double>(block.bytes) > 0.45 * 1048576 ? 1 : 0;
  assert_true(large > 0 && large < 9);
  assert_true(contains(seen(answers, 2)["matches"].get<std::string>(),
                       "; " + std::to_string(large) + " in all"));
  assert_true(contains(seen(answers, 3)["matches"].get<std::string>(), "; 1 in all"));
  const Json &there = seen(answers, 4);
  assert_int_equal(there["focus"].get<int>(), 20);
  assert_true(contains(there["address"].get<std::string>(), "block=20") &&
              contains(there["address"].get<std::string>(), "q=%2320"));
  const Json &none = seen(answers, 5);
  assert_true(none["list"].empty() && contains(none["matches"].get<std::string>(), "; 0 in all"));
  const Json &names = seen(answers, 6);
  assert_true(names["matches"] == "");
  assert_true(contains(names["list"][0].dump(), "activation"));
  assert_true(holds(names["list"], "1 \u00d7"));
}

void the_timeline_answers(void **) {
  if (!node_is_there()) skip();
  const Trace trace(12);
  const TemporaryFile page("");
  assert_int_equal(make_page(trace, page.path()).status, 0);
  // Block 0 is the weights of the first layer, which live to the end.
  const uint64_t time = trace.events / 2;
  const Json answers = use(page.path(), 1600,
                           {{{"look", "before"}},
                            {{"band", 0}, {"time", time}, {"look", "over"}},
                            {{"band", 3}, {"time", time}, {"press", true}, {"look", "pressed"}},
                            {{"key", "ArrowUp"}, {"on", "curve"}, {"look", "up"}},
                            {{"key", "Escape"}, {"on", "curve"}, {"look", "left"}}});
  const Json &before = seen(answers);
  // Bands fill what is below the live bytes, and no more.
  assert_true(before["worst"].get<double>() <= 1);
  // Those over an instant are all that lives then.
  std::set<uint64_t> live;
  for (uint64_t i = 0; i < trace.blocks.size(); ++i)
    if (trace.blocks[i].live_at(before["time"].get<uint64_t>())) live.insert(i);
  assert_true(before["bands"].get<std::set<uint64_t>>() == live);
  // The oldest lies lowest.
  const Json &lowest = seen(answers, 1)["place"], &fourth = seen(answers, 3)["place"];
  assert_false(lowest.is_null() || fourth.is_null());
  assert_true(lowest[1] > fourth[1]);
  const auto tip = seen(answers, 2)["tip"].get<std::string>();
  for (const char *line :
       {"block: 0\n", "name: model.py:40:weights\n",
        "stack: 2 calls\nmodel.py:40:weights\ntrain.py:3:main", "born: 1\n", "dies: never"})
    if (!contains(tip, line)) fail_msg("no '%s' in '%s'", line, tip.c_str());
  const Json &pressed = seen(answers, 4);
  assert_int_equal(pressed["focus"].get<int>(), 3);
  const auto reached = pressed["time"].get<uint64_t>();
  assert_true(reached > time - trace.events / 50 && reached < time + trace.events / 50);
  assert_int_equal(seen(answers, 5)["focus"].get<int>(), 4);
  assert_int_equal(seen(answers, 6)["focus"].get<int>(), -1);
}

void an_address_opens_what_it_says(void **) {
  if (!node_is_there()) skip();
  const Trace trace(12);
  const TemporaryFile page("");
  assert_int_equal(make_page(trace, page.path()).status, 0);
  const Json light = use(page.path(), 1600, {{{"look", "light"}}});
  assert_true(seen(light)["theme"] == "light");
  const Json dark = use(page.path(), 1600, {{{"dark", true}}, {{"look", "dark"}}},
                        "#t=end&colour=size&block=2&q=main%20%3E1K&sort=age&of=names");
  const Json &view = seen(dark);
  assert_true(view["theme"] == "dark" && view["title"] == "Blocks by size");
  assert_int_equal(view["time"].get<uint64_t>(), trace.events);
  assert_int_equal(view["focus"].get<int>(), 2);
  assert_true(view["matches"] == "9 here, 3.78 MiB; 9 in all");
  assert_int_equal(view["list"].size(), 9);
  // Nonsense is no address.
  const Json odd = use(page.path(), 1600, {{{"look", "odd"}}},
                       "#t=xyz&colour=red&block=-7&q=%E0%A4%A&sort=1&zoom=99");
  assert_int_equal(seen(odd)["focus"].get<int>(), -1);
  assert_true(seen(odd)["title"] == "Blocks by tag");
}

/// More pieces than pixels: they are drawn by pixels, and the list has its bound.
void a_crowd_is_drawn(void **) {
  if (!node_is_there()) skip();
  std::string text = "#vmt 1\n#name crowd\n";
  for (int i = 0; i < 30000; ++i)
    text += "a " + std::to_string(i) + " " + std::to_string(100 + i % 900) +
            (i % 3 == 0 ? " a\n" : " b\n");
  const TemporaryFile file(text), page("");
  const Outcome outcome =
      weir::test::run_weir({"frag", file.path(), "--html", page.path(), "--frames", "4"});
  if (outcome.status != 0) fail_msg("%s", outcome.errors.c_str());
  const Json answers = use(page.path(), 1000, {{{"look", "end"}}}, "#t=end");
  const Json &view = seen(answers);
  assert_true(view["shown"].get<size_t>() >= 30000);
  expect_legible(view);
  assert_true(view["worst"].get<double>() <= 1);
  assert_true(view["fills"].size() >= 5);  // both tags' shades among them
  assert_int_equal(view["list"].size(), 200);
  assert_true(view["more"] == "and 29,800 more");
  assert_true(contains(view["notes"].get<std::string>(), "12,000 largest"));
  assert_true(holds(view["texts"], "smaller blocks"));
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_timeline_is_the_trace_s),
      cmocka_unit_test(a_timeline_has_a_bound),
      cmocka_unit_test(nothing_is_cut_off_or_covered),
      cmocka_unit_test(blocks_are_found_and_sorted),
      cmocka_unit_test(the_timeline_answers),
      cmocka_unit_test(an_address_opens_what_it_says),
      cmocka_unit_test(a_crowd_is_drawn),
  };
  return cmocka_run_group_tests_name("weir frag's page", tests, nullptr, nullptr);
}
