// SPDX-License-Identifier: Apache-2.0
//
// Discovery from small texts: devices, links and their rules, each by itself; and what is no topology, which must be
// refused by name. Needs no recording.

#include "core/topology/fabric.hpp"

#include "tests/unit/topology_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

namespace {

using namespace weir::topology;
using namespace weir::test;

constexpr uint64_t megabyte = 1'000'000;

class Text {
 public:
  explicit Text(const std::string &xml) : machine(std::pmr::get_default_resource()) {
    if (!discover_text(xml, "test.xml", &machine)) fail_msg("%s", weir::last_error().text);
  }
  Machine machine;
};

/// The message with which the text is refused, which must name the file.
std::string refused(const std::string &xml) {
  Machine machine(std::pmr::get_default_resource());
  const weir::Status status = discover_text(xml, "test.xml", &machine);
  assert_int_equal(status.code(), WEIR_ERROR_INVALID_ARGUMENT);
  std::string text = weir::last_error().text;
  if (text.find("test.xml") == std::string::npos) fail_msg("\"%s\" names no file", text.c_str());
  return text;
}

void refused_for(const std::string &xml, const char *word) {
  const std::string text = refused(xml);
  if (text.find(word) == std::string::npos)
    fail_msg("\"%s\" does not say \"%s\"", text.c_str(), word);
}

std::string two_gpus() {
  return bridge_xml(20, "17", "17", gpu_xml("17", 30, "cuda0")) +
         bridge_xml(21, "27", "27", gpu_xml("27", 40, "cuda1"));
}

void addresses_are_the_same_however_they_are_written(void **) {
  assert_true(same_address("0000:17:00.0", "00000000:17:00.0"));
  assert_true(same_address("0000:aB:00.0", "0:Ab:0.0"));
  assert_true(same_address("17:00.0", "0000:17:00.0"));
  assert_true(same_address("17:00", "0000:17:00.0"));
  assert_false(same_address("0000:17:00.1", "0000:17:00.0"));
  assert_false(same_address("0001:17:00.0", "0000:17:00.0"));
  assert_false(same_address("", ""));
  assert_false(same_address("x", "x"));
  assert_false(same_address("0000:17:00.0 ", "0000:17:00.0"));
  assert_false(same_address("0000:17:00.", "0000:17:00.0"));
}

void devices_are_found_with_what_is_known(void **) {
  const Text text(machine_xml(two_gpus()));
  const Machine &m = text.machine;
  assert_int_equal(m.device_count(), 2);
  const Place &gpu = m.device(0);
  assert_string_equal(gpu.name.c_str(), "Test GPU");
  assert_string_equal(gpu.pci_address.c_str(), "0000:17:00.0");
  assert_string_equal(gpu.aliases.c_str(), "cuda0");
  assert_int_equal(gpu.memory, 1024 * 1024);
  assert_int_equal(gpu.numa_node, 0);
  const uint32_t node = m.above(m.devices()[0], PlaceKind::numa_node);
  assert_int_equal(m.places()[node].number, 0);
  assert_int_equal(m.places()[node].memory, 1U << 30U);
  assert_int_equal(m.places()[m.above(node, PlaceKind::package)].number, 0);
  for (uint32_t i = 1; i < m.places().size(); ++i) assert_true(m.places()[i].parent < i);
}

void without_a_matrix_links_are_pcie(void **) {
  const Text text(machine_xml(two_gpus()));
  const Link link = text.machine.link(0, 1), host = text.machine.link(host_end, 0);
  assert_int_equal(link.kind, WEIR_LINK_PCIE);
  assert_int_equal(link.bandwidth, 15750 * megabyte);
  assert_int_equal(link.source, WEIR_LINK_FIGURE_PCIE);
  assert_int_equal(link.hops, 2);
  assert_false(link.direct);  // each has a host bridge of its own
  assert_int_equal(host.kind, WEIR_LINK_PCIE);
  assert_int_equal(host.hops, 1);
  assert_true(host.direct);
}

void a_speed_that_makes_no_sense_is_unknown(void **) {
  for (const char *speed : {"0.000000", "-3", "1e30", "nan", "inf", "fast"}) {
    const Text text(machine_xml(bridge_xml(20, "17", "17", gpu_xml("17", 30, "cuda0", speed))));
    const Link link = text.machine.link(0, host_end);
    assert_int_equal(link.kind, WEIR_LINK_PCIE);
    assert_int_equal(link.bandwidth, 0);
    assert_int_equal(link.source, WEIR_LINK_FIGURE_NONE);
  }
}

void the_slowest_link_counts_and_an_idle_end_does_not(void **) {
  const auto port = [](unsigned number, const char *bus, const char *speed,
                       const std::string &inner) {
    return R"(<object type="Bridge" gp_index=")" + std::to_string(number) +
           R"(" bridge_type="1-1" depth="1" bridge_pci="0000:[18-1a]" pci_busid="0000:)" + bus +
           R"(:00.0" pci_type="0604 [10b5:9781] [10b5:9781] b0" pci_link_speed=")" + speed + "\">" +
           inner + "</object>";
  };
  // Root port, a switch's upper and lower port, the GPU: two links, of 8 and of 16 GB/s.
  const Text chain(machine_xml(bridge_xml(
      20, "17", "1a",
      port(21, "17", "8.0",
           port(22, "18", "8.0", port(23, "19", "2.5", gpu_xml("1a", 30, "cuda0", "16.0")))))));
  assert_int_equal(chain.machine.link(0, host_end).bandwidth, 8000 * megabyte);
  assert_int_equal(chain.machine.link(0, host_end).hops, 4);
  // One link, whose upper end slept.
  const Text idle(machine_xml(
      bridge_xml(20, "17", "1a", port(21, "17", "2.0", gpu_xml("1a", 30, "cuda0", "16.0")))));
  assert_int_equal(idle.machine.link(0, host_end).bandwidth, 16000 * megabyte);
}

