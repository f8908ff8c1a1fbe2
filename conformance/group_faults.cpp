// SPDX-License-Identifier: Apache-2.0
//
// Running out, and going on after it. A device is filled only if it is small or the caller allows it;
// otherwise one request that is too large stands for it.
#include "conformance/fixtures.hpp"

#include <memory>

namespace weir::conformance {
namespace {

constexpr uint64_t small_device = uint64_t{1} << 30U;

bool may_fill(Test &t) {
  if (t.settings.allow_oom || t.about.memory_total <= small_device) return true;
  t.note("the device is not filled; --allow-oom would");
  return false;
}

/// Pieces as large as can be had, down to `least`, until nothing is left.
template <class Piece, class Make>
Outcome fill(Test &t, std::vector<std::unique_ptr<Piece>> &pieces, uint64_t least,
             const Make &make) {
  uint64_t bytes = t.about.memory_total / 8 / least * least;
  while (bytes >= least) {
    auto piece = std::make_unique<Piece>(t);
    const weir_result result = make(*piece, bytes);
    if (result == WEIR_SUCCESS) {
      pieces.push_back(std::move(piece));
      continue;
    }
    CHECK(result == WEIR_ERROR_DEVICE_OOM, "with ", pieces.size(), " pieces held, ", bytes,
          " bytes more are refused with ", result_name(result), ", wanted DEVICE_OOM");
    bytes = bytes / 2 / least * least;
  }
  return {};
}

REQUIRE("FA-001", alone(needs(WEIR_CAP_VMM)),
        "A device that is full answers DEVICE_OOM, keeps what it holds, and gives all of it again "
        "later.") {
  Mapped kept(t);
  Mover mover(t);
  TRY(kept.make(t.granule, t.granule));
  TRY(mover.make(t.granule));
  TRY(mover.write(kept.address(), t.granule, 1));
  weir_be_granule made = untouched;
  if (!may_fill(t)) {
    const uint64_t bytes = (t.about.memory_total / t.granule + 1) * t.granule;
    ANSWERS(WEIR_ERROR_DEVICE_OOM, granule_create, t.device, bytes, 0, &made);
    return mover.check(kept.address(), t.granule, 1);
  }
  uint64_t before = 0;
  TRY(free_memory(t, &before));
  size_t first_time = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Granule>> granules;
    TRY(fill(t, granules, t.granule, [&t](Granule &granule, uint64_t bytes) {
      weir_be_granule handle = untouched;
      const weir_result result = CALL(granule_create, t.device, bytes, 0, &handle);
      if (result == WEIR_SUCCESS) granule.adopt(handle);
      if (result != WEIR_SUCCESS && handle != untouched) return weir_result{WEIR_ERROR_INTERNAL};
      return result;
    }));
    ANSWERS(WEIR_ERROR_DEVICE_OOM, granule_create, t.device, t.granule, 0, &made);
    CHECK(made == untouched, "the refused call wrote ", made, " as a handle");
    TRY(mover.check(kept.address(), t.granule, 1));
    if (round == 0) first_time = granules.size();
    CHECK(granules.size() == first_time, "round ", round, " found room for ", granules.size(),
          " pieces, the first for ", first_time);
    granules.clear();
    TRY(memory_back(t, before));
  }
  return mover.check(kept.address(), t.granule, 1);
}

REQUIRE("FA-002", alone(),
        "Plain memory that has run out is DEVICE_OOM, and is there again when it is freed.") {
  Plain kept(t);
  Mover mover(t);
  TRY(kept.allocate(mib));
  TRY(mover.make(mib));
  TRY(mover.write(kept.address(), mib, 1));
  uint64_t address = untouched;
  if (!may_fill(t)) {
    ANSWERS(WEIR_ERROR_DEVICE_OOM, plain_allocate, t.device, t.about.memory_total + mib, 4096,
            &address);
    return mover.check(kept.address(), mib, 1);
  }
  uint64_t before = 0;
  TRY(free_memory(t, &before));
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Plain>> pieces;
    TRY(fill(t, pieces, mib / 4, [&t](Plain &piece, uint64_t bytes) {
      uint64_t where = untouched;
      const weir_result result = CALL(plain_allocate, t.device, bytes, 4096, &where);
      if (result == WEIR_SUCCESS) piece.adopt(where, bytes);
      if (result != WEIR_SUCCESS && where != untouched) return weir_result{WEIR_ERROR_INTERNAL};
      return result;
    }));
    ANSWERS(WEIR_ERROR_DEVICE_OOM, plain_allocate, t.device, mib / 4, 4096, &address);
    CHECK(address == untouched, "the refused call wrote ", address, " as an address");
    TRY(mover.check(kept.address(), mib, 1));
    pieces.clear();
    TRY(memory_back(t, before));
  }
  return mover.check(kept.address(), mib, 1);
}

