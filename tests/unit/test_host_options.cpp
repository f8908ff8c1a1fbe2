// SPDX-License-Identifier: Apache-2.0
//
// The host backend's options: what is understood, what is refused and with which words, and that
// every switch changes exactly its own capability.
#include "backends/host/machine_options.hpp"
#include "backends/host/options.hpp"

#include <weir/backend.h>

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
extern "C" {
#include <cmocka.h>
}

#include <string>
#include <vector>

namespace {

using weir::host::Options;
using weir::host::parse_options;

constexpr uint64_t mib = uint64_t{1} << 20U;

Options parsed(const std::string &text) {
  Options options;
  std::string reason;
  const weir_result result = parse_options(text.c_str(), &options, &reason);
  if (result != WEIR_SUCCESS) fail_msg("%s: %s", text.c_str(), reason.c_str());
  return options;
}

/// The reason why `text` is refused; the options must not have changed.
std::string refused(const std::string &text) {
  Options options;
  options.devices = 77;
  std::string reason;
  assert_int_equal(parse_options(text.c_str(), &options, &reason), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(options.devices, 77);
  assert_false(reason.empty());
  return reason;
}

void assert_names(const std::string &reason, const std::vector<std::string> &words) {
  for (const std::string &word : words) {
    if (reason.find(word) == std::string::npos) {
      fail_msg("\"%s\" does not name \"%s\"", reason.c_str(), word.c_str());
    }
  }
}

void defaults_are_whole_granules(void **) {
  const Options options = parsed("");
  assert_int_equal(options.devices, 1);
  assert_int_equal(options.granule, 2 * mib);
  assert_int_equal(options.granule_large, 32 * mib);
  assert_true(options.memory > 0);
  assert_int_equal(options.memory % options.granule, 0);
  assert_true(options.punch_hole);
  assert_true(options.prefault == weir::host::Prefault::from_second);
  assert_int_equal(options.link_bandwidth, 0);
  std::string reason;
  Options from_null;
  assert_int_equal(parse_options(nullptr, &from_null, &reason), WEIR_SUCCESS);
}

void sizes_and_rates_have_suffixes(void **) {
  const Options options = parsed(
      ";devices=3;memory=65M;granule=4K;granule_large=64K;link_bandwidth=25G;peer_bandwidth=7K;"
      "link_latency_ns=1500;");
  assert_int_equal(options.devices, 3);
  assert_int_equal(options.memory, 65 * mib);
  assert_int_equal(options.granule, 4096);
  assert_int_equal(options.granule_large, 65536);
  assert_int_equal(options.link_bandwidth, UINT64_C(25000000000));
  assert_int_equal(options.peer_bandwidth, 7000);
  assert_int_equal(options.link_latency_ns, 1500);
}

void prefaulting_has_three_settings(void **) {
  assert_true(parsed("prefault=0").prefault == weir::host::Prefault::never);
  assert_true(parsed("prefault=1").prefault == weir::host::Prefault::from_second);
  assert_true(parsed("prefault=2").prefault == weir::host::Prefault::always);
}

void memory_is_cut_to_granules(void **) {
  assert_int_equal(parsed("memory=7M;granule=2M").memory, 6 * mib);
  assert_int_equal(parsed("granule=64M;memory=64M").granule_large, 0);
  assert_int_equal(parsed("granule_large=0").granule_large, 0);
}

void bad_text_is_refused_by_name(void **) {
  assert_names(refused("memroy=1G"), {"\"memroy\"", "memory"});
  assert_names(refused("devices"), {"\"devices\"", "="});
  assert_names(refused("=1"), {"\"\""});
  assert_names(refused("devices=0"), {"devices", "\"0\""});
  assert_names(refused("devices=65"), {"devices", "\"65\""});
  assert_names(refused("devices=x"), {"devices", "\"x\""});
  assert_names(refused("memory="), {"memory", "\"\""});
  assert_names(refused("memory=-1"), {"memory", "\"-1\""});
  assert_names(refused("memory=1T"), {"memory", "\"1T\""});
  assert_names(refused("memory=1GB"), {"memory", "\"1GB\""});
  assert_names(refused("memory=0"), {"memory", "\"0\""});
  assert_names(refused("memory=99999999999G"), {"memory", "99999999999G"});
  assert_names(refused("vmm=yes"), {"vmm", "\"yes\""});
  assert_names(refused("peer=2"), {"peer", "\"2\""});
  assert_names(refused("prefault=3"), {"prefault", "\"3\""});
  assert_names(refused("prefault="), {"prefault", "\"\""});
  assert_names(refused("devices=2;link_bandwidth=fast"), {"link_bandwidth", "\"fast\""});
  assert_names(refused("link_log=there"), {"link_log", "\"there\""});
  assert_names(refused("link_log=2147483648"), {"link_log", "\"2147483648\""});
  assert_int_equal(*parsed("link_log=7").link_log, 7);
  assert_false(parsed("").link_log.has_value());
  assert_names(refused("memory= 1M"), {"memory", "\" 1M\""});
}

void bad_sizes_are_refused_by_name(void **) {
  assert_names(refused("granule=3M"), {"granule", "3145728"});
  assert_names(refused("granule=2K"), {"granule", "2048"});
  assert_names(refused("granule=0"), {"granule", "\"0\""});
  assert_names(refused("granule_large=3M"), {"granule_large", "3145728"});
  assert_names(refused("granule=2M;granule_large=2M"), {"granule_large", "2097152"});
  assert_names(refused("granule=2M;memory=1M"), {"memory", "1048576"});
}

void a_machine_can_be_described(void **) {
  const Options options = parsed(
      "links=0-1:nvlink:150G:2:700,h-0:pcie:15750M,1-2:pcie:0:3:0:staged,0-2:none:0;devices=3;"
      "names=A B,,C;pci=0000:17:00.0,,0000:27:00.0;numa=0,-,3;link_slowdown=10;memory_with=0,0,2");
  assert_int_equal(options.memory_with[1], 0);
  assert_int_equal(options.memory_with[2], 2);
  assert_string_equal(options.names[0].c_str(), "A B");
  assert_string_equal(options.names[1].c_str(), "");
  assert_string_equal(options.pci[2].c_str(), "0000:27:00.0");
  assert_int_equal(options.numa[1], UINT32_MAX);
  assert_int_equal(options.numa[2], 3);
  assert_int_equal(options.link_slowdown, 10);
  assert_int_equal(options.links.size(), 4);
  assert_int_equal(options.links[0].kind, WEIR_LINK_NVLINK);
  assert_int_equal(options.links[0].bandwidth, UINT64_C(150000000000));
  assert_int_equal(options.links[0].hops, 2);
  assert_int_equal(options.links[0].latency_ns, 700);
  assert_true(options.links[0].direct);
  assert_int_equal(options.links[1].a, WEIR_DEVICE_HOST);
  assert_int_equal(options.links[1].hops, 1);
  assert_false(options.links[2].direct);
  assert_false(options.links[3].direct);
}

void cards_are_told_by_their_addresses(void **) {
  const auto cards = [](const char *text) { return weir::host::cards_of(parsed(text)); };
  using List = std::vector<uint32_t>;
  assert_true(cards("devices=3") == (List{0, 1, 2}));
  assert_true(cards("devices=3;pci=,,") == (List{0, 1, 2}));
  assert_true(cards("devices=4;pci=0000:ab:00.0,0000:17:00.0,0000:AB:00.1,0000:ab:00.0") ==
              (List{0, 1, 0, 0}));
  assert_true(cards("devices=4;pci=0000:17:00.0,0000:18:00.0,0000:17:01.0,0001:17:00.0") ==
              (List{0, 1, 2, 3}));
}

void bad_descriptions_are_refused_by_name(void **) {
  assert_names(refused("names=a,b"), {"names", "2 entries for 1"});
  assert_names(refused("devices=2;pci=0000:17:00.0"), {"pci", "1 entries for 2"});
  assert_names(refused("numa=x"), {"numa", "\"x\""});
  assert_names(refused("integrated=x"), {"integrated", "\"x\""});
  assert_names(refused("devices=2;integrated=0,2"), {"integrated", "device 2"});
  assert_names(refused("devices=2;memory_with=0"), {"memory_with", "1 entries for 2"});
  assert_names(refused("devices=2;memory_with=0,x"), {"memory_with", "\"x\""});
  assert_names(refused("devices=2;memory_with=1,1"), {"memory_with", "device 0"});
  assert_names(refused("devices=3;memory_with=0,0,1"), {"memory_with", "device 2"});
  assert_names(refused("devices=2;memory_with=0,4294967294"), {"memory_with", "device 1"});
  assert_names(refused("numa=4294967295"), {"numa", "4294967295"});
  assert_names(refused("names=" + std::string(64, 'n')), {"names", "63"});
  assert_names(refused("pci=0000:17:00.0-and-more-of-an-address"), {"pci", "31"});
  assert_names(refused("devices=2;links=0-2:pcie:1G"), {"links", "device 2"});
  for (const char *link :
       {"0-0:pcie:1G", "0:pcie:1G", "0-1", "0-1:pcie", "0-1:pcie:fast", "0-1:rope:1G",
        "0-1:pcie:1G:0", "0-1:pcie:1G:x", "0-1:pcie:1G:1:x", "0-1:pcie:1G:1:0:maybe", "h-0:none:0",
        "h-0:pcie:1G:1:0:staged", "h-h:pcie:1G", "0-1:none:0:1:0:direct",
        "0-1:pcie:1G:1:0:direct:more", "0-1:pcie:1G,", "-1-0:pcie:1G"}) {
    assert_names(refused("devices=2;links=" + std::string(link)), {"links"});
  }
  assert_names(refused("link_slowdown=1000001"), {"link_slowdown", "1000001"});
}

struct Switch {
  const char *key;
  uint64_t capabilities;  ///< what it turns off with 0, or on with 1 if it is off at first
};
constexpr uint64_t vmm_group = WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP | WEIR_CAP_MAP_PART |
                               WEIR_CAP_EXPORT_FD | WEIR_CAP_MAP_ANY_THREAD |
                               WEIR_CAP_SHARED_RANGE | WEIR_CAP_MAP_RUN | WEIR_CAP_ACCESS_LATER;
constexpr Switch switches[] = {
    {"vmm", vmm_group},
    {"multi_map", WEIR_CAP_MULTI_MAP},
    {"map_part", WEIR_CAP_MAP_PART},
    {"peer", WEIR_CAP_PEER | WEIR_CAP_SHARED_RANGE | WEIR_CAP_ACCESS_LATER},
    {"shared_range", WEIR_CAP_SHARED_RANGE},
    {"map_run", WEIR_CAP_MAP_RUN},
    {"access_later", WEIR_CAP_ACCESS_LATER},
    {"transfer_stream", WEIR_CAP_TRANSFER_STREAM},
    {"batch_copy", WEIR_CAP_BATCH_COPY},
    {"export_fd", WEIR_CAP_EXPORT_FD},
    {"host_call", WEIR_CAP_HOST_CALL},
    {"any_thread", WEIR_CAP_STREAM_ANY_THREAD},
    {"map_any_thread", WEIR_CAP_MAP_ANY_THREAD},
    {"register", WEIR_CAP_HOST_REGISTER},
};

void each_switch_is_one_capability(void **) {
  const uint64_t all = parsed("").capabilities();
  uint64_t named = WEIR_CAP_HOST_ACCESS;
  for (const Switch &each : switches) {
    const uint64_t off = parsed(std::string(each.key) + "=0").capabilities();
    if (off != (all & ~each.capabilities))
      fail_msg("%s=0 leaves %#llx", each.key, static_cast<unsigned long long>(off));
    assert_int_equal(parsed(std::string(each.key) + "=1").capabilities(), all);
    named |= each.capabilities;
  }
  assert_int_equal(all, named);
  assert_int_equal(parsed("map_may_block=1").capabilities(), all | WEIR_CAP_MAP_MAY_BLOCK_DEVICE);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(defaults_are_whole_granules),
      cmocka_unit_test(sizes_and_rates_have_suffixes),
      cmocka_unit_test(prefaulting_has_three_settings),
      cmocka_unit_test(memory_is_cut_to_granules),
      cmocka_unit_test(bad_text_is_refused_by_name),
      cmocka_unit_test(bad_sizes_are_refused_by_name),
      cmocka_unit_test(a_machine_can_be_described),
      cmocka_unit_test(cards_are_told_by_their_addresses),
      cmocka_unit_test(bad_descriptions_are_refused_by_name),
      cmocka_unit_test(each_switch_is_one_capability),
  };
  return cmocka_run_group_tests_name("host options", tests, nullptr, nullptr);
}