void matrices_make_links_each_way(void **) {
  const Text text(machine_xml(
      two_gpus(), matrix_xml("NVLinkBandwidth", {31, 41}, "1000000 25000 50000 1000000 ")));
  const Link to = text.machine.link(0, 1), back = text.machine.link(1, 0);
  assert_int_equal(to.kind, WEIR_LINK_NVLINK);
  assert_int_equal(to.bandwidth, 25000 * megabyte);
  assert_int_equal(back.bandwidth, 50000 * megabyte);
  assert_int_equal(to.source, WEIR_LINK_FIGURE_TOPOLOGY);
  assert_int_equal(to.hops, 1);
  assert_true(to.direct);
  assert_int_equal(text.machine.link(0, host_end).kind, WEIR_LINK_PCIE);
}

void hops_belong_to_links_of_their_kind(void **) {
  const std::string hops = matrix_xml("XGMIHops", {31, 41}, "0 2 2 0 ");
  const std::string bandwidth =
      matrix_xml("XGMIBandwidth", {31, 41}, "1000000 50000 50000 1000000 ");
  const Text both(machine_xml(two_gpus(), hops + bandwidth));
  assert_int_equal(both.machine.link(0, 1).kind, WEIR_LINK_INFINITY_FABRIC);
  assert_int_equal(both.machine.link(0, 1).hops, 2);
  const Text alone(machine_xml(two_gpus(), hops));
  assert_int_equal(alone.machine.link(0, 1).kind, WEIR_LINK_PCIE);
}

void a_matrix_of_something_else_is_passed_over(void **) {
  const Text text(
      machine_xml(two_gpus(), matrix_xml("FunnyBandwidth", {31, 41}, "1 25000 50000 1 ")));
  assert_int_equal(text.machine.link(0, 1).kind, WEIR_LINK_PCIE);
}

