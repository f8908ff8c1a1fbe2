// SPDX-License-Identifier: Apache-2.0
//
// More than two devices: maps and access for all of them, ranges that several share; and what two do in a range of one of
// them. A device that was not named never touches the memory here.
#include "conformance/walks.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

namespace weir::conformance {
namespace {

/// A device, and those that it reaches and that reach it.
struct Company {
  DeviceFacts owner;
  std::vector<DeviceFacts> others;
  std::vector<uint32_t> indices() const {
    std::vector<uint32_t> all;
    for (const DeviceFacts &each : others) all.push_back(each.index);
    return all;
  }
};
/// Of all devices, the one under test first; of many the first two and the last.
Outcome companies_with(Test &t, uint64_t capabilities, size_t least, std::vector<Company> *all) {
  std::vector<DevicePair> pairs;
  TRY(direct_pairs(t, capabilities, &pairs));
  all->clear();
  for (const DevicePair &pair : pairs) {
    if (all->empty() || all->back().owner.index != pair.from.index) all->push_back({pair.from, {}});
    all->back().others.push_back(pair.to);
  }
  std::erase_if(*all, [&](const Company &each) { return each.others.size() < least; });
  if (all->size() > 8) all->erase(all->begin() + 2, all->end() - 1);
  if (all->empty()) t.note(words("no device reaches ", uint64_t{least}, " others directly"));
  return {};
}

/// A mover for each of the devices.
class Crew {
 public:
  Outcome make(Test &t, const std::vector<uint32_t> &devices) {
    movers_.resize(t.device_count);
    for (const uint32_t device : devices) {
      if (movers_[device] != nullptr) continue;
      movers_[device] = std::make_unique<Mover>(t, device);
      TRY(movers_[device]->make(end_bytes));
    }
    return {};
  }
  Mover &of(uint32_t device) { return *movers_[device]; }
  /// Each of them writes, and each other reads; of many, its neighbours do.
  Outcome share(const std::vector<uint32_t> &devices, uint64_t address, uint64_t bytes,
                uint64_t seed) {
    const size_t readers = devices.size() <= 5 ? devices.size() : 2;
    for (size_t i = 0; i < devices.size(); ++i) {
      TRY(in_shape(words("written by device ", devices[i]),
                   write_ends(of(devices[i]), address, bytes, ++seed)));
      for (size_t k = 0; k < readers; ++k) {
        const uint32_t reader = devices[(i + k) % devices.size()];
        TRY(in_shape(words("written by device ", devices[i], ", read by device ", reader),
                     check_ends(of(reader), address, bytes, seed)));
      }
    }
    return {};
  }

