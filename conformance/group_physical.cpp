// SPDX-License-Identifier: Apache-2.0
//
// Physical memory: granules as such, before anything is mapped.
#include "conformance/fixtures.hpp"

#include <memory>
#include <set>

namespace weir::conformance {
namespace {

/// A number of granules that takes `part` of what the test may hold; at least one.
uint64_t granules_in(const Test &t, uint64_t divisor) {
  return std::max<uint64_t>(t.budget / divisor / t.granule, 1);
}

REQUIRE("PM-001", vmm,
        "A granule of one unit can be made and destroyed, and its handle is not 0.") {
  weir_be_granule made = 0;
  MUST(granule_create, t.device, t.granule, 0, &made);
  CHECK(made != 0, "the handle of a granule is 0, which is none");
  MUST(granule_destroy, t.device, made);
  return {};
}

REQUIRE("PM-002", vmm, "Granules of every multiple of the unit can be made.") {
  for (const uint64_t units : {2, 3, 5, 8}) {
    if (units * t.granule > t.about.memory_total / 2) break;
    Granule granule(t);
    TRY(granule.create(units * t.granule));
  }
  return {};
}

REQUIRE("PM-003", vmm, "A granule whose size is no multiple of the unit is refused.") {
  for (const uint64_t bytes : {t.granule - 1, t.granule + 1, t.granule / 2, uint64_t{1}}) {
    weir_be_granule made = untouched;
    REFUSED(granule_create, t.device, bytes, 0, &made);
    CHECK(made == untouched, "the refused call wrote ", made, " as a handle");
  }
  return {};
}

REQUIRE("PM-004", vmm, "A granule of no bytes is refused.") {
  weir_be_granule made = untouched;
  REFUSED(granule_create, t.device, 0, 0, &made);
  CHECK(made == untouched, "the refused call wrote ", made, " as a handle");
  return {};
}

REQUIRE("PM-005", vmm, "Granules that live at the same time have different handles.") {
  std::set<weir_be_granule> handles;
  std::vector<std::unique_ptr<Granule>> granules;
  const uint64_t count = std::min<uint64_t>(granules_in(t, 2), 64);
  for (uint64_t i = 0; i < count; ++i) {
    granules.push_back(std::make_unique<Granule>(t));
    TRY(granules.back()->create(t.granule));
    CHECK(handles.insert(granules.back()->get()).second, "two living granules have the handle ",
          granules.back()->get());
  }
  return {};
}

REQUIRE("PM-006", lacks(WEIR_CAP_EXPORT_FD, WEIR_CAP_VMM),
        "Without EXPORT_FD a granule that is to be exported as a descriptor is NOT_SUPPORTED.") {
  weir_be_granule made = untouched;
  ANSWERS(WEIR_ERROR_NOT_SUPPORTED, granule_create, t.device, t.granule, WEIR_BE_GRANULE_EXPORT_FD,
          &made);
  CHECK(made == untouched, "the refused call wrote ", made, " as a handle");
  return {};
}

REQUIRE("PM-007", lacks(WEIR_CAP_EXPORT_FABRIC, WEIR_CAP_VMM),
        "Without EXPORT_FABRIC a granule that is to be exported over a fabric is NOT_SUPPORTED.") {
  weir_be_granule made = untouched;
  ANSWERS(WEIR_ERROR_NOT_SUPPORTED, granule_create, t.device, t.granule,
          WEIR_BE_GRANULE_EXPORT_FABRIC, &made);
  CHECK(made == untouched, "the refused call wrote ", made, " as a handle");
  return {};
}

REQUIRE("PM-008", vmm, "A flag of granules that nobody knows is refused.") {
  weir_be_granule made = untouched;
  REFUSED_AS(invalid_or_unsupported(), granule_create, t.device, t.granule, uint64_t{1} << 60U,
             &made);
  CHECK(made == untouched, "the refused call wrote ", made, " as a handle");
  return {};
}

REQUIRE("PM-009", vmm, "A granule larger than the device is DEVICE_OOM, and changes nothing.") {
  const uint64_t bytes = (t.about.memory_total / t.granule + 1) * t.granule;
  weir_be_granule made = untouched;
  ANSWERS(WEIR_ERROR_DEVICE_OOM, granule_create, t.device, bytes, 0, &made);
  CHECK(made == untouched, "the refused call wrote ", made, " as a handle");
  Granule after(t);
  return after.create(t.granule);
}

REQUIRE("PM-010", alone(vmm), "Free memory goes down by what granules hold.") {
  const uint64_t bytes = granules_in(t, 2) * t.granule;
  uint64_t before = 0, during = 0;
  Granule warm(t);
  TRY(warm.create(t.granule));
  TRY(free_memory(t, &before));
  Granule granule(t);
  TRY(granule.create(bytes));
  TRY(free_memory(t, &during));
  CHECK(during <= before && before - during + t.slack >= bytes, "a granule of ", bytes,
        " bytes: ", before, " bytes were free before it and ", during, " with it");
  return {};
}

REQUIRE("PM-011", alone(vmm), "Destroying granules gives their memory back.") {
  uint64_t before = 0;
  {
    Granule warm(t);
    TRY(warm.create(t.granule));
  }
  TRY(free_memory(t, &before));
  // So many that what is not given back shows, whatever the runtime keeps for itself.
  const uint64_t bytes = granules_in(t, 8) * t.granule;
  const uint64_t rounds = std::max<uint64_t>(4, 3 * t.slack / bytes + 1);
  for (uint64_t i = 0; i < rounds; ++i) {
    Granule granule(t);
    TRY(granule.create(bytes));
    TRY(granule.destroy());
  }
  return memory_back(t, before);
}

REQUIRE("PM-012", vmm, "A granule that is mapped is not destroyed, and stays as it was.") {
  Mapped mapped(t);
  Mover mover(t);
  TRY(mapped.make(t.granule, t.granule));
  TRY(mover.make(t.granule));
  TRY(mover.write(mapped.address(), t.granule, 1));
  REFUSED(granule_destroy, t.device, mapped.granule.get());
  return mover.check(mapped.address(), t.granule, 1);
}

REQUIRE("PM-013", vmm, "Granules do not share memory.") {
  const uint64_t count = std::min<uint64_t>(granules_in(t, 2), 8);
  std::vector<std::unique_ptr<Mapped>> all;
  Mover mover(t);
  TRY(mover.make(t.granule));
  for (uint64_t i = 0; i < count; ++i) {
    all.push_back(std::make_unique<Mapped>(t));
    TRY(all.back()->make(t.granule, t.granule));
    TRY(mover.write(all.back()->address(), t.granule, i));
  }
  for (uint64_t i = 0; i < count; ++i) TRY(mover.check(all[i]->address(), t.granule, i));
  return {};
}

REQUIRE("PM-014", vmm,
        "A granule of the large unit can be made, mapped and used to its last byte.") {
  const uint64_t bytes = t.about.granule_large;
  if (bytes == 0 || bytes > t.budget)
    return t.nothing("no large unit, or none that a test may hold");
  Mapped mapped(t);
  Mover mover(t);
  TRY(mapped.make(bytes, t.granule));
  TRY(mover.make(t.granule));
  TRY(mover.write(mapped.address(), t.granule, 1));
  TRY(mover.write(mapped.address() + bytes - t.granule, t.granule, 2));
  TRY(mover.check(mapped.address(), t.granule, 1));
  return mover.check(mapped.address() + bytes - t.granule, t.granule, 2);
}

REQUIRE("PM-015", vmm, "No granule is made on a device that does not exist.") {
  weir_be_granule made = untouched;
  REFUSED(granule_create, t.no_device(), t.granule, 0, &made);
  CHECK(made == untouched, "the refused call wrote ", made, " as a handle");
  return {};
}

REQUIRE("PM-016", vmm, "The handle 0 is none: it is neither mapped nor destroyed.") {
  Range range(t);
  TRY(range.reserve(t.granule, t.granule));
  REFUSED(map, t.device, range.address(), t.granule, 0, 0, nullptr, 0);
  REFUSED(granule_destroy, t.device, 0);
  return {};
}

REQUIRE("PM-017", vmm, "The pieces of a granule of several units are all memory of their own.") {
  const uint64_t units = std::min<uint64_t>(granules_in(t, 1), 8);
  Mapped mapped(t);
  Mover mover(t);
  TRY(mapped.make(units * t.granule, t.granule));
  TRY(mover.make(t.granule));
  for (uint64_t i = 0; i < units; ++i)
    TRY(mover.write(mapped.address() + i * t.granule, t.granule, i));
  for (uint64_t i = 0; i < units; ++i)
    TRY(mover.check(mapped.address() + i * t.granule, t.granule, i));
  return {};
}

REQUIRE("PM-018", alone(needs(WEIR_CAP_VMM, 2)),
        "A granule is taken from the device that is named, and from no other.") {
  const uint64_t bytes = granules_in(t, 2) * t.granule;
  uint64_t before = 0, during = 0;
  Granule warm(t, t.other), granule(t, t.other);
  TRY(warm.create(t.granule));
  TRY(free_memory(t, &before));
  TRY(granule.create(bytes));
  TRY(free_memory(t, &during));
  CHECK(during + t.slack >= before, "a granule of ", bytes, " bytes on device ", t.other, ": of ",
        before, " bytes that were free on device ", t.device, ", ", during, " are left");
  return {};
}

}  // namespace
}  // namespace weir::conformance
