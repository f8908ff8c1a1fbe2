// SPDX-License-Identifier: Apache-2.0
//
// The HIP backend's runs, which the runtime maps and unmaps one by one: what failed half way is put back, with the access
// that each piece had.
#include "backends/cuda/abi.hpp"
#include "tests/backends/hip_fixture.hpp"
#include "tests/backends/runs.hpp"

namespace weir::test {
namespace {

namespace cu = cuda::abi;

auto failing(const char *call) {
  return [call](uint64_t nth) { libraries().fail_call(call, nth, cu::result::out_of_memory); };
}

void test_failures(void **) {
  const Machine machine(2);
  {
    const Backend backend;
    const Runs runs(*backend.t, backend.state, unit);
    runs.map_fails(failing("cuMemMap"), Runs::length);
    runs.map_fails(failing("cuMemSetAccess"), Runs::length);
    runs.unmap_fails(failing("cuMemUnmap"), Runs::length);
  }
  machine.census();
}

/// A stream of the peer still reaches the pieces that were unmapped and put back.
void test_access_is_put_back(void **) {
  const Machine machine(2);
  {
    const Backend backend;
    const Runs runs(*backend.t, backend.state, unit);
    const uint32_t peer = 1;
    runs.ok(backend.t->map_run(backend.state, 0, runs.range, runs.pieces.data(), Runs::length,
                               &peer, 1));
    failing("cuMemUnmap")(3);
    assert_int_equal(runs.unmap_run(), WEIR_ERROR_DEVICE_OOM);  // the runtime's own word
    weir_be_stream stream = nullptr;
    runs.ok(backend.t->stream_create(backend.state, 1, 0, &stream));
    for (uint32_t i = 0; i < Runs::length; ++i)
      runs.ok(backend.t->fill_async(backend.state, stream, runs.at(i), 1, unit));
    runs.ok(backend.t->stream_synchronize(backend.state, stream));
    runs.ok(backend.t->stream_destroy(backend.state, stream));
    runs.ok(runs.unmap_run());
  }
  machine.census();
}

/// A runtime that neither unmaps nor maps again leaves nothing to rely on.
void test_what_cannot_be_put_back(void **) {
  const Machine machine(2);
  const Backend backend;
  const Runs runs(*backend.t, backend.state, unit);
  runs.ok(runs.map_run());
  failing("cuMemUnmap")(3);
  failing("cuMemMap")(2);
  assert_int_equal(runs.unmap_run(), WEIR_ERROR_DEVICE_LOST);
  assert_int_equal(runs.unmap_run(), WEIR_ERROR_INVALID_ARGUMENT);
  runs.ok(backend.t->range_free(backend.state, 0, runs.range, Runs::length * unit));
}

void test_lost(void **) {
  for (const char *options : {"", "shared_range=0"}) {
    const Machine machine(2);
    const Backend backend(options);
    Runs(*backend.t, backend.state, unit)
        .lose([] { libraries().lose_device(0); }, *options == '\0');
  }
}

/// From 7.14 on the first unmap of a run waits for all streams, the peer's too; the others find them idle.
void test_unmap_that_waits(void **) {
  const Machine machine(2);
  const Setting version("WEIR_HIP_LOOKALIKE_VERSION", "71400000");
  {
    const Backend backend;
    assert_true(backend.can(WEIR_CAP_MAP_MAY_BLOCK_DEVICE));
    const Runs runs(*backend.t, backend.state, unit);
    const uint32_t peer = 1;
    runs.ok(backend.t->map_run(backend.state, 0, runs.range, runs.pieces.data(), Runs::length,
                               &peer, 1));
    weir_be_stream stream = nullptr;
    uint64_t plain = 0;
    runs.ok(backend.t->plain_allocate(backend.state, 1, unit, 4096, &plain));
    runs.ok(backend.t->stream_create(backend.state, 1, 0, &stream));
    for (uint32_t i = 0; i < 64; ++i)
      runs.ok(backend.t->fill_async(backend.state, stream, plain, 1, unit));
    const uint64_t before = libraries().calls("cuCtxSynchronize");
    runs.ok(runs.unmap_run());
    assert_int_equal(libraries().calls("cuCtxSynchronize") - before, 2 * Runs::length);
    assert_int_equal(backend.t->stream_query(backend.state, stream), WEIR_SUCCESS);
    runs.ok(backend.t->stream_destroy(backend.state, stream));
    runs.ok(backend.t->plain_free(backend.state, 1, plain, unit));
    runs.none_is_mapped();
  }
  machine.census();
}

void test_off(void **) {
  const Machine machine;
  {
    const Backend backend("map_run=0");
    assert_false(backend.can(WEIR_CAP_MAP_RUN));
    const weir_be_piece piece{1, 0, unit};
    assert_int_equal(backend.t->map_run(backend.state, 0, unit, &piece, 1, nullptr, 0),
                     WEIR_ERROR_NOT_SUPPORTED);
    assert_contains(backend.sentence(), "map_run=0");
    assert_int_equal(backend.t->unmap_run(backend.state, 0, unit, unit), WEIR_ERROR_NOT_SUPPORTED);
  }
  machine.census();
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_failures),
      cmocka_unit_test(test_access_is_put_back),
      cmocka_unit_test(test_what_cannot_be_put_back),
      cmocka_unit_test(test_lost),
      cmocka_unit_test(test_unmap_that_waits),
      cmocka_unit_test(test_off),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