 private:
  std::vector<std::unique_ptr<Mover>> movers_;
};

std::vector<uint32_t> joined(uint32_t first, std::span<const uint32_t> rest) {
  std::vector<uint32_t> all{first};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

REQUIRE("PE-029", needs(WEIR_CAP_VMM | WEIR_CAP_PEER, 2),
        "A map, a run and access that name all peers there are, in any order, give it to each of "
        "them.") {
  std::vector<Company> companies;
  TRY(companies_with(t, WEIR_CAP_VMM, 1, &companies));
  Crew crew;
  for (const Company &company : companies) {
    const uint64_t unit = company.owner.unit;
    const uint32_t owner = company.owner.index;
    std::vector<uint32_t> peers = company.indices();
    const std::vector<uint32_t> all = joined(owner, peers);
    Granule first(t, owner), second(t, owner);
    Range range(t, owner);
    TRY(crew.make(t, all));
    TRY(first.create(unit));
    TRY(second.create(unit));
    TRY(range.reserve(2 * unit, unit));
    for (uint64_t round = 0; round < 3; ++round) {
      if (round == 1) std::reverse(peers.begin(), peers.end());
      if (round == 2)
        for (size_t i = peers.size(); i > 1; --i) std::swap(peers[i - 1], peers[t.random.below(i)]);
      const auto shape = [&](const char *what, const Outcome &outcome) {
        return in_shape(
            words("device ", owner, ", ", what, " for ", uint64_t{peers.size()}, " peers"),
            outcome);
      };
      const auto mapped = [&]() -> Outcome {
        Map map(t, owner);
        TRY(map.map(range.address(), unit, first, 0, peers));
        return crew.share(all, map.address(), unit, 1000 * round);
      };
      TRY(shape("a map", mapped()));
      if (company.owner.has(WEIR_CAP_MAP_RUN)) {
        const auto run = [&]() -> Outcome {
          const weir_be_piece pieces[] = {{second.get(), 0, unit}, {first.get(), 0, unit}};
          MUST(map_run, owner, range.address(), pieces, 2, peers.data(),
               static_cast<uint32_t>(peers.size()));
          TRY(crew.share(all, range.address(), unit, 1000 * round + 200));
          TRY(crew.share(all, range.address() + unit, unit, 1000 * round + 400));
          MUST(unmap_run, owner, range.address(), 2 * unit);
          return {};
        };
        TRY(shape("a run", run()));
      }
      if (!company.owner.has(WEIR_CAP_ACCESS_LATER)) continue;
      const auto given = [&]() -> Outcome {
        Map map(t, owner);
        TRY(map.map(range.address() + unit, unit, second));
        MUST(access_add, owner, map.address(), unit, peers.data(),
             static_cast<uint32_t>(peers.size()));
        return crew.share(all, map.address(), unit, 1000 * round + 600);
      };
      TRY(shape("access", given()));
    }
  }
  return {};
}

constexpr uint64_t access_later = WEIR_CAP_VMM | WEIR_CAP_ACCESS_LATER;

REQUIRE("PE-030", needs(access_later | WEIR_CAP_PEER, 3),
        "Whoever has access to what is mapped, by the map or later, keeps it when others are given "
        "it, in any order.") {
  std::vector<Company> companies;
  TRY(companies_with(t, access_later, 2, &companies));
  Crew crew;
  for (const Company &company : companies) {
    const uint64_t unit = company.owner.unit;
    const uint32_t owner = company.owner.index;
    std::vector<uint32_t> peers = company.indices();
    if (peers.size() > 5) peers.resize(5);
    TRY(crew.make(t, joined(owner, peers)));
    Granule granules[2] = {Granule(t, owner), Granule(t, owner)};
    Range range(t, owner);
    TRY(range.reserve(2 * unit, unit));
    for (Granule &granule : granules) TRY(granule.create(unit));
    // As many are named by the map as `named` says; the others one by one, over one piece or over both.
    for (size_t named = 0; named < peers.size(); ++named) {
      std::rotate(peers.begin(), peers.begin() + 1, peers.end());
      for (const uint64_t pieces : {uint64_t{1}, uint64_t{2}}) {
        const auto body = [&]() -> Outcome {
          Map maps[2] = {Map(t, owner), Map(t, owner)};
          for (uint64_t i = 0; i < 2; ++i)
            TRY(maps[i].map(range.address() + i * unit, unit, granules[i], 0,
                            std::span(peers).first(named)));
          for (size_t has = named; has <= peers.size(); ++has) {
            const std::vector<uint32_t> all = joined(owner, std::span(peers).first(has));
            for (uint64_t i = 0; i < pieces; ++i)
              TRY(crew.share(all, maps[i].address(), unit, 100 * has + 50 * i));
            if (has < peers.size())
              MUST(access_add, owner, range.address(), pieces * unit, &peers[has], 1);
          }
          // A piece to which access was not added keeps the peers that it had.
          if (pieces == 1)
            TRY(crew.share(joined(owner, std::span(peers).first(named)), maps[1].address(), unit,
                           3000));
          return {};
        };
        TRY(in_shape(words("device ", owner, ", ", uint64_t{named}, " peers by the map, ", pieces,
                           " pieces"),
                     body()));
      }
    }
  }
  return {};
}

constexpr uint64_t sharing = WEIR_CAP_VMM | WEIR_CAP_SHARED_RANGE;

REQUIRE("PE-031", needs(sharing | WEIR_CAP_PEER, 3),
        "A range of any device takes granules of all others side by side; each goes by its own "
        "device, and the range when all have gone.") {
  std::vector<Company> companies;
  TRY(companies_with(t, sharing, 2, &companies));
  Crew crew;
  for (const Company &company : companies) {
    const uint32_t home = company.owner.index;
    uint64_t unit = company.owner.unit;
    std::vector<uint32_t> devices = joined(home, company.indices());
    for (const DeviceFacts &each : company.others) unit = std::max(unit, each.unit);
    TRY(crew.make(t, devices));
    const auto body = [&]() -> Outcome {
      Range range(t, home);
      std::vector<std::unique_ptr<Granule>> granules;
      std::vector<std::unique_ptr<Map>> maps;
      const uint64_t places = 2 * devices.size();
      const auto owner_of = [&](uint64_t place) { return devices[place % devices.size()]; };
      TRY(range.reserve(places * unit, unit));
      for (uint64_t i = 0; i < places; ++i) {
        // The home device can use all; where others reach each other is not asked here.
        const uint32_t owner = owner_of(i);
        granules.push_back(std::make_unique<Granule>(t, owner));
        maps.push_back(std::make_unique<Map>(t, owner));
        TRY(granules[i]->create(unit));
        TRY(in_shape(words("a granule of device ", owner),
                     maps[i]->map(range.address() + i * unit, unit, *granules[i], 0,
                                  owner == home ? std::span<const uint32_t>()
                                                : std::span<const uint32_t>(&home, 1))));
        TRY(write_ends(crew.of(i % 2 == 0 ? home : owner), maps[i]->address(), unit, i));
      }
      for (uint64_t n = 0; n < places; ++n) {
        for (uint64_t i = n; i < places; ++i) {
          TRY(in_shape(words("place ", i),
                       check_ends(crew.of(home), range.address() + i * unit, unit, i)));
          if (i == n || i + 1 == places)
            TRY(in_shape(words("place ", i, ", by its own device"),
                         check_ends(crew.of(owner_of(i)), range.address() + i * unit, unit, i)));
          if (places > 16 && i > n + 2) break;
        }
        REFUSED(unmap, owner_of(n + 1), range.address() + n * unit, unit);
        REFUSED(range_free, home, range.address(), range.bytes());
        TRY(maps[n]->unmap());
      }
      return range.free();
    };
    TRY(in_shape(words("a range of device ", home, " with granules of ", uint64_t{devices.size()},
                       " devices"),
                 body()));
  }
  return {};
}

/// A granule of four units with pattern i in unit i, made by mapping it once in a range of its own device.
Outcome fill_by_units(Test &t, const DeviceFacts &device, const Granule &granule, uint64_t unit,
                      Mover &mover) {
  Range range(t, device.index);
  Map map(t, device.index);
  TRY(range.reserve(4 * unit, unit));
  TRY(map.map(range.address(), 4 * unit, granule));
  for (uint64_t i = 0; i < 4; ++i) TRY(write_ends(mover, range.address() + i * unit, unit, i));
  return {};
}

/// Maps of parts, and runs, of one device's granules in a range of the other.
Outcome parts_and_runs_abroad(Test &t, const DevicePair &pair, bool named) {
  const DeviceFacts &guest = pair.from;
  const uint64_t unit = std::max(pair.from.unit, pair.to.unit);
  const uint32_t home = pair.to.index;
  const std::span<const uint32_t> peers =
      named ? std::span<const uint32_t>(&home, 1) : std::span<const uint32_t>();
  const auto peer_count = static_cast<uint32_t>(peers.size());
  Granule granule(t, guest.index), small(t, guest.index);
  Range range(t, home);
  Mover mover(t, guest.index), far(t, home);
  TRY(granule.create(4 * unit));
  TRY(small.create(unit));
  TRY(range.reserve(12 * unit, unit));
  TRY(mover.make(end_bytes));
  TRY(far.make(end_bytes));
  TRY(fill_by_units(t, guest, granule, unit, mover));
  const auto look = [&](uint64_t place, uint64_t seed) -> Outcome {
    const uint64_t address = range.address() + place * unit;
    TRY(check_ends(mover, address, unit, seed));
    if (!named) return {};
    return in_shape("by the range's device", check_ends(far, address, unit, seed));
  };
  if (guest.has(WEIR_CAP_MAP_PART)) {
    for (uint64_t first = 0; first < 4; ++first) {
      for (uint64_t units = 1; first + units <= 4; ++units) {
        Map map(t, guest.index);
        const uint64_t place = 2 * first + units;
        TRY(map.map(range.address() + place * unit, units * unit, granule, first * unit, peers));
        for (uint64_t i = 0; i < units; ++i)
          TRY(in_shape(words(units, " units from ", first), look(place + i, first + i)));
      }
    }
  }
  if (!guest.has(WEIR_CAP_MAP_RUN)) return {};
  const weir_be_piece pieces[] = {{small.get(), 0, unit}, {granule.get(), 0, 4 * unit}};
  MUST(map_run, guest.index, range.address() + 3 * unit, pieces, 2, peers.data(), peer_count);
  TRY(write_ends(named ? far : mover, range.address() + 3 * unit, unit, 9));
  TRY(in_shape("in a run", look(3, 9)));
  for (uint64_t i = 0; i < 4; ++i) TRY(in_shape("in a run", look(4 + i, i)));
  REFUSED(unmap_run, home, range.address() + 3 * unit, 5 * unit);
  MUST(unmap, guest.index, range.address() + 3 * unit, unit);
  MUST(unmap_run, guest.index, range.address() + 4 * unit, 4 * unit);
  if (!guest.has(WEIR_CAP_MAP_PART) || !guest.has(WEIR_CAP_MULTI_MAP)) return {};
  const weir_be_piece parts[] = {
      {granule.get(), 3 * unit, unit}, {small.get(), 0, unit}, {granule.get(), unit, 2 * unit}};
  MUST(map_run, guest.index, range.address(), parts, 3, peers.data(), peer_count);
  const uint64_t seeds[] = {3, 9, 1, 2};
  for (uint64_t i = 0; i < 4; ++i) TRY(in_shape("in a run of parts", look(i, seeds[i])));
  MUST(unmap_run, guest.index, range.address(), 4 * unit);
  return {};
}

REQUIRE(
    "PE-032", needs(sharing | WEIR_CAP_PEER, 2),
    "Parts of granules and runs of them are mapped in another device's range as in one of their "
    "own, with peers and without.") {
  std::vector<DevicePair> pairs;
  TRY(direct_pairs(t, sharing, &pairs));
  for (const DevicePair &pair : pairs) {
    if (t.device_count > 8 && pair.from.index != t.device) continue;
    for (const bool named : {true, false})
      TRY(in_shape(words("granules of device ", pair.from.index, " in a range of device ",
                         pair.to.index, named ? ", for both" : ""),
                   parts_and_runs_abroad(t, pair, named)));
  }
  return {};
}

/// Four places of a range of `owner`; the third has a granule of `stranger`, where they share ranges.
Outcome no_access_by_strangers(Test &t, const DevicePair &pair) {
  const uint32_t owner = pair.from.index, stranger = pair.to.index;
  const uint64_t unit = std::max(pair.from.unit, pair.to.unit);
  const bool mixed = pair.from.has(sharing) && pair.to.has(sharing);
  Range range(t, owner);
  std::vector<std::unique_ptr<Granule>> granules;
  std::vector<std::unique_ptr<Map>> maps;
  Mover here(t, owner), there(t, stranger);
  TRY(range.reserve(4 * unit, unit));
  TRY(here.make(end_bytes));
  TRY(there.make(end_bytes));
  const auto owner_of = [&](uint64_t place) { return mixed && place == 2 ? stranger : owner; };
  const auto at = [&](uint64_t place) { return range.address() + place * unit; };
  for (uint64_t i = 0; i < 4; ++i) {
    granules.push_back(std::make_unique<Granule>(t, owner_of(i)));
    maps.push_back(std::make_unique<Map>(t, owner_of(i)));
    TRY(granules[i]->create(unit));
    TRY(maps[i]->map(at(i), unit, *granules[i]));
    TRY(write_ends(owner_of(i) == owner ? here : there, at(i), unit, i));
  }
  const auto refused = [&](uint32_t by, uint64_t first, uint64_t end) -> Outcome {
    for (const uint32_t peer : {owner, stranger}) {
      if (peer == by) continue;
      REFUSED(access_add, by, at(first), (end - first) * unit, &peer, 1);
      TRY(told_a_code(t));
    }
    return {};
  };
  TRY(in_shape("what the other has mapped", refused(stranger, 0, 1)));
  TRY(in_shape("two pieces that the other has mapped", refused(stranger, 0, 2)));
  if (mixed) {
    TRY(in_shape("the other's piece first", refused(stranger, 1, 3)));
    TRY(in_shape("the other's piece last", refused(stranger, 2, 4)));
    TRY(in_shape("the other's piece in the midst", refused(owner, 1, 4)));
    TRY(in_shape("the other's piece alone", refused(owner, 2, 3)));
  }
  for (uint64_t i = 0; i < 4; ++i)
    TRY(in_shape(words("place ", i),
                 check_ends(owner_of(i) == owner ? here : there, at(i), unit, i)));
  // By the device that has mapped them they are given.
  for (uint64_t i = 0; i < 4; ++i) {
    const uint32_t peer = owner_of(i) == owner ? stranger : owner;
    MUST(access_add, owner_of(i), at(i), unit, &peer, 1);
    TRY(check_ends(peer == owner ? here : there, at(i), unit, i));
  }
  return {};
}

REQUIRE("PE-033", needs(access_later | WEIR_CAP_PEER, 2),
        "Access is given in the name of the device that has mapped the pieces; in another's it is "
        "refused, and changes nothing.") {
  std::vector<DevicePair> pairs;
  TRY(direct_pairs(t, access_later, &pairs));
  for (const DevicePair &pair : pairs) {
    if (t.device_count > 8 && pair.from.index != t.device) continue;
    TRY(in_shape(words("a range of device ", pair.from.index, ", access by device ", pair.to.index),
                 no_access_by_strangers(t, pair)));
  }
  return {};
}

}  // namespace
}  // namespace weir::conformance
