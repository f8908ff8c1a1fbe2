// SPDX-License-Identifier: Apache-2.0
//
// `weir frag` as its user meets it. The page's JSON is read back and each of its frames compared with what the trace says
// is live then: the picture must be true, not only pretty. WEIR_BIN_DIR says where the program is; without it the test
// skips.
#include "tests/tools/program.hpp"
#include "tools/weir/frag/film_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
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

Outcome run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "frag");
  return weir::test::run_weir(std::move(arguments));
}

struct Block {
  uint64_t bytes, born, dies;  ///< in events; and by operations, for a pool
  uint64_t born_operation, dies_operation;
  std::string tag;
};

struct Trace {
  std::string text = "#vmt 1\n#name jagged </script> trace\n";
  std::vector<Block> blocks;
  uint64_t events = 0;
  uint64_t operations = 0;

  /// Sizes from a fixed sequence; every third block lives long. Each operation touches what it makes and one older block.
  explicit Trace(uint64_t count) {
    uint32_t random = 7;
    const auto next = [&random] { return random = random * 1664525U + 1013904223U, random >> 8; };
    std::vector<uint64_t> live;
    for (uint64_t op = 0; op < count; ++op) {
      text += "o " + std::to_string(op) + " 1000 step\n";
      const uint64_t id = blocks.size();
      const uint64_t bytes = 1 + next() % (op % 4 == 0 ? 300000 : 9000);
      const std::string tag = op % 3 == 0 ? "long" : "short";
      text += "a " + std::to_string(id) + " " + std::to_string(bytes) + " " + tag + "\n";
      blocks.push_back({bytes, ++events, UINT64_MAX, op + 1, UINT64_MAX, tag});
      text += "u " + std::to_string(id) + " w\n";
      if (!live.empty()) text += "u " + std::to_string(live[next() % live.size()]) + " r\n";
      live.push_back(id);
      while (live.size() > 60) {
        const size_t at = next() % (live.size() - 1);
        text += "f " + std::to_string(live[at]) + "\n";
        blocks[live[at]].dies = ++events;
        blocks[live[at]].dies_operation = op + 1;
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      }
      text += "e\n";
    }
    operations = count;
  }
};

Json film_in(const std::string &page) {
  const std::string begin = "<script type=\"application/json\" id=\"film\">";
  const size_t from = page.find(begin) + begin.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from));
}

struct Span {
  uint64_t address, bytes, first, last, lane, block;  ///< block: index + 1, 0 none
};

std::vector<Span> spans_in(const Json &json, const Numbers &block_bytes) {
  const Numbers first = unpacked_deltas(json["first"].get<std::string>());
  const Numbers frames = unpacked(json["frames"].get<std::string>());
  const Numbers place = unpacked(json["place"].get<std::string>());
  const Numbers block = unpacked_deltas(json["block"].get<std::string>());
  const Numbers gap = unpacked(json["gap"].get<std::string>());
  const Numbers bytes = unpacked(json["bytes"].get<std::string>());
  const auto unzigzag = [](uint64_t n) { return n >> 1 ^ ((n & 1) != 0 ? UINT64_MAX : 0); };
  const auto unit = json["unit"].get<uint64_t>();
  std::vector<Span> spans;
  uint64_t end = 0;
  assert_int_equal(first.size(), json["count"].get<size_t>());
  for (size_t i = 0; i < first.size(); ++i) {
    Span span{};
    span.address = (unzigzag(gap[i]) + end) * unit;
    span.bytes = unzigzag(bytes[i]) + (block[i] != 0 ? block_bytes[block[i] - 1] : 0);
    end = (span.address + span.bytes) / unit;
    span.first = first[i];
    span.last = first[i] + frames[i];
    span.lane = place[i] / 6;
    span.block = block[i];
    spans.push_back(span);
  }
  return spans;
}

struct Film {
  Json json;
  Numbers times, live, reserved;
  Numbers ids, bytes;
  std::vector<Span> blocks, containers;

