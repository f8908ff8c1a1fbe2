// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend's runs: how many driver calls they take, who has access, and what is mapped when a call fails.
#include "tests/backends/cuda_fixture.hpp"
#include "tests/backends/runs.hpp"

namespace weir::test {
namespace {

constexpr uint64_t granule_size = uint64_t{2} << 20U;
constexpr const char *machine = "devices=3;links=nvlink;memory=64M;mode=strict";

/// Calls of the driver by this name while `body` runs.
template <class Body>
uint64_t calls_of(const char *name, Body body) {
  const uint64_t before = sim().calls(name);
  body();
  return sim().calls(name) - before;
}

void a_run_takes_one_call_for_access_and_one_to_unmap(void **) {
  Cuda cuda(machine);
  const Runs runs(cuda.t, cuda.state, granule_size);
  assert_int_equal(calls_of("cuMemSetAccess", [&] { runs.ok(runs.map_run()); }), 1);
  assert_int_equal(calls_of("cuMemUnmap", [&] { runs.ok(runs.unmap_run()); }), 1);
  assert_int_equal(calls_of("cuMemMap", [&] { runs.ok(runs.map_run()); }), Runs::length);
  runs.ok(runs.unmap_run());
}

void access_is_added_and_none_is_taken(void **) {
  Cuda cuda(machine);
  const Runs runs(cuda.t, cuda.state, granule_size);
  const uint32_t one = 1, two = 2;
  runs.ok(cuda.t.map_run(cuda.state, 0, runs.range, runs.pieces.data(), Runs::length, &one, 1));
  for (uint32_t i = 0; i < Runs::length; ++i) {
    assert_int_equal(access_of(1, runs.at(i)), abi::access_read_write);
    assert_int_equal(access_of(2, runs.at(i)), abi::access_none);
  }
  const uint64_t calls = calls_of("cuMemSetAccess", [&] {
    runs.ok(cuda.t.access_add(cuda.state, 0, runs.at(1), 2 * granule_size, &two, 1));
  });
  assert_int_equal(calls, 1);
  for (uint32_t i = 0; i < Runs::length; ++i) {
    const bool added = i == 1 || i == 2;
    assert_int_equal(access_of(0, runs.at(i)), abi::access_read_write);
    assert_int_equal(access_of(1, runs.at(i)), abi::access_read_write);
    assert_int_equal(access_of(2, runs.at(i)), added ? abi::access_read_write : abi::access_none);
  }
  runs.ok(runs.unmap_run());
  // Access ends with the mapping.
  runs.ok(runs.map_run());
  assert_int_equal(access_of(2, runs.at(1)), abi::access_none);
}

void a_failed_call_changes_nothing(void **) {
  Cuda cuda(machine);
  const Runs runs(cuda.t, cuda.state, granule_size);
  const auto failing = [](const char *call) {
    return [call](uint64_t nth) { sim().fail(call, nth, abi::result::out_of_memory); };
  };
  runs.map_fails(failing("cuMemMap"), Runs::length);
  runs.map_fails(failing("cuMemSetAccess"), 1);
  runs.unmap_fails(failing("cuMemUnmap"), 1);
}

void a_lost_devices_run_is_given_up(void **) {
  for (const char *options : {"", "shared_range=0"}) {
    Cuda cuda(machine, options);
    cuda.lost = true;
    Runs(cuda.t, cuda.state, granule_size).lose([] { sim().lose_device(0); }, *options == '\0');
  }
}

void switched_off_calls_are_refused(void **) {
  Cuda cuda(machine, "map_run=0;access_later=0");
  weir_be_granule granule = 0;
  uint64_t range = 0;
  must(cuda, cuda.t.granule_create, 0, granule_size, 0, &granule);
  must(cuda, cuda.t.range_reserve, 0, granule_size, granule_size, &range);
  const weir_be_piece piece{granule, 0, granule_size};
  const uint32_t peer = 1;
  must_refuse(cuda, WEIR_ERROR_NOT_SUPPORTED, "map_run=0", cuda.t.map_run, 0, range, &piece, 1,
              nullptr, 0);
  must_refuse(cuda, WEIR_ERROR_NOT_SUPPORTED, "map_run=0", cuda.t.unmap_run, 0, range,
              granule_size);
  must_refuse(cuda, WEIR_ERROR_NOT_SUPPORTED, "access_later=0", cuda.t.access_add, 0, range,
              granule_size, &peer, 1);
}

void a_refused_run_names_what_is_wrong(void **) {
  Cuda cuda(machine);
  const Runs runs(cuda.t, cuda.state, granule_size);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "count=0", cuda.t.map_run, 0, runs.range,
              runs.pieces.data(), 0, nullptr, 0);
  runs.ok(runs.map_run());
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "cover 4194304 bytes", cuda.t.unmap_run, 0,
              runs.at(0), 5 * granule_size / 2);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "peers[0]=9", cuda.t.access_add, 0, runs.at(0),
              granule_size, std::vector<uint32_t>{9}.data(), 1);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "peer_count=0", cuda.t.access_add, 0, runs.at(0),
              granule_size, nullptr, 0);
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_run_takes_one_call_for_access_and_one_to_unmap),
      cmocka_unit_test(access_is_added_and_none_is_taken),
      cmocka_unit_test(a_failed_call_changes_nothing),
      cmocka_unit_test(a_lost_devices_run_is_given_up),
      cmocka_unit_test(switched_off_calls_are_refused),
      cmocka_unit_test(a_refused_run_names_what_is_wrong),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
