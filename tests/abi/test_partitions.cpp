// SPDX-License-Identifier: Apache-2.0
//
// Partitioned cards, rehearsed on the host backend: MIG slices, which do not reach each other, and compute partitions, which do.
// Several devices of one backend at one address are partitions of a card, and have the card's links together; devices of two
// backends at one address are one device.

#include <weir/backend.h>

#include <dlfcn.h>

#include "tests/abi/topology_fixture.hpp"

namespace {

using namespace weir::test;

weir_device_info about(weir_context context, weir_device device) {
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  ok(weir_device_info_get(context, device, &info));
  return info;
}

void expect_part(weir_context context, weir_device device, weir_device parent, uint32_t partition,
                 uint32_t count) {
  const weir_device_info info = about(context, device);
  assert_int_equal(info.parent, parent);
  assert_int_equal(info.partition, partition);
  assert_int_equal(info.partition_count, count);
}

size_t times(const std::string &text, const char *word) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++count;
  return count;
}

/// A card in seven slices, between a whole card before it and nothing behind it.
std::string slices() {
  std::string pci = "0000:27:00.0", links = "h-0:pcie:0";
  for (int i = 1; i < 8; ++i) {
    pci += ",0000:17:00.0";
    links += ",h-" + std::to_string(i) + ":pcie:0";
  }
  return std::string(small_devices) + ";host.devices=8;host.peer=0;host.pci=" + pci +
         ";host.links=" + links;
}

void slices_are_parts_of_a_card(void **) {
  const File file(small_machine);
  weir_context context = make_context(("topology.xml=" + file.path + slices()).c_str());
  expect_part(context, 0, 0, 0, 1);
  for (weir_device i = 1; i < 8; ++i) {
    expect_part(context, i, 1, i - 1, 7);
    assert_int_equal(about(context, i).numa_node, 0);
    for (const weir_link_info &link :
         {link_of(context, i, WEIR_DEVICE_HOST), link_of(context, WEIR_DEVICE_HOST, i)}) {
      assert_int_equal(link.kind, WEIR_LINK_PCIE);
      assert_int_equal(link.bandwidth, UINT64_C(63000000000));  // the card's, by the file
      assert_int_equal(link.shared_with, 7);
    }
    // What the file tells of the two cards holds for the slices: all have it together, and copies pass the host.
    const weir_link_info other = link_of(context, i, 0);
    assert_int_equal(other.kind, WEIR_LINK_NVLINK);
    assert_int_equal(other.direct, 0);
    assert_int_equal(other.shared_with, 7);
    const weir_link_info sibling = link_of(context, i, i == 1 ? 2 : 1);
    assert_int_equal(sibling.kind, WEIR_LINK_NONE);
    assert_int_equal(sibling.direct, 0);
    assert_int_equal(sibling.shared_with, 1);
    assert_int_equal(link_of(context, i, i).shared_with, 1);
  }
  assert_int_equal(link_of(context, 0, WEIR_DEVICE_HOST).shared_with, 1);
  assert_int_equal(link_of(context, WEIR_DEVICE_HOST, WEIR_DEVICE_HOST).shared_with, 1);
  const std::string text = exported(context, WEIR_TOPOLOGY_TEXT);
  for (const char *row :
       {"      card, Little  <One>  A, at 0000:17:00.0, 1 GiB, NUMA node 0, 7 partitions (cuda0)\n",
        "        D1, host memory 1, 4 MiB, NUMA node 0 (host)\n",
        "        D7, host memory 7, 4 MiB, NUMA node 0 (host)\n",
        "      D0, host memory 0, at 0000:27:00.0, ",
        "PCIE  pcie, 63 GB/s one way (pcie), 1 hop, shared by 7 partitions: 14 ways\n",
        "PCIE  pcie, 63 GB/s one way (pcie), 1 hop: 2 ways\n",
        "NV    nvlink, 150 GB/s one way (topology), 1 hop, through the host (*), shared by 7 "
        "partitions: 14 ways\n",
        ".     nothing is known, 42 ways\n"})
    expect_in(text, row);
  assert_int_equal(times(text, "at 0000:17:00.0"), 1);
  const std::string json = exported(context, WEIR_TOPOLOGY_JSON);
  assert_int_equal(times(json, "\"shared_with\": 7"), 28);
  assert_int_equal(times(json, "\"kind\": \"subdevice\""), 7);
  const std::string svg = exported(context, WEIR_TOPOLOGY_SVG);
  expect_in(svg, "NUMA node 0, card 0000:17:00.0 in 7 partitions");
  assert_int_equal(times(svg, "host: PCIE 63 GB/s, shared by 7"), 7);
  ok(weir_context_destroy(context));
}