  explicit Film(const std::string &page) : json(film_in(page)) {
    times = unpacked_deltas(json["frames"]["time"].get<std::string>());
    live = unpacked_deltas(json["frames"]["live"].get<std::string>());
    reserved = unpacked_deltas(json["frames"]["reserved"].get<std::string>());
    ids = unpacked_deltas(json["blocks"]["id"].get<std::string>());
    const Numbers sizes = unpacked_deltas(json["blocks"]["sizes"].get<std::string>());
    for (const uint64_t size : unpacked(json["blocks"]["size"].get<std::string>()))
      bytes.push_back(sizes.at(size));
    blocks = spans_in(json["spans"], bytes);
    containers = spans_in(json["reserved"], bytes);
  }

  std::vector<Span> at(const std::vector<Span> &list, uint64_t frame) const {
    std::vector<Span> found;
    for (const Span &span : list)
      if (span.first <= frame && frame <= span.last) found.push_back(span);
    std::sort(found.begin(), found.end(), [](const Span &a, const Span &b) {
      return std::tie(a.lane, a.address) < std::tie(b.lane, b.address);
    });
    return found;
  }
};

/// Blocks beside each other, wholly in what is reserved.
void expect_in_order(const Film &film, uint64_t frame) {
  const auto blocks = film.at(film.blocks, frame);
  auto containers = film.at(film.containers, frame);
  for (size_t i = 1; i < blocks.size(); ++i)
    if (blocks[i].lane == blocks[i - 1].lane)
      assert_true(blocks[i].address >= blocks[i - 1].address + blocks[i - 1].bytes);
  for (const Span &block : blocks) {
    if (film.json["lanes"][block.lane]["name"] == "COMPRESSED") continue;  // held as it is used
    uint64_t at = block.address;
    for (const Span &one : containers)
      if (one.lane == block.lane && one.address <= at && at < one.address + one.bytes)
        at = one.address + one.bytes;
    assert_true(at >= block.address + block.bytes);
  }
}

void every_frame_is_the_trace_s(void **) {
  const Trace trace(700);
  const TemporaryFile file(trace.text);
  const TemporaryFile page("");
  for (const char *placement : {"multi-map", "vmm", "segments", "pytorch"}) {
    const Outcome outcome = run({file.path(), "--html", page.path(), "--placement", placement,
                                 "--granule", "64K", "--frames", "60", "--json"});
    if (outcome.status != 0) fail_msg("%s", outcome.errors.c_str());
    const Film film(text_of(page.path()));
    assert_true(film.times.size() >= 60 && film.times.size() <= 65);
    assert_int_equal(film.times.front(), 0);
    assert_int_equal(film.times.back(), trace.events);
    for (uint64_t frame = 0; frame < film.times.size(); ++frame) {
      std::map<uint64_t, uint64_t> drawn;  // bytes by block
      for (const Span &span : film.at(film.blocks, frame))
        drawn[film.ids.at(span.block - 1)] += span.bytes;
      uint64_t live = 0, count = 0;
      for (uint64_t id = 0; id < trace.blocks.size(); ++id) {
        const Block &block = trace.blocks[id];
        if (film.times[frame] < block.born || film.times[frame] >= block.dies) continue;
        live += block.bytes;
        ++count;
        assert_true(drawn[id] >= block.bytes);
      }
      assert_int_equal(film.live[frame], live);
      assert_int_equal(drawn.size(), count);
      uint64_t reserved = 0;
      for (const Span &span : film.at(film.containers, frame)) reserved += span.bytes;
      assert_int_equal(film.reserved[frame], reserved);
      expect_in_order(film, frame);
    }
    const Json figures = Json::parse(outcome.output);
    assert_true(figures["peak_reserved_bytes"] >= figures["peak_live_bytes"]);
    assert_int_equal(figures["frames"].get<size_t>(), film.times.size());
    assert_true(figures["png"].is_null());
  }
}

