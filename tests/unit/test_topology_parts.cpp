// SPDX-License-Identifier: Apache-2.0
//
// Cards in partitions, by what runtimes show of them: several devices of one runtime on a card are its partitions, and several
// runtimes' views of a device are one device. Links, memory, and the machine as options of the host backend. Real ones are in
// test_topology_files.

#include "backends/host/link.hpp"
#include "core/topology/rehearsal.hpp"

#include "tests/unit/host_streams.hpp"
#include "tests/unit/topology_files.hpp"

#include <cstring>

namespace {

using namespace weir::topology;
using namespace weir::test;

constexpr uint64_t megabyte = 1'000'000, kib = 1024;

class Read {
 public:
  explicit Read(const std::string &xml) : machine(std::pmr::get_default_resource()) {
    if (!discover_text(xml, "parts.xml", &machine)) fail_msg("%s", weir::last_error().text);
  }
  Machine machine;
};

/// An OS device; infos as "Name=value".
std::string os(unsigned number, const std::string &name, const std::vector<std::string> &infos = {},
               const std::string &inner = "") {
  std::string text = "<object type=\"OSDev\" gp_index=\"" + std::to_string(number) + "\" name=\"" +
                     name + "\" osdev_type=\"" + (name.starts_with("nvml") ? "1" : "5") + "\">";
  for (const std::string &info : infos)
    text += "<info name=\"" + info.substr(0, info.find('=')) + "\" value=\"" +
            info.substr(info.find('=') + 1) + "\"/>";
  return text + inner + "</object>";
}

/// A card on a root port of its own, and what is beside it below the bridge.
std::string card(unsigned number, const std::string &bus, const std::string &inner,
                 const std::string &beside = "", const char *type = "1200 [1002:74a0]") {
  return bridge_xml(number, bus, bus,
                    "<object type=\"PCIDev\" gp_index=\"" + std::to_string(number + 1) +
                        "\" pci_busid=\"0000:" + bus + ":00.0\" pci_type=\"" + type +
                        " [0000:0000] 00\" pci_link_speed=\"63.0\"><info name=\"PCIDevice\" "
                        "value=\"The card\"/>" +
                        inner + "</object>" + beside);
}

std::string each_of(const std::string &prefix, unsigned number, unsigned from, unsigned count,
                    const std::vector<std::string> &infos = {}) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += os(number + i, prefix + std::to_string(from + i), infos);
  return text;
}

uint32_t tile_of(const Machine &m, const char *pci, uint32_t nth) {
  const uint32_t found = m.find(pci) != none ? m.tile(m.find(pci), nth) : none;
  if (found == none) fail_msg("no partition %u at %s", nth, pci);
  return found;
}

/// The one card of the machine and its partitions, by what they are called.
void expect_parts(const std::string &inner, const char *known_as,
                  const std::vector<std::string> &parts) {
  const Read read(machine_xml(card(20, "17", inner)));
  const Machine &m = read.machine;
  assert_int_equal(m.device_count(), 1 + parts.size());
  const uint32_t whole = m.find("0000:17:00.0");
  assert_string_equal(m.device(whole).aliases.c_str(), known_as);
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const Place &part = m.device(tile_of(m, "0000:17:00.0", i));
    assert_string_equal(part.aliases.c_str(), parts[i].c_str());
    assert_string_equal(part.pci_address.c_str(), "0000:17:00.0");
    assert_int_equal(part.numa_node, 0);
  }
  assert_int_equal(rehearsed(m).size(), std::max<size_t>(parts.size(), 1));
}

void views_of_one_device_are_one_device(void **) {
  const char *drm = R"(<object type="OSDev" gp_index="90" name="card0" osdev_type="1"/>)"
                    R"(<object type="OSDev" gp_index="91" name="card1" osdev_type="1"/>)"
                    R"(<object type="OSDev" gp_index="92" name="renderD128" osdev_type="1"/>)";
  expect_parts(drm, "", {});
  expect_parts(drm + os(40, "opencl0d0") + os(41, "cuda0") + os(42, "nvml0"),
               "opencl0d0 cuda0 nvml0", {});
  // A platform each.
  expect_parts(os(40, "opencl0d0") + os(41, "opencl1d0") + os(42, "opencl10d3"),
               "opencl0d0 opencl1d0 opencl10d3", {});
  expect_parts(os(40, "rsmi0") + os(41, "hip0"), "rsmi0 hip0", {});
  expect_parts(
      os(40, "ze0", {"LevelZeroDriverIndex=0"}) + os(41, "ze1", {"LevelZeroDriverIndex=1"}),
      "ze0 ze1", {});
  // No GPU by its own word.
  expect_parts(os(40, "opencl0d0") + os(41, "opencl0d1", {"OpenCLDeviceType=Custom"}), "opencl0d0",
               {});
}