/// Two cards in four partitions each, which the runtime numbers by the function and of which the machine knows nothing. It
/// knows itself how its partitions reach each other.
void partitions_may_reach_each_other(void **) {
  std::string pci, links;
  for (int i = 0; i < 8; ++i) {
    pci += (i == 0 ? "" : ",") + std::string(i % 2 == 0 ? "0000:c1" : "0000:c6") + ":00." +
           std::to_string(i / 2);
    links += (i == 0 ? "h-" : ",h-") + std::to_string(i) + ":pcie:32G";
    for (int k = 0; k < i; ++k)
      links += "," + std::to_string(k) + "-" + std::to_string(i) +
               ":infinity_fabric:" + (i % 2 == k % 2 ? "1200G" : "64G");
  }
  const File file(small_machine);
  weir_context context = make_context(("topology.xml=" + file.path + small_devices +
                                       ";host.devices=8;host.pci=" + pci + ";host.links=" + links)
                                          .c_str());
  for (weir_device i = 0; i < 8; ++i) {
    expect_part(context, i, i % 2, i / 2, 4);
    assert_int_equal(link_of(context, i, WEIR_DEVICE_HOST).shared_with, 4);
    for (weir_device k = 0; k < 8; ++k) {
      if (i == k) continue;
      const weir_link_info link = link_of(context, i, k);
      assert_int_equal(link.kind, WEIR_LINK_INFINITY_FABRIC);
      assert_int_equal(link.direct, 1);
      assert_int_equal(link.bandwidth,
                       i % 2 == k % 2 ? UINT64_C(1200000000000) : UINT64_C(64000000000));
      assert_int_equal(link.shared_with, i % 2 == k % 2 ? 1 : 4);
    }
  }
  const std::string text = exported(context, WEIR_TOPOLOGY_TEXT);
  for (const char *row : {"  card, at 0000:c1:00.0, 4 partitions\n    D0, host memory 0, 4 MiB",
                          "\n    D6, host memory 6, at 0000:c1:00.3, 4 MiB",
                          "XGMI  infinity_fabric, 1200 GB/s one way (backend), 1 hop: 24 ways\n",
                          "XGMI  infinity_fabric, 64 GB/s one way (backend), 1 hop, shared by 4 "
                          "partitions: 32 ways\n"})
    expect_in(text, row);
  ok(weir_context_destroy(context));
}

/// Two cards without memory of their own in three partitions each, as a file has them: one PCI function with an OS device for
/// each partition. Of the names and figures the first speaks for the card.
std::string apus() {
  std::string text = small_machine;
  for (const unsigned card : {0U, 1U}) {
    const std::string bus = card == 0 ? "17" : "27";
    std::string all;
    for (unsigned i = 0; i < 3; ++i) {
      all += "<object type=\"OSDev\" gp_index=\"" + std::to_string(40 + card * 10 + i) +
             "\" name=\"rsmi" + std::to_string(card * 3 + i) +
             "\" subtype=\"RSMI\" osdev_type=\"1\"><info name=\"GPUModel\" value=\"" +
             (i == 0 ? "Big; One" : "") + "\"/>" +
             (i == 0 ? "<info name=\"RSMIGTTSize\" value=\"4194304\"/>" : "") + "</object>";
    }
    const size_t begin = text.find("<object type=\"OSDev\"", text.find("0000:" + bus + ":00.0"));
    text.replace(begin, text.find("</object>", begin) + 9 - begin, all);
  }
  const size_t matrix = text.find("<distances2");
  text.replace(matrix, text.find("</topology>") - matrix, "");
  std::string indexes, values;
  for (const unsigned each : {40, 41, 42, 50, 51, 52}) indexes += std::to_string(each) + " ";
  for (int i = 0; i < 36; ++i) values += i % 7 == 0 ? "1000000 " : "100000 ";
  return text.insert(text.find("</topology>"),
                     "<distances2 type=\"OSDev\" nbobjs=\"6\" kind=\"9\" name=\"XGMIBandwidth\" "
                     "indexing=\"gp\"><indexes length=\"18\">" +
                         indexes + "</indexes><u64values length=\"" +
                         std::to_string(values.size()) + "\">" + values +
                         "</u64values></distances2>");
}

