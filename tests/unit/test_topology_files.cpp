// SPDX-License-Identifier: Apache-2.0
//
// Recorded machines against what such machines are known to have. Skips where the recordings are not.

#include "core/topology/rehearsal.hpp"

#include "tests/unit/topology_files.hpp"

#include <unistd.h>

#include <cstring>

namespace {

using namespace weir::topology;
using weir::test::recorded;

constexpr uint64_t megabyte = 1'000'000;

/// A recorded machine; skips the test if there is none.
class Recorded {
 public:
  explicit Recorded(const char *name) : machine(std::pmr::get_default_resource()) {
    // What skips or fails leaves by a jump, and no string must live then.
    bool there = false, read = false;
    {
      const std::string path = recorded(name);
      there = !path.empty() && access(path.c_str(), R_OK) == 0;
      read = there && discover_file(path.c_str(), &machine).ok();
    }
    if (!there) {
      print_message("skipped: no %s in WEIR_SHARED_DIR\n", name);
      skip();
    }
    if (!read) fail_msg("%s", weir::last_error().text);
  }
  Machine machine;

  uint32_t at(const char *pci) const {
    const uint32_t found = machine.find(pci);
    if (found == none) fail_msg("no device at %s", pci);
    return found;
  }
};

void expect(const Link &link, uint32_t kind, uint64_t megabytes, uint32_t hops, uint32_t source,
            bool direct) {
  if (link.kind != kind || link.bandwidth != megabytes * megabyte || link.hops != hops ||
      link.source != source || link.direct != direct)
    fail_msg(
        "kind %u, %llu bytes/s, %u hops, source %u, direct %d instead of kind %u, %llu MB/s, "
        "%u hops, source %u, direct %d",
        link.kind, static_cast<unsigned long long>(link.bandwidth), link.hops, link.source,
        link.direct, kind, static_cast<unsigned long long>(megabytes), hops, source, direct);
}

/// Generation times lanes is no round number.
uint64_t rounded(uint64_t bandwidth) { return bandwidth / 10'000'000; }

void dgx2_is_all_to_all(void **) {
  const Recorded r("hwloc-2.14.0-nvidiaDGX2.xml");
  const Machine &m = r.machine;
  assert_int_equal(m.device_count(), 16);
  assert_string_equal(m.places()[0].name.c_str(), "NVIDIA DGX-2H");
  for (uint32_t i = 0; i < 16; ++i) {
    const Place &gpu = m.device(i);
    assert_non_null(std::strstr(gpu.name.c_str(), "V100"));
    assert_int_equal(gpu.numa_node, i / 8);
    assert_string_equal(gpu.aliases.c_str(), ("nvml" + std::to_string(i)).c_str());
    // Six NVLinks of 25 GB/s each way into the switches.
    for (uint32_t j = 0; j < 16; ++j)
      if (i != j)
        expect(m.link(i, j), WEIR_LINK_NVLINK, 150'000, 1, WEIR_LINK_FIGURE_TOPOLOGY, true);
    assert_int_equal(m.link(i, i).kind, WEIR_LINK_SAME);
    const Link host = m.link(i, host_end);
    assert_int_equal(host.kind, WEIR_LINK_PCIE);
    assert_int_equal(host.source, WEIR_LINK_FIGURE_PCIE);
    assert_int_equal(rounded(host.bandwidth), 1575);  // PCIe 3, 16 lanes
    assert_true(host.direct);
  }
  uint32_t switches = 0;
  for (const Place &place : m.places()) switches += place.kind == PlaceKind::switch_port ? 1 : 0;
  assert_int_equal(switches, 12);
  assert_int_equal(m.find("0000:34:00.0"), 0);
  assert_int_equal(m.find("00000000:E7:00.0"), 15);
}

void ipa20_has_four_joined_h100(void **) {
  const Recorded r("fluxcore-ipa20.xml");
  const Machine &m = r.machine;
  assert_int_equal(m.device_count(), 4);
  const struct {
    const char *pci, *os;
    uint32_t node;
  } gpus[] = {{"4e:00.0", "cuda0", 3},
              {"5f:00.0", "cuda1", 1},
              {"cb:00.0", "cuda2", 7},
              {"db:00.0", "cuda3", 5}};
  for (const auto &gpu : gpus) {
    const uint32_t device = r.at(gpu.pci);
    assert_non_null(std::strstr(m.device(device).name.c_str(), "H100"));
    assert_non_null(std::strstr(m.device(device).aliases.c_str(), gpu.os));
    assert_int_equal(m.device(device).numa_node, gpu.node);
    assert_int_equal(m.device(device).memory, UINT64_C(83026944) * 1024);
    assert_int_equal(rounded(m.link(host_end, device).bandwidth), 6301);  // PCIe 5, 16 lanes
    for (const auto &other : gpus)
      if (&other != &gpu)
        expect(m.link(device, r.at(other.pci)), WEIR_LINK_NVLINK, 150'000, 1,
               WEIR_LINK_FIGURE_TOPOLOGY, true);
  }
}

void tioga_has_modules_of_two(void **) {
  const Recorded r("mpibind-eas-tioga.xml");
  const Machine &m = r.machine;
  assert_int_equal(m.device_count(), 8);
  // The two dies of one MI250X are at one NUMA node.
  const struct {
    const char *first, *second;
    uint32_t node;
  } modules[] = {{"c1:00.0", "c6:00.0", 3},
                 {"c9:00.0", "ce:00.0", 1},
                 {"d1:00.0", "d6:00.0", 0},
                 {"d9:00.0", "de:00.0", 2}};
  for (const auto &module : modules) {
    for (const char *pci : {module.first, module.second}) {
      const Place &gpu = m.device(r.at(pci));
      assert_int_equal(gpu.numa_node, module.node);
      assert_int_equal(gpu.memory, UINT64_C(67092480) * 1024);
      assert_int_equal(rounded(m.link(r.at(pci), host_end).bandwidth), 3150);  // PCIe 4, 16 lanes
    }
  }
  // hwloc of that time wrote one figure and one hop for every pair.
  for (uint32_t i = 0; i < 8; ++i)
    for (uint32_t j = 0; j < 8; ++j)
      if (i != j)
        expect(m.link(i, j), WEIR_LINK_INFINITY_FABRIC, 100'000, 1, WEIR_LINK_FIGURE_TOPOLOGY,
               true);
}

void g4dn_has_pcie_only(void **) {
  const Recorded r("mpibind-g4dnmetal.xml");
  const Machine &m = r.machine;
  assert_int_equal(m.device_count(), 8);
  for (uint32_t i = 0; i < 8; ++i) {
    assert_non_null(std::strstr(m.device(i).name.c_str(), "T4"));
    assert_int_equal(m.device(i).numa_node, i / 4);
    for (uint32_t j = 0; j < 8; ++j) {
      if (i == j) continue;
      const Link link = m.link(i, j);
      assert_int_equal(link.kind, WEIR_LINK_PCIE);
      assert_int_equal(rounded(link.bandwidth), 1575);
      assert_int_equal(link.source, WEIR_LINK_FIGURE_PCIE);
      // Two share a host bridge; others meet at the package or beyond it.
      assert_int_equal(link.direct, i / 2 == j / 2);
      assert_int_equal(link.hops, i / 2 == j / 2 ? 3 : i / 4 == j / 4 ? 4 : 5);
    }
  }
}

void power8_has_nvlink_to_the_cpu(void **) {
  const Recorded r("hwloc-2.9.0-power8gpudistances.xml");
  const Machine &m = r.machine;
  assert_int_equal(m.device_count(), 4);
  const char *const pci[] = {"0002:01:00.0", "0003:01:00.0", "000a:01:00.0", "000b:01:00.0"};
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t gpu = r.at(pci[i]);
    assert_non_null(std::strstr(m.device(gpu).name.c_str(), "P100"));
    assert_int_equal(m.device(gpu).numa_node, i / 2);
    // Two links of 20 GB/s to its CPU, and two to its neighbour.
    expect(m.link(gpu, host_end), WEIR_LINK_NVLINK, 40'000, 1, WEIR_LINK_FIGURE_TOPOLOGY, true);
    expect(m.link(host_end, gpu), WEIR_LINK_NVLINK, 40'000, 1, WEIR_LINK_FIGURE_TOPOLOGY, true);
    for (uint32_t j = 0; j < 4; ++j) {
      if (i == j) continue;
      const bool near = i / 2 == j / 2;
      expect(m.link(gpu, r.at(pci[j])), WEIR_LINK_NVLINK, 40'000, near ? 1 : 3,
             WEIR_LINK_FIGURE_TOPOLOGY, near);
    }
  }
}

void generated_files_have_their_devices(void **) {
  const struct {
    const char *file, *os;
    uint32_t kind;
  } files[] = {{"gen-cuda.xml", "cuda0", WEIR_LINK_NVLINK},
               {"gen-rsmi.xml", "rsmi0", WEIR_LINK_INFINITY_FABRIC}};
  for (const auto &file : files) {
    const Recorded r(file.file);
    const Machine &m = r.machine;
    assert_int_equal(m.device_count(), 8);
    assert_string_equal(m.device(0).aliases.c_str(), file.os);
    for (uint32_t i = 0; i < 8; ++i) {
      assert_int_equal(m.device(i).numa_node, i / 4);
      for (uint32_t j = 0; j < 8; ++j)
        if (i != j)
          expect(m.link(i, j), file.kind, i / 2 == j / 2 ? 50'000 : 25'000, 1,
                 WEIR_LINK_FIGURE_TOPOLOGY, true);
    }
  }
}

void tiles_are_parts_of_one_device(void **) {
  const Recorded r("gen-ze.xml");
  const Machine &m = r.machine;
  assert_int_equal(m.device_count(), 18);  // six devices of two tiles
  uint32_t tiles = 0;
  for (uint32_t i = 0; i < m.device_count(); ++i) {
    const Place &place = m.device(i);
    assert_int_equal(place.numa_node, m.device(i).pci_address >= "0000:13" ? 1 : 0);
    if (place.kind != PlaceKind::tile) {
      assert_true(m.has_tiles(i));
      assert_int_equal(place.memory, UINT64_C(134217728) * 1024);
      continue;
    }
    ++tiles;
    assert_int_equal(place.memory, UINT64_C(67108864) * 1024);
    assert_int_equal(m.places()[place.parent].kind, PlaceKind::device);
    for (uint32_t j = 0; j < m.device_count(); ++j) {
      const Place &other = m.device(j);
      if (i == j) continue;
      if (m.devices()[j] == place.parent)
        assert_int_equal(m.link(i, j).kind, WEIR_LINK_SAME);
      else if (other.kind == PlaceKind::tile && other.parent == place.parent)
        expect(m.link(i, j), WEIR_LINK_XE, 230'000, 1, WEIR_LINK_FIGURE_TOPOLOGY, true);
      else
        expect(m.link(i, j), WEIR_LINK_XE, 26'500, 1, WEIR_LINK_FIGURE_TOPOLOGY, true);
    }
  }
  assert_int_equal(tiles, 12);
  // A runtime that offers one device at an address has the whole one, one that offers two its tiles.
  const uint32_t whole = m.find("0000:11:00.0"), first = m.tile(whole, 0),
                 second = m.tile(whole, 1);
  assert_string_equal(m.device(whole).aliases.c_str(), "ze1");
  assert_string_equal(m.device(first).aliases.c_str(), "ze1.0");
  assert_string_equal(m.device(second).aliases.c_str(), "ze1.1");
}

/// Four MI300A as they are, in three partitions each, and in six. Their memory is their node's.
void mi300a_has_its_partitions(void **) {
  const struct {
    const char *file;
    uint32_t parts;
  } files[] = {
      {"fluxcore-tuo.SPX.xml", 1}, {"fluxcore-tuo.TPX.xml", 3}, {"fluxcore-tuo.CPX.xml", 6}};
  for (const auto &file : files) {
    const Recorded r(file.file);
    const Machine &m = r.machine;
    const std::pmr::vector<uint32_t> devices = rehearsed(m);
    assert_int_equal(devices.size(), 4 * file.parts);
    for (uint32_t i = 0; i < devices.size(); ++i) {
      const Place &place = m.device(devices[i]);
      const uint32_t card = i / file.parts;
      assert_string_equal(place.aliases.c_str(), ("rsmi" + std::to_string(i)).c_str());
      assert_string_equal(place.name.c_str(), "Aqua Vanjaram [Instinct MI300A]");
      assert_string_equal(place.pci_address.c_str(),
                          ("000" + std::to_string(card) + ":02:00.0").c_str());
      assert_int_equal(place.numa_node, card);
      assert_true(place.integrated);
      assert_true(place.memory > UINT64_C(134000000000) && place.memory < UINT64_C(135000000000));
      assert_int_equal(place.memory_shared, file.parts);
      assert_int_equal(rounded(m.link(host_end, devices[i]).bandwidth), 6301);  // PCIe 5, 16 lanes
      assert_int_equal(m.sharing(host_end, devices[i]), file.parts);
      // hwloc writes one figure and one hop for every pair, also within a card.
      for (uint32_t k = 0; k < devices.size(); ++k) {
        if (i == k) continue;
        expect(m.link(devices[i], devices[k]), WEIR_LINK_INFINITY_FABRIC, 100'000, 1,
               WEIR_LINK_FIGURE_TOPOLOGY, true);
        assert_int_equal(m.sharing(devices[i], devices[k]),
                         k / file.parts == card ? 1 : file.parts);
      }
    }
  }
}

/// Format 1: NUMA nodes without CPUs (the memory of GPUs), none at all, and one as the root.
void old_files_are_read(void **) {
  const struct {
    const char *file;
    uint32_t devices, nodes;
    const char *pci;
    uint32_t node;
  } files[] = {
      {"mpibind-coral-lassen-hwloc1.xml", 4, 6, "0035:03:00.0", 8},
      {"mpibind-epyc-corona-hwloc1.xml", 4, 8, "0000:53:00.0", 5},
      {"hwloc-1.11-96em64t-4n4d3ca2co-pci.xml", 1, 4, "0000:01:00.0", 0},
      {"hwloc-2.9.0-2intel64-1n2c-numaroot.v1.xml", 0, 1, "", 0},
      {"hwloc-2.9.0-8em64t-2p2ca2co-nonodesets.v1.xml", 1, 1, "0000:0e:0d.0", 0},
  };
  for (const auto &file : files) {
    const Recorded r(file.file);
    const Machine &m = r.machine;
    uint32_t nodes = 0;
    for (const Place &place : m.places()) nodes += place.kind == PlaceKind::numa_node ? 1 : 0;
    assert_int_equal(nodes, file.nodes);
    assert_int_equal(m.device_count(), file.devices);
    if (file.devices != 0) assert_int_equal(m.device(r.at(file.pci)).numa_node, file.node);
  }
}

/// Several machines as one, which hwloc 1.x could make and hwloc 2 does not read.
void an_assembled_machine_is_refused(void **) {
  const char *name = "hwloc-1.11-8em64t-2mi2ma2c.xml";
  const bool there = [name] {
    const std::string path = recorded(name);
    return !path.empty() && access(path.c_str(), R_OK) == 0;
  }();
  if (!there) {  // nothing lives across the skip
    print_message("skipped: no %s in WEIR_SHARED_DIR\n", name);
    skip();
  }
  const std::string path = recorded(name);
  Machine machine(std::pmr::get_default_resource());
  assert_int_equal(discover_file(path.c_str(), &machine).code(), WEIR_ERROR_INVALID_ARGUMENT);
  assert_non_null(std::strstr(weir::last_error().text, name));
  assert_non_null(std::strstr(weir::last_error().text, "put together of several"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(dgx2_is_all_to_all),
      cmocka_unit_test(ipa20_has_four_joined_h100),
      cmocka_unit_test(tioga_has_modules_of_two),
      cmocka_unit_test(g4dn_has_pcie_only),
      cmocka_unit_test(power8_has_nvlink_to_the_cpu),
      cmocka_unit_test(generated_files_have_their_devices),
      cmocka_unit_test(tiles_are_parts_of_one_device),
      cmocka_unit_test(mi300a_has_its_partitions),
      cmocka_unit_test(old_files_are_read),
      cmocka_unit_test(an_assembled_machine_is_refused),
  };
  return cmocka_run_group_tests_name("recorded topologies", tests, nullptr, nullptr);
}