/// The folding alone: two devices with two and one link to a switch of two ports.
void switches_are_folded(void **) {
  Machine machine(std::pmr::get_default_resource());
  machine.add(PlaceKind::machine, none);
  for (uint32_t i = 1; i <= 3; ++i) {
    machine.add(PlaceKind::device, 0);
    machine.make_device(i);
  }
  const FabricEnd ends[] = {{EndKind::device, 0},
                            {EndKind::device, 1},
                            {EndKind::switch_port, none},
                            {EndKind::switch_port, none},
                            {EndKind::device, 2}};
  const uint64_t values[] = {
      0,   0,   100, 100, 0,  //
      0,   0,   100, 0,   0,  //
      100, 100, 0,   400, 0,  //
      100, 0,   400, 0,   0,  //
      0,   0,   0,   0,   0,
  };
  assert_true(add_fabric({WEIR_LINK_NVLINK, false, ends, values}, "test", &machine).ok());
  assert_int_equal(machine.link(0, 1).bandwidth, 100 * megabyte);  // what the lesser end has
  assert_int_equal(machine.link(1, 0).bandwidth, 100 * megabyte);
  assert_int_equal(machine.link(0, 1).hops, 1);
  assert_int_equal(machine.link(0, 2).kind, WEIR_LINK_NONE);
}

void one_function_is_one_device(void **) {
  const std::string gpu =
      R"(<object type="PCIDev" gp_index="30" pci_busid="0000:17:00.0" pci_type="0302 [10de:2330] [10de:16c0] a1" pci_link_speed="1"><object type="OSDev" gp_index="31" name="cuda0" osdev_type="5"/><object type="OSDev" gp_index="32" name="nvml0" osdev_type="1"/><object type="OSDev" gp_index="33" name="opencl0d0" osdev_type="5"/></object>)";
  const Text text(machine_xml(bridge_xml(20, "17", "17", gpu)));
  assert_int_equal(text.machine.device_count(), 1);
  assert_string_equal(text.machine.device(0).aliases.c_str(), "cuda0 nvml0 opencl0d0");
}

void functions_that_are_no_gpus_are_none(void **) {
  const auto other = [](const char *type) {
    return std::string(
               R"(<object type="PCIDev" gp_index="30" pci_busid="0000:17:00.0" pci_type=")") +
           type + R"(" pci_link_speed="1"/>)";
  };
  // A board's own VGA, a network card, an accelerator for cryptography.
  for (const char *type : {"0300 [102b:0536] [0000:0000] 04", "0200 [8086:1537] [0000:0000] 04",
                           "0b40 [8086:4940] [0000:0000] 04"}) {
    const Text text(machine_xml(bridge_xml(20, "17", "17", other(type))));
    assert_int_equal(text.machine.device_count(), 0);
  }
  for (const char *type : {"0300 [10de:0536] [0000:0000] 04", "0380 [8086:0bd6] [0000:0000] 04",
                           "1200 [1002:74a1] [0000:0000] 04"}) {
    const Text text(machine_xml(bridge_xml(20, "17", "17", other(type))));
    assert_int_equal(text.machine.device_count(), 1);
    assert_int_equal(std::strncmp(text.machine.device(0).name.c_str(), "GPU ", 4), 0);
  }
}

void os_devices_without_a_function_count_once(void **) {
  const std::string bare =
      R"(<object type="OSDev" gp_index="30" name="cuda0" osdev_type="5"/><object type="OSDev" gp_index="31" name="nvml0" osdev_type="1"/><object type="OSDev" gp_index="32" name="cuda1" osdev_type="5"/>)";
  const Text text(machine_xml(bare));
  assert_int_equal(text.machine.device_count(), 2);
  assert_string_equal(text.machine.device(1).name.c_str(), "cuda1");
  assert_string_equal(text.machine.device(1).pci_address.c_str(), "");
  assert_int_equal(text.machine.link(0, 1).kind, WEIR_LINK_NONE);
}

