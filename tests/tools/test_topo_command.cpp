// SPDX-License-Identifier: Apache-2.0
//
// `weir topo` as its user meets it: the rows that must be there for recorded machines and for this one, and one sentence
// for what is wrong. WEIR_BIN_DIR says where the program is; without it the test skips, as do recordings that are missing.
#include "tests/tools/program.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace {

using weir::test::contains;
using weir::test::Outcome;
using weir::test::TemporaryFile;

Outcome run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "topo");
  return weir::test::run_weir(std::move(arguments));
}

std::string recorded(const char *name) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  return std::string(shared != nullptr ? shared : "") + "/topologies/" + name;
}
/// Whether the recordings are on this machine. Asked before a test has anything that skip() would leave behind.
bool here(std::initializer_list<const char *> names) {
  for (const char *name : names) {
    if (access(recorded(name).c_str(), R_OK) == 0) continue;
    print_message("skipped: no %s in WEIR_SHARED_DIR\n", name);
    return false;
  }
  return true;
}

void expect_rows(const Outcome &outcome, const std::vector<std::string> &rows) {
  if (outcome.status != 0) fail_msg("%s", outcome.errors.c_str());
  assert_string_equal(outcome.errors.c_str(), "");
  for (const std::string &row : rows)
    if (!contains(outcome.output, row))
      fail_msg("no \"%s\" in:\n%s", row.c_str(), outcome.output.c_str());
}

void the_dgx2(void **) {
  if (!here({"hwloc-2.14.0-nvidiaDGX2.xml"})) skip();
  const Outcome outcome = run({"--xml", recorded("hwloc-2.14.0-nvidiaDGX2.xml")});
  expect_rows(outcome, {"machine, NVIDIA DGX-2H", "  package 1", "    NUMA node 0, 754 GiB",
                        "G15, Tesla V100-SXM3-32GB-H, at 0000:e7:00.0, NUMA node 1 (nvml15)",
                        "switch port, NVSwitch, at 0000:61:00.0",
                        "NV    nvlink, 150 GB/s one way (topology), 1 hop: 240 ways",
                        "PCIE  pcie, 15.8 GB/s one way (pcie), 6 hops: 32 ways"});
  assert_int_equal(std::count(outcome.output.begin(), outcome.output.end(), '*'), 0);
}

void other_machines(void **) {
  if (!here({"fluxcore-ipa20.xml", "mpibind-g4dnmetal.xml", "hwloc-2.9.0-power8gpudistances.xml",
             "gen-ze.xml"}))
    skip();
  expect_rows(
      run({"--xml", recorded("fluxcore-ipa20.xml")}),
      {"NVIDIA H100 80GB HBM3, at 0000:4e:00.0, 79.1 GiB, NUMA node 3",
       "nvlink, 150 GB/s one way (topology), 1 hop: 12 ways", "pcie, 63 GB/s one way (pcie)"});
  expect_rows(run({"--xml", recorded("mpibind-g4dnmetal.xml")}),
              {"G7, Tesla T4, at 0000:f5:00.0", "PCIE 15.8*", "through the host (*): 32 ways"});
  expect_rows(run({"--xml", recorded("hwloc-2.9.0-power8gpudistances.xml")}),
              {"nvlink, 40 GB/s one way (topology), 1 hop: 12 ways",
               "3 hops, through the host (*): 8 ways"});
  expect_rows(run({"--xml", recorded("gen-ze.xml")}),
              {"ze5.1, 64 GiB", "XE 230", "xe, 26.5 GB/s one way"});
}

void a_rehearsed_machine_has_devices(void **) {
  if (!here({"fluxcore-ipa20.xml"})) skip();
  expect_rows(run({"--xml", recorded("fluxcore-ipa20.xml"), "--options",
                   "topology.rehearse=1;host.memory=16M"}),
              {"D3, NVIDIA H100 80GB HBM3", "nvlink, 150 GB/s one way (backend), 1 hop: 12 ways"});
}

void as_json_and_as_a_graph(void **) {
  if (!here({"mpibind-eas-tioga.xml"})) skip();
  const std::string path = recorded("mpibind-eas-tioga.xml");
  const TemporaryFile picture("");
  const Outcome outcome = run({"--xml", path, "--json", "--dot", picture.path()});
  expect_rows(outcome, {});
  const auto json = nlohmann::json::parse(outcome.output);
  size_t fabric = 0, devices = 0;
  for (const auto &link : json["links"])
    fabric += link["kind"] == "infinity_fabric" && link["bandwidth"] == 100'000'000'000 ? 1 : 0;
  for (const auto &place : json["places"]) devices += place["kind"] == "device" ? 1 : 0;
  assert_int_equal(devices, 8);
  assert_int_equal(fabric, 56);
  const std::string graph = weir::test::text_of(picture.path());
  assert_true(contains(graph, "28 links of 100 GB/s") && contains(graph, "NUMA node 3"));
}