void a_rehearsed_file_has_its_partitions(void **) {
  const File file(apus());
  weir_context context = rehearse(file.path);
  uint32_t count = 0;
  ok(weir_device_count(context, &count));
  assert_int_equal(count, 6);
  for (weir_device i = 0; i < 6; ++i) {
    expect_part(context, i, i / 3 * 3, i % 3, 3);
    const weir_device_info info = about(context, i);
    assert_string_equal(info.pci_address, i < 3 ? "0000:17:00.0" : "0000:27:00.0");
    assert_string_equal(info.name, "Big  One");
    assert_int_equal(info.numa_node, i / 3);
    assert_true((info.capabilities & WEIR_CAP_INTEGRATED) != 0);
    const weir_link_info host = link_of(context, WEIR_DEVICE_HOST, i);
    assert_int_equal(host.kind, WEIR_LINK_PCIE);
    assert_int_equal(host.bandwidth, UINT64_C(63000000000));
    assert_int_equal(host.shared_with, 3);
    for (weir_device k = 0; k < 6; ++k) {
      if (i == k) continue;
      const weir_link_info link = link_of(context, i, k);
      assert_int_equal(link.kind, WEIR_LINK_INFINITY_FABRIC);
      assert_int_equal(link.direct, 1);
      assert_int_equal(link.shared_with, i / 3 == k / 3 ? 1 : 3);
    }
  }
  const std::string text = exported(context, WEIR_TOPOLOGY_TEXT);
  for (const char *row :
       {"      card, Big  One, at 0000:17:00.0, 1 GiB, the host's memory, NUMA node 0, 3 "
        "partitions\n"
        "        D0, Big  One, 1 GiB shared by 3 partitions, the host's memory, NUMA node 0 (rsmi0 "
        "host)\n",
        "        D5, Big  One, 1 GiB shared by 3 partitions, the host's memory, NUMA node 1 (rsmi5 "
        "host)\n",
        "PCIE  pcie, 63 GB/s one way (backend), 1 hop, shared by 3 partitions: 12 ways\n",
        "XGMI  infinity_fabric, 100 GB/s one way (backend), 1 hop, shared by 3 partitions: 18 "
        "ways\n"})
    expect_in(text, row);
  assert_int_equal(times(exported(context, WEIR_TOPOLOGY_JSON), "\"memory_shared_with\": 3"), 6);
  ok(weir_context_destroy(context));
}

/// What one partition takes of their memory another has not, and what it cannot have is refused in order; it comes when the first
/// has let go. (A refusal lowers the pool's budget to below what was asked for, so less is asked for then.)
void partitions_of_one_memory_take_it_from_each_other(void **) {
  const File file(apus());
  Setup setup;
  setup.options = "topology.xml=" + file.path + ";topology.rehearse=1" + small_devices;
  setup.devices = 2;
  setup.device_pages = 192;  // 3 of 4 MiB
  setup.host_pages = 0;
  World w(setup);
  const auto free_of = [&](weir_device device) { return about(w.context, device).memory_free; };
  weir_buffer first = w.buffer(UINT64_C(3) << 20U, 0), second = w.buffer(UINT64_C(2) << 20U, 1);
  weir_lease held = nullptr, other = nullptr;
  ok(w.acquire(first, WEIR_DISCARD_WRITE, &held));
  assert_true(free_of(0) <= UINT64_C(1) << 20U);
  assert_int_equal(free_of(1), free_of(0));
  assert_int_equal(free_of(3), UINT64_C(4) << 20U);  // another card's
  expect_result(WEIR_ERROR_DEVICE_OOM, w.acquire(second, WEIR_DISCARD_WRITE, &other, nullptr, 1));
  ok(weir_release(held, w.streams[0]));
  ok(weir_buffer_destroy(w.pool, first));
  ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_NONE, nullptr));
  ok(weir_buffer_destroy(w.pool, second));
  second = w.buffer(UINT64_C(3) << 19U, 1);
  ok(w.acquire(second, WEIR_DISCARD_WRITE, &other, nullptr, 1));
  ok(weir_release(other, w.streams[1]));
  ok(weir_buffer_destroy(w.pool, second));
  w.close();
}