void the_better_founded_figure_stays(void **) {
  Link backend, topology;
  backend.kind = topology.kind = WEIR_LINK_NVLINK;
  topology.bandwidth = 100;
  topology.latency_ns = 5;
  topology.hops = 2;
  topology.source = WEIR_LINK_FIGURE_TOPOLOGY;
  backend.direct = true;
  assert_int_equal(combine(backend, topology).bandwidth, 100);
  assert_int_equal(combine(backend, topology).source, WEIR_LINK_FIGURE_TOPOLOGY);
  assert_int_equal(combine(backend, topology).hops, 2);
  assert_true(combine(backend, topology).direct);
  backend.bandwidth = 90;
  backend.source = WEIR_LINK_FIGURE_BACKEND;
  assert_int_equal(combine(backend, topology).bandwidth, 90);
  assert_int_equal(combine(backend, topology).source, WEIR_LINK_FIGURE_BACKEND);
  assert_int_equal(combine(backend, topology).latency_ns, 5);
  // Kinds that differ are not mixed, but NONE is no kind.
  backend.kind = WEIR_LINK_PCIE;
  assert_int_equal(combine(backend, topology).latency_ns, 0);
  backend = Link{};
  assert_int_equal(combine(backend, topology).kind, WEIR_LINK_NVLINK);
  assert_false(combine(backend, topology).direct);
}

void what_was_measured_is_kept(void **) {
  Text text(machine_xml(two_gpus()));
  const Link before = text.machine.link(0, host_end);
  assert_int_equal(before.told().bandwidth, before.bandwidth);
  text.machine.record(0, host_end, {12345, 0});
  assert_int_equal(text.machine.link(0, host_end).bandwidth, 12345);
  assert_int_equal(text.machine.link(0, host_end).source, WEIR_LINK_FIGURE_MEASURED);
  assert_int_equal(text.machine.link(host_end, 0).source, WEIR_LINK_FIGURE_PCIE);
  text.machine.record(0, host_end, {0, 777});
  assert_int_equal(text.machine.link(0, host_end).bandwidth, 12345);
  assert_int_equal(text.machine.link(0, host_end).latency_ns, 777);
  text.machine.record(0, host_end, {23456, 888});
  assert_int_equal(text.machine.link(0, host_end).bandwidth, 23456);
  const Link told = text.machine.link(0, host_end).told();
  assert_int_equal(told.bandwidth, before.bandwidth);
  assert_int_equal(told.latency_ns, before.latency_ns);
  assert_int_equal(told.source, WEIR_LINK_FIGURE_PCIE);
  assert_int_equal(told.hops, before.hops);
}

void links_stay_when_a_device_joins(void **) {
  Text text(machine_xml(two_gpus(), matrix_xml("NVLinkBandwidth", {31, 41}, "0 25000 50000 0 ")));
  Machine &m = text.machine;
  m.add(PlaceKind::device, 0);
  m.make_device(static_cast<uint32_t>(m.places().size() - 1));
  assert_int_equal(m.device_count(), 3);
  assert_int_equal(m.link(0, 1).bandwidth, 25000 * megabyte);
  assert_int_equal(m.link(1, 0).bandwidth, 50000 * megabyte);
  assert_int_equal(m.link(host_end, 1).kind, WEIR_LINK_PCIE);
  assert_int_equal(m.link(1, host_end).kind, WEIR_LINK_PCIE);
  assert_int_equal(m.link(0, 2).kind, WEIR_LINK_NONE);
  assert_int_equal(m.link(2, host_end).kind, WEIR_LINK_NONE);
}