void devices_of_one_runtime_are_partitions(void **) {
  expect_parts(each_of("rsmi", 40, 0, 3), "", {"rsmi0", "rsmi1", "rsmi2"});
  expect_parts(each_of("hip", 40, 0, 2), "", {"hip0", "hip1"});
  expect_parts(each_of("cuda", 40, 0, 2), "", {"cuda0", "cuda1"});
  expect_parts(each_of("nvml", 40, 0, 2), "", {"nvml0", "nvml1"});
  expect_parts(each_of("opencl1d", 40, 9, 2), "", {"opencl1d9", "opencl1d10"});
  expect_parts(each_of("ze", 40, 0, 2, {"LevelZeroDriverIndex=0"}), "", {"ze0", "ze1"});
  expect_parts(os(40, "ze0", {}, os(41, "ze0.0") + os(42, "ze0.1")), "ze0", {"ze0.0", "ze0.1"});
}

void views_of_partitions_are_told_by_their_number(void **) {
  // As many: the same, in order.
  expect_parts(each_of("rsmi", 40, 4, 2) + each_of("opencl0d", 50, 0, 2) + os(60, "opencl1d0"),
               "opencl1d0", {"rsmi4 opencl0d0", "rsmi5 opencl0d1"});
  expect_parts(os(40, "ze0", {}, os(41, "ze0.0") + os(42, "ze0.1")) + each_of("opencl0d", 50, 0, 2),
               "ze0", {"ze0.0 opencl0d0", "ze0.1 opencl0d1"});
  // One is the card, and of fewer it is not known which.
  expect_parts(os(39, "nvml0") + each_of("cuda", 40, 0, 2), "nvml0", {"cuda0", "cuda1"});
  expect_parts(each_of("opencl0d", 50, 0, 2) + each_of("rsmi", 40, 0, 3), "opencl0d0 opencl0d1",
               {"rsmi0", "rsmi1", "rsmi2"});
}

/// hwloc before 2.12 looked for a function of each partition and left it at the bridge.
void partitions_at_the_bridge_are_of_the_card_below_it(void **) {
  const Read read(machine_xml(card(20, "17", os(40, "rsmi0"), each_of("rsmi", 41, 1, 2))));
  assert_int_equal(read.machine.device_count(), 4);
  assert_string_equal(read.machine.device(tile_of(read.machine, "0000:17:00.0", 2)).aliases.c_str(),
                      "rsmi2");
  // Of two cards it is not known whose; and what the card shows nothing of may be something else.
  const std::string two =
      "<object type=\"PCIDev\" gp_index=\"30\" pci_busid=\"0000:17:01.0\" pci_type=\"1200 "
      "[1002:74a0] [0000:0000] 00\">" +
      os(31, "rsmi1") + "</object>";
  assert_int_equal(Read(machine_xml(card(20, "17", os(40, "rsmi0"), two + os(41, "rsmi2"))))
                       .machine.device_count(),
                   3);
}

void bare_devices_are_no_second_count_of_functions(void **) {
  const std::string gpus = card(20, "17", os(40, "cuda0")) + card(30, "27", os(50, "cuda1"));
  const auto count = [&](const std::string &bare) {
    return Read(machine_xml(gpus + bare)).machine.device_count();
  };
  assert_int_equal(count(each_of("opencl0d", 60, 0, 2)), 2);
  assert_int_equal(count(each_of("opencl0d", 60, 0, 3)), 5);  // more than there are functions
  assert_int_equal(count(os(60, "cuda2")), 3);                // cuda has named the functions
}