/// Functions that the system lists each by itself, as it does virtual ones, stay places of their own.
void listed_functions_keep_their_places(void **) {
  std::string machine = small_machine;
  const std::string first = R"(bridge_pci="0000:[27-27]">)";
  machine.insert(
      machine.find(first) + first.size(),
      R"(<object type="PCIDev" gp_index="20" pci_busid="0000:27:00.1" pci_type="0302 [10de:2330] [10de:16c0] a1" pci_link_speed="31.5"/>)");
  const File file(machine);
  weir_context context =
      make_context(("topology.xml=" + file.path + small_devices +
                    ";host.devices=2;host.peer=0;host.pci=0000:27:00.0,0000:27:00.1;"
                    "host.links=h-0:pcie:0,h-1:pcie:0")
                       .c_str());
  for (weir_device i = 0; i < 2; ++i) expect_part(context, i, 0, i, 2);
  const weir_link_info link = link_of(context, 1, WEIR_DEVICE_HOST);
  assert_int_equal(link.bandwidth, UINT64_C(31500000000));
  assert_int_equal(link.shared_with, 2);
  const std::string text = exported(context, WEIR_TOPOLOGY_TEXT);
  expect_in(text, "D1, host memory 1, at 0000:27:00.1");
  assert_int_equal(times(text, "card"), 0);
  ok(weir_context_destroy(context));
}

/// One card under two runtimes is one device, however many partitions the second makes of it.
void two_backends_have_one_card(void **) {
  const char *folder = std::getenv("WEIR_LIB_DIR");
  const std::string path =
      std::string(folder != nullptr ? folder : "") + "/weir/1/libweir_backend_host.so";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    print_message("skipped: %s\n", dlerror());
    skip();
  }
  const auto query =
      reinterpret_cast<weir_backend_query_fn>(dlsym(library, WEIR_BACKEND_QUERY_SYMBOL));
  assert_non_null(query);
  static weir_backend_table second;
  second = *query(WEIR_BACKEND_ABI_MAJOR);
  second.name = "second";
  const weir_backend_query_fn queries[] = {
      [](uint32_t) -> const weir_backend_table * { return &second; }};
  const File file(small_machine);
  const std::string options =
      "topology.xml=" + file.path + small_devices +
      ";host.pci=0000:17:00.0;second.memory=4M;second.granule=16K;second.granule_large=0;"
      "second.devices=2;second.pci=0000:17:00.0,0000:17:00.0";
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = options.c_str();
  desc.backends = queries;
  desc.backend_count = 1;
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  expect_part(context, 0, 0, 0, 1);
  expect_part(context, 1, 1, 0, 2);
  expect_part(context, 2, 1, 1, 2);
  for (weir_device i = 1; i < 3; ++i) {
    const weir_link_info link = link_of(context, 0, i);
    assert_int_equal(link.kind, WEIR_LINK_SAME);
    assert_int_equal(link.shared_with, 1);
  }
  expect_in(exported(context, WEIR_TOPOLOGY_TEXT), "      D0, host memory 0, at 0000:17:00.0, ");
  ok(weir_context_destroy(context));
  assert_int_equal(dlclose(library), 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(slices_are_parts_of_a_card),
      cmocka_unit_test(partitions_may_reach_each_other),
      cmocka_unit_test(a_rehearsed_file_has_its_partitions),
      cmocka_unit_test(partitions_of_one_memory_take_it_from_each_other),
      cmocka_unit_test(listed_functions_keep_their_places),
      cmocka_unit_test(two_backends_have_one_card),
  };
  return cmocka_run_group_tests_name("partitioned cards", tests, nullptr, nullptr);
}
