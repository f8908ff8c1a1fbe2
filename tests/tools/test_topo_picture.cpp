// SPDX-License-Identifier: Apache-2.0
//
// What `weir topo --svg` draws, as a reader sees it: of each recorded machine, and of machines that no recording has, nothing hides
// or cuts off anything else, and the legend has all that is drawn; and it says what the text says. Without Graphviz there is
// the graph. WEIR_BIN_DIR says where the program is; without it the test skips, as it does what needs `dot`.
#include "tests/tools/program.hpp"
#include "tests/tools/svg_boxes.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

namespace {

using weir::test::contains;
using weir::test::faults_of;
using weir::test::Outcome;
using weir::test::SvgPicture;
using weir::test::SvgReader;
using weir::test::TemporaryFile;

using Arguments = std::vector<std::string>;

Outcome run(Arguments arguments) {
  arguments.insert(arguments.begin(), "topo");
  return weir::test::run_weir(std::move(arguments));
}

bool dot_is_there() {
  if (!weir::test::installed("dot").empty()) return true;
  print_message("skipped: no dot (Graphviz) in PATH\n");
  return false;
}

std::string drawn(Arguments arguments) {
  const TemporaryFile file("");
  arguments.insert(arguments.end(), {"--svg", file.path()});
  const Outcome outcome = run(arguments);
  if (outcome.status != 0) fail_msg("%s", outcome.errors.c_str());
  assert_string_equal(outcome.errors.c_str(), "");
  assert_string_equal(outcome.output.c_str(), "");
  return weir::test::text_of(file.path());
}

bool says(const SvgPicture &picture, const std::string &text) {
  return std::ranges::any_of(picture.texts,
                             [&](const auto &one) { return contains(one.text, text); });
}

void expect_legible(const std::string &name, const SvgPicture &picture) {
  assert_true(picture.width > 100 && !picture.texts.empty() && !picture.nodes.empty());
  std::string all;
  for (const std::string &fault : faults_of(picture)) all += "\n  " + fault;
  if (!all.empty()) fail_msg("%s:%s", name.c_str(), all.c_str());
}

/// The rows of the matrix that `weir topo` prints: "D0" and the like.
std::set<std::string> rows_in(const std::string &text) {
  std::set<std::string> rows;
  std::istringstream lines(text.substr(std::min(text.find("\nlinks"), text.size())));
  for (std::string line; std::getline(lines, line);) {
    const std::string word = line.substr(0, line.find(' '));
    if ((word.starts_with("D") || word.starts_with("G")) && word.size() > 1) rows.insert(word);
  }
  return rows;
}

/// The picture is legible, has the rows of the text, and each device's NUMA node where the text has one.
SvgPicture check(const std::string &name, const Arguments &arguments) {
  const SvgPicture picture = SvgReader(drawn(arguments)).read();
  expect_legible(name, picture);
  const std::string text = run(arguments).output;
  const std::set<std::string> rows = rows_in(text);
  for (const std::string &row : rows)
    if (!says(picture, row + "  ")) fail_msg("%s: no box for %s", name.c_str(), row.c_str());
  for (const auto &[index, node] : picture.inside) {
    const std::string &title = picture.texts[index].text;
    const std::string row = title.substr(0, title.find(' '));
    if (rows.count(row) == 0 || !title.starts_with(row + "  ")) continue;
    const size_t at = text.find(" " + row + ", "), end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    const size_t told = line.find("NUMA node ");
    if (told == std::string::npos) continue;
    const std::string numa = line.substr(told, line.find_first_of(" ,(", told + 10) - told);
    bool found = false;
    for (const auto &[other, same] : picture.inside)
      found = found || (same == node && picture.texts[other].text.ends_with(numa));
    if (!found) fail_msg("%s: %s is not at %s", name.c_str(), row.c_str(), numa.c_str());
  }
  return picture;
}

void recorded_machines_are_legible(void **) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  const std::string folder = std::string(shared != nullptr ? shared : "") + "/topologies/";
  if (!dot_is_there()) skip();
  size_t seen = 0;
  for (const char *name :
       {"fluxcore-ipa20", "gen-cuda", "gen-rsmi", "gen-ze", "hwloc-2.14.0-nvidiaDGX2",
        "hwloc-2.9.0-power8gpudistances", "mpibind-eas-tioga", "mpibind-g4dnmetal",
        "fluxcore-tuo.TPX", "fluxcore-tuo.CPX"}) {
    const std::string path = folder + name + ".xml";
    if (access(path.c_str(), R_OK) != 0) {
      print_message("not looked at: no %s.xml in WEIR_SHARED_DIR\n", name);
      continue;
    }
    ++seen;
    check(name, {"--xml", path});
    check(std::string(name) + ", rehearsed",
          {"--xml", path, "--options", "topology.rehearse=1;host.memory=16M"});
  }
  if (seen == 0) skip();
}

