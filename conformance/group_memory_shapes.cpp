// SPDX-License-Identifier: Apache-2.0
//
// Granules and ranges of every size, on every device: all of a granule is memory, it lives as long as it is mapped
// anywhere, ranges are used and freed whole, and the addresses of all that lives are apart.
#include "conformance/walks.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>

namespace weir::conformance {
namespace {

// ---- granules

struct GranuleFlags {
  uint64_t capabilities, flags;
  const char *name;
};
constexpr GranuleFlags granule_flags[] = {
    {0, 0, ""},
    {WEIR_CAP_EXPORT_FD, WEIR_BE_GRANULE_EXPORT_FD, ", made for export as a descriptor"},
    {WEIR_CAP_EXPORT_FABRIC, WEIR_BE_GRANULE_EXPORT_FABRIC, ", made for export over a fabric"}};

Outcome memory_to_the_last_byte(Test &t, const DeviceFacts &device, uint64_t units,
                                uint64_t flags) {
  const uint64_t bytes = units * device.unit, large = device.about.granule_large;
  Granule granule(t, device.index);
  Range range(t, device.index);
  Map map(t, device.index);
  Mover mover(t, device.index);
  TRY(granule.create(bytes, flags));
  TRY(range.reserve(bytes, device.unit));
  TRY(map.map(range.address(), bytes, granule));
  TRY(mover.make(2 * end_bytes));
  // Both sides of each border, or of some of them where there are many; of all borders of large units.
  const uint64_t step = std::max<uint64_t>(units / 64, 1) * device.unit;
  std::vector<uint64_t> borders;
  for (uint64_t at = step; at < bytes; at += step) borders.push_back(at);
  if (large != 0)
    for (uint64_t at = large; at < bytes; at += large)
      if (at % step != 0) borders.push_back(at);
  TRY(write_ends(mover, map.address(), bytes, 1));
  for (const uint64_t at : borders)
    TRY(mover.write(map.address() + at - end_bytes, 2 * end_bytes, 1000 + at));
  TRY(check_ends(mover, map.address(), bytes, 1));
  for (const uint64_t at : borders)
    TRY(in_shape(words("at ", at),
                 mover.check(map.address() + at - end_bytes, 2 * end_bytes, 1000 + at)));
  return {};
}

REQUIRE("PM-019", vmm, "Granules of every size and flag are memory to their last byte.") {
  return each_device(t, WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
    const uint64_t large = device.about.granule_large / device.unit;
    std::vector<uint64_t> sizes{1, 2, 3, 5, 8, device.budget / 2 / device.unit};
    if (large > 1) sizes.insert(sizes.end(), {large, large + 1, 3 * large});
    for (const auto &[capabilities, flags, name] : granule_flags) {
      if (!device.has(capabilities)) continue;
      for (const uint64_t units : sizes) {
        if (units == 0 || units * device.unit > device.budget) continue;
        TRY(in_shape(words(units, " units", name),
                     memory_to_the_last_byte(t, device, units, flags)));
      }
    }
    return {};
  });
}

/// A granule of two units with pattern 1 in it, and a range of eight.
struct LivingGranule {
  LivingGranule(Test &t_, const DeviceFacts &device_)
      : t(t_),
        device(device_),
        granule(t, device.index),
        neighbour(t, device.index),
        range(t, device.index),
        mover(t, device.index) {}
  Outcome make() {
    Map map(t, device.index);
    TRY(granule.create(2 * device.unit));
    TRY(neighbour.create(device.unit));
    TRY(range.reserve(8 * device.unit, device.unit));
    TRY(mover.make(end_bytes));
    TRY(map.map(at(0), 2 * device.unit, granule));
    return write_ends(mover, at(0), 2 * device.unit, 1);
  }
  uint64_t at(uint64_t place) const { return range.address() + place * device.unit; }
  /// It is not destroyed, and its bytes are at the address.
  Outcome lives(uint64_t address) {
    REFUSED(granule_destroy, device.index, granule.get());
    TRY(told_a_code(t));
    return check_ends(mover, address, 2 * device.unit, 1);
  }

