// SPDX-License-Identifier: Apache-2.0
//
// Ranges in which the granules of several devices are mapped. They belong to the group of peers.
#include "conformance/fixtures.hpp"

#include <algorithm>

namespace weir::conformance {
namespace {

constexpr Needs shared = needs(WEIR_CAP_VMM | WEIR_CAP_PEER | WEIR_CAP_SHARED_RANGE, 2);

/// Another device that shares ranges and reaches the device under test, as that reaches it.
struct Pair {
  uint32_t there = UINT32_MAX;
  uint64_t unit = 0;  ///< a granule of both devices
};

Outcome find_pair(Test &t, Pair *pair) {
  for (uint32_t i = 0; i < t.device_count && pair->there == UINT32_MAX; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    if (i == t.device || (about.capabilities & WEIR_CAP_SHARED_RANGE) == 0) continue;
    weir_be_link out{}, back{};
    out.struct_size = back.struct_size = sizeof out;
    MUST(link_describe, t.device, i, &out);
    MUST(link_describe, i, t.device, &back);
    if (out.direct == 0 || back.direct == 0) continue;
    *pair = {i, std::max(t.granule, about.granule)};
  }
  if (pair->there == UINT32_MAX)
    return t.nothing("no device that shares ranges is reached directly");
  MUST(peer_enable, t.device, pair->there);
  MUST(peer_enable, pair->there, t.device);
  return {};
}

/// A range of the device under test in which granules of both devices take turns, for both to use.
struct Mixed {
  static constexpr uint64_t places = 4;

  Mixed(Test &t, const Pair &pair)
      : unit(pair.unit),
        devices{t.device, pair.there},
        range(t),
        granules{Granule(t, devices[0]), Granule(t, devices[1]), Granule(t, devices[0]),
                 Granule(t, devices[1])},
        maps{Map(t, devices[0]), Map(t, devices[1]), Map(t, devices[0]), Map(t, devices[1])} {}

  /// Device 0's granules at the even places, the other's at the odd ones.
  Outcome make() {
    TRY(range.reserve(places * unit, unit));
    for (uint64_t i = 0; i < places; ++i) TRY(granules[i].create(unit));
    for (uint64_t i = 0; i < places; ++i) TRY(map(i));
    return {};
  }
  Outcome map(uint64_t place) {
    const uint32_t peer = devices[1 - place % 2];
    return maps[place].map(at(place), unit, granules[place], 0,
                           std::span<const uint32_t>(&peer, 1));
  }
  uint64_t at(uint64_t place) const { return range.address() + place * unit; }

  const uint64_t unit;
  const uint32_t devices[2];
  Range range;
  Granule granules[places];
  Map maps[places];
};

REQUIRE("PE-011", shared,
        "Granules of two devices in a range of one of them are read and written by both.") {
  Pair pair;
  FIND(find_pair(t, &pair));
  Mixed mixed(t, pair);
  Mover here(t), there(t, pair.there);
  TRY(mixed.make());
  TRY(here.make(pair.unit));
  TRY(there.make(pair.unit));
  for (uint64_t i = 0; i < Mixed::places; ++i) TRY(here.write(mixed.at(i), pair.unit, 10 + i));
  for (uint64_t i = 0; i < Mixed::places; ++i) TRY(there.check(mixed.at(i), pair.unit, 10 + i));
  for (uint64_t i = 0; i < Mixed::places; ++i) TRY(there.write(mixed.at(i), pair.unit, 20 + i));
  // From one device's granule into the other's, inside the range.
  TRY(here.stream.copy(mixed.at(1), mixed.at(2), pair.unit));
  TRY(here.stream.synchronize());
  TRY(there.check(mixed.at(1), pair.unit, 22));
  for (const uint64_t i : {0U, 2U, 3U}) TRY(here.check(mixed.at(i), pair.unit, 20 + i));
  return {};
}

REQUIRE(
    "PE-012", shared,
    "In a range of two devices' granules an unmap removes one map, of the device that it names, "
    "and leaves its neighbours as they are.") {
  Pair pair;
  FIND(find_pair(t, &pair));
  Mixed mixed(t, pair);
  Mover mover(t);
  TRY(mixed.make());
  TRY(mover.make(pair.unit));
  for (uint64_t i = 0; i < Mixed::places; ++i) TRY(mover.write(mixed.at(i), pair.unit, i));
  REFUSED(unmap, t.device, mixed.at(1), pair.unit);
  REFUSED(unmap, pair.there, mixed.at(2), pair.unit);
  REFUSED(unmap, pair.there, mixed.at(1), 2 * pair.unit);
  TRY(mover.check(mixed.at(1), pair.unit, 1));
  TRY(mixed.maps[1].unmap());
  for (const uint64_t i : {0U, 2U, 3U}) TRY(mover.check(mixed.at(i), pair.unit, i));
  TRY(mixed.maps[2].unmap());
  for (const uint64_t i : {0U, 3U}) TRY(mover.check(mixed.at(i), pair.unit, i));
  TRY(mixed.map(1));
  TRY(mover.check(mixed.at(1), pair.unit, 1));
  return mover.check(mixed.at(0), pair.unit, 0);
}

REQUIRE("PE-013", shared,
        "A range is not freed while another device has something mapped in it, nor by that device, "
        "and what is mapped stays.") {
  Pair pair;
  FIND(find_pair(t, &pair));
  Mixed mixed(t, pair);
  Mover mover(t);
  TRY(mixed.make());
  TRY(mover.make(pair.unit));
  TRY(mover.write(mixed.at(3), pair.unit, 7));
  for (const uint64_t i : {0U, 1U, 2U}) TRY(mixed.maps[i].unmap());
  REFUSED(range_free, t.device, mixed.range.address(), mixed.range.bytes());
  TRY(mover.check(mixed.at(3), pair.unit, 7));
  TRY(mixed.maps[3].unmap());
  REFUSED(range_free, pair.there, mixed.range.address(), mixed.range.bytes());
  return mixed.range.free();
}

REQUIRE("PE-014", shared,
        "Two devices map and unmap in one range at the same time, each beside the other, and both "
        "are right.") {
  Pair pair;
  FIND(find_pair(t, &pair));
  constexpr uint64_t rounds = 20;
  Mixed mixed(t, pair);
  Mover movers[2] = {Mover(t), Mover(t, pair.there)};
  TRY(mixed.range.reserve(Mixed::places * pair.unit, pair.unit));
  for (uint64_t i = 0; i < Mixed::places; ++i) TRY(mixed.granules[i].create(pair.unit));
  for (Mover &mover : movers) TRY(mover.make(pair.unit));
  Meeting meeting(2);
  return in_threads(2, [&](uint32_t side) -> Outcome {
    Meeting::Guest guest(meeting);
    for (uint64_t round = 0; round < rounds; ++round) {
      guest.wait();
      for (uint64_t i = side; i < Mixed::places; i += 2) TRY(mixed.map(i));
      for (uint64_t i = side; i < Mixed::places; i += 2)
        TRY(movers[side].write(mixed.at(i), pair.unit, round + i));
      for (uint64_t i = side; i < Mixed::places; i += 2)
        TRY(movers[side].check(mixed.at(i), pair.unit, round + i));
      for (uint64_t i = side; i < Mixed::places; i += 2) TRY(mixed.maps[i].unmap());
    }
    return {};
  });
}

}  // namespace
}  // namespace weir::conformance