void memory_is_told_by_the_parts_or_the_card(void **) {
  const auto expect = [](const std::string &inner, uint64_t whole, std::vector<uint64_t> parts,
                         uint32_t shared) {
    const Read read(machine_xml(card(20, "17", inner)));
    const Machine &m = read.machine;
    assert_int_equal(m.device(m.find("0000:17:00.0")).memory, whole * kib);
    assert_false(m.device(m.find("0000:17:00.0")).integrated);
    for (uint32_t i = 0; i < parts.size(); ++i) {
      const Place &part = m.device(tile_of(m, "0000:17:00.0", i));
      assert_int_equal(part.memory, parts[i] * kib);
      assert_int_equal(part.memory_shared, shared);
      assert_false(part.integrated);
    }
  };
  const auto vram = [](const char *size) {
    return std::vector<std::string>{"RSMIGTTSize=99", std::string("RSMIVRAMSize=") + size};
  };
  expect(os(40, "rsmi0", vram("64")) + os(41, "rsmi1", vram("32")), 0, {64, 32}, 1);
  expect(os(40, "rsmi0", vram("64")) + os(41, "rsmi1"), 64, {64, 64}, 2);  // the first for all
  expect(os(40, "rsmi0") + os(41, "rsmi1", vram("64")) + os(42, "rsmi2"), 0, {0, 64, 0}, 1);
  expect(each_of("rsmi", 40, 0, 2) + os(50, "opencl0d0", {"OpenCLGlobalMemorySize=64"}), 64,
         {64, 64}, 2);
  expect(each_of("rsmi", 40, 0, 2, vram("64")) + os(50, "opencl0d0", {"OpenCLGlobalMemorySize=64"}),
         64, {64, 64}, 2);  // together more than the card has
  expect(each_of("rsmi", 40, 0, 2, vram("32")) + os(50, "opencl0d0", {"OpenCLGlobalMemorySize=64"}),
         64, {32, 32}, 1);
  expect(os(39, "nvml0") + each_of("cuda", 40, 0, 2, {"CUDAGlobalMemorySize=16"}), 0, {16, 16}, 1);
  expect(os(40, "ze0", {"LevelZeroHBMSize=64"},
            os(41, "ze0.0", {"LevelZeroHBMSize=32"}) + os(42, "ze0.1", {"LevelZeroDDRSize=32"})),
         64, {32, 32}, 1);
  expect(each_of("ze", 40, 0, 2, {"LevelZeroHBMSize=64"}), 64, {64, 64}, 2);  // flat: the card's
}

/// MI300A: no VRAM, and the host's that it reaches. What it has is its node's.
void a_card_without_memory_has_the_hosts(void **) {
  const Read read(machine_xml(card(20, "17", os(40, "rsmi0", {"RSMIGTTSize=9"}) + os(41, "rsmi1")) +
                              card(30, "27", os(50, "rsmi2", {"RSMIGTTSize=9"})) +
                              card(60, "37", os(70, "rsmi3"))));
  const Machine &m = read.machine;
  for (uint32_t i = 0; i < m.device_count(); ++i) {
    const Place &place = m.device(i);
    const bool last = place.pci_address == "0000:37:00.0";
    assert_int_equal(place.integrated, !last);
    assert_int_equal(place.memory, last ? 0 : 1U << 30U);
    assert_int_equal(place.memory_shared, place.kind == PlaceKind::tile ? 2 : 1);
  }
}

void expect_link(const Link &link, uint32_t kind, uint64_t megabytes, bool direct) {
  assert_int_equal(link.kind, kind);
  assert_int_equal(link.bandwidth, megabytes * megabyte);
  assert_int_equal(link.direct, direct);
}