/// A card in slices, as people and programs see it.
void a_partitioned_card(void **) {
  std::string pci = "0000:41:00.0", links = "h-0:pcie:32G", names = "MIG 1g.10gb";
  for (int i = 1; i < 7; ++i) {
    pci += ",0000:41:00.0";
    names += ",MIG 1g.10gb";
    links += ",h-" + std::to_string(i) + ":pcie:32G";
  }
  const std::string options = "host.devices=7;host.memory=16M;host.peer=0;host.names=" + names +
                              ";host.pci=" + pci + ";host.links=" + links;
  const Outcome outcome = run({"--options", options});
  expect_rows(outcome, {"card, at 0000:41:00.0, 7 partitions\n", "  D0, MIG 1g.10gb, 16 MiB",
                        "  D6, MIG 1g.10gb, 16 MiB",
                        "pcie, 32 GB/s one way (backend), 1 hop, shared by 7 partitions: 14 ways"});
  setenv("WEIR_OPTIONS", options.c_str(), 1);
  const Outcome devices = weir::test::run_weir({"devices"});
  unsetenv("WEIR_OPTIONS");
  expect_rows(devices, {"  device 6, host:6: MIG 1g.10gb at 0000:41:00.0\n",
                        "partition    6 of 7 of the card of device 0", "shared by 7 partitions"});
}

/// One card that its runtime counts twice, in a file of each of hwloc's formats.
void a_file_with_a_partitioned_card(void **) {
  const std::string heading = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  const std::string sets =
      "cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "
      "complete_nodeset=\"0x1\"";
  const auto machine = [&](const std::string &device) {
    return "<object type=\"Machine\" os_index=\"0\" " + sets +
           "><object type=\"NUMANode\" os_index=\"0\" local_memory=\"4096\" " + sets +
           "/><object type=\"PU\" os_index=\"0\" " + sets +
           "/><object type=\"PCIDev\" pci_busid=\"0000:17:00.0\" pci_type=\"0300 [10de:1db1] "
           "[0000:0000] 00\" pci_link_speed=\"16.0\">" +
           device + "</object></object></topology>\n";
  };
  const std::string twice =
      "<object type=\"OSDev\" name=\"opencl0d0\" osdev_type=\"5\"><info "
      "name=\"OpenCLGlobalMemorySize\" value=\"1024\"/></object>"
      "<object type=\"OSDev\" name=\"opencl0d1\" osdev_type=\"5\"/>";
  for (const char *start :
       {"<topology version=\"2.0\">", "<!DOCTYPE topology SYSTEM \"hwloc.dtd\">\n<topology>"}) {
    const TemporaryFile file(heading + start + machine(twice));
    expect_rows(run({"--xml", file.path()}),
                {"card, GPU 10de:1db1, at 0000:17:00.0, 1 MiB, NUMA node 0, 2 partitions\n",
                 "G1, GPU 10de:1db1, 1 MiB shared by 2 partitions, NUMA node 0 (opencl0d0)\n",
                 "G2, GPU 10de:1db1, 1 MiB shared by 2 partitions, NUMA node 0 (opencl0d1)\n",
                 "pcie, 16 GB/s one way (pcie), 1 hop, shared by 2 partitions: 4 ways"});
    expect_rows(run({"--xml", file.path(), "--options", "topology.rehearse=1;host.memory=16M"}),
                {"D1, GPU 10de:1db1, ", "1 hop, shared by 2 partitions: 4 ways"});
  }
}

void the_mi300a(void **) {
  if (!here({"fluxcore-tuo.TPX.xml", "fluxcore-tuo.CPX.xml"})) skip();
  expect_rows(
      run({"--xml", recorded("fluxcore-tuo.TPX.xml")}),
      {"card, Aqua Vanjaram [Instinct MI300A], at 0000:02:00.0, 124 GiB, the host's memory, "
       "NUMA node 0, 3 partitions\n",
       "  G15, Aqua Vanjaram [Instinct MI300A], 125 GiB shared by 3 partitions, the host's "
       "memory, NUMA node 3 (rsmi11)\n",
       "1 hop, shared by 3 partitions: 108 ways"});
  expect_rows(run({"--xml", recorded("fluxcore-tuo.CPX.xml"), "--options",
                   "topology.rehearse=1;host.memory=16M"}),
              {"D23, Aqua Vanjaram", "2 hops, shared by 6 partitions: 48 ways"});
}

void this_machine(void **) {
  const Outcome outcome =
      run({"--options", "host.devices=2;host.memory=16M;host.peer_bandwidth=3G"});
  expect_rows(outcome, {"topology of the system", "D1, host memory 1, 16 MiB", "MEM 3",
                        "memory, 3 GB/s one way (backend)"});
}

void what_is_wrong_is_one_sentence(void **) {
  const TemporaryFile broken("<topology version=\"2.0\"><object type=\"Machine\">");
  for (const std::string &path :
       {std::string("/nowhere/machine.xml"), broken.path(), std::string("/tmp")}) {
    const Outcome outcome = run({"--xml", path});
    assert_int_equal(outcome.status, 1);
    assert_string_equal(outcome.output.c_str(), "");
    if (!contains(outcome.errors, path))
      fail_msg("\"%s\" does not name %s", outcome.errors.c_str(), path.c_str());
    assert_int_equal(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1);
  }
  assert_int_equal(run({"--dot", "/nowhere/a.dot", "--options", "host.memory=16M"}).status, 1);
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_dgx2),
      cmocka_unit_test(other_machines),
      cmocka_unit_test(a_rehearsed_machine_has_devices),
      cmocka_unit_test(as_json_and_as_a_graph),
      cmocka_unit_test(a_partitioned_card),
      cmocka_unit_test(a_file_with_a_partitioned_card),
      cmocka_unit_test(the_mi300a),
      cmocka_unit_test(this_machine),
      cmocka_unit_test(what_is_wrong_is_one_sentence),
  };
  return cmocka_run_group_tests_name("weir topo", tests, nullptr, nullptr);
}
