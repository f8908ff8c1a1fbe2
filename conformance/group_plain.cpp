// SPDX-License-Identifier: Apache-2.0
//
// Plain memory: what every device has, with VMM or without.
#include "conformance/fixtures.hpp"

#include <algorithm>
#include <memory>

namespace weir::conformance {
namespace {

Outcome refused(Test &t, uint64_t bytes, uint64_t alignment, const Want &want = invalid()) {
  uint64_t address = untouched;
  REFUSED_AS(want, plain_allocate, t.device, bytes, alignment, &address);
  CHECK(address == untouched, "the refused call wrote ", address, " as an address");
  return {};
}

REQUIRE("PL-001", always(), "Plain memory has an address at once and holds what is copied to it.") {
  Plain plain(t);
  Mover mover(t);
  TRY(plain.allocate(mib));
  CHECK(plain.address() != 0, "the address is 0");
  TRY(mover.make(mib));
  TRY(mover.write(plain.address(), mib, 1));
  return mover.check(plain.address(), mib, 1);
}

REQUIRE("PL-002", always(),
        "The alignment asked for is kept, for every power of two up to 2 MiB.") {
  for (uint64_t alignment = 1; alignment <= 2 * mib; alignment *= 2) {
    Plain first(t), second(t);
    TRY(first.allocate(100, alignment));
    TRY(second.allocate(5000, alignment));
    for (const uint64_t address : {first.address(), second.address()})
      CHECK(address % alignment == 0, address, " is not aligned to ", alignment);
  }
  return {};
}

REQUIRE("PL-003", always(), "Memory of any size can be used to its last byte.") {
  Mover mover(t);
  TRY(mover.make(2 * mib));
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{3}, uint64_t{511}, uint64_t{4095},
                               uint64_t{4096}, uint64_t{4097}, mib - 1, mib + 1}) {
    Plain plain(t);
    TRY(plain.allocate(bytes, 256));
    TRY(mover.write(plain.address(), bytes, bytes));
    TRY(mover.check(plain.address(), bytes, bytes));
  }
  return {};
}

REQUIRE("PL-004", always(), "Memory of no bytes is refused.") { return refused(t, 0, 4096); }

REQUIRE("PL-005", always(), "An alignment that is no power of two is refused.") {
  for (const uint64_t alignment : {uint64_t{0}, uint64_t{3}, uint64_t{4097}, 3 * mib / 2})
    TRY(refused(t, 4096, alignment));
  return {};
}

REQUIRE(
    "PL-006", always(),
    "Pieces that live at the same time do not share memory, in any order of coming and going.") {
  constexpr uint64_t most = 64 << 10U;
  struct Piece {
    std::unique_ptr<Plain> memory;
    uint64_t seed = 0;
  };
  std::vector<Piece> pieces(24);
  Mover mover(t);
  TRY(mover.make(most));
  for (uint64_t step = 0; step < 300; ++step) {
    Piece &piece = pieces[t.random.below(pieces.size())];
    if (piece.memory != nullptr) {
      TRY(mover.check(piece.memory->address(), piece.memory->bytes(), piece.seed));
      TRY(piece.memory->free());
      piece.memory.reset();
      continue;
    }
    piece.memory = std::make_unique<Plain>(t);
    piece.seed = step;
    TRY(piece.memory->allocate(1 + t.random.below(most), uint64_t{1} << t.random.below(13)));
    TRY(mover.write(piece.memory->address(), piece.memory->bytes(), piece.seed));
  }
  for (const Piece &piece : pieces) {
    if (piece.memory != nullptr)
      TRY(mover.check(piece.memory->address(), piece.memory->bytes(), piece.seed));
  }
  return {};
}