REQUIRE("FA-003", alone(needs(WEIR_CAP_VMM)),
        "Memory that one kind of allocation gives back is there for the other kind.") {
  const uint64_t bytes = t.budget / t.granule * t.granule;
  for (int i = 0; i < 8; ++i) {
    {
      Granule granule(t);
      TRY(granule.create(std::max(bytes, t.granule)));
    }
    Plain plain(t);
    TRY(plain.allocate(std::max<uint64_t>(t.budget, 4096)));
  }
  return {};
}

REQUIRE("FA-004", needs(WEIR_CAP_VMM),
        "Any order of making, mapping, unmapping and ending leaves every byte where it belongs.") {
  struct Piece {
    std::unique_ptr<Granule> granule;
    std::unique_ptr<Map> map;
    uint64_t slot = 0, seed = 0;
  };
  const uint64_t slots = 16;
  const uint64_t count = std::max<uint64_t>(std::min<uint64_t>(t.budget / t.granule, 10), 2);
  const uint64_t bytes = std::min<uint64_t>(t.granule, 64 << 10U);
  std::vector<Piece> pieces(count);
  std::vector<bool> taken(slots, false);
  Range range(t);
  Mover mover(t);
  TRY(range.reserve(slots * t.granule, t.granule));
  TRY(mover.make(bytes));
  // The end of each piece's memory is looked at too, where a wrong size would show.
  const auto tail = [&](uint64_t address) { return address + t.granule - bytes; };
  for (uint64_t step = 1; step <= 600; ++step) {
    Piece &piece = pieces[t.random.below(count)];
    const uint64_t choice = t.random.below(8);
    if (piece.granule == nullptr) {
      piece.granule = std::make_unique<Granule>(t);
      piece.seed = 0;
      TRY(piece.granule->create(t.granule));
    } else if (piece.map == nullptr && choice == 0) {
      TRY(piece.granule->destroy());
      piece.granule.reset();
    } else if (piece.map == nullptr) {
      const uint64_t slot = t.random.below(slots);
      if (taken[slot]) {
        REFUSED(map, t.device, range.address() + slot * t.granule, t.granule, piece.granule->get(),
                0, nullptr, 0);
        continue;
      }
      piece.map = std::make_unique<Map>(t);
      piece.slot = slot;
      TRY(piece.map->map(range.address() + slot * t.granule, t.granule, *piece.granule));
      taken[slot] = true;
      if (piece.seed != 0) TRY(mover.check(tail(piece.map->address()), bytes, piece.seed));
    } else if (choice < 4) {
      piece.seed = step;
      TRY(mover.write(tail(piece.map->address()), bytes, step));
    } else if (choice < 5) {
      REFUSED(granule_destroy, t.device, piece.granule->get());
    } else {
      if (piece.seed != 0) TRY(mover.check(tail(piece.map->address()), bytes, piece.seed));
      TRY(piece.map->unmap());
      piece.map.reset();
      taken[piece.slot] = false;
    }
  }
  for (Piece &piece : pieces) {
    if (piece.map != nullptr && piece.seed != 0)
      TRY(mover.check(tail(piece.map->address()), bytes, piece.seed));
    piece.map.reset();
  }
  return {};
}

}  // namespace
}  // namespace weir::conformance
