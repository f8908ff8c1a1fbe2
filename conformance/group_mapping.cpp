// SPDX-License-Identifier: Apache-2.0
//
// Maps: what is seen where, and what is refused.
#include "conformance/fixtures.hpp"

#include <memory>

namespace weir::conformance {
namespace {

REQUIRE("VM-001", vmm,
        "A mapped granule holds what is copied to it, from its first byte to its last.") {
  Mapped mapped(t);
  Mover mover(t);
  TRY(mapped.make(2 * t.granule, t.granule));
  TRY(mover.make(2 * t.granule));
  TRY(mover.write(mapped.address(), 2 * t.granule, 1));
  return mover.check(mapped.address(), 2 * t.granule, 1);
}

REQUIRE("VM-002", vmm, "A granule can be mapped anywhere inside a range.") {
  Range range(t);
  Granule granule(t);
  Mover mover(t);
  TRY(range.reserve(4 * t.granule, t.granule));
  TRY(granule.create(t.granule));
  TRY(mover.make(t.granule));
  for (uint64_t i = 0; i < 4; ++i) {
    Map map(t);
    TRY(map.map(range.address() + i * t.granule, t.granule, granule));
    TRY(mover.write(map.address(), t.granule, i));
    TRY(mover.check(map.address(), t.granule, i));
  }
  return {};
}

REQUIRE("VM-003", vmm,
        "A granule keeps its contents when it is unmapped and mapped again at the same address.") {
  Mapped mapped(t);
  Mover mover(t);
  TRY(mapped.make(t.granule, t.granule));
  TRY(mover.make(t.granule));
  for (uint64_t i = 0; i < 20; ++i) {
    TRY(mover.write(mapped.address(), t.granule, i));
    TRY(mapped.mapping.unmap());
    TRY(mapped.mapping.map(mapped.address(), t.granule, mapped.granule));
    TRY(mover.check(mapped.address(), t.granule, i));
  }
  return {};
}

REQUIRE("VM-004", vmm, "A granule takes its contents along to another address.") {
  Range first(t), second(t);
  Granule granule(t);
  Map map(t);
  Mover mover(t);
  TRY(first.reserve(2 * t.granule, t.granule));
  TRY(second.reserve(4 * t.granule, t.granule));
  TRY(granule.create(2 * t.granule));
  TRY(mover.make(2 * t.granule));
  TRY(map.map(first.address(), 2 * t.granule, granule));
  TRY(mover.write(first.address(), 2 * t.granule, 1));
  TRY(map.unmap());
  TRY(map.map(second.address() + 2 * t.granule, 2 * t.granule, granule));
  return mover.check(map.address(), 2 * t.granule, 1);
}

REQUIRE("VM-005", vmm, "Another granule at the same address shows its own contents.") {
  Range range(t);
  Granule a(t), b(t);
  Map map(t);
  Mover mover(t);
  TRY(range.reserve(t.granule, t.granule));
  TRY(a.create(t.granule));
  TRY(b.create(t.granule));
  TRY(mover.make(t.granule));
  TRY(map.map(range.address(), t.granule, a));
  TRY(mover.write(range.address(), t.granule, 1));
  TRY(map.unmap());
  TRY(map.map(range.address(), t.granule, b));
  TRY(mover.write(range.address(), t.granule, 2));
  TRY(map.unmap());
  TRY(map.map(range.address(), t.granule, a));
  TRY(mover.check(range.address(), t.granule, 1));
  TRY(map.unmap());
  TRY(map.map(range.address(), t.granule, b));
  return mover.check(range.address(), t.granule, 2);
}

REQUIRE("VM-006", needs(WEIR_CAP_MAP_PART),
        "A map with an offset shows the granule from there on.") {
  Mapped whole(t);
  Range range(t);
  Map part(t);
  Mover mover(t);
  TRY(whole.make(4 * t.granule, t.granule));
  TRY(range.reserve(2 * t.granule, t.granule));
  TRY(mover.make(t.granule));
  for (uint64_t i = 0; i < 4; ++i) TRY(mover.write(whole.address() + i * t.granule, t.granule, i));
  TRY(whole.mapping.unmap());
  for (uint64_t i = 1; i < 3; ++i) {
    TRY(part.map(range.address(), 2 * t.granule, whole.granule, i * t.granule));
    TRY(mover.check(range.address(), t.granule, i));
    TRY(mover.check(range.address() + t.granule, t.granule, i + 1));
    TRY(part.unmap());
  }
  TRY(whole.mapping.map(whole.address(), 4 * t.granule, whole.granule));
  for (uint64_t i = 0; i < 4; ++i) TRY(mover.check(whole.address() + i * t.granule, t.granule, i));
  return {};
}

REQUIRE("VM-007", needs(WEIR_CAP_MAP_PART),
        "A map of a granule's first part maps that and no more.") {
  Range range(t);
  Granule granule(t), neighbour(t);
  Map part(t), beside(t);
  Mover mover(t);
  TRY(range.reserve(2 * t.granule, t.granule));
  TRY(granule.create(2 * t.granule));
  TRY(neighbour.create(t.granule));
  TRY(mover.make(t.granule));
  TRY(part.map(range.address(), t.granule, granule));
  TRY(beside.map(range.address() + t.granule, t.granule, neighbour));
  TRY(mover.write(part.address(), t.granule, 1));
  TRY(mover.write(beside.address(), t.granule, 2));
  TRY(mover.check(part.address(), t.granule, 1));
  return mover.check(beside.address(), t.granule, 2);
}

/// A range of four units and a granule of two, for calls that are to be refused.
struct Scene {
  explicit Scene(Test &t) : range(t), granule(t) {}
  Outcome make(Test &t) {
    TRY(range.reserve(4 * t.granule, t.granule));
    return granule.create(2 * t.granule);
  }
  /// Nothing has changed: all of the range can be mapped, and the granule is mapped nowhere.
  Outcome intact(Test &t) {
    for (uint64_t i = 0; i < 4; i += 2) {
      Map map(t);
      TRY(map.map(range.address() + i * t.granule, 2 * t.granule, granule));
    }
    return {};
  }
  Range range;
  Granule granule;
};

REQUIRE("VM-008", vmm,
        "A map whose address, size or offset is no multiple of the granule is refused and changes "
        "nothing.") {
  Scene s(t);
  TRY(s.make(t));
  const uint64_t address = s.range.address(), half = t.granule / 2;
  REFUSED_AS(invalid_or_unsupported(), map, t.device, address + half, t.granule, s.granule.get(), 0,
             nullptr, 0);
  REFUSED_AS(invalid_or_unsupported(), map, t.device, address, half, s.granule.get(), 0, nullptr,
             0);
  REFUSED_AS(invalid_or_unsupported(), map, t.device, address, t.granule + half, s.granule.get(), 0,
             nullptr, 0);
  REFUSED_AS(invalid_or_unsupported(), map, t.device, address, t.granule, s.granule.get(), half,
             nullptr, 0);
  return s.intact(t);
}

REQUIRE("VM-009", vmm, "A map of no bytes is refused and changes nothing.") {
  Scene s(t);
  TRY(s.make(t));
  REFUSED_AS(invalid_or_unsupported(), map, t.device, s.range.address(), 0, s.granule.get(), 0,
             nullptr, 0);
  return s.intact(t);
}

REQUIRE("VM-010", vmm, "A map beyond the granule's end is refused and changes nothing.") {
  Scene s(t);
  TRY(s.make(t));
  const uint64_t address = s.range.address();
  REFUSED_AS(invalid_or_unsupported(), map, t.device, address, 3 * t.granule, s.granule.get(), 0,
             nullptr, 0);
  REFUSED_AS(invalid_or_unsupported(), map, t.device, address, 2 * t.granule, s.granule.get(),
             t.granule, nullptr, 0);
  REFUSED_AS(invalid_or_unsupported(), map, t.device, address, t.granule, s.granule.get(),
             2 * t.granule, nullptr, 0);
  REFUSED_AS(invalid_or_unsupported(), map, t.device, address, 2 * t.granule, s.granule.get(),
             0 - t.granule, nullptr, 0);
  return s.intact(t);
}

REQUIRE("VM-011", vmm, "A map that is not inside one reservation is refused and changes nothing.") {
  Scene s(t);
  TRY(s.make(t));
  const uint64_t end = s.range.address() + 4 * t.granule;
  REFUSED(map, t.device, end - t.granule, 2 * t.granule, s.granule.get(), 0, nullptr, 0);
  REFUSED(map, t.device, s.range.address() - t.granule, 2 * t.granule, s.granule.get(), 0, nullptr,
          0);
  uint64_t freed = 0;
  MUST(range_reserve, t.device, 4 * t.granule, t.granule, &freed);
  MUST(range_free, t.device, freed, 4 * t.granule);
  REFUSED(map, t.device, freed, 2 * t.granule, s.granule.get(), 0, nullptr, 0);
  return s.intact(t);
}

REQUIRE("VM-012", vmm, "A map where something is mapped is refused, and what is there stays.") {
  Range range(t);
  Granule there(t), other(t);
  Map map(t);
  Mover mover(t);
  TRY(range.reserve(4 * t.granule, t.granule));
  TRY(there.create(2 * t.granule));
  TRY(other.create(2 * t.granule));
  TRY(mover.make(2 * t.granule));
  TRY(map.map(range.address() + t.granule, 2 * t.granule, there));
  TRY(mover.write(map.address(), 2 * t.granule, 1));
  for (uint64_t i = 0; i < 3; ++i)
    REFUSED(map, t.device, range.address() + i * t.granule, 2 * t.granule, other.get(), 0, nullptr,
            0);
  TRY(mover.check(map.address(), 2 * t.granule, 1));
  TRY(map.unmap());
  return map.map(range.address(), 2 * t.granule, other);
}

REQUIRE("VM-013", vmm, "Unmap removes one map, and leaves its neighbours as they are.") {
  Range range(t);
  Granule granules[3] = {Granule(t), Granule(t), Granule(t)};
  Map maps[3] = {Map(t), Map(t), Map(t)};
  Mover mover(t);
  TRY(range.reserve(3 * t.granule, t.granule));
  TRY(mover.make(t.granule));
  for (uint64_t i = 0; i < 3; ++i) {
    TRY(granules[i].create(t.granule));
    TRY(maps[i].map(range.address() + i * t.granule, t.granule, granules[i]));
    TRY(mover.write(maps[i].address(), t.granule, i));
  }
  TRY(maps[1].unmap());
  TRY(mover.check(maps[0].address(), t.granule, 0));
  TRY(mover.check(maps[2].address(), t.granule, 2));
  TRY(granules[1].destroy());
  TRY(granules[1].create(t.granule));
  TRY(maps[1].map(range.address() + t.granule, t.granule, granules[1]));
  TRY(mover.write(maps[1].address(), t.granule, 5));
  TRY(mover.check(maps[0].address(), t.granule, 0));
  TRY(mover.check(maps[1].address(), t.granule, 5));
  return mover.check(maps[2].address(), t.granule, 2);
}

REQUIRE("VM-014", vmm,
        "Unmap of a part of a map, or of two maps at once, is refused, and they stay.") {
  Range range(t);
  Granule a(t), b(t);
  Map first(t), second(t);
  Mover mover(t);
  TRY(range.reserve(4 * t.granule, t.granule));
  TRY(a.create(2 * t.granule));
  TRY(b.create(2 * t.granule));
  TRY(mover.make(2 * t.granule));
  TRY(first.map(range.address(), 2 * t.granule, a));
  TRY(second.map(range.address() + 2 * t.granule, 2 * t.granule, b));
  TRY(mover.write(first.address(), 2 * t.granule, 1));
  TRY(mover.write(second.address(), 2 * t.granule, 2));
  REFUSED(unmap, t.device, range.address(), t.granule);
  REFUSED(unmap, t.device, range.address() + t.granule, t.granule);
  REFUSED(unmap, t.device, range.address(), 4 * t.granule);
  REFUSED(unmap, t.device, range.address() + t.granule, 2 * t.granule);
  TRY(mover.check(first.address(), 2 * t.granule, 1));
  return mover.check(second.address(), 2 * t.granule, 2);
}

REQUIRE("VM-015", vmm, "Unmap where nothing is mapped is refused.") {
  Range range(t);
  Granule granule(t);
  Map map(t);
  TRY(range.reserve(2 * t.granule, t.granule));
  REFUSED(unmap, t.device, range.address(), t.granule);
  TRY(granule.create(t.granule));
  TRY(map.map(range.address(), t.granule, granule));
  REFUSED(unmap, t.device, range.address() + t.granule, t.granule);
  TRY(map.unmap());
  REFUSED(unmap, t.device, range.address(), t.granule);
  return {};
}

REQUIRE("VM-016", needs(WEIR_CAP_MULTI_MAP),
        "With MULTI_MAP a granule is live at several addresses, and a write at one is read at the "
        "others.") {
  Granule granule(t);
  Range ranges[3] = {Range(t), Range(t), Range(t)};
  Map maps[3] = {Map(t), Map(t), Map(t)};
  Mover mover(t);
  TRY(granule.create(t.granule));
  TRY(mover.make(t.granule));
  for (uint64_t i = 0; i < 3; ++i) {
    TRY(ranges[i].reserve(t.granule, t.granule));
    TRY(maps[i].map(ranges[i].address(), t.granule, granule));
  }
  for (uint64_t i = 0; i < 3; ++i) {
    TRY(mover.write(maps[i].address(), t.granule, i));
    for (const Map &other : maps) TRY(mover.check(other.address(), t.granule, i));
  }
  TRY(maps[0].unmap());
  TRY(mover.check(maps[1].address(), t.granule, 2));
  REFUSED(granule_destroy, t.device, granule.get());
  return mover.check(maps[2].address(), t.granule, 2);
}

REQUIRE("VM-017", vmm, "Work enqueued after a map sees it, on a stream that is at work already.") {
  Mapped busy(t);
  Stream stream(t);
  Pinned staging(t);
  TRY(busy.make(4 * t.granule, t.granule));
  TRY(stream.create());
  TRY(staging.allocate(t.granule));
  for (uint64_t i = 0; i < 20; ++i) {
    make_pattern(staging.bytes(), i);
    Mapped mapped(t);
    for (int n = 0; n < 4; ++n) TRY(stream.fill(busy.address(), 7, 4 * t.granule));
    TRY(mapped.make(t.granule, t.granule));
    TRY(stream.copy(mapped.address(), staging.address(), t.granule));
    TRY(stream.synchronize());
    make_pattern(staging.bytes(), 1000);
    TRY(stream.copy(staging.address(), mapped.address(), t.granule));
    TRY(stream.synchronize());
    TRY(check_pattern(staging.bytes(), i, words("round ", i)));
  }
  return {};
}

REQUIRE("VM-018", vmm, "Maps come and go beside running work without disturbing it.") {
  Mapped busy(t);
  Mover mover(t);
  Stream stream(t);
  TRY(busy.make(2 * t.granule, t.granule));
  TRY(stream.create());
  TRY(mover.make(t.granule));
  for (uint64_t i = 0; i < 20; ++i) {
    TRY(mover.write(busy.address(), t.granule, i));
    for (int n = 0; n < 8; ++n)
      TRY(stream.copy(busy.address() + t.granule, busy.address(), t.granule));
    Mapped other(t);
    TRY(other.make(t.granule, t.granule));
    TRY(other.mapping.unmap());
    TRY(stream.synchronize());
    TRY(mover.check(busy.address() + t.granule, t.granule, i));
  }
  return {};
}

REQUIRE("VM-019", alone(vmm), "Mapping and unmapping take no memory of the device.") {
  uint64_t before = 0;
  Mapped mapped(t);
  TRY(mapped.make(4 * t.granule, t.granule));
  TRY(free_memory(t, &before));
  for (int i = 0; i < 500; ++i) {
    TRY(mapped.mapping.unmap());
    TRY(mapped.mapping.map(mapped.address(), 4 * t.granule, mapped.granule));
  }
  return memory_back(t, before);
}

REQUIRE("VM-020", vmm,
        "Granules side by side in a range, in any order, each show their own contents.") {
  constexpr uint64_t count = 16;
  const uint64_t used = std::max<uint64_t>(std::min(count, t.budget / t.granule), 2);
  Range range(t);
  std::vector<std::unique_ptr<Granule>> granules;
  std::vector<std::unique_ptr<Map>> maps(used);
  Mover mover(t);
  TRY(range.reserve(used * t.granule, t.granule));
  TRY(mover.make(t.granule));
  for (uint64_t i = 0; i < used; ++i) {
    granules.push_back(std::make_unique<Granule>(t));
    TRY(granules.back()->create(t.granule));
  }
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < used; ++i) std::swap(granules[i], granules[t.random.below(used)]);
    for (uint64_t i = 0; i < used; ++i) {
      maps[i] = std::make_unique<Map>(t);
      TRY(maps[i]->map(range.address() + i * t.granule, t.granule, *granules[i]));
      TRY(mover.write(maps[i]->address(), t.granule, granules[i]->get()));
    }
    for (uint64_t i = 0; i < used; ++i)
      TRY(mover.check(maps[i]->address(), t.granule, granules[i]->get()));
    maps.clear();
    maps.resize(used);
  }
  return {};
}