void what_recorded_machines_are_said_to_be(void **) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  const std::string folder = std::string(shared != nullptr ? shared : "") + "/topologies/";
  if (!dot_is_there()) skip();
  const std::string dgx = folder + "hwloc-2.14.0-nvidiaDGX2.xml", ze = folder + "gen-ze.xml";
  if (access(dgx.c_str(), R_OK) != 0 || access(ze.c_str(), R_OK) != 0) {
    print_message("skipped: no recordings in WEIR_SHARED_DIR\n");
    skip();
  }
  SvgPicture picture = SvgReader(drawn({"--xml", dgx})).read();
  for (const char *text : {"NVSwitch", "12 ports", "150 GB/s between any two", "PCIe 15.8 GB/s",
                           "PCIe bridge", "host memory", "754 GiB", "NVLink"})
    if (!says(picture, text)) fail_msg("the DGX-2 has no '%s'", text);
  picture = SvgReader(drawn({"--xml", ze})).read();
  for (const char *text : {"card", "2 partitions", "Xe Link 230 GB/s", "60 links of 26.5 GB/s",
                           "between any two that", "PCIe 63 GB/s, shared by 2"})
    if (!says(picture, text)) fail_msg("the Xe machine has no '%s'", text);
}

std::string links_of(uint32_t count, uint64_t (*speed)(uint32_t, uint32_t)) {
  std::string text;
  for (uint32_t a = 0; a < count; ++a) {
    text +=
        (a == 0 ? "h-" : ",h-") + std::to_string(a) + ":pcie:" + std::to_string(11 + a % 3) + "G";
    for (uint32_t b = 0; b < a; ++b)
      if (const uint64_t gb = speed(b, a))
        text += "," + std::to_string(b) + "-" + std::to_string(a) +
                ":nvlink:" + std::to_string(gb) + "G";
  }
  return text;
}

std::string many(const std::string &text, uint32_t count) {
  std::string all = text;
  for (uint32_t i = 1; i < count; ++i) all += "," + text;
  return all;
}

void machines_without_a_recording_are_legible(void **) {
  if (!dot_is_there()) skip();
  const std::string memory = ";host.memory=16M";
  check("one device", {"--options", "host.devices=1" + memory});
  check("two devices", {"--options", "host.devices=2;host.peer_bandwidth=3G;host.memory=16M"});
  // Eight in a cube with diagonals: no two links of one device are drawn as one.
  const SvgPicture cube =
      check("cube", {"--options", "host.devices=8" + memory + ";host.links=" +
                                      links_of(8, [](uint32_t a, uint32_t b) -> uint64_t {
                                        const uint32_t differ = a ^ b;
                                        if (differ == 4 || differ == 7) return 50;
                                        return differ == 1 || differ == 2 ? 25 : 0;
                                      })});
  assert_true(says(cube, "NVLink 50 GB/s") && says(cube, "NVLink 25 GB/s"));
  // Speeds as they are measured: alike, and no two the same.
  const SvgPicture alike =
      check("alike", {"--options", "host.devices=6" + memory + ";host.links=" +
                                       links_of(6, [](uint32_t a, uint32_t b) -> uint64_t {
                                         return 135 + (a * 7 + b * 3) % 13;
                                       })});
  assert_true(says(alike, "15 links of 135"));
  // So many that nobody could follow them.
  const SvgPicture many_links = check(
      "many", {"--options", "host.devices=16" + memory + ";host.links=" +
                                links_of(16, [](uint32_t a, uint32_t b) -> uint64_t {
                                  return (a * 5 + b * 11) % 3 == 0 ? 0 : 20 * (1 + (a + b) % 4);
                                })});
  assert_true(says(many_links, "between some"));
  check("slices", {"--options", "host.devices=7;host.peer=0" + memory +
                                    ";host.names=" + many("MIG 1g.10gb", 7) +
                                    ";host.pci=" + many("0000:41:00.0", 7) + ";host.links=" +
                                    links_of(7, [](uint32_t, uint32_t) -> uint64_t { return 0; })});
  const SvgPicture odd = check(
      "odd names",
      {"--options", "host.devices=2" + memory + ";host.names=<b>&\"x\"</b>,{a|b} \\N \\L [x]"});
  assert_true(says(odd, "{a|b} \\N \\L [x]"));
}

