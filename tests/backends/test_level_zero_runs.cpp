// SPDX-License-Identifier: Apache-2.0
//
// The Level Zero backend's runs, which the driver maps and unmaps one by one: what failed half way is put back.
#include "tests/backends/level_zero_fixture.hpp"
#include "tests/backends/runs.hpp"

using namespace level_zero_test;
using weir::test::Runs;

namespace {

constexpr const char *single = "devices=1;memory=64M;mode=strict";
constexpr uint64_t unit = 2 * MiB;

auto failing(const char *call) {
  return [call](uint64_t nth) {
    sim().fail(call, nth, weir::level_zero::abi::error_out_of_host_memory);
  };
}

void failures_change_nothing(void **) {
  machine(single);
  {
    const Backend backend;
    const Runs runs(table(), backend.state, unit);
    runs.map_fails(failing("zeVirtualMemMap"), Runs::length);
    runs.unmap_fails(failing("zeVirtualMemUnmap"), Runs::length);
  }
  assert_clean();
}

void what_cannot_be_put_back_is_lost(void **) {
  machine(single);
  const Backend backend;
  const Runs runs(table(), backend.state, unit);
  runs.ok(runs.map_run());
  failing("zeVirtualMemUnmap")(3);
  failing("zeVirtualMemMap")(2);
  assert_int_equal(runs.unmap_run(), WEIR_ERROR_DEVICE_LOST);
  assert_int_equal(runs.unmap_run(), WEIR_ERROR_INVALID_ARGUMENT);
  runs.ok(backend->range_free(backend.state, 0, runs.range, Runs::length * unit));
}

void a_lost_devices_run_is_given_up(void **) {
  for (const char *options : {"peer_cards=1", "shared_range=0"}) {
    machine("devices=2;memory=64M;links=nvlink;mode=strict");
    const Backend backend(options);
    // Some drivers still unmap for a lost device; this one does not.
    Runs(table(), backend.state, unit)
        .lose([] { sim().fail("zeVirtualMemUnmap", 1, weir::level_zero::abi::error_device_lost); },
              std::strcmp(options, "peer_cards=1") == 0);
  }
}

}  // namespace

int main() {
  if (!prepare("test_level_zero_runs")) return skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(failures_change_nothing),
      cmocka_unit_test(what_cannot_be_put_back_is_lost),
      cmocka_unit_test(a_lost_devices_run_is_given_up),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
