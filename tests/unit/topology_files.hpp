// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the topology share: machines written out in a few lines of hwloc's XML, recorded ones, and links in
// words. Nothing here decides what is right.
#pragma once

#include "core/topology/discover.hpp"

#include <cstdlib>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/cmocka.hpp"

namespace weir::test {

/// `inner` within a machine of one package and one NUMA node, and `after` behind the machine. hwloc without libxml wants the
/// first line by itself.
inline std::string machine_xml(const std::string &inner, const std::string &after = "") {
  return R"(<?xml version="1.0" encoding="UTF-8"?>
<topology version="2.0">
<object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x3" complete_nodeset="0x3" allowed_nodeset="0x3" gp_index="1">
<object type="Package" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="2">
<object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3" local_memory="1073741824"/>
<object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4"/>
)" + inner +
         R"(</object>
<object type="Package" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="5">
<object type="NUMANode" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="6" local_memory="1073741824"/>
<object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="7"/>
</object></object>)" +
         after + "</topology>\n";
}

/// A GPU of 10de on a root port of its own: bus as "17", gp_index `number` for the function and number + 1 for `os`.
inline std::string gpu_xml(const std::string &bus, unsigned number, const std::string &os,
                           const std::string &speed = "15.75") {
  const std::string n = std::to_string(number), after = std::to_string(number + 1);
  return R"(<object type="PCIDev" gp_index=")" + n + R"(" pci_busid="0000:)" + bus +
         R"(:00.0" pci_type="0302 [10de:2330] [10de:16c0] a1" pci_link_speed=")" + speed +
         R"("><object type="OSDev" gp_index=")" + after + R"(" name=")" + os +
         R"(" osdev_type="5"><info name="GPUModel" value="Test GPU"/><info name="CUDAGlobalMemorySize" value="1024"/></object></object>)";
}

/// A host bridge of buses first to last, with a root port of these.
inline std::string bridge_xml(unsigned number, const std::string &first, const std::string &last,
                              const std::string &inner) {
  const std::string buses = "0000:[" + first + "-" + last + "]";
  return R"(<object type="Bridge" gp_index=")" + std::to_string(number) +
         R"(" bridge_type="0-1" depth="0" bridge_pci=")" + buses + "\">" + inner + "</object>";
}

inline std::string matrix_xml(const std::string &name, const std::vector<unsigned> &objects,
                              const std::string &values) {
  std::string indexes;
  for (const unsigned each : objects) indexes += std::to_string(each) + " ";
  return R"(<distances2 type="OSDev" nbobjs=")" + std::to_string(objects.size()) +
         R"(" kind="9" name=")" + name + R"(" indexing="gp"><indexes length=")" +
         std::to_string(indexes.size()) + "\">" + indexes + R"(</indexes><u64values length=")" +
         std::to_string(values.size()) + "\">" + values + "</u64values></distances2>";
}

/// Where a recorded topology is; "" if this machine has none.
inline std::string recorded(const char *name) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  return shared != nullptr ? std::string(shared) + "/topologies/" + name : std::string();
}

}  // namespace weir::test