void blocks_are_named(void **) {
  const Trace trace(120);
  const TemporaryFile file(trace.text);
  const TemporaryFile page("");
  assert_int_equal(run({file.path(), "--html", page.path(), "--frames", "20"}).status, 0);
  const std::string text = text_of(page.path());
  const Film film(text);
  // The title, whatever is in it, ends no element and is told once.
  assert_true(film.json["title"] == "jagged </script> trace");
  for (const char *outside : {"src=", "href=", "@import", "url(", "@WEIR_FRAG_FILM@"})
    assert_false(contains(text, outside));
  const Numbers tags = unpacked(film.json["blocks"]["tag"].get<std::string>());
  const Numbers born = unpacked_deltas(film.json["blocks"]["born"].get<std::string>());
  const Numbers life = unpacked(film.json["blocks"]["life"].get<std::string>());
  for (size_t i = 0; i < film.ids.size(); ++i) {
    const Block &block = trace.blocks[film.ids[i]];
    assert_int_equal(film.bytes[i], block.bytes);
    assert_int_equal(born[i], block.born);
    assert_int_equal(life[i], block.dies == UINT64_MAX ? 0 : block.dies - block.born);
    assert_true(film.json["tags"][tags[i]] == block.tag);
  }
  // The curves tell the peaks that no frame need have seen.
  uint64_t live = 0, peak = 0;
  std::map<uint64_t, int64_t> changes;
  for (const Block &block : trace.blocks) {
    changes[block.born] += static_cast<int64_t>(block.bytes);
    if (block.dies != UINT64_MAX) changes[block.dies] -= static_cast<int64_t>(block.bytes);
  }
  for (const auto &[time, change] : changes) {
    live += static_cast<uint64_t>(change);
    peak = std::max(peak, live);
  }
  const Numbers high = unpacked_deltas(film.json["curves"][0]["high"].get<std::string>());
  assert_int_equal(*std::max_element(high.begin(), high.end()), peak);
}

void a_refusal_ends_the_film(void **) {
  const Trace trace(300);
  const TemporaryFile file(trace.text);
  const TemporaryFile page("");
  const Outcome outcome =
      run({file.path(), "--html", page.path(), "--granule", "64K", "--capacity", "512K", "--json"});
  assert_int_equal(outcome.status, 0);
  const Json figures = Json::parse(outcome.output);
  const Film film(text_of(page.path()));
  assert_true(figures["refused_event"].get<uint64_t>() == film.times.back() + 1);
  assert_true(figures["peak_reserved_bytes"].get<uint64_t>() <= 512 << 10);
  assert_true(film.times.back() < trace.events);
}

void a_pool_is_drawn_as_it_is(void **) {
  const Trace trace(250);
  const TemporaryFile file(trace.text);
  const TemporaryFile page("");
  const std::vector<std::vector<std::string>> ways = {
      {"--device-memory", "50%"},
      {"--device-memory", "50%", "--no-vmm"},
      {"--host-memory", "10%", "--compressed-memory", "400%", "--storage", "/tmp"}};
  for (const auto &way : ways) {
    std::vector<std::string> arguments = {file.path(), "--html",   page.path(), "--granule",
                                          "16K",       "--frames", "25"};
    arguments.insert(arguments.end(), way.begin(), way.end());
    const Outcome outcome = run(arguments);
    if (outcome.status != 0) fail_msg("%s: %s", way[0].c_str(), outcome.errors.c_str());
    const Film film(text_of(page.path()));
    assert_int_equal(film.times.back(), trace.operations);
    assert_true(film.json["unit"] == "operations");
    assert_true(film.json["tiers"] == true);
    std::set<uint64_t> lanes;
    for (uint64_t frame = 0; frame < film.times.size(); ++frame) {
      expect_in_order(film, frame);
      uint64_t live = 0;
      for (const Block &block : trace.blocks)
        if (block.born_operation <= film.times[frame] && film.times[frame] < block.dies_operation)
          live += block.bytes;
      assert_int_equal(film.live[frame], live);
      // Written once and never lost: every live block lies somewhere. Small ones may share coded pages.
      std::set<uint64_t> somewhere;
      bool shared = false;
      for (const Span &span : film.at(film.blocks, frame)) {
        lanes.insert(span.lane);
        shared = shared || span.block == 0;
        if (span.block != 0) somewhere.insert(film.ids.at(span.block - 1));
      }
      for (uint64_t id = 0; id < trace.blocks.size() && !shared; ++id) {
        const Block &block = trace.blocks[id];
        if (block.born_operation <= film.times[frame] && film.times[frame] < block.dies_operation)
          assert_int_equal(somewhere.count(id), 1);
      }
    }
    assert_true(lanes.count(0) == 1 && lanes.size() >= 2);
  }
}

