// SPDX-License-Identifier: Apache-2.0
//
// Reservations of addresses, without memory behind them.
#include "conformance/fixtures.hpp"

#include <algorithm>
#include <memory>

namespace weir::conformance {
namespace {

/// Whether the device can reserve that much, as far as it tells.
bool plenty(const Test &t, uint64_t bytes) {
  return t.about.address_space == 0 || bytes <= t.about.address_space / 2;
}

Outcome range_refused(Test &t, uint64_t bytes, uint64_t alignment, const Want &want = invalid()) {
  uint64_t address = untouched;
  REFUSED_AS(want, range_reserve, t.device, bytes, alignment, &address);
  CHECK(address == untouched, "the refused call wrote ", address, " as an address");
  return {};
}

REQUIRE("AR-001", vmm,
        "A range of addresses can be reserved and freed, and its address is not 0.") {
  uint64_t address = 0;
  MUST(range_reserve, t.device, 4 * t.granule, t.granule, &address);
  CHECK(address != 0, "the reserved address is 0");
  CHECK(address % t.granule == 0, "the address ", address, " is no multiple of the granule");
  MUST(range_free, t.device, address, 4 * t.granule);
  return {};
}

REQUIRE("AR-002", vmm, "The alignment asked for is kept, up to 1 GiB.") {
  for (uint64_t alignment = t.granule; alignment <= uint64_t{1} << 30U; alignment *= 2) {
    Range first(t), second(t);
    TRY(first.reserve(t.granule, alignment));
    TRY(second.reserve(3 * t.granule, alignment));
    for (const uint64_t address : {first.address(), second.address()})
      CHECK(address % alignment == 0, address, " is not aligned to ", alignment);
  }
  return {};
}

REQUIRE("AR-003", vmm, "Ranges that live at the same time do not overlap.") {
  std::vector<std::unique_ptr<Range>> ranges;
  for (uint64_t i = 0; i < 64; ++i) {
    ranges.push_back(std::make_unique<Range>(t));
    TRY(ranges.back()->reserve((1 + t.random.below(8)) * t.granule, t.granule));
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const auto &a, const auto &b) { return a->address() < b->address(); });
  for (size_t i = 1; i < ranges.size(); ++i) {
    CHECK(ranges[i - 1]->address() + ranges[i - 1]->bytes() <= ranges[i]->address(),
          "the range at ", ranges[i - 1]->address(), " of ", ranges[i - 1]->bytes(),
          " bytes reaches into the one at ", ranges[i]->address());
  }
  return {};
}

REQUIRE("AR-004", vmm, "A range of no bytes is refused.") { return range_refused(t, 0, t.granule); }

REQUIRE("AR-005", vmm, "A range whose size is no multiple of the granule is refused.") {
  for (const uint64_t bytes : {t.granule - 1, t.granule + 1, t.granule / 2})
    TRY(range_refused(t, bytes, t.granule));
  return {};
}

REQUIRE("AR-006", vmm,
        "An alignment that is no power of two, or less than the granule, is refused.") {
  for (const uint64_t alignment : {3 * t.granule, uint64_t{0}, t.granule / 2, uint64_t{1}})
    TRY(range_refused(t, t.granule, alignment));
  return {};
}

REQUIRE("AR-007", alone(vmm),
        "A range takes no memory of the device, also when it is larger than the device.") {
  const uint64_t bytes = (t.about.memory_total / t.granule + 1) * t.granule;
  if (!plenty(t, bytes)) return t.nothing("the device has not so many addresses");
  uint64_t before = 0, during = 0;
  TRY(free_memory(t, &before));
  Range range(t);
  TRY(range.reserve(bytes, t.granule));
  TRY(free_memory(t, &during));
  CHECK(during + t.slack >= before, "free memory went from ", before, " to ", during);
  return {};
}

REQUIRE("AR-008", vmm, "Freed addresses can be reserved again, any number of times.") {
  const uint64_t bytes = 64 * t.granule;
  for (int i = 0; i < 2000; ++i) {
    Range range(t);
    TRY(range.reserve(bytes, t.granule));
    TRY(range.free());
  }
  return {};
}

REQUIRE(
    "AR-009", vmm,
    "A range is freed as it was reserved only: another size or address is refused, and it stays.") {
  Mapped mapped(t);
  Range range(t);
  Granule granule(t);
  TRY(range.reserve(4 * t.granule, t.granule));
  REFUSED(range_free, t.device, range.address(), 2 * t.granule);
  REFUSED(range_free, t.device, range.address() + t.granule, 3 * t.granule);
  TRY(granule.create(t.granule));
  for (uint64_t i = 0; i < 4; ++i) {
    Map map(t);
    TRY(map.map(range.address() + i * t.granule, t.granule, granule));
  }
  return {};
}

REQUIRE("AR-010", vmm,
        "A range in which something is mapped is not freed, and what is mapped stays.") {
  Mapped mapped(t);
  Mover mover(t);
  TRY(mapped.make(t.granule, t.granule));
  TRY(mover.make(t.granule));
  TRY(mover.write(mapped.address(), t.granule, 1));
  REFUSED(range_free, t.device, mapped.address(), t.granule);
  return mover.check(mapped.address(), t.granule, 1);
}

REQUIRE("AR-011", vmm, "Addresses that were never reserved are not freed.") {
  Plain plain(t);
  TRY(plain.allocate(t.granule, std::min<uint64_t>(t.granule, 2 << 20U)));
  REFUSED(range_free, t.device, plain.address(), t.granule);
  return {};
}

REQUIRE("AR-012", vmm,
        "More addresses than there can be are refused, and the next range is given.") {
  TRY(range_refused(t, uint64_t{1} << 62U, t.granule, Want::any_error()));
  Range range(t);
  return range.reserve(t.granule, t.granule);
}

REQUIRE("AR-013", vmm, "No addresses are reserved on a device that does not exist.") {
  uint64_t address = untouched;
  REFUSED(range_reserve, t.no_device(), t.granule, t.granule, &address);
  CHECK(address == untouched, "the refused call wrote ", address, " as an address");
  return {};
}

REQUIRE("AR-014", vmm, "All of a large range can be mapped: its first and its last granule.") {
  const uint64_t bytes = 4096 * t.granule;
  if (!plenty(t, bytes)) return t.nothing("the device has not so many addresses");
  Range range(t);
  Granule first(t), last(t);
  Map low(t), high(t);
  Mover mover(t);
  TRY(range.reserve(bytes, t.granule));
  TRY(first.create(t.granule));
  TRY(last.create(t.granule));
  TRY(mover.make(t.granule));
  TRY(low.map(range.address(), t.granule, first));
  TRY(high.map(range.address() + bytes - t.granule, t.granule, last));
  TRY(mover.write(low.address(), t.granule, 1));
  TRY(mover.write(high.address(), t.granule, 2));
  TRY(mover.check(low.address(), t.granule, 1));
  return mover.check(high.address(), t.granule, 2);
}

}  // namespace
}  // namespace weir::conformance
