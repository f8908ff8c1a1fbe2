// SPDX-License-Identifier: Apache-2.0
//
// Files of hwloc's format 1, as hwloc 1.x wrote them: every shape that hwloc 2 reads is read, what it does not read is refused
// with the file's name and the reason, and what would make it stumble never reaches it. Real ones are in test_topology_files.

#include "tests/unit/topology_files.hpp"

#include <cstring>

namespace {

using namespace weir::topology;
using namespace weir::test;

const char *const heading =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc.dtd\">\n";

std::string sets(const std::string &cpus, const std::string &nodes) {
  std::string text = " cpuset=\"" + cpus + "\" complete_cpuset=\"" + cpus + "\" online_cpuset=\"" +
                     cpus + "\" allowed_cpuset=\"" + cpus + "\"";
  if (!nodes.empty())
    text += " nodeset=\"" + nodes + "\" complete_nodeset=\"" + nodes + "\" allowed_nodeset=\"" +
            nodes + "\"";
  return text;
}

std::string object(const std::string &attributes, const std::string &inner = "") {
  return "<object " + attributes + ">" + inner + "</object>\n";
}

/// A socket of one CPU, with an old cache between.
std::string socket_xml(const std::string &number, const std::string &cpus,
                       const std::string &nodes) {
  const std::string all = sets(cpus, nodes);
  return object("type=\"Socket\" os_index=\"" + number + "\"" + all,
                object("type=\"Cache\" cache_size=\"4096\" depth=\"3\" cache_linesize=\"64\" "
                       "cache_associativity=\"0\" cache_type=\"0\"" +
                           all,
                       object("type=\"PU\" os_index=\"" + number + "\"" + all)));
}

/// An address as the system's number, as old files have them, and a link's speed.
std::string gpu(const std::string &bus, const std::string &os) {
  return object("type=\"PCIDev\" os_index=\"2105344\" name=\"Test\" pci_busid=\"0000:" + bus +
                    ":00.0\" pci_type=\"0302 [10de:15f9] [10de:1111] a1\" "
                    "pci_link_speed=\"15.75\"",
                "<info name=\"PCIDevice\" value=\"Old GPU\"/>" +
                    object("type=\"OSDev\" name=\"" + os + "\" osdev_type=\"5\"",
                           "<info name=\"CoProcType\" value=\"CUDA\"/>"
                           "<info name=\"CUDAGlobalMemorySize\" value=\"2048\"/>"));
}

std::string bridge(const std::string &bus, const std::string &inner) {
  return object(
      "type=\"Bridge\" os_index=\"0\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[" + bus +
          "-" + bus + "]\"",
      inner);
}

const char *const distances =
    "<distances nbobjs=\"2\" relative_depth=\"1\" latency_base=\"10.000000\">"
    "<latency value=\"1.0\"/><latency value=\"2.1\"/><latency value=\"2.1\"/><latency "
    "value=\"1.0\"/></distances>";

/// NUMA nodes hold sockets and devices, as they did.
std::string old_machine(const std::string &first = bridge("17", gpu("17", "cuda0")),
                        const std::string &matrix = distances) {
  return heading +
         ("<topology>\n" +
          object("type=\"Machine\" os_index=\"0\"" + sets("0x3", "0x3"),
                 "<info name=\"DMIProductName\" value=\"Old\"/>" + matrix +
                     object("type=\"NUMANode\" os_index=\"0\" local_memory=\"4096\"" +
                                sets("0x1", "0x1"),
                            "<page_type size=\"4096\" count=\"1\"/>" +
                                socket_xml("0", "0x1", "0x1") + first) +
                     object("type=\"NUMANode\" os_index=\"1\" local_memory=\"8192\"" +
                                sets("0x2", "0x2"),
                            socket_xml("1", "0x2", "0x2") + bridge("27", gpu("27", "cuda1")))) +
          "</topology>\n");
}

std::string with(std::string text, const std::string &was, const std::string &is) {
  const size_t at = text.find(was);
  if (at == std::string::npos) fail_msg("no %s", was.c_str());
  return text.replace(at, was.size(), is);
}

class Read {
 public:
  explicit Read(const std::string &xml) : machine(std::pmr::get_default_resource()) {
    if (!discover_text(xml, "old.xml", &machine)) fail_msg("%s", weir::last_error().text);
  }
  Machine machine;
};

void refused_for(const std::string &xml, const char *word) {
  Machine machine(std::pmr::get_default_resource());
  const weir::Status status = discover_text(xml, "old.xml", &machine);
  assert_int_equal(status.code(), WEIR_ERROR_INVALID_ARGUMENT);
  for (const char *each : {"old.xml", word})
    if (std::strstr(weir::last_error().text, each) == nullptr)
      fail_msg("\"%s\" does not say \"%s\"", weir::last_error().text, each);
}

void expect_two_gpus(const Machine &m) {
  assert_int_equal(m.device_count(), 2);
  assert_string_equal(m.places()[0].name.c_str(), "Old");
  for (uint32_t i = 0; i < 2; ++i) {
    const Place &place = m.device(i);
    assert_string_equal(place.pci_address.c_str(), i == 0 ? "0000:17:00.0" : "0000:27:00.0");
    assert_string_equal(place.aliases.c_str(), i == 0 ? "cuda0" : "cuda1");
    assert_int_equal(place.numa_node, i);
    assert_int_equal(place.memory, 2048 * 1024);
    assert_int_equal(m.link(i, host_end).bandwidth, UINT64_C(15750000000));
    const uint32_t node = m.above(m.devices()[i], PlaceKind::numa_node);
    assert_int_equal(m.places()[node].memory, 4096 * (i + 1));
  }
}

void an_old_machine_has_its_devices_at_its_nodes(void **) {
  expect_two_gpus(Read(old_machine()).machine);
  // With a version, and without a document type.
  expect_two_gpus(Read(with(old_machine(), "<topology>", "<topology version=\"1.0\">")).machine);
  expect_two_gpus(Read(with(old_machine(), "<topology>", "<topology version=\"1.11\">")).machine);
  expect_two_gpus(
      Read(with(old_machine(), "<!DOCTYPE topology SYSTEM \"hwloc.dtd\">\n", "")).machine);
  expect_two_gpus(Read(with(old_machine(), "type=\"Machine\"", "type=\"System\"")).machine);
  expect_two_gpus(Read(with(old_machine(), "type=\"Socket\"", "type=\"Package\"")).machine);
  expect_two_gpus(Read(old_machine(bridge("17", gpu("17", "cuda0")), "")).machine);
}

/// Sets of nodes are left out where there are none; hwloc makes one node.
void a_machine_without_nodes_is_read(void **) {
  const Read read(heading +
                  ("<topology>" +
                   object("type=\"Machine\" os_index=\"0\" local_memory=\"4096\"" + sets("0x3", ""),
                          socket_xml("0", "0x1", "") + socket_xml("1", "0x2", "") +
                              bridge("17", gpu("17", "cuda0"))) +
                   "</topology>"));
  assert_int_equal(read.machine.device_count(), 1);
  assert_int_equal(read.machine.device(0).numa_node, 0);
}

void nodes_without_cpus_and_a_node_as_the_root_are_read(void **) {
  const std::string empty =
      object("type=\"NUMANode\" os_index=\"2\" local_memory=\"4096\"" + sets("0x0", "0x4"));
  const std::string all = with(old_machine(), "nodeset=\"0x3\" complete_nodeset=\"0x3\"",
                               "nodeset=\"0x7\" complete_nodeset=\"0x7\"");
  const size_t end = all.rfind("</object>");
  expect_two_gpus(Read(std::string(all).insert(end, empty)).machine);
  const Read root(
      heading +
      ("<topology>" +
       object("type=\"NUMANode\" os_index=\"0\" local_memory=\"4096\"" + sets("0x1", "0x1"),
              socket_xml("0", "0x1", "0x1") + bridge("17", gpu("17", "cuda0"))) +
       "</topology>"));
  assert_int_equal(root.machine.device_count(), 1);
  assert_int_equal(root.machine.device(0).numa_node, 0);
}

/// Groups around devices had a cpuset and nothing else once; hwloc passes them over.
void groups_that_lack_sets_are_passed_over(void **) {
  for (const char *type : {"Group", "Misc"})
    expect_two_gpus(Read(old_machine(object("type=\"" + std::string(type) + "\" cpuset=\"0x1\"",
                                            bridge("17", gpu("17", "cuda0")))))
                        .machine);
}

void what_hwloc_does_not_read_is_refused_with_the_reason(void **) {
  const std::string good = old_machine();
  const std::string half = "type=\"Socket\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\"";
  refused_for(with(good, "SYSTEM \"hwloc.dtd\"", "SYSTEM \"other.dtd\""), "document type");
  refused_for(with(good, "SYSTEM \"hwloc.dtd\"", "SYSTEM \"hwloc.dtd\" [<!ENTITY a \"b\">]"),
              "document type");
  refused_for(with(good, "<topology>", "<topology version=\"0.9\">"), "format 0.9");
  refused_for(with(good, "<topology>", "<topology version=\"3.0\">"), "format 3.0");
  refused_for(std::string(heading) + "<topology>" + object("type=\"System\" os_index=\"0\"") +
                  "</topology>",
              "put together of several");
  refused_for(std::string(heading) + "<root></root>", "root");
  refused_for(std::string(heading) + "<topology/>", "no machine");
  refused_for(with(good, "type=\"Socket\"", "type=\"System\""), "within another");
  refused_for(with(good, "type=\"Socket\"", "type=\"Galaxy\""), "Galaxy");
  refused_for(with(good, "type=\"PU\" os_index=\"0\" cpuset=\"0x1\"", "type=\"PU\" os_index=\"0\""),
              "lacks");
  refused_for(with(good,
                   "type=\"NUMANode\" os_index=\"0\" local_memory=\"4096\" cpuset=\"0x1\" "
                   "complete_cpuset=\"0x1\"",
                   "type=\"NUMANode\" os_index=\"0\" local_memory=\"4096\" cpuset=\"0x1\""),
              "lacks");
  refused_for(with(good, "type=\"Bridge\"", "type=\"Bridge\" cpuset=\"0x1\""), "no object of CPUs");
  refused_for(old_machine(bridge("17", object("type=\"Core\"" + sets("0x1", "0x1")))), "within");
  refused_for(old_machine(object("type=\"Misc\"", bridge("17", gpu("17", "cuda0")))), "remark");
  refused_for(with(good, "<page_type", "<pages"), "pages");
  refused_for(with(good, " nodeset=\"0x1\" complete_nodeset=\"0x1\"", ""), "\"NUMANode\" has some");
  // One that has no nodes, and in it what has.
  refused_for(with(good, " nodeset=\"0x3\" complete_nodeset=\"0x3\"", ""), "nodeset");
}

/// hwloc allocates and looks up by these.
void numbers_that_hwloc_goes_by_are_checked(void **) {
  const std::string good = old_machine();
  for (const char *depth : {"0", "6", "-1", "4294967297", "x", ""})
    refused_for(with(good, "depth=\"3\"", "depth=\"" + std::string(depth) + "\""), "depth");
  refused_for(with(good, "depth=\"3\" ", ""), "depth");
  for (const char *type : {"3", "-1", "x", "4294967296"})
    refused_for(with(good, "cache_type=\"0\"", "cache_type=\"" + std::string(type) + "\""),
                "cache_type");
  for (const char *side : {"0", "1", "3", "-2", "65536", "4294967298", "x"})
    refused_for(with(good, "nbobjs=\"2\"", "nbobjs=\"" + std::string(side) + "\""), "distances");
  refused_for(with(good, "relative_depth=\"1\"", "relative_depth=\"0\""), "distances");
  refused_for(with(good, "<latency value=\"1.0\"/>", ""), "distances");
  refused_for(
      with(good, "<latency value=\"1.0\"/>", "<latency value=\"1\"/><latency value=\"1\"/>"),
      "distances");
  // Twice: a reader takes the last, a check the first.
  refused_for(with(good, "nbobjs=\"2\"", "nbobjs=\"2\" nbobjs=\"65536\""), "twice");
  for (const char *set : {"", "0x", "0xf...f", "0x1;0x1", ",0x00000001", ","})
    refused_for(
        with(good, "complete_nodeset=\"0x1\"", "complete_nodeset=\"" + std::string(set) + "\""),
        "complete_nodeset");
  for (const char *index : {"1048577", "-1", "x"})
    refused_for(with(good, "type=\"PU\" os_index=\"0\"",
                     "type=\"PU\" os_index=\"" + std::string(index) + "\""),
                "os_index");
}

/// hwloc stops at an attribute that it can't read: what comes after it is not there.
void attributes_are_counted_as_far_as_hwloc_reads(void **) {
  const std::string good = old_machine();
  for (const char *other : {"os_i ", "onLine=\"1\" ", "a=\"&x;\" ", "a='1' ", "a =\"1\" ", "\r"})
    refused_for(with(good, "type=\"PU\" os_index=\"0\"",
                     "type=\"PU\" " + std::string(other) + "os_index=\"0\""),
                "cpuset");
  const Read read(
      with(good, "type=\"PU\" os_index=\"0\"", "type=\"PU\"\n\ta=\"&lt;&#10;'\" os_index=\"0\""));
  expect_two_gpus(read.machine);
}

void every_cut_of_an_old_file_is_refused(void **) {
  const std::string good = old_machine();
  const size_t whole = good.rfind("</topology>") + std::strlen("</topology>");
  for (size_t length = 0; length < whole; ++length) refused_for(good.substr(0, length), "old.xml");
}

/// Each attribute of each object left out in turn: it ends, as a refusal or as a machine whose parts hold together.
void an_old_file_without_an_attribute_ends(void **) {
  const std::string good = old_machine();
  size_t read = 0;
  for (size_t at = good.find("<object"); at != std::string::npos; at = good.find('"', at + 1)) {
    const size_t begin = good.find(' ', at);
    if (begin == std::string::npos) break;
    const size_t open = good.find('"', begin);
    if (open == std::string::npos) break;
    const size_t end = good.find('"', open + 1);
    if (good.substr(begin, end - begin).find('>') == std::string::npos) {
      Machine machine(std::pmr::get_default_resource());
      if (discover_text(std::string(good).erase(begin, end + 1 - begin), "old.xml", &machine)) {
        ++read;
        for (uint32_t i = 1; i < machine.places().size(); ++i)
          assert_true(machine.places()[i].parent < i);
      }
    }
    at = end;
  }
  assert_true(read > 20);
}

/// A group of nodes without CPUs, as hwloc 2 makes of old ones and writes into files of its own format.
void new_files_may_have_groups_without_cpus(void **) {
  const std::string group =
      R"(<object type="Group" cpuset="0x0" complete_cpuset="0x0" nodeset="0x4" complete_nodeset="0x4" gp_index="60" kind="1001" subkind="0"><object type="NUMANode" os_index="2" cpuset="0x0" complete_cpuset="0x0" nodeset="0x4" complete_nodeset="0x4" gp_index="61" local_memory="4096"/></object>)";
  std::string xml = machine_xml(bridge_xml(20, "17", "17", gpu_xml("17", 30, "cuda0")));
  xml.insert(xml.rfind("</object>"), group);
  assert_int_equal(Read(xml).machine.device_count(), 1);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_old_machine_has_its_devices_at_its_nodes),
      cmocka_unit_test(a_machine_without_nodes_is_read),
      cmocka_unit_test(nodes_without_cpus_and_a_node_as_the_root_are_read),
      cmocka_unit_test(groups_that_lack_sets_are_passed_over),
      cmocka_unit_test(what_hwloc_does_not_read_is_refused_with_the_reason),
      cmocka_unit_test(numbers_that_hwloc_goes_by_are_checked),
      cmocka_unit_test(attributes_are_counted_as_far_as_hwloc_reads),
      cmocka_unit_test(every_cut_of_an_old_file_is_refused),
      cmocka_unit_test(an_old_file_without_an_attribute_ends),
      cmocka_unit_test(new_files_may_have_groups_without_cpus),
  };
  return cmocka_run_group_tests_name("topologies of format 1", tests, nullptr, nullptr);
}