REQUIRE("PL-007", alone(), "Freeing gives the memory back.") {
  uint64_t before = 0;
  {
    Plain warm(t);
    TRY(warm.allocate(mib));
  }
  TRY(free_memory(t, &before));
  const uint64_t bytes = std::max<uint64_t>(t.budget / 8, 4096);
  const uint64_t rounds = std::max<uint64_t>(8, 3 * t.slack / bytes + 1);
  for (uint64_t i = 0; i < rounds; ++i) {
    Plain plain(t);
    TRY(plain.allocate(bytes - i));
  }
  return memory_back(t, before);
}

REQUIRE("PL-008", alone(), "Free memory goes down by what plain memory holds.") {
  const uint64_t bytes = t.budget / 2;
  uint64_t before = 0, during = 0;
  Plain warm(t), plain(t);
  TRY(warm.allocate(4096));
  TRY(free_memory(t, &before));
  TRY(plain.allocate(bytes));
  TRY(free_memory(t, &during));
  CHECK(during <= before && before - during + t.slack >= bytes, bytes, " bytes of memory: ", before,
        " bytes were free before and ", during, " with it");
  return {};
}

REQUIRE("PL-009", always(), "More memory than the device has is DEVICE_OOM, and changes nothing.") {
  uint64_t address = untouched;
  ANSWERS(WEIR_ERROR_DEVICE_OOM, plain_allocate, t.device, t.about.memory_total + mib, 4096,
          &address);
  CHECK(address == untouched, "the refused call wrote ", address, " as an address");
  Plain after(t);
  return after.allocate(mib);
}

REQUIRE("PL-010", always(), "An absurd amount of memory is refused.") {
  for (const uint64_t bytes : {UINT64_MAX, UINT64_MAX - 4095, uint64_t{1} << 63U})
    TRY(refused(t, bytes, 4096, invalid_or_out_of_memory()));
  Plain after(t);
  return after.allocate(mib);
}

REQUIRE("PL-011", always(), "No memory is given on a device that does not exist.") {
  uint64_t address = untouched;
  REFUSED(plain_allocate, t.no_device(), 4096, 4096, &address);
  CHECK(address == untouched, "the refused call wrote ", address, " as an address");
  return {};
}

REQUIRE("PL-012", needs(WEIR_CAP_VMM), "Plain memory and mapped granules do not share memory.") {
  Plain plain(t);
  Mapped mapped(t);
  Mover mover(t);
  TRY(plain.allocate(t.granule));
  TRY(mapped.make(t.granule, t.granule));
  TRY(mover.make(t.granule));
  TRY(mover.write(plain.address(), t.granule, 1));
  TRY(mover.write(mapped.address(), t.granule, 2));
  TRY(mover.check(plain.address(), t.granule, 1));
  return mover.check(mapped.address(), t.granule, 2);
}

REQUIRE("PL-013", needs(0, 2), "Every device gives memory of its own.") {
  std::vector<std::unique_ptr<Plain>> all;
  Mover mover(t);
  for (uint32_t i = 0; i < t.device_count; ++i) {
    Mover each(t, i);
    all.push_back(std::make_unique<Plain>(t, i));
    TRY(all.back()->allocate(mib));
    TRY(each.make(mib));
    TRY(each.write(all.back()->address(), mib, i));
  }
  for (uint32_t i = 0; i < t.device_count; ++i) {
    Mover each(t, i);
    TRY(each.make(mib));
    TRY(each.check(all[i]->address(), mib, i));
  }
  return {};
}

REQUIRE("PL-014", alone(needs(0, 2)),
        "Memory is taken from the device that is named, and from no other.") {
  const uint64_t bytes = t.budget / 2;
  uint64_t before = 0, during = 0;
  Plain warm(t, t.other), plain(t, t.other);
  TRY(warm.allocate(4096));
  TRY(free_memory(t, &before));
  TRY(plain.allocate(bytes));
  TRY(free_memory(t, &during));
  CHECK(during + t.slack >= before, bytes, " bytes of memory on device ", t.other, ": of ", before,
        " bytes that were free on device ", t.device, ", ", during, " are left");
  return {};
}

}  // namespace
}  // namespace weir::conformance