void a_picture_opens(void **) {
  const Trace trace(120);
  const TemporaryFile file(trace.text);
  const TemporaryFile picture("");
  // Fontconfig keeps what it knows of fonts until the process ends, which a leak checker takes for lost.
  const TemporaryFile kept("leak:libfontconfig\n");
  setenv("LSAN_OPTIONS", ("print_suppressions=0:suppressions=" + kept.path()).c_str(), 1);
  const Outcome outcome = run({file.path(), "--png", picture.path(), "--colour", "size"});
  unsetenv("LSAN_OPTIONS");
  if (outcome.status != 0) {  // a build without cairo says so
    assert_true(contains(outcome.errors, "--png"));
    assert_true(contains(outcome.errors, "NOT_SUPPORTED"));
    return;
  }
  const std::string png = text_of(picture.path());
  assert_true(png.size() > 5000);
  assert_memory_equal(png.data(), "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  const auto number = [&png](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(png[at + i]);
    return value;
  };
  assert_int_equal(number(16), 1600);
  assert_true(number(20) > 600 && number(20) < 2000);
  assert_memory_equal(png.data() + png.size() - 8, "IEND", 4);
}

void wrong_options_are_named(void **) {
  const Trace trace(5);
  const TemporaryFile file(trace.text);
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--placement", "heap"}, "'heap'"},
      {{"--frames", "1"}, "--frames: 1"},
      {{"--colour", "red"}, "'red'"},
      {{"--capacity", "0"}, "--capacity: '0'"},
      {{"--granule", "3000"}, "--granule: '3000'"},
      {{"--scale", "0"}, "--scale"},
      {{"--limit", "0"}, "--limit"},
      {{"--device-memory", "50%", "--placement", "vmm"}, "--placement: 'vmm'"},
      {{"--host-memory", "half"}, "'half'"},
      {{"--html", "/no/such/folder/page.html"}, "'/no/such/folder/page.html'"}};
  for (const auto &[arguments, named] : wrong) {
    std::vector<std::string> all = {file.path()};
    if (arguments[0] != "--html") all.insert(all.end(), {"--html", file.path() + ".html"});
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run(all);
    assert_int_equal(outcome.status, 1);
    if (!contains(outcome.errors, named)) fail_msg("%s", outcome.errors.c_str());
    assert_string_equal(outcome.output.c_str(), "");
    assert_int_not_equal(access((file.path() + ".html").c_str(), F_OK), 0);
  }
  const TemporaryFile empty("#vmt 1\n");
  assert_true(contains(run({empty.path(), "--html", "/dev/null/x"}).errors, "/dev/null/x"));
  assert_true(
      contains(run({empty.path(), "--html", file.path() + ".html"}).errors, "has no allocations"));
}

void columns_come_back(void **) {
  using weir::tool::frag::packed;
  using weir::tool::frag::packed_deltas;
  const Numbers numbers = {0, 1, 127, 128, 300, uint64_t{1} << 52, 5, 5, 0, UINT64_MAX};
  assert_true(unpacked(packed(numbers)) == numbers);
  assert_true(unpacked_deltas(packed_deltas(numbers)) == numbers);
  assert_true(unpacked("").empty());
  for (const char *wrong : {"!!!!", "gA=="}) {
    bool refused = false;
    try {
      (void)unpacked(wrong);
    } catch (const std::invalid_argument &) {
      refused = true;
    }
    assert_true(refused);
  }
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_frame_is_the_trace_s),
      cmocka_unit_test(blocks_are_named),
      cmocka_unit_test(a_refusal_ends_the_film),
      cmocka_unit_test(a_pool_is_drawn_as_it_is),
      cmocka_unit_test(a_picture_opens),
      cmocka_unit_test(wrong_options_are_named),
      cmocka_unit_test(columns_come_back),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