  Test &t;
  const DeviceFacts device;
  Granule granule, neighbour;
  Range range;
  Mover mover;
};

Outcome lives_in_a_run(LivingGranule &it, bool last) {
  Test &t = it.t;
  const uint32_t index = it.device.index;
  const uint64_t unit = it.device.unit;
  const weir_be_piece two{it.granule.get(), 0, 2 * unit}, one{it.neighbour.get(), 0, unit};
  const weir_be_piece pieces[] = {last ? one : two, last ? two : one};
  MUST(map_run, index, it.at(0), pieces, 2, nullptr, 0);
  const uint64_t place = last ? 1 : 0;
  TRY(it.lives(it.at(place)));
  MUST(unmap, index, it.at(last ? 0 : 2), unit);
  TRY(it.lives(it.at(place)));
  MUST(unmap_run, index, it.at(place), 2 * unit);
  return {};
}

REQUIRE(
    "PM-020", vmm,
    "A granule that is mapped is not destroyed, however it was mapped, and is once it is not.") {
  return each_device(t, WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
    const uint64_t unit = device.unit;
    const uint32_t index = device.index;
    const auto walk = [&](const char *name, uint64_t capability,
                          const std::function<Outcome(LivingGranule &)> &body) -> Outcome {
      if (!device.has(capability)) return {};
      LivingGranule it(t, device);
      TRY(it.make());
      TRY(in_shape(name, body(it)));
      return in_shape(words(name, ", and unmapped"), it.granule.destroy());
    };
    TRY(walk("mapped, after wrong unmaps", 0, [&](LivingGranule &it) -> Outcome {
      Map map(t, index);
      TRY(map.map(it.at(3), 2 * unit, it.granule));
      TRY(it.lives(it.at(3)));
      REFUSED(unmap, index, it.at(3), unit);
      REFUSED(unmap, index, it.at(2), 2 * unit);
      return it.lives(it.at(3));
    }));
    TRY(walk("mapped, after wrong maps", 0, [&](LivingGranule &it) -> Outcome {
      Map map(t, index), beside(t, index);
      TRY(map.map(it.at(0), 2 * unit, it.granule));
      TRY(beside.map(it.at(5), unit, it.neighbour));
      REFUSED_ONE_WAY_OR_OTHER(map, index, it.at(4), 2 * unit, it.granule.get(), 0, nullptr, 0);
      REFUSED_ONE_WAY_OR_OTHER(map, index, it.at(7), 2 * unit, it.granule.get(), 0, nullptr, 0);
      return it.lives(it.at(0));
    }));
    TRY(walk("the first of a run", WEIR_CAP_MAP_RUN,
             [](LivingGranule &it) { return lives_in_a_run(it, false); }));
    TRY(walk("the last of a run", WEIR_CAP_MAP_RUN,
             [](LivingGranule &it) { return lives_in_a_run(it, true); }));
    TRY(walk("at two addresses", WEIR_CAP_MULTI_MAP, [&](LivingGranule &it) -> Outcome {
      Map first(t, index), second(t, index);
      TRY(first.map(it.at(0), 2 * unit, it.granule));
      TRY(second.map(it.at(4), 2 * unit, it.granule));
      TRY(it.lives(it.at(0)));
      TRY(first.unmap());
      return it.lives(it.at(4));
    }));
    return walk("a part of it", WEIR_CAP_MAP_PART, [&](LivingGranule &it) -> Outcome {
      Map map(t, index);
      TRY(map.map(it.at(2), unit, it.granule, unit));
      REFUSED(granule_destroy, index, it.granule.get());
      TRY(map.unmap());
      TRY(map.map(it.at(4), 2 * unit, it.granule));
      return check_ends(it.mover, it.at(4), 2 * unit, 1);
    });
  });
}

// ---- ranges