void what_is_no_topology_is_refused(void **) {
  const std::string good =
      machine_xml(two_gpus(), matrix_xml("NVLinkBandwidth", {31, 41}, "0 1 1 0 "));
  assert_int_equal(Text(good).machine.device_count(), 2);
  const std::string machine =
      R"(<object type="Machine" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"/>)";
  refused("");
  refused_for("nonsense", "nonsense");
  refused_for(" \n ", "no XML");
  refused_for(
      "\x7f"
      "ELF\x02\x01",
      "ELF");
  refused_for(std::string("\0\0\0\0", 4), "no text");
  refused_for("<html><body/></html>", "html");
  refused_for("{\"topology\": 1}", "topology");
  refused_for("<topology version=\"2.0\"></topology>", "no machine");
  refused_for("<topology version=\"2.0\"/>", "no machine");
  refused_for("<topology version=\"3.0\"><object type=\"Machine\"/></topology>", "3.0");
  refused_for("<topology version=\"2.0\"><object type=\"Package\"/></topology>", "Package");
  refused_for("<topology/>", "no machine");
  refused_for("<topology version=\"0.9\"/>", "format 0.9");
  refused_for("<topology version=\"2.0\">" + machine + machine + "</topology>", "more than one");
  refused_for("<topology version=\"2.0\"><info></topology></info>", "closes");
  refused_for("<topology version=\"2.0\"><object type=\"Machine\"/></topology>", "cpuset");
  refused_for("<topology version=\"2.0\">" + machine + "</topology>", "NUMA");
  refused_for("</topology>", "closes");
  refused_for("<!DOCTYPE topology [<!ENTITY a \"aa\">]><topology/>", "document type");
  refused_for("<!DOCTYPE topology><topology/>", "document type");
  refused_for("<topology version=\"2.0\"><![CDATA[x]]></topology>", "understood");
  refused_for(
      "<topology version=\"2.0\"><object type=\"Machine\" "
      "os_index=\"18446744073709551615\"/></topology>",
      "os_index");
  refused_for("<topology version=\"2.0\"><object type=\"Machine\" os_index=\"-1\"/></topology>",
              "os_index");
  refused_for("<topology version=\"2.0\"><!-- ", "ends");
  std::string wrong = good;
  wrong.replace(wrong.find("type=\"Package\""), 14, "type=\"Galaxy!\"");
  refused_for(wrong, "Galaxy!");
  for (const char *set : {"", "0x", "fff", "0xf...f", "0x100000000", "0x1;0x1", "-1", "0x0"}) {
    wrong = good;
    wrong.replace(wrong.find("complete_cpuset=\"0x1\"") + 17, 3, set);
    refused(wrong);
  }
  wrong = good;
  wrong.insert(wrong.find("<object type=\"Package\""), "value=\"1\"/>");
  refused_for(wrong, "understood");
  // The second package before the first.
  wrong = good;
  wrong.replace(wrong.find("complete_cpuset=\"0x1\"") + 17, 3, "0x4");
  refused_for(wrong, "order");
}

void every_cut_of_a_file_is_refused(void **) {
  const std::string good =
      machine_xml(two_gpus(), matrix_xml("NVLinkBandwidth", {31, 41}, "0 1 1 0 "));
  const size_t whole = good.rfind("</topology>") + std::strlen("</topology>");
  for (size_t length = 0; length < whole; ++length) refused(good.substr(0, length));
}

void matrices_of_wrong_sizes_are_refused(void **) {
  const auto with = [](const std::string &matrix) { return machine_xml(two_gpus(), matrix); };
  refused_for(with(matrix_xml("NVLinkBandwidth", {31, 41}, "0 1 1 ")), "NVLinkBandwidth");
  refused_for(with(matrix_xml("NVLinkBandwidth", {31, 41}, "0 1 1 0 0 ")), "NVLinkBandwidth");
  std::string matrix = matrix_xml("NVLinkBandwidth", {31, 41}, "0 1 1 0 ");
  matrix.replace(matrix.find("nbobjs=\"2\""), 10, "nbobjs=\"9\"");
  refused_for(with(matrix), "NVLinkBandwidth");
  for (const char *size : {"0", "-2", "4294967298", "18446744073709551617", "many", ""}) {
    std::string wrong = matrix_xml("NVLinkBandwidth", {31, 41}, "0 1 1 0 ");
    wrong.replace(wrong.find("nbobjs=\"2\""), 10, "nbobjs=\"" + std::string(size) + "\"");
    refused_for(with(wrong), "NVLinkBandwidth");
  }
  refused_for(with(matrix_xml("NVLinkBandwidth", {31, 41}, "0 18446744073709551615 1 0 ")),
              "NVLinkBandwidth");
}