void partitions_have_the_cards_links_together(void **) {
  const Read read(machine_xml(card(20, "17", each_of("rsmi", 40, 0, 3)) +
                                  card(30, "27", each_of("rsmi", 50, 3, 3)) +
                                  card(60, "37", os(70, "rsmi6")),
                              matrix_xml("XGMIBandwidth", {40, 41, 50},
                                         "1000000 100000 50000 100000 1000000 50000 50000 50000 "
                                         "1000000 ")));
  const Machine &m = read.machine;
  const uint32_t a = tile_of(m, "0000:17:00.0", 0), b = tile_of(m, "0000:17:00.0", 1),
                 c = tile_of(m, "0000:17:00.0", 2), d = tile_of(m, "0000:27:00.0", 0),
                 single = m.find("0000:37:00.0");
  for (const uint32_t each : {a, b, c, d}) {
    expect_link(m.link(each, host_end), WEIR_LINK_PCIE, 63000, true);
    assert_int_equal(m.sharing(each, host_end), 3);
    assert_int_equal(m.sharing(single, each), 3);
  }
  assert_int_equal(m.sharing(single, host_end), 1);
  expect_link(m.link(a, b), WEIR_LINK_INFINITY_FABRIC, 100000, true);
  assert_int_equal(m.sharing(a, b), 1);
  expect_link(m.link(b, c), WEIR_LINK_C2C, 0, true);  // of one card, and no figure
  expect_link(m.link(a, d), WEIR_LINK_INFINITY_FABRIC, 50000, true);
  assert_int_equal(m.sharing(a, d), 3);
}

/// A matrix of cards holds for their partitions; of tiles that it names it says all.
void links_of_cards_are_those_of_their_partitions(void **) {
  const Read read(machine_xml(
      card(20, "17", os(40, "nvml0") + each_of("opencl0d", 41, 0, 2), "", "0302 [10de:2330]") +
          card(30, "27", os(50, "nvml1") + each_of("opencl0d", 51, 2, 2), "", "0302 [10de:2330]"),
      matrix_xml("NVLinkBandwidth", {40, 50}, "1000000 150000 150000 1000000 ")));
  const Machine &m = read.machine;
  for (const uint32_t i : {0U, 1U})
    for (const uint32_t k : {0U, 1U}) {
      const uint32_t a = tile_of(m, "0000:17:00.0", i), b = tile_of(m, "0000:27:00.0", k);
      expect_link(m.link(a, b), WEIR_LINK_NVLINK, 150000, true);
      expect_link(m.link(b, a), WEIR_LINK_NVLINK, 150000, true);
    }
  const auto ze = [](unsigned number, const std::string &name) {
    return os(number, name, {}, os(number + 1, name + ".0") + os(number + 2, name + ".1"));
  };
  const Read tiles(machine_xml(
      card(20, "17", ze(40, "ze0")) + card(30, "27", ze(50, "ze1")),
      matrix_xml("XeLinkBandwidth", {41, 42, 51, 52, 40, 50},
                 "0 9 7 0 0 0 9 0 0 0 0 0 7 0 0 9 0 0 0 0 9 0 0 0 0 0 0 0 0 7 0 0 0 0 7 0 ")));
  const Machine &t = tiles.machine;
  expect_link(t.link(tile_of(t, "0000:17:00.0", 0), tile_of(t, "0000:27:00.0", 0)), WEIR_LINK_XE, 7,
              true);
  assert_int_equal(t.link(tile_of(t, "0000:17:00.0", 1), tile_of(t, "0000:27:00.0", 1)).kind,
                   WEIR_LINK_PCIE);
}

/// MIG: no slice reaches another, and NVLink is none of theirs.
void slices_reach_the_host_only(void **) {
  const std::string below_one_switch = bridge_xml(
      10, "17", "27",
      card(20, "17", os(40, "nvml0") + each_of("cuda", 41, 0, 2), "", "0302 [10de:2330]") +
          card(30, "27", os(50, "nvml1") + os(51, "cuda2"), "", "0302 [10de:2330]"));
  const Read read(machine_xml(
      below_one_switch, matrix_xml("NVLinkBandwidth", {40, 50}, "1000000 150000 150000 1000000 ")));
  const Machine &m = read.machine;
  const uint32_t a = tile_of(m, "0000:17:00.0", 0), b = tile_of(m, "0000:17:00.0", 1),
                 whole = m.find("0000:27:00.0");
  expect_link(m.link(a, b), WEIR_LINK_PCIE, 63000, false);
  expect_link(m.link(a, whole), WEIR_LINK_PCIE, 63000, false);
  expect_link(m.link(whole, b), WEIR_LINK_PCIE, 63000, false);
  expect_link(m.link(a, host_end), WEIR_LINK_PCIE, 63000, true);
  expect_link(m.link(whole, m.find("0000:17:00.0")), WEIR_LINK_NVLINK, 150000, true);
}