REQUIRE("VM-021", vmm,
        "A refused map leaves its granule free to be destroyed and its range to be freed.") {
  Scene s(t);
  TRY(s.make(t));
  REFUSED_AS(invalid_or_unsupported(), map, t.device, s.range.address(), 3 * t.granule,
             s.granule.get(), 0, nullptr, 0);
  TRY(s.granule.destroy());
  return s.range.free();
}

REQUIRE("VM-022", needs(WEIR_CAP_VMM, 2),
        "Maps of two devices do not mix: the same is asked of each, and each has its own.") {
  Mapped mine(t), theirs(t, t.other);
  Mover mover(t), other(t, t.other);
  weir_be_device about;
  TRY(t.describe(t.other, &about));
  if (about.granule == 0) return t.nothing("the other device has no granules");
  const uint64_t bytes = std::max(t.granule, about.granule);
  TRY(mine.make(bytes, bytes));
  TRY(theirs.make(bytes, bytes));
  TRY(mover.make(bytes));
  TRY(other.make(bytes));
  CHECK(mine.address() + bytes <= theirs.address() || theirs.address() + bytes <= mine.address(),
        "the maps of two devices overlap at ", mine.address(), " and ", theirs.address());
  TRY(mover.write(mine.address(), bytes, 1));
  TRY(other.write(theirs.address(), bytes, 2));
  TRY(mover.check(mine.address(), bytes, 1));
  return other.check(theirs.address(), bytes, 2);
}