REQUIRE("AR-015", vmm,
        "A range is freed as it was reserved and empty only, wherever something is mapped in it.") {
  return each_device(t, WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
    constexpr uint64_t places = 4;
    const uint64_t unit = device.unit;
    const uint32_t index = device.index, other = (index + 1) % t.device_count;
    Range range(t, index);
    Granule granule(t, index);
    Mover mover(t, index);
    TRY(granule.create(unit));
    TRY(mover.make(end_bytes));
    const auto refused = [&](uint32_t by, uint64_t address, uint64_t bytes) -> Outcome {
      REFUSED(range_free, by, address, bytes);
      return told_a_code(t);
    };
    for (uint64_t place = 0; place < places; ++place) {
      TRY(range.reserve(places * unit, unit));
      const uint64_t address = range.address();
      {
        Map map(t, index);
        TRY(map.map(address + place * unit, unit, granule));
        if (place == 0) TRY(write_ends(mover, map.address(), unit, 1));
        TRY(in_shape(words("a map at place ", place), refused(index, address, places * unit)));
        TRY(in_shape("a map, and half of it", refused(index, address, 2 * unit)));
        TRY(check_ends(mover, map.address(), unit, 1));
      }
      for (const uint64_t bytes :
           {uint64_t{0}, 2 * unit, places * unit - unit, places * unit + unit, 2 * places * unit})
        TRY(in_shape(words(bytes, " of ", places * unit, " bytes"),
                     refused(index, address, bytes)));
      TRY(in_shape("the next unit", refused(index, address + unit, (places - 1) * unit)));
      if (other != index) REFUSED_ONE_WAY_OR_OTHER(range_free, other, address, places * unit);
      TRY(in_shape("a device that does not exist", refused(t.no_device(), address, places * unit)));
      // It is all there.
      for (uint64_t i = 0; i < places; ++i) {
        Map map(t, index);
        TRY(map.map(address + i * unit, unit, granule));
        TRY(check_ends(mover, map.address(), unit, 1));
      }
      TRY(range.free());
    }
    return {};
  });
}

/// A granule mapped somewhere in a long range.
struct FarPiece {
  FarPiece(Test &t, uint32_t device, uint64_t at_, uint64_t bytes_)
      : at(at_), bytes(bytes_), granule(t, device), map(t, device) {}
  const uint64_t at, bytes;
  Granule granule;
  Map map;
};

Outcome use_long_range(Test &t, const DeviceFacts &device, uint64_t bytes) {
  constexpr uint64_t gib = uint64_t{1} << 30U;
  const uint64_t unit = device.unit;
  Range range(t, device.index);
  Mover mover(t, device.index);
  std::vector<std::unique_ptr<FarPiece>> pieces;
  TRY(range.reserve(bytes, unit));
  TRY(mover.make(end_bytes));
  // Borders of 4 GiB as the range counts and as addresses count.
  const uint64_t next = 4 * gib - range.address() % (4 * gib);
  std::vector<std::pair<uint64_t, uint64_t>> wanted{{0, 2},
                                                    {2 * gib - unit, 2},
                                                    {4 * gib - unit, 2},
                                                    {bytes / unit * unit - unit, 1},
                                                    {next - unit, 2},
                                                    {8 * gib - unit, 2},
                                                    {bytes / 2 / unit * unit, 1}};
  const uint64_t large = device.about.granule_large / unit;
  if (large > 1 && large * unit <= device.budget / 4) wanted.push_back({3 * gib, large});
  for (const auto &[at, units] : wanted) {
    const uint64_t size = units * unit;
    const bool fits = at <= bytes && size <= bytes - at &&
                      std::none_of(pieces.begin(), pieces.end(), [&](const auto &each) {
                        return at < each->at + each->bytes && each->at < at + size;
                      });
    if (!fits) continue;
    pieces.push_back(std::make_unique<FarPiece>(t, device.index, at, size));
    TRY(pieces.back()->granule.create(size));
    TRY(pieces.back()->map.map(range.address() + at, size, pieces.back()->granule));
  }
  // All are written before one is looked at: places that are taken for each other show.
  for (const auto &each : pieces)
    TRY(write_ends(mover, each->map.address(), each->bytes, each->at));
  for (const auto &each : pieces)
    TRY(in_shape(words("at ", each->at),
                 check_ends(mover, each->map.address(), each->bytes, each->at)));
  for (const auto &each : pieces) TRY(each->map.unmap());
  if (!device.has(WEIR_CAP_MAP_RUN)) return {};
  // A run over the border, and over all of what a run can be without more memory.
  std::vector<weir_be_piece> run;
  uint64_t size = 0;
  for (const auto &each : pieces) {
    run.push_back({each->granule.get(), 0, each->bytes});
    size += each->bytes;
  }
  const uint64_t from = 4 * gib - unit;
  if (size > bytes - from) return {};
  MUST(map_run, device.index, range.address() + from, run.data(), static_cast<uint32_t>(run.size()),
       nullptr, 0);
  uint64_t at = range.address() + from;
  for (const auto &each : pieces) {
    TRY(in_shape("in a run", check_ends(mover, at, each->bytes, each->at)));
    at += each->bytes;
  }
  MUST(unmap_run, device.index, range.address() + from, size);
  return {};
}