std::string options_of(const Machine &m) {
  std::pmr::string options;
  if (!rehearsal_options(m, 0, &options)) fail_msg("%s", weir::last_error().text);
  return std::string(options);
}

void expect_in(const std::string &text, const char *part) {
  if (text.find(part) == std::string::npos) fail_msg("no \"%s\" in %s", part, text.c_str());
}

void a_rehearsal_has_the_partitions(void **) {
  const Read apu(machine_xml(card(20, "17", os(40, "rsmi0", {"RSMIGTTSize=9"}) + os(41, "rsmi1")) +
                             card(30, "27", os(50, "rsmi2", {"RSMIGTTSize=9"}) + os(51, "rsmi3"))));
  const std::string options = options_of(apu.machine);
  for (const char *part :
       {"devices=4;", ";pci=0000:17:00.0,0000:17:00.0,0000:27:00.0,0000:27:00.0;",
        ";integrated=0,1,2,3", ";memory_with=0,0,2,2;",
        "names=The card,The card,The card,The card;", "h-3:pcie:63000000000:"})
    expect_in(options, part);
  // The driver gives each its part of a card's memory.
  const Read hbm(
      machine_xml(card(20, "17", os(40, "rsmi0", {"RSMIVRAMSize=9"}) + os(41, "rsmi1"))));
  const std::string divided = options_of(hbm.machine);
  assert_true(divided.find("memory_with") == std::string::npos);
  assert_true(divided.find("integrated") == std::string::npos);
}

/// The host backend as that machine: cards' links and memory are one.
void the_host_backend_rehearses_partitions(void **) {
  const Read apu(machine_xml(card(20, "17", os(40, "rsmi0", {"RSMIGTTSize=9"}) + os(41, "rsmi1")) +
                             card(30, "27", os(50, "rsmi2", {"RSMIGTTSize=9"}) + os(51, "rsmi3"))));
  std::pmr::string options;
  if (!rehearsal_options(apu.machine, 630, &options)) fail_msg("%s", weir::last_error().text);
  const HostBackend backend{std::string(options)};  // 100 MB/s from the host to each card
  const auto free_of = [&](uint32_t device) {
    uint64_t available = 0, total = 0;
    backend.check(backend->device_memory(backend.state(), device, &available, &total));
    return available;
  };
  const uint64_t bytes = mib, to[] = {backend.plain(bytes, 0), backend.plain(bytes, 1)};
  assert_int_equal(free_of(0), 30 * mib);
  assert_int_equal(free_of(1), 30 * mib);
  assert_int_equal(free_of(2), 32 * mib);
  std::vector<unsigned char> data(bytes);
  const weir_be_stream streams[] = {backend.stream(0), backend.stream(1)};
  const uint64_t start = weir::host::now_ns();
  for (int i = 0; i < 2; ++i) {
    const weir_be_copy copy{to[i], reinterpret_cast<uintptr_t>(data.data()), bytes};
    backend.check(backend->copy_async(backend.state(), streams[i], &copy));
  }
  for (const weir_be_stream stream : streams)
    backend.check(backend->stream_synchronize(backend.state(), stream));
  assert_true(weir::host::now_ns() - start >= 20'900'000);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(views_of_one_device_are_one_device),
      cmocka_unit_test(devices_of_one_runtime_are_partitions),
      cmocka_unit_test(views_of_partitions_are_told_by_their_number),
      cmocka_unit_test(partitions_at_the_bridge_are_of_the_card_below_it),
      cmocka_unit_test(bare_devices_are_no_second_count_of_functions),
      cmocka_unit_test(memory_is_told_by_the_parts_or_the_card),
      cmocka_unit_test(a_card_without_memory_has_the_hosts),
      cmocka_unit_test(partitions_have_the_cards_links_together),
      cmocka_unit_test(links_of_cards_are_those_of_their_partitions),
      cmocka_unit_test(slices_reach_the_host_only),
      cmocka_unit_test(a_rehearsal_has_the_partitions),
      cmocka_unit_test(the_host_backend_rehearses_partitions),
  };
  return cmocka_run_group_tests_name("partitions of cards", tests, nullptr, nullptr);
}
