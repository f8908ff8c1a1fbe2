// SPDX-License-Identifier: Apache-2.0
//
// What is known of a device without its memory: places and the scopes of claims, which do not mix (core/base/place.hpp,
// core/page/claim_scope.hpp), its standing in the pool (core/page/standing.hpp), and its clock of evictions
// (core/page/eviction_clock.hpp).

#include "core/page/claim_scope.hpp"
#include "core/page/eviction_clock.hpp"
#include "core/page/standing.hpp"
#include "tests/support/cmocka.hpp"

#include <type_traits>

namespace {

using weir::Place;
using weir::page::ClaimScope;
using weir::page::EvictionClock;
using weir::page::Standing;

static_assert(sizeof(Place) == 1 && sizeof(ClaimScope) == 1);
static_assert(!std::is_convertible_v<Place, ClaimScope> &&
              !std::is_convertible_v<ClaimScope, Place>);
static_assert(!std::is_constructible_v<ClaimScope, Place> &&
              !std::is_constructible_v<ClaimScope, uint8_t>);
static_assert(!std::is_convertible_v<uint8_t, Place> && !std::is_convertible_v<Place, uint8_t>);

void a_place_is_a_device_or_a_tier_and_has_its_bit(void **) {
  uint32_t bits = 0;
  for (uint8_t device = 0; device < Place::devices; ++device) {
    const Place place(device);
    assert_true(place.is_device() && place.device() == device);
    assert_true(place.bit() == uint32_t{1} << device && Place::of_bit(place.bit()) == place);
    bits |= place.bit();
  }
  uint8_t tier = 0;
  for (const Place place : {Place::storage, Place::compressed, Place::host}) {
    assert_true(!place.is_device() && place.tier() == tier && Place::of_tier(tier) == place);
    assert_true((bits & place.bit()) == 0);
    bits |= place.bit();
    ++tier;
  }
  assert_int_equal(bits, 0x7fffffffU);  // and the last is LOST
}

void scopes_meet_by_bytes_or_not(void **) {
  const ClaimScope scopes[] = {ClaimScope::on(Place(0)), ClaimScope::on(Place(27)),
                               ClaimScope::shards(), ClaimScope::host()};
  for (const ClaimScope a : scopes) {
    for (const ClaimScope b : scopes) assert_true(a.meets(b) == (a == b));
    assert_true(a.meets(ClaimScope::any()) && ClaimScope::any().meets(a));
    assert_false(a == ClaimScope::any());
  }
}

void a_device_comes_leaves_and_comes_back(void **) {
  Standing device;
  assert_true(device.open() && device.joined() == 0 && device.lost_generation() == 0);
  device.begin_leaving(70);
  assert_true(device.leaving() && !device.open() && !device.to_stay());
  assert_int_equal(device.leave_by_ns(), 70);
  device.stay();
  assert_true(device.to_stay());
  device.end_leaving();
  assert_true(device.open() && device.leave_by_ns() == 0);
  device.begin_leaving(90);  // what was said of the last time is over
  assert_false(device.to_stay());
  device.leave();
  device.end_leaving();
  assert_true(device.gone() && !device.open());
  device.join(5);
  assert_true(device.open() && device.joined() == 5);
  device.lose();
  device.count_loss(6, 4096);
  assert_true(device.lost() && !device.open());
  assert_true(device.lost_generation() == 6 && device.lost_bytes() == 4096);
}

void the_clock_tells_what_was_evicted_lately(void **) {
  EvictionClock clock(25600);  // a unit of 100 bytes
  const uint32_t first = clock.now();
  assert_int_equal(first, 1);
  assert_false(clock.lately(0, UINT64_MAX));
  assert_true(clock.lately(first, 25600));
  clock.count(99);
  assert_int_equal(clock.now(), first);
  clock.count(1);
  assert_int_equal(clock.now(), first + 1);
  clock.count(25400);
  assert_true(clock.lately(first, 25600));
  clock.count(100);
  assert_false(clock.lately(first, 25600));
  assert_int_equal(clock.total(), 25600);
  // It goes around, and past 0.
  constexpr uint64_t period = weir::page::DevicePage::eviction_period - 1;
  EvictionClock late(256);
  late.count(period - 1);
  assert_int_equal(late.now(), period);
  late.count(1);
  assert_int_equal(late.now(), 1);
  assert_true(late.lately(static_cast<uint32_t>(period), 2));
  assert_false(late.lately(static_cast<uint32_t>(period), 1));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_place_is_a_device_or_a_tier_and_has_its_bit),
      cmocka_unit_test(scopes_meet_by_bytes_or_not),
      cmocka_unit_test(a_device_comes_leaves_and_comes_back),
      cmocka_unit_test(the_clock_tells_what_was_evicted_lately),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