REQUIRE("AR-016", vmm, "Ranges beyond 4 GiB are usable at every place.") {
  return each_device(t, WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
    constexpr uint64_t gib = uint64_t{1} << 30U;
    uint32_t looked = 0;
    for (const uint64_t bytes : {4 * gib + 32 * device.unit, 64 * gib}) {
      if (!device.has_addresses(bytes)) continue;
      TRY(in_shape(words("a range of ", bytes), use_long_range(t, device, bytes)));
      ++looked;
    }
    return looked != 0 ? Outcome{} : t.nothing("it has not so many addresses");
  });
}

// ---- addresses of everything

/// Something with addresses that lives.
struct Neighbour {
  enum class Kind : uint8_t { range, plain, pinned, registered };
  Neighbour(Test &t_, Kind kind_, uint32_t device)
      : t(t_), kind(kind_), range(t_, device), plain(t_, device), pinned(t_) {}
  ~Neighbour() {
    if (!come_to_rest()) return;
    if (pages == nullptr) return;
    if (enrolled)
      t.keep(t.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "host_unregister",
                      t.table.host_unregister, pages, bytes));
    std::free(pages);
  }
  Neighbour(const Neighbour &) = delete;
  Neighbour &operator=(const Neighbour &) = delete;
  Outcome make(uint64_t unit, uint64_t units) {
    bytes = units * (kind == Kind::range ? unit : 4 * kib);
    switch (kind) {
      case Kind::range:
        TRY(range.reserve(bytes, unit));
        address = range.address();
        return {};
      case Kind::plain:
        TRY(plain.allocate(bytes, 256));
        address = plain.address();
        return {};
      case Kind::pinned:
        TRY(pinned.allocate(bytes));
        address = pinned.address();
        return {};
      case Kind::registered: {
        pages = std::aligned_alloc(4 * kib, bytes);
        CHECK(pages != nullptr, "no memory");
        MUST(host_register, pages, bytes);
        enrolled = true;
        address = reinterpret_cast<uintptr_t>(pages);
        return {};
      }
    }
    return {};
  }
  std::string text() const {
    const char *names[] = {"the range", "the plain memory", "the host memory",
                           "the registered memory"};
    return words(names[static_cast<int>(kind)], " at ", address, " of ", bytes, " bytes");
  }

  Test &t;
  const Kind kind;
  Range range;
  Plain plain;
  Pinned pinned;
  void *pages = nullptr;
  bool enrolled = false;
  uint64_t address = 0, bytes = 0;
};

REQUIRE("AR-018", always(),
        "The addresses of ranges, plain memory, host memory and registered memory that live are "
        "apart, over all devices.") {
  std::vector<DeviceFacts> devices;
  std::vector<std::unique_ptr<Neighbour>> all;
  TRY(devices_with(t, 0, &devices));
  constexpr Neighbour::Kind kinds[] = {Neighbour::Kind::range, Neighbour::Kind::plain,
                                       Neighbour::Kind::pinned, Neighbour::Kind::registered};
  for (int step = 0; step < 400; ++step) {
    const uint64_t most = 48 * devices.size();
    if (all.size() >= most || (all.size() > most / 2 && t.random.below(2) == 0)) {
      const auto which = all.begin() + static_cast<std::ptrdiff_t>(t.random.below(all.size()));
      all.erase(which);
      continue;
    }
    const DeviceFacts &device = devices[t.random.below(devices.size())];
    const Neighbour::Kind kind = kinds[t.random.below(4)];
    if (kind == Neighbour::Kind::range && device.unit == 0) continue;
    if (kind == Neighbour::Kind::registered && !device.has(WEIR_CAP_HOST_REGISTER)) continue;
    auto now = std::make_unique<Neighbour>(t, kind, device.index);
    TRY(now->make(device.unit, 1 + t.random.below(8)));
    for (const auto &each : all)
      CHECK(
          now->address + now->bytes <= each->address || each->address + each->bytes <= now->address,
          now->text(), " overlaps with ", each->text());
    all.push_back(std::move(now));
  }
  return {};
}

}  // namespace
}  // namespace weir::conformance
