// SPDX-License-Identifier: Apache-2.0
//
// Homes and neighbours on recorded machines, as the host backend stands them up. Skips where the recordings are not.

#include "tests/unit/placement_site.hpp"
#include "tests/unit/topology_files.hpp"

#include <unistd.h>

namespace {

using namespace weir::test;

/// Whether the recordings are on this machine. Asked before a test has anything that skip() would leave behind.
bool here(std::initializer_list<const char *> names) {
  for (const char *name : names) {
    const std::string path = recorded(name);
    if (!path.empty() && access(path.c_str(), R_OK) == 0) continue;
    print_message("skipped: no %s in WEIR_SHARED_DIR\n", name);
    return false;
  }
  return true;
}
/// A machine of a file, as the host backend stands it up.
std::string recording(const char *name) {
  return "topology.xml=" + recorded(name) + ";topology.rehearse=1";
}

/// Sixteen V100 that reach each other alike through switches; eight at each NUMA node.
void dgx2(void **) {
  if (!here({"hwloc-2.14.0-nvidiaDGX2.xml"})) skip();
  const std::string machine = recording("hwloc-2.14.0-nvidiaDGX2.xml");
  Site site(machine, first(16));
  for (const weir_device user : {0U, 5U, 8U, 15U}) assert_int_equal(site.ask({user}), user);
  assert_int_equal(site.ask({3, 9}), nearest(site, {3, 9}));
  assert_int_equal(site.ask({9, 3}), nearest(site, {3, 9}));
  assert_int_equal(site.ask({3, 9, 9}), 9);
  // Two of one node: the less loaded of them, turn by turn.
  assert_int_equal(site.add({9, 12}), 9);
  assert_int_equal(site.add({9, 12}), 12);
  // One in every place before a second one anywhere; those without a load first.
  std::set<weir_device> homes;
  for (uint32_t i = 0; i < 14; ++i) homes.insert(site.add({}));
  assert_int_equal(homes.size(), 14);
  assert_true(homes.count(9) == 0 && homes.count(12) == 0);
  site.close();
  // Full: its pages would go there and back over NVLink, those of another home come once.
  Site full(machine, first(16));
  for (uint32_t i = 0; i < 5; ++i) assert_int_equal(full.add({6}), 6);
  const weir_device next = full.ask({6});
  assert_true(next != 6);
  assert_int_equal(next, nearest(full, {0, 8}));
  // Spilled pages go to all of the others, none to the host.
  weir_buffer spilled = full.make(30 * page_bytes, {}, 2);
  full.write(spilled, 2);
  full.empty(2);
  assert_int_equal(full.host_used(), 0);
  for (const weir_device each : first(16))
    if (each != 2) assert_int_equal(full.used(each), 2 * page_bytes);
  full.close();
}

/// Four H100 joined by NVLink, at four NUMA nodes of eight.
void four_h100(void **) {
  if (!here({"fluxcore-ipa20.xml"})) skip();
  Site site(recording("fluxcore-ipa20.xml"), first(4));
  for (const weir_device user : first(4)) assert_int_equal(site.ask({user}), user);
  assert_int_equal(site.add({1, 2}), nearest(site, {1, 2}));
  assert_int_equal(site.ask({0, 1, 2, 3, 3}), 3);
  assert_int_equal(site.ask({cpu, 2}), 2);
  weir_buffer spilled = site.make(30 * page_bytes, {}, 0);
  site.write(spilled, 0);
  site.empty(0);
  assert_int_equal(site.host_used(), 0);
  for (const weir_device each : {1U, 2U, 3U}) assert_int_equal(site.used(each), 10 * page_bytes);
  site.close();
}

/// Four MI250X of two dies each: eight devices, one figure for all links, which is what its hwloc tells.
void eight_mi250x_dies(void **) {
  if (!here({"mpibind-eas-tioga.xml"})) skip();
  Site site(recording("mpibind-eas-tioga.xml"), first(8));
  for (const weir_device user : first(8)) assert_int_equal(site.ask({user}), user);
  // Everybody's: near the thread, and the less loaded die of the module.
  const weir_device near = nearest(site, first(8));
  assert_int_equal(site.add(first(8)), near);
  const weir_device again = site.add(first(8));
  assert_true(again != near);
  assert_int_equal(site.node_of(again), site.node_of(near));
  site.close();
}

/// Two dies of a module 50 GB/s apart, others 25, and a host that is nearer than either: generated figures.
void modules_of_two(void **) {
  if (!here({"gen-rsmi.xml"})) skip();
  Site site(recording("gen-rsmi.xml"), first(8));
  assert_int_equal(site.ask({2, 3, 6}), 2);  // 1/50 + 1/25 against 2/25
  assert_int_equal(site.ask({0, 4, 5}), 4);
  for (uint32_t i = 0; i < 5; ++i) assert_int_equal(site.add({0}), 0);
  assert_int_equal(site.ask({0}), 1);
  weir_buffer spilled = site.make(30 * page_bytes, {}, 2);
  site.write(spilled, 2);
  site.empty(2);
  assert_int_equal(site.host_used(), 30 * page_bytes);  // over 63 GB/s, says the file
  site.close();
}

/// Eight T4 without links of their own: pairs share a host bridge, all else passes the host.
void pcie_only(void **) {
  if (!here({"mpibind-g4dnmetal.xml"})) skip();
  Site site(recording("mpibind-g4dnmetal.xml"), first(8));
  for (const weir_device user : first(8)) assert_int_equal(site.ask({user}), user);
  assert_int_equal(site.ask({0, 1, 6}), 0);  // the pair: once over its bridge, once over the host
  assert_int_equal(site.ask({0, 6, 7}), 6);
  assert_int_equal(site.ask({3, 3, 5}), 3);
  // A neighbour's link is no better than the host's: nothing is lent. A home with the other of the pair costs half as much.
  for (uint32_t i = 0; i < 5; ++i) assert_int_equal(site.add({4}), 4);
  assert_int_equal(site.ask({4}), 5);
  weir_buffer spilled = site.make(30 * page_bytes, {}, 2);
  site.write(spilled, 2);
  site.empty(2);
  assert_int_equal(site.host_used(), 30 * page_bytes);
  site.close();
}

/// POWER8: two P100 at each CPU, joined to it and to each other alike.
void power8(void **) {
  if (!here({"hwloc-2.9.0-power8gpudistances.xml"})) skip();
  Site site(recording("hwloc-2.9.0-power8gpudistances.xml"), first(4));
  assert_int_equal(site.ask({2, 3}), nearest(site, {2, 3}));
  assert_int_equal(site.ask({0, 2, 3}), 2);
  weir_buffer spilled = site.make(30 * page_bytes, {}, 1);
  site.write(spilled, 1);
  site.empty(1);
  assert_int_equal(site.host_used(), 30 * page_bytes);  // no better than its own CPU's memory
  site.close();
}

}  // namespace

int main() {
  stay_on_one_processor();
  const CMUnitTest tests[] = {
      cmocka_unit_test(dgx2),
      cmocka_unit_test(four_h100),
      cmocka_unit_test(eight_mi250x_dies),
      cmocka_unit_test(modules_of_two),
      cmocka_unit_test(pcie_only),
      cmocka_unit_test(power8),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
