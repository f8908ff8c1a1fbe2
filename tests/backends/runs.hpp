// SPDX-License-Identifier: Apache-2.0
//
// What runs ask of every vendor's backend when the runtime fails in the middle of one: all of it or none is mapped
// afterwards, whichever call failed. What they ask of a healthy runtime is the conformance suite's.
#pragma once

#include "tests/support/cmocka.hpp"

#include <weir/backend.h>

#include <vector>

namespace weir::test {

struct Runs {
  static constexpr uint32_t length = 4;
  const weir_backend_table &t;
  weir_be_state *const s;
  const uint64_t unit;
  std::vector<weir_be_piece> pieces;  ///< of device 0
  weir_be_granule spare = 0;
  uint64_t range = 0;  ///< of as many units

  Runs(const weir_backend_table &table, weir_be_state *state, uint64_t granule)
      : t(table), s(state), unit(granule) {
    for (uint32_t i = 0; i < length; ++i) {
      weir_be_granule made = 0;
      ok(t.granule_create(s, 0, unit, 0, &made));
      pieces.push_back({made, 0, unit});
    }
    ok(t.granule_create(s, 0, unit, 0, &spare));
    ok(t.range_reserve(s, 0, length * unit, unit, &range));
  }

  void ok(weir_result result) const {
    if (result != WEIR_SUCCESS) fail_msg("%d: %s", result, t.error_text(s, t.last_error_code(s)));
  }
  uint64_t at(uint32_t place) const { return range + place * unit; }
  weir_result map_run() const { return t.map_run(s, 0, range, pieces.data(), length, nullptr, 0); }
  weir_result unmap_run() const { return t.unmap_run(s, 0, range, length * unit); }
  /// A granule that is mapped nowhere can be mapped at each place, and each granule of the run is free.
  void none_is_mapped() const {
    for (uint32_t i = 0; i < length; ++i) {
      ok(t.map(s, 0, at(i), unit, spare, 0, nullptr, 0));
      ok(t.unmap(s, 0, at(i), unit));
      ok(t.map(s, 0, at(i), unit, pieces[i].granule, 0, nullptr, 0));
      ok(t.unmap(s, 0, at(i), unit));
    }
  }
  /// Nothing else can be mapped there, no granule can go, and work reaches every piece.
  void all_is_mapped() const {
    weir_be_stream stream = nullptr;
    ok(t.stream_create(s, 0, 0, &stream));
    for (uint32_t i = 0; i < length; ++i) {
      assert_int_equal(t.map(s, 0, at(i), unit, spare, 0, nullptr, 0), WEIR_ERROR_INVALID_ARGUMENT);
      assert_int_equal(t.granule_destroy(s, 0, pieces[i].granule), WEIR_ERROR_INVALID_ARGUMENT);
      ok(t.fill_async(s, stream, at(i), 7, unit));
    }
    ok(t.stream_synchronize(s, stream));
    ok(t.stream_destroy(s, stream));
  }

  /// `fail` makes the runtime's next call that maps or gives access fail, as many calls later as there were before.
  template <class Fail>
  void map_fails(Fail fail, uint32_t calls) const {
    for (uint32_t nth = 1; nth <= calls; ++nth) {
      fail(nth);
      const weir_result result = map_run();
      fail(0);
      assert_true(result < 0 && result != WEIR_ERROR_DEVICE_LOST);
      none_is_mapped();
    }
    ok(map_run());
    all_is_mapped();
    ok(unmap_run());
    none_is_mapped();
  }
  template <class Fail>
  void unmap_fails(Fail fail, uint32_t calls) const {
    for (uint32_t nth = 1; nth <= calls; ++nth) {
      ok(map_run());
      fail(nth);
      const weir_result result = unmap_run();
      fail(0);
      assert_true(result < 0 && result != WEIR_ERROR_DEVICE_LOST);
      all_is_mapped();
      ok(unmap_run());
      none_is_mapped();
    }
  }
  /// The device is lost: what it had mapped is no more, and the range can go.
  template <class Lose>
  void lose(Lose lose_device, bool shared) const {
    ok(map_run());
    lose_device();
    const weir_result result = unmap_run();
    assert_int_equal(result, shared ? WEIR_ERROR_DEVICE_LOST : WEIR_SUCCESS);
    assert_int_equal(unmap_run(), WEIR_ERROR_INVALID_ARGUMENT);
    ok(t.range_free(s, 0, range, length * unit));
  }
};

}  // namespace weir::test
