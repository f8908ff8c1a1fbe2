// SPDX-License-Identifier: Apache-2.0
//
// Which devices may use what is mapped: maps for several peers, access that is given later, and ranges in which the granules of two
// devices are mapped for either. A device that was not named never touches the memory here.
#include "conformance/walks.hpp"

#include <algorithm>
#include <functional>
#include <memory>

namespace weir::conformance {
namespace {

/// Devices that one of them reaches, and that reach it.
struct Circle {
  DeviceFacts owner;
  std::vector<uint32_t> others;
};
Outcome circles_with(Test &t, uint64_t capabilities, std::vector<Circle> *circles) {
  std::vector<DevicePair> pairs;
  FIND(direct_pairs(t, capabilities, &pairs));
  circles->clear();
  for (const DevicePair &pair : pairs) {
    if (circles->empty() || circles->back().owner.index != pair.from.index)
      circles->push_back({pair.from, {}});
    circles->back().others.push_back(pair.to.index);
  }
  return {};
}

/// One that reads and writes memory for each device.
struct Hands {
  Outcome make(Test &t, const Circle &circle) {
    std::vector<uint32_t> all = circle.others;
    all.push_back(circle.owner.index);
    movers.resize(t.device_count);
    for (const uint32_t device : all) {
      movers[device] = std::make_unique<Mover>(t, device);
      TRY(movers[device]->make(end_bytes));
    }
    return {};
  }
  Mover &of(uint32_t device) { return *movers[device]; }
  std::vector<std::unique_ptr<Mover>> movers;
};

/// Each of the devices writes in turn, and all read.
Outcome all_use(Hands &hands, const std::vector<uint32_t> &devices, uint64_t address,
                uint64_t bytes, uint64_t seed) {
  for (const uint32_t writer : devices) {
    TRY(in_shape(words("written by device ", writer),
                 write_ends(hands.of(writer), address, bytes, ++seed)));
    for (const uint32_t reader : devices)
      TRY(in_shape(words("written by device ", writer, ", read by device ", reader),
                   check_ends(hands.of(reader), address, bytes, seed)));
  }
  return {};
}

std::vector<uint32_t> with_owner(const Circle &circle, const std::vector<uint32_t> &others) {
  std::vector<uint32_t> all{circle.owner.index};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

REQUIRE(
    "PE-022", needs(WEIR_CAP_VMM | WEIR_CAP_PEER, 2),
    "A map for several peers, in any order of them, is used by each of them and by the owner.") {
  std::vector<Circle> circles;
  FIND(circles_with(t, WEIR_CAP_VMM, &circles));
  for (const Circle &circle : circles) {
    const uint64_t unit = circle.owner.unit;
    Hands hands;
    Granule granule(t, circle.owner.index);
    Range range(t, circle.owner.index);
    TRY(hands.make(t, circle));
    TRY(granule.create(unit));
    TRY(range.reserve(2 * unit, unit));
    const uint64_t subsets = uint64_t{1} << std::min<size_t>(circle.others.size(), 3);
    for (uint64_t subset = 0; subset < 2 * subsets; ++subset) {
      std::vector<uint32_t> others;
      for (size_t i = 0; i < circle.others.size() && i < 3; ++i)
        if ((subset / 2 >> i & 1U) != 0) others.push_back(circle.others[i]);
      if (subset % 2 == 1) std::reverse(others.begin(), others.end());
      Map map(t, circle.owner.index);
      TRY(map.map(range.address() + subset % 2 * unit, unit, granule, 0, others));
      TRY(in_shape(words("a granule of device ", circle.owner.index, " for ",
                         uint64_t{others.size()}, " peers"),
                   all_use(hands, with_owner(circle, others), map.address(), unit, 10 * subset)));
    }
  }
  return {};
}

// ---- access later

/// Nine places, of which what lies at 4 is a part where there are parts, and at 5 and 6 one granule of two units.
class AccessRow {
 public:
  static constexpr uint64_t places = 9;
  AccessRow(Test &t, const DeviceFacts &device) : t_(t), device_(device), range_(t, device.index) {}
  ~AccessRow() {
    if (!come_to_rest()) return;
    for (const auto &[place, units] : mapped_)
      t_.keep(t_.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "unmap", t_.table.unmap,
                        device_.index, at(place), units * device_.unit));
  }
  AccessRow(const AccessRow &) = delete;
  AccessRow &operator=(const AccessRow &) = delete;
  Outcome make() {
    for (uint64_t i = 0; i < places; ++i) {
      granules_.push_back(std::make_unique<Granule>(t_, device_.index));
      TRY(granules_.back()->create((i == 4 && has_part()) || i == 5 ? 2 * device_.unit
                                                                    : device_.unit));
    }
    TRY(range_.reserve(places * device_.unit, device_.unit));
    TRY(map(0));
    if (device_.has(WEIR_CAP_MAP_RUN)) {
      Test &t = t_;
      std::vector<weir_be_piece> pieces;
      for (uint64_t i = 1; i < 4; ++i) pieces.push_back({granules_[i]->get(), 0, device_.unit});
      MUST(map_run, device_.index, at(1), pieces.data(), 3, nullptr, 0);
      for (uint64_t i = 1; i < 4; ++i) mapped_.emplace_back(i, 1);
    }
    for (uint64_t i = 1; i < places; ++i)
      if (i != 6 && !is_mapped(i)) TRY(map(i));
    return {};
  }
  Outcome map(uint64_t place) {
    Test &t = t_;
    const uint64_t units = units_of(place);
    MUST(map, device_.index, at(place), units * device_.unit, granules_[place]->get(),
         place == 4 && has_part() ? device_.unit : 0, nullptr, 0);
    mapped_.emplace_back(place, units);
    return {};
  }
  Outcome unmap(uint64_t place) {
    Test &t = t_;
    std::erase_if(mapped_, [&](const auto &each) { return each.first == place; });
    MUST(unmap, device_.index, at(place), units_of(place) * device_.unit);
    return {};
  }
  Outcome give(uint64_t first, uint64_t end, const std::vector<uint32_t> &others) {
    Test &t = t_;
    MUST(access_add, device_.index, at(first), (end - first) * device_.unit, others.data(),
         static_cast<uint32_t>(others.size()));
    return {};
  }
  Outcome refused(uint64_t address, uint64_t bytes, const std::vector<uint32_t> &others) {
    Test &t = t_;
    REFUSED(access_add, device_.index, address, bytes, others.data(),
            static_cast<uint32_t>(others.size()));
    return told_a_code(t_);
  }
  uint64_t at(uint64_t place) const { return range_.address() + place * device_.unit; }

 private:
  bool has_part() const { return device_.has(WEIR_CAP_MAP_PART); }
  static uint64_t units_of(uint64_t place) { return place == 5 ? 2 : 1; }
  bool is_mapped(uint64_t place) const {
    return std::any_of(mapped_.begin(), mapped_.end(),
                       [&](const auto &each) { return each.first == place; });
  }
  Test &t_;
  const DeviceFacts device_;
  Range range_;
  std::vector<std::unique_ptr<Granule>> granules_;
  std::vector<std::pair<uint64_t, uint64_t>> mapped_;
};

constexpr uint64_t given_later = WEIR_CAP_VMM | WEIR_CAP_ACCESS_LATER;

REQUIRE("PE-026", needs(given_later | WEIR_CAP_PEER, 2),
        "Access is added to any whole pieces, by whichever calls they were mapped, lasts beside "
        "unmaps of others, and can be added again after a new map.") {
  std::vector<Circle> circles;
  FIND(circles_with(t, given_later, &circles));
  struct {
    uint64_t first, end;
  } const spans[] = {{0, 1}, {0, 9}, {1, 3}, {2, 5}, {4, 5}, {5, 7}, {3, 8}, {8, 9}};
  for (const Circle &circle : circles) {
    const uint64_t unit = circle.owner.unit;
    const std::vector<uint32_t> all = with_owner(circle, circle.others);
    Hands hands;
    TRY(hands.make(t, circle));
    for (const auto &[first, end] : spans) {
      const auto body = [&]() -> Outcome {
        AccessRow row(t, circle.owner);
        TRY(row.make());
        // All peers in one call, or one after the other; a peer that is named again keeps it.
        if (first % 2 == 0) {
          TRY(row.give(first, end, circle.others));
        } else {
          for (const uint32_t peer : circle.others) TRY(row.give(first, end, {peer}));
          TRY(row.give(first, end, {circle.others.front()}));
        }
        for (uint64_t i = first; i < end; ++i) TRY(all_use(hands, all, row.at(i), unit, 10 * i));
        // Of a span of several pieces the first goes; the others keep what they have.
        const uint64_t next = first == 5 ? 7 : first + 1;
        TRY(row.unmap(first));
        for (uint64_t i = next; i < end; ++i)
          TRY(in_shape("after an unmap", all_use(hands, all, row.at(i), unit, 100 + 10 * i)));
        TRY(row.map(first));
        TRY(row.give(first, next, circle.others));
        return in_shape("mapped again", all_use(hands, all, row.at(first), unit, 300));
      };
      TRY(in_shape(words("device ", circle.owner.index, ", places ", first, " to ", end), body()));
    }
  }
  return {};
}

REQUIRE("PE-027", needs(given_later | WEIR_CAP_PEER, 2),
        "Access with a gap, a part of a piece, no peers or a peer that does not exist is refused, "
        "wherever the fault is, and who has access keeps it.") {
  std::vector<Circle> circles;
  FIND(circles_with(t, given_later, &circles));
  for (const Circle &circle : circles) {
    const uint64_t unit = circle.owner.unit;
    const std::vector<uint32_t> all = with_owner(circle, circle.others), &others = circle.others;
    Hands hands;
    AccessRow row(t, circle.owner);
    TRY(hands.make(t, circle));
    TRY(row.make());
    TRY(row.give(0, AccessRow::places, others));
    const Holdings held = holdings();
    for (uint64_t k = 0; k < AccessRow::places; ++k) {
      if (k == 6) continue;
      const auto faulty = [&](const char *what, uint64_t address, uint64_t bytes,
                              const std::vector<uint32_t> &of) {
        return in_shape(words("device ", circle.owner.index, ", ", what, " at place ", k),
                        row.refused(address, bytes, of));
      };
      const uint64_t next = k == 5 ? 7 : k + 1;
      TRY(row.unmap(k));
      TRY(faulty("a gap", row.at(0), AccessRow::places * unit, others));
      TRY(faulty("a gap at the end", row.at(0), next * unit, others));
      TRY(faulty("nothing", row.at(k), unit, others));
      TRY(row.map(k));
      TRY(row.give(k, next, others));
      TRY(faulty("half a unit", row.at(k), unit / 2, others));
      TRY(faulty("an end within a unit", row.at(0), k * unit + unit / 2, others));
      TRY(faulty("a start within a unit", row.at(k) + unit / 2, unit, others));
      TRY(faulty("no bytes", row.at(k), 0, others));
      TRY(faulty("round", row.at(k), 0 - k * unit, others));
      if (k == 5) {
        TRY(faulty("a part of a piece", row.at(5), unit, others));
        TRY(faulty("a part of a piece after others", row.at(0), 6 * unit, others));
        TRY(faulty("a part of a piece before others", row.at(6), 3 * unit, others));
      }
      TRY(faulty("no peers", row.at(k), (next - k) * unit, {}));
      const uint32_t first = others.front(), none = t.no_device();
      TRY(faulty("a bad peer", row.at(k), (next - k) * unit, {none}));
      TRY(faulty("a bad peer behind another", row.at(k), (next - k) * unit, {first, none}));
      TRY(faulty("a bad peer before another", row.at(k), (next - k) * unit, {none, first}));
      TRY(all_use(hands, all, row.at(k), unit, 10 * k));
    }
    for (uint64_t i = 0; i < AccessRow::places; ++i)
      TRY(all_use(hands, all, row.at(i), unit, 200 + 10 * i));
    TRY(holdings_back(held, 4));
  }
  return {};
}

// ---- ranges that devices share

constexpr uint64_t shared_range = WEIR_CAP_VMM | WEIR_CAP_SHARED_RANGE;

/// Twelve places of a range of one device, two and two of them for granules of either; every other two have no peers.
Outcome share_a_range(Test &t, const DevicePair &pair, const DeviceFacts &home) {
  constexpr uint64_t places = 12;
  const uint64_t unit = std::max(pair.from.unit, pair.to.unit);
  const DeviceFacts devices[2] = {pair.from, pair.to};
  Mover movers[2] = {Mover(t, pair.from.index), Mover(t, pair.to.index)};
  std::vector<std::unique_ptr<Granule>> granules;
  std::vector<std::unique_ptr<Map>> maps;
  Range range(t, home.index);
  const auto side = [](uint64_t place) { return place / 2 % 2; };
  const auto named = [](uint64_t place) { return place / 4 % 2 == 0; };
  const auto at = [&](uint64_t place) { return range.address() + place * unit; };
  for (Mover &mover : movers) TRY(mover.make(end_bytes));
  TRY(range.reserve(places * unit, unit));
  for (uint64_t i = 0; i < places; ++i) {
    const uint32_t owner = devices[side(i)].index, peer = devices[1 - side(i)].index;
    granules.push_back(std::make_unique<Granule>(t, owner));
    maps.push_back(std::make_unique<Map>(t, owner));
    TRY(granules[i]->create(unit));
    TRY(maps[i]->map(at(i), unit, *granules[i], 0,
                     named(i) ? std::span<const uint32_t>(&peer, 1) : std::span<const uint32_t>()));
    TRY(write_ends(movers[side(i)], at(i), unit, i));
  }
  const auto look = [&](uint64_t i, uint64_t seed) -> Outcome {
    TRY(check_ends(movers[side(i)], at(i), unit, seed));
    if (!named(i)) return {};
    return in_shape("by the peer", check_ends(movers[1 - side(i)], at(i), unit, seed));
  };
  for (uint64_t i = 0; i < places; ++i) TRY(in_shape(words("place ", i), look(i, i)));
  for (uint64_t i = 0; i < places; ++i)
    TRY(write_ends(movers[named(i) ? 1 - side(i) : side(i)], at(i), unit, 100 + i));
  // Each goes by its own device; the others stay; the range is freed by no device before the last is gone.
  for (uint64_t n = 0; n < places; ++n) {
    const uint64_t i = (5 * n + 3) % places;
    REFUSED(unmap, devices[1 - side(i)].index, at(i), unit);
    for (const DeviceFacts &each : devices)
      REFUSED(range_free, each.index, range.address(), range.bytes());
    TRY(in_shape(words("place ", i, " before it goes"), look(i, 100 + i)));
    TRY(maps[i]->unmap());
    const uint64_t next = (5 * (n + 1) + 3) % places;
    if (n + 1 < places) TRY(in_shape(words("place ", next), look(next, 100 + next)));
  }
  const uint32_t stranger = home.index == pair.from.index ? pair.to.index : pair.from.index;
  REFUSED(range_free, stranger, range.address(), range.bytes());
  return range.free();
}

REQUIRE(
    "PE-028", needs(shared_range | WEIR_CAP_PEER, 2),
    "Ranges of either device take granules of both, with peers and without; each goes by its own "
    "device, and the range when it is empty.") {
  std::vector<DevicePair> pairs;
  FIND(direct_pairs(t, shared_range, &pairs));
  for (const DevicePair &pair : pairs)
    for (const DeviceFacts *home : {&pair.from, &pair.to})
      TRY(in_shape(words("devices ", pair.from.index, " and ", pair.to.index,
                         ", a range of device ", home->index),
                   share_a_range(t, pair, *home)));
  return {};
}

}  // namespace
}  // namespace weir::conformance