REQUIRE("VM-023", needs(WEIR_CAP_MULTI_MAP),
        "With MULTI_MAP one stream's order holds across the addresses of a granule.") {
  constexpr uint64_t most = 64 << 10U;
  const uint64_t bytes = std::min(t.granule, most);
  Granule granule(t);
  Range first(t), second(t);
  Map a(t), b(t);
  Mover mover(t);
  Pinned out(t);
  TRY(granule.create(t.granule));
  TRY(first.reserve(t.granule, t.granule));
  TRY(second.reserve(t.granule, t.granule));
  TRY(a.map(first.address(), t.granule, granule));
  TRY(b.map(second.address(), t.granule, granule));
  TRY(mover.make(bytes));
  TRY(out.allocate(bytes));
  for (uint64_t i = 0; i < 50; ++i) {
    make_pattern(mover.staging.bytes(), i);
    const bool swap = i % 2 == 1;
    TRY(mover.stream.fill(swap ? a.address() : b.address(), 9, bytes));
    TRY(mover.stream.copy(swap ? b.address() : a.address(), mover.staging.address(), bytes));
    TRY(mover.stream.copy(out.address(), swap ? a.address() : b.address(), bytes));
    TRY(mover.stream.synchronize());
    TRY(check_pattern(out.bytes(), i, words("round ", i)));
  }
  return {};
}

REQUIRE("VM-024", lacks(WEIR_CAP_MAP_PART, WEIR_CAP_VMM),
        "Without MAP_PART a map of a part of a granule is NOT_SUPPORTED and changes nothing.") {
  Scene s(t);
  TRY(s.make(t));
  for (const uint64_t offset : {uint64_t{0}, t.granule}) {
    ANSWERS(WEIR_ERROR_NOT_SUPPORTED, map, t.device, s.range.address(), t.granule, s.granule.get(),
            offset, nullptr, 0);
  }
  return s.intact(t);
}

}  // namespace
}  // namespace weir::conformance