/// What no machine has and a file can say: it ends, as a refusal or as a machine whose parts hold together.
void nonsense_that_is_well_formed_ends(void **) {
  const std::string gpu = gpu_xml("17", 30, "cuda0");
  const std::string matrix = matrix_xml("NVLinkBandwidth", {31, 31}, "0 1 1 0 ");
  const std::string cases[] = {
      machine_xml(bridge_xml(20, "17", "17", gpu + gpu), matrix),  // numbers that are there twice
      machine_xml(bridge_xml(20, "17", "17", bridge_xml(20, "17", "17", gpu)), matrix),
      machine_xml(gpu, matrix_xml("NVLinkBandwidth", {1, 3},
                                  "0 1 1 0 ")),  // a matrix of a machine and a node
      machine_xml(gpu, matrix_xml("NVLinkBandwidth", {31, 999}, "0 1 1 0 ")),
      machine_xml(gpu, matrix + matrix_xml("NVLinkBandwidth", {31}, "0 ")),
      machine_xml(R"(<object type="OSDev" gp_index="30" name="ze0" osdev_type="5">)" + gpu +
                  "</object>"),
      machine_xml(R"(<object type="Misc" gp_index="30">)" + gpu + "</object>"),
  };
  for (const std::string &xml : cases) {
    Machine machine(std::pmr::get_default_resource());
    if (!discover_text(xml, "test.xml", &machine)) continue;
    for (uint32_t i = 1; i < machine.places().size(); ++i)
      assert_true(machine.places()[i].parent < i);
    for (uint32_t i = 0; i < machine.device_count(); ++i) {
      assert_int_equal(machine.device(i).device, i);
      assert_int_equal(machine.link(i, i).kind, WEIR_LINK_SAME);
    }
  }
}

/// hwloc takes any number for what are enums of its own. None is loaded as one (UndefinedBehaviorSanitizer tells), and what is
/// no device stays none.
void numbers_of_no_enum_are_harmless(void **) {
  const auto with = [](std::string xml, const std::string &was, const std::string &is) {
    const size_t at = xml.find(was);
    assert_true(at != std::string::npos);
    return xml.replace(at, was.size(), is);
  };
  for (const char *number : {"7", "99", "255", "4096", "2147483647", "-1"}) {
    const std::string gpu = with(weir::test::gpu_xml("17", 40, "cuda0"), "osdev_type=\"5\"",
                                 "osdev_type=\"" + std::string(number) + "\"");
    const std::string bridge =
        with(weir::test::bridge_xml(30, "17", "17", gpu), "bridge_type=\"0-1\"",
             "bridge_type=\"" + std::string(number) + "-1\"");
    Machine machine(std::pmr::get_default_resource());
    if (!discover_text(weir::test::machine_xml(bridge), "test.xml", &machine)) continue;
    assert_int_equal(machine.device_count(), 1);  // a GPU by its class, whatever its runtime says
  }
}

void deep_nesting_is_refused(void **) {
  std::string deep = "<topology version=\"2.0\">";
  for (int i = 0; i < 100000; ++i) deep += "<info>";
  refused_for(deep, "too deep");
}

void more_devices_than_fit_are_refused(void **) {
  std::string many;
  for (unsigned i = 0; i <= Machine::most_devices; ++i)
    many += R"(<object type="OSDev" gp_index=")" + std::to_string(100 + i) + R"(" name="cuda)" +
            std::to_string(i) + R"(" osdev_type="5"/>)";
  refused_for(machine_xml(many), "more than 256");
}