/// What the check is for: each of these is planted, and seen.
void faults_are_seen(void **) {
  if (!dot_is_there()) skip();
  const SvgPicture good =
      SvgReader(drawn({"--options", "host.devices=2;host.memory=16M;host.peer_bandwidth=3G"}))
          .read();
  expect_legible("before", good);
  const auto expect = [](const SvgPicture &picture, const char *words) {
    const auto faults = faults_of(picture);
    if (std::ranges::none_of(faults, [&](const auto &fault) { return contains(fault, words); }))
      fail_msg("not seen: %s", words);
  };
  SvgPicture bad = good;
  bad.texts[0].left = -1;
  expect(bad, "cut off");
  bad = good;
  bad.texts[0] = bad.texts[1];
  expect(bad, "text over");
  bad = good;
  bad.nodes[0] = bad.nodes[1];
  expect(bad, "box over box");
  bad = good;
  bad.nodes[bad.inside[0].second].right -= 60;
  expect(bad, "leaves its box");
  bad = good;
  bad.lines[0].points.push_back(
      {(bad.nodes[0].left + bad.nodes[0].right) / 2, (bad.nodes[0].top + bad.nodes[0].bottom) / 2});
  expect(bad, "line through a box");
  bad = good;
  bad.keys.clear();
  expect(bad, "legend has no");
}

void dark_pages_have_their_colours(void **) {
  if (!dot_is_there()) skip();
  const std::string svg =
      drawn({"--options", "host.devices=2;host.memory=16M;host.peer_bandwidth=3G"});
  assert_true(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  for (const char *outside : {"<script", "@import", "url(", "<title>", "<!DOCTYPE"})
    assert_false(contains(svg, outside));
  assert_true(contains(svg, "@media (prefers-color-scheme:dark)"));
  // Each colour that is drawn has a rule.
  for (const char *attribute : {" fill=\"#", " stroke=\"#"}) {
    const std::string name = attribute;
    for (size_t at = 0; (at = svg.find(name, at)) != std::string::npos; ++at) {
      const std::string one = svg.substr(at + 1, name.size() - 2 + 8);
      if (!contains(svg, "[" + one + "]{")) fail_msg("no dark colour for %s", one.c_str());
    }
  }
}

void without_graphviz_there_is_the_graph(void **) {
  const TemporaryFile graph(""), picture("as it was");
  const char *path = std::getenv("PATH");
  const std::string before = path != nullptr ? path : "";
  setenv("PATH", "/nowhere", 1);
  const Outcome plain = run({"--options", "host.memory=16M", "--dot", graph.path()});
  const Outcome refused = run({"--options", "host.memory=16M", "--svg", picture.path()});
  setenv("PATH", before.c_str(), 1);
  assert_int_equal(plain.status, 0);
  const std::string text = weir::test::text_of(graph.path());
  assert_true(text.starts_with("digraph topology {") && contains(text, "D0") &&
              text.ends_with("}\n"));
  assert_int_equal(refused.status, 1);
  for (const char *word : {"Graphviz", "dot", "apt install graphviz", "--dot"})
    if (!contains(refused.errors, word)) fail_msg("%s", refused.errors.c_str());
  assert_int_equal(std::count(refused.errors.begin(), refused.errors.end(), '\n'), 1);
  assert_string_equal(weir::test::text_of(picture.path()).c_str(), "as it was");
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(recorded_machines_are_legible),
      cmocka_unit_test(what_recorded_machines_are_said_to_be),
      cmocka_unit_test(machines_without_a_recording_are_legible),
      cmocka_unit_test(faults_are_seen),
      cmocka_unit_test(dark_pages_have_their_colours),
      cmocka_unit_test(without_graphviz_there_is_the_graph),
  };
  return cmocka_run_group_tests_name("weir topo --svg", tests, nullptr, nullptr);
}
