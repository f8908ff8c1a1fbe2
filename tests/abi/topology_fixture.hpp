// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the topology through the C ABI share: a small machine as a file of hwloc's, the host backend looking like
// it, exports as text. Nothing here decides what is right.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/abi/pool_fixture.hpp"

namespace weir::test {

/// Two GPUs joined by NVLink, on two nodes.
inline constexpr const char *small_machine = R"(<topology version="2.0">
<object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x3" complete_nodeset="0x3" allowed_nodeset="0x3" gp_index="1">
<object type="Package" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="2">
<object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3" local_memory="1073741824"/>
<object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4"/>
<object type="Bridge" gp_index="8" bridge_type="0-1" depth="0" bridge_pci="0000:[17-17]"><object type="PCIDev" gp_index="9" pci_busid="0000:17:00.0" pci_type="0302 [10de:2330] [10de:16c0] a1" pci_link_speed="63.0"><object type="OSDev" gp_index="10" name="cuda0" osdev_type="5"><info name="GPUModel" value="Little; &lt;One&gt;, A"/><info name="CUDAGlobalMemorySize" value="1048576"/></object></object></object>
</object>
<object type="Package" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="5">
<object type="NUMANode" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="6" local_memory="1073741824"/>
<object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="7"/>
<object type="Bridge" gp_index="11" bridge_type="0-1" depth="0" bridge_pci="0000:[27-27]"><object type="PCIDev" gp_index="12" pci_busid="0000:27:00.0" pci_type="0302 [10de:2330] [10de:16c0] a1" pci_link_speed="63.0"><object type="OSDev" gp_index="13" name="cuda1" osdev_type="5"><info name="GPUModel" value="Little Two"/></object></object></object>
</object></object>
<distances2 type="OSDev" nbobjs="2" kind="9" name="NVLinkBandwidth" indexing="gp"><indexes length="6">10 13 </indexes><u64values length="18">0 150000 150000 0 </u64values></distances2>
</topology>
)";

class File {
 public:
  explicit File(const std::string &text) {
    char name[] = "/tmp/weir-topology-XXXXXX";
    const int fd = mkstemp(name);
    assert_true(fd >= 0);
    close(fd);
    path = name;
    std::ofstream(path) << text;
  }
  ~File() { unlink(path.c_str()); }
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  std::string path;
};

inline constexpr const char *small_devices =
    ";host.memory=4M;host.granule=16K;host.granule_large=0";

inline weir_context rehearse(const std::string &path, const std::string &more = "") {
  return make_context(
      ("topology.xml=" + path + ";topology.rehearse=1" + small_devices + more).c_str());
}

inline std::string exported(weir_context context, uint32_t format) {
  size_t needed = 0;
  ok(weir_topology_export(context, format, nullptr, 0, &needed));
  std::string text(needed, 'x');
  ok(weir_topology_export(context, format, text.data(), text.size(), nullptr));
  assert_int_equal(text.back(), '\0');
  text.pop_back();
  assert_int_equal(std::strlen(text.c_str()), text.size());
  return text;
}

inline void expect_in(const std::string &text, const char *word) {
  if (text.find(word) == std::string::npos) fail_msg("no \"%s\" in:\n%s", word, text.c_str());
}

inline weir_link_info link_of(weir_context context, weir_device from, weir_device to) {
  weir_link_info link = WEIR_LINK_INFO_INIT;
  ok(weir_link_info_get(context, from, to, &link));
  return link;
}

}  // namespace weir::test
