// SPDX-License-Identifier: Apache-2.0
//
// How figures are written for people, and which devices are rows of the matrix.

#include "core/topology/describe.hpp"
#include "core/topology/rehearsal.hpp"

#include <cstring>

#include "tests/unit/topology_files.hpp"

namespace {

using namespace weir::topology;
using namespace weir::test;

void bandwidths_have_three_digits(void **) {
  assert_string_equal(gigabytes(0).c_str(), "0");
  assert_string_equal(gigabytes(150'000'000'000).c_str(), "150");
  assert_string_equal(gigabytes(15'753'846'000).c_str(), "15.8");
  assert_string_equal(gigabytes(9'994'000'000).c_str(), "9.99");
  assert_string_equal(gigabytes(9'996'000'000).c_str(), "10");
  assert_string_equal(gigabytes(250'000'000).c_str(), "0.25");
  assert_string_equal(gigabytes(50'000'000).c_str(), "0.05");
  assert_string_equal(gigabytes(999'960'000'000).c_str(), "1000");
  assert_string_equal(gigabytes(3'600'400'000'000).c_str(), "3600");
}

void memory_has_a_unit(void **) {
  assert_string_equal(memory_text(1000).c_str(), "1000 B");
  assert_string_equal(memory_text(uint64_t{32} << 30U).c_str(), "32 GiB");
  assert_string_equal(memory_text(uint64_t{3} << 29U).c_str(), "1.5 GiB");
  assert_false(memory_text(UINT64_MAX).empty());
}

/// A device with two tiles.
std::string tiled() {
  return bridge_xml(
      20, "17", "17",
      R"(<object type="PCIDev" gp_index="30" pci_busid="0000:17:00.0" pci_type="0380 [8086:0bd6] [0000:0000] 2f" pci_link_speed="63"><object type="OSDev" gp_index="31" name="ze0" subtype="LevelZero" osdev_type="5"><object type="OSDev" gp_index="32" name="ze0.0" subtype="LevelZero" osdev_type="5"/><object type="OSDev" gp_index="33" name="ze0.1" subtype="LevelZero" osdev_type="5"/></object></object>)");
}

void rows_are_tiles_or_their_device(void **) {
  Machine machine(std::pmr::get_default_resource());
  assert_true(discover_text(machine_xml(tiled()), "test", &machine).ok());
  assert_int_equal(machine.device_count(), 3);
  // Without a matrix the tiles are known to be of one package.
  assert_int_equal(machine.link(1, 2).kind, WEIR_LINK_C2C);
  std::vector<Row> rows = rows_of(machine);
  assert_int_equal(rows.size(), 3);
  assert_string_equal(rows[0].label.c_str(), "G1");
  assert_string_equal(rows[1].label.c_str(), "G2");
  assert_string_equal(rows[2].label.c_str(), "host");
  machine.device(0).context_device = 4;
  rows = rows_of(machine);
  assert_int_equal(rows.size(), 2);
  assert_string_equal(rows[0].label.c_str(), "D4");
}

/// A tile that a runtime adds to a card has the card's links, and shares them with its siblings.
void an_added_tile_shares_its_cards_links(void **) {
  Machine machine(std::pmr::get_default_resource());
  const std::string gpus = bridge_xml(20, "17", "17", gpu_xml("17", 30, "cuda0")) +
                           bridge_xml(21, "27", "27", gpu_xml("27", 40, "cuda1"));
  assert_true(discover_text(machine_xml(gpus), "test", &machine).ok());
  Link fast = machine.link(0, 1);
  fast.kind = WEIR_LINK_NVLINK;
  machine.set_link(0, 1, fast);
  assert_int_equal(machine.sharing(0, host_end), 1);
  const uint32_t first = machine.add_tile(0, 0), second = machine.add_tile(0, 1);
  assert_int_equal(machine.tile(0, 1), second);
  assert_int_equal(machine.tile(1, 1), none);
  for (const uint32_t tile : {first, second}) {
    assert_int_equal(machine.link(tile, host_end).bandwidth, machine.link(0, host_end).bandwidth);
    assert_int_equal(machine.link(tile, 1).kind, WEIR_LINK_NVLINK);
    assert_int_equal(machine.link(1, tile).kind, WEIR_LINK_PCIE);  // each way by itself
    assert_int_equal(machine.link(tile, 0).kind, WEIR_LINK_SAME);
    assert_int_equal(machine.sharing(tile, host_end), 2);
    assert_int_equal(machine.sharing(1, tile), 2);
    assert_int_equal(machine.sharing(tile, 0), 1);
  }
  assert_int_equal(machine.link(first, second).kind, WEIR_LINK_NONE);
  assert_int_equal(machine.sharing(first, second), 1);
  assert_int_equal(machine.find_card("0000:17:00.3"), 0);
  assert_int_equal(machine.find_card("0000:18:00.0"), none);
  assert_int_equal(machine.find("0000:17:00.3"), none);
}

void tiles_are_rehearsed_and_their_device_is_not(void **) {
  Machine machine(std::pmr::get_default_resource());
  assert_true(discover_text(machine_xml(tiled()), "test", &machine).ok());
  std::pmr::string options;
  assert_true(rehearsal_options(machine, 3, &options).ok());
  assert_string_equal(
      options.c_str(),
      "devices=2;peer=1;link_slowdown=3;names=ze0.0,ze0.1;pci=0000:17:00.0,0000:17:00.0;numa=0,0;"
      "links=h-0:pcie:63000000000:1:0:direct,0-1:c2c:0:1:0:direct,h-1:pcie:63000000000:1:0:direct");
}

void a_machine_without_devices_is_not_rehearsed(void **) {
  Machine machine(std::pmr::get_default_resource());
  assert_true(discover_text(machine_xml(""), "test", &machine).ok());
  std::pmr::string options;
  assert_int_equal(rehearsal_options(machine, 0, &options).code(), WEIR_ERROR_INVALID_ARGUMENT);
  assert_non_null(strstr(weir::last_error().text, "0 devices"));
  assert_true(describe_text(machine).find("no devices") != std::string::npos);
  const std::string svg = describe_svg(machine);
  assert_true(svg.find("</svg>") != std::string::npos);
  // Its longest line, of 73 letters of 11 pixels, is not cut off.
  const size_t width = svg.find("width=\"");
  assert_true(std::stoi(svg.substr(width + 7)) >= 73 * 7 + 2 * 24);
}

/// However much measured bandwidths differ, they are one line of the legend.
void measured_links_share_a_line(void **) {
  Machine machine(std::pmr::get_default_resource());
  const std::string gpus = bridge_xml(20, "17", "17", gpu_xml("17", 30, "cuda0")) +
                           bridge_xml(21, "27", "27", gpu_xml("27", 40, "cuda1"));
  assert_true(discover_text(machine_xml(gpus), "test", &machine).ok());
  machine.record(0, host_end, {12'300'000'000, 900});
  machine.record(1, host_end, {13'100'000'000, 900});
  machine.record(host_end, 1, {12'900'000'000, 900});
  const std::string text = describe_text(machine);
  for (const char *line :
       {"\nPCIE  pcie, 12.3 to 13.1 GB/s one way (measured), 1 hop: 3 ways\n", "PCIE 13.1"})
    if (text.find(line) == std::string::npos) fail_msg("no \"%s\" in:\n%s", line, text.c_str());
  size_t lines = 0;
  for (size_t at = 0; (at = text.find("(measured)", at)) != std::string::npos; ++at) ++lines;
  assert_int_equal(lines, 1);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(bandwidths_have_three_digits),
      cmocka_unit_test(memory_has_a_unit),
      cmocka_unit_test(rows_are_tiles_or_their_device),
      cmocka_unit_test(an_added_tile_shares_its_cards_links),
      cmocka_unit_test(tiles_are_rehearsed_and_their_device_is_not),
      cmocka_unit_test(a_machine_without_devices_is_not_rehearsed),
      cmocka_unit_test(measured_links_share_a_line),
  };
  return cmocka_run_group_tests_name("topology in words", tests, nullptr, nullptr);
}