std::string refused_file(const std::string &path) {
  Machine machine(std::pmr::get_default_resource());
  assert_int_equal(discover_file(path.c_str(), &machine).code(), WEIR_ERROR_INVALID_ARGUMENT);
  std::string text = weir::last_error().text;
  if (text.find(path) == std::string::npos)
    fail_msg("\"%s\" does not name %s", text.c_str(), path.c_str());
  return text;
}

void files_that_are_none_are_refused(void **) {
  char folder[] = "/tmp/weir-topology-XXXXXX";
  assert_non_null(mkdtemp(folder));
  const std::string base = folder;
  const auto says = [](const std::string &text, const char *word) {
    if (text.find(word) == std::string::npos)
      fail_msg("\"%s\" does not say \"%s\"", text.c_str(), word);
  };
  says(refused_file(base), "directory");
  says(refused_file(base + "/missing.xml"), "No such file");
  std::ofstream(base + "/empty.xml").close();
  says(refused_file(base + "/empty.xml"), "empty");
  assert_int_equal(mkfifo((base + "/pipe.xml").c_str(), 0600), 0);
  says(refused_file(base + "/pipe.xml"), "regular");
  std::ofstream(base + "/large.xml").close();
  assert_int_equal(truncate((base + "/large.xml").c_str(), off_t{1} << 33U), 0);
  says(refused_file(base + "/large.xml"), "larger");
  std::ofstream(base + "/good.xml") << machine_xml(two_gpus());
  Machine machine(std::pmr::get_default_resource());
  assert_true(discover_file((base + "/good.xml").c_str(), &machine).ok());
  assert_int_equal(machine.device_count(), 2);
  for (const char *name : {"/empty.xml", "/pipe.xml", "/large.xml", "/good.xml"})
    unlink((base + name).c_str());
  rmdir(folder);
}

/// Whatever machine this is: discovery ends, and what it gives holds together.
void the_system_is_discovered(void **) {
  Machine machine(std::pmr::get_default_resource());
  if (!discover_system(&machine)) return;
  assert_true(machine.places()[0].kind == PlaceKind::machine);
  for (uint32_t i = 1; i < machine.places().size(); ++i)
    assert_true(machine.places()[i].parent < i);
  for (uint32_t i = 0; i < machine.device_count(); ++i)
    assert_int_equal(machine.device(i).device, i);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(addresses_are_the_same_however_they_are_written),
      cmocka_unit_test(devices_are_found_with_what_is_known),
      cmocka_unit_test(without_a_matrix_links_are_pcie),
      cmocka_unit_test(a_speed_that_makes_no_sense_is_unknown),
      cmocka_unit_test(the_slowest_link_counts_and_an_idle_end_does_not),
      cmocka_unit_test(matrices_make_links_each_way),
      cmocka_unit_test(hops_belong_to_links_of_their_kind),
      cmocka_unit_test(a_matrix_of_something_else_is_passed_over),
      cmocka_unit_test(switches_are_folded),
      cmocka_unit_test(one_function_is_one_device),
      cmocka_unit_test(functions_that_are_no_gpus_are_none),
      cmocka_unit_test(os_devices_without_a_function_count_once),
      cmocka_unit_test(the_better_founded_figure_stays),
      cmocka_unit_test(what_was_measured_is_kept),
      cmocka_unit_test(links_stay_when_a_device_joins),
      cmocka_unit_test(what_is_no_topology_is_refused),
      cmocka_unit_test(every_cut_of_a_file_is_refused),
      cmocka_unit_test(matrices_of_wrong_sizes_are_refused),
      cmocka_unit_test(nonsense_that_is_well_formed_ends),
      cmocka_unit_test(numbers_of_no_enum_are_harmless),
      cmocka_unit_test(deep_nesting_is_refused),
      cmocka_unit_test(more_devices_than_fit_are_refused),
      cmocka_unit_test(files_that_are_none_are_refused),
      cmocka_unit_test(the_system_is_discovered),
  };
  return cmocka_run_group_tests_name("topology", tests, nullptr, nullptr);
}
