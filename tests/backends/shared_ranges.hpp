// SPDX-License-Identifier: Apache-2.0
//
// What WEIR_CAP_SHARED_RANGE asks of every vendor's backend, through its table: who may map in whose range, who ends
// what, and what is left to do when one of the devices is lost. Devices 0 and 1 of the state reach each other.
#pragma once

#include "tests/support/cmocka.hpp"

#include <weir/backend.h>

namespace weir::test {

struct SharedRanges {
  const weir_backend_table &t;
  weir_be_state *const s;
  const uint64_t unit;  ///< of both devices
  weir_be_granule mine = 0, theirs = 0;
  uint64_t range = 0;  ///< of device 0: three units

  SharedRanges(const weir_backend_table &table, weir_be_state *state, uint64_t granule)
      : t(table), s(state), unit(granule) {
    ok(t.granule_create(s, 0, unit, 0, &mine));
    ok(t.granule_create(s, 1, unit, 0, &theirs));
    ok(t.range_reserve(s, 0, 3 * unit, unit, &range));
  }

  void ok(weir_result result) const {
    if (result != WEIR_SUCCESS) fail_msg("%d: %s", result, t.error_text(s, t.last_error_code(s)));
  }
  /// A lost device's mapping is no more in any case; DEVICE_LOST says that nothing else can come to its place.
  void ended(weir_result result) const {
    if (result != WEIR_ERROR_DEVICE_LOST) ok(result);
  }
  void refused(weir_result result) const { assert_int_equal(result, WEIR_ERROR_INVALID_ARGUMENT); }
  uint64_t at(uint64_t place) const { return range + place * unit; }
  weir_result map(uint32_t device, uint64_t place, bool for_both = true) const {
    const uint32_t peer = 1 - device;
    return t.map(s, device, at(place), unit, device == 0 ? mine : theirs, 0, &peer,
                 for_both ? 1 : 0);
  }
  weir_result unmap(uint32_t device, uint64_t place) const {
    return t.unmap(s, device, at(place), unit);
  }
  weir_result free_range(uint32_t device) const { return t.range_free(s, device, range, 3 * unit); }

  void share_and_part() const {
    ok(map(0, 0));
    refused(map(1, 0));  // taken
    refused(t.map(s, 0, at(1), unit, theirs, 0, nullptr, 0));
    refused(t.map(s, 1, at(2) + unit / 2, unit, theirs, 0, nullptr, 0));
    refused(t.map(s, 1, at(3), unit, theirs, 0, nullptr, 0));
    ok(map(1, 1));
    refused(unmap(0, 1));
    refused(unmap(1, 0));
    refused(t.unmap(s, 1, at(0), 2 * unit));
    refused(t.granule_destroy(s, 1, theirs));
    ok(unmap(0, 0));
    refused(free_range(0));
    refused(free_range(1));
    ok(unmap(1, 1));
    ok(map(1, 2));  // the whole range is anybody's
    ok(unmap(1, 2));
    refused(free_range(1));
    ok(free_range(0));
    ok(t.granule_destroy(s, 0, mine));
    ok(t.granule_destroy(s, 1, theirs));
  }

  /// Each device's granule in the other's range, for stop() to end.
  void leave_crossed() const {
    uint64_t other = 0;
    ok(t.range_reserve(s, 1, unit, unit, &other));
    ok(map(1, 0));
    ok(t.map(s, 0, other, unit, mine, 0, nullptr, 0));
  }

  /// Without the capability a range is its device's own.
  void keep_apart() const {
    refused(t.map(s, 1, at(0), unit, theirs, 0, nullptr, 0));
    ok(map(0, 0, false));
    ok(unmap(0, 0));
    ok(free_range(0));
    ok(t.granule_destroy(s, 0, mine));
    ok(t.granule_destroy(s, 1, theirs));
  }

  /// Device 1 is lost: what it had in device 0's range can be unmapped, and device 0 frees the range and makes another.
  template <class Lose>
  void lose_the_guest(Lose lose) const {
    ok(map(0, 0, false));
    ok(map(1, 1, false));
    lose();
    ended(unmap(1, 1));
    refused(unmap(1, 1));
    refused(free_range(0));  // its own mapping is there
    ok(unmap(0, 0));
    ok(free_range(0));
    uint64_t fresh = 0;
    ok(t.range_reserve(s, 0, 3 * unit, unit, &fresh));
    ok(t.map(s, 0, fresh, unit, mine, 0, nullptr, 0));
    ok(t.unmap(s, 0, fresh, unit));
    ok(t.range_free(s, 0, fresh, 3 * unit));
    ok(t.granule_destroy(s, 0, mine));
  }

  /// Device 0 is lost, whose the range is: device 1 takes its granule out of it and uses it elsewhere.
  template <class Lose>
  void lose_the_host(Lose lose) const {
    uint64_t own = 0;
    ok(t.range_reserve(s, 1, unit, unit, &own));
    ok(map(1, 1, false));
    lose();
    ok(unmap(1, 1));
    ok(t.map(s, 1, own, unit, theirs, 0, nullptr, 0));
    ok(t.unmap(s, 1, own, unit));
    ok(t.range_free(s, 1, own, unit));
    ok(t.granule_destroy(s, 1, theirs));
  }
};

}  // namespace weir::test
