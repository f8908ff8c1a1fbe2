// SPDX-License-Identifier: Apache-2.0
//
// Runs of many pieces, and runs with one fault at any place in them. A run that can't be done leaves everything as it
// was: places, granules, bytes, memory.
#include "conformance/walks.hpp"

#include <algorithm>
#include <memory>

namespace weir::conformance {
namespace {

constexpr uint64_t run_capabilities = WEIR_CAP_VMM | WEIR_CAP_MAP_RUN;

/// A range with a place for each piece of a run. Pieces have granules of their own, in turn where there are more pieces
/// than memory, which needs MULTI_MAP.
class LongRun {
 public:
  LongRun(Test &t, const DeviceFacts &device)
      : range(t, device.index), mover(t, device.index), t_(t), device_(device) {}
  ~LongRun() {
    if (!come_to_rest()) return;
    for (uint64_t i = 0; i < pieces.size(); ++i)
      if (mapped_[i]) t_.keep(unmap(i));
  }
  LongRun(const LongRun &) = delete;
  LongRun &operator=(const LongRun &) = delete;

  /// At most `count` pieces of `sizes` units in turn; fewer where the device has no room for them.
  Outcome make(uint64_t count, const std::vector<uint64_t> &sizes) {
    uint64_t left = device_.budget / device_.unit, bytes = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t units = sizes[i % sizes.size()];
      // Once one has no room, all that follow are granules that are there.
      if (units <= left && granules.size() == i) {
        left -= units;
        granules.push_back(std::make_unique<Granule>(t_, device_.index));
        sizes_.push_back(units * device_.unit);
        TRY(granules.back()->create(sizes_.back()));
      } else if (!device_.has(WEIR_CAP_MULTI_MAP)) {
        break;
      }
      const uint64_t which = i % granules.size();
      pieces.push_back({granules[which]->get(), 0, sizes_[which]});
      offsets_.push_back(bytes);
      bytes += sizes_[which];
    }
    mapped_.assign(pieces.size(), false);
    offsets_.push_back(bytes);
    TRY(range.reserve(bytes, device_.unit));
    return mover.make(end_bytes);
  }
  uint64_t count() const noexcept { return pieces.size(); }
  uint64_t at(uint64_t piece) const noexcept { return range.address() + offsets_[piece]; }
  uint64_t bytes(uint64_t first, uint64_t end) const noexcept {
    return offsets_[end] - offsets_[first];
  }
  /// The pieces [first, end) in one call.
  Outcome map(uint64_t first, uint64_t end) {
    Test &t = t_;
    MUST(map_run, device_.index, at(first), pieces.data() + first,
         static_cast<uint32_t>(end - first), nullptr, 0);
    std::fill(mapped_.begin() + index(first), mapped_.begin() + index(end), true);
    return {};
  }
  Outcome map_one(uint64_t piece) {
    Test &t = t_;
    MUST(map, device_.index, at(piece), pieces[piece].bytes, pieces[piece].granule, 0, nullptr, 0);
    mapped_[piece] = true;
    return {};
  }
  Outcome unmap(uint64_t piece) {
    Test &t = t_;
    mapped_[piece] = false;
    MUST(unmap, device_.index, at(piece), pieces[piece].bytes);
    return {};
  }
  Outcome unmap(uint64_t first, uint64_t end) {
    Test &t = t_;
    std::fill(mapped_.begin() + index(first), mapped_.begin() + index(end), false);
    MUST(unmap_run, device_.index, at(first), bytes(first, end));
    return {};
  }
  Outcome write(uint64_t piece) {
    return write_ends(mover, at(piece), pieces[piece].bytes, piece % granules.size());
  }
  Outcome check(uint64_t piece) {
    return in_shape(words("piece ", piece, " of ", count()),
                    check_ends(mover, at(piece), pieces[piece].bytes, piece % granules.size()));
  }
  Outcome write_all() {
    for (uint64_t i = 0; i < granules.size(); ++i) TRY(write(i));
    return {};
  }
  /// Those that are mapped.
  Outcome check_all() {
    for (uint64_t i = 0; i < count(); ++i)
      if (mapped_[i]) TRY(check(i));
    return {};
  }
  /// Granules that are mapped nowhere are destroyed, and made anew.
  Outcome renew() {
    for (uint64_t i = 0; i < granules.size(); ++i) {
      TRY(granules[i]->destroy());
      TRY(granules[i]->create(sizes_[i]));
    }
    for (uint64_t i = 0; i < count(); ++i) pieces[i].granule = granules[i % granules.size()]->get();
    return {};
  }

  Range range;
  std::vector<std::unique_ptr<Granule>> granules;
  std::vector<weir_be_piece> pieces;
  Mover mover;

 private:
  static std::ptrdiff_t index(uint64_t piece) { return static_cast<std::ptrdiff_t>(piece); }
  Test &t_;
  const DeviceFacts device_;
  std::vector<uint64_t> sizes_, offsets_;
  std::vector<bool> mapped_;
};

/// How what a run mapped goes.
enum class Going : uint8_t { at_once, one_by_one, in_cuts, from_the_end };

Outcome take_apart(Test &t, LongRun &run, Going going) {
  const uint64_t count = run.count();
  if (going == Going::at_once) return run.unmap(0, count);
  if (going == Going::in_cuts) {
    for (uint64_t first = 0; first < count;) {
      const uint64_t end = first + 1 + t.random.below(std::min<uint64_t>(count - first, 40));
      TRY(run.unmap(first, end));
      if (end < count) TRY(run.check(end));
      first = end;
    }
    return {};
  }
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t which = going == Going::one_by_one ? i : count - 1 - i;
    TRY(run.unmap(which));
    const bool more = i + 1 < count;
    if (more && i % 8 == 0) TRY(run.check(going == Going::one_by_one ? i + 1 : count - 2 - i));
  }
  return {};
}

Outcome long_run(Test &t, const DeviceFacts &device, uint64_t count, uint64_t number) {
  std::vector<uint64_t> sizes{1, 2, 1, 1};
  const uint64_t large = device.about.granule_large / device.unit;
  if (count <= 17 && large > 1 && large * ((count + 1) / 2) <= device.budget / device.unit)
    sizes = {1, large};
  LongRun run(t, device);
  TRY(run.make(count, sizes));
  const auto ways = {Going::at_once, Going::one_by_one, Going::in_cuts, Going::from_the_end};
  bool written = false;
  for (uint64_t i = 0; i < (count <= 17 ? 4U : 1U); ++i) {
    TRY(run.map(0, run.count()));
    if (!written) TRY(run.write_all());
    written = true;
    TRY(run.check_all());
    TRY(take_apart(t, run, *(ways.begin() + (number + i) % 4)));
  }
  // All places are free, and no granule is mapped anywhere.
  TRY(run.renew());
  TRY(run.map(0, run.count()));
  return run.unmap(0, run.count());
}

REQUIRE("VM-042", needs(run_capabilities),
        "Runs of one to 1,024 pieces of several sizes are mapped in order, and go in any way.") {
  return each_device(t, run_capabilities, [&](const DeviceFacts &device) -> Outcome {
    uint64_t number = 0;
    for (const uint64_t count : {1, 2, 15, 16, 17, 64, 255, 256, 1024})
      TRY(in_shape(words("a run of ", count), long_run(t, device, count, ++number)));
    return {};
  });
}

// ---- faults

constexpr uint64_t row_length = 9;

/// One thing that is wrong with a piece, or with the call.
enum class RunFault : uint8_t {
  taken,    ///< something is mapped at its place
  twice,    ///< its granule is mapped elsewhere, without MULTI_MAP
  none,     ///< the granule 0
  half,     ///< bytes that are no multiple of the granule
  nothing,  ///< no bytes
  uneven,   ///< an offset that is no multiple
  beyond,   ///< an offset beyond its granule
  longer,   ///< more bytes than its granule has
  no_peer,  ///< a peer that does not exist
};
struct NamedFault {
  RunFault fault;
  const char *name;
};
constexpr NamedFault run_faults[] = {
    {RunFault::taken, "whose place is taken"},
    {RunFault::twice, "that is mapped elsewhere"},
    {RunFault::none, "of no granule"},
    {RunFault::half, "of one and a half units"},
    {RunFault::nothing, "of no bytes"},
    {RunFault::uneven, "with half a unit as offset"},
    {RunFault::beyond, "beyond its granule"},
    {RunFault::longer, "longer than its granule"},
    {RunFault::no_peer, "for a peer that does not exist"},
};

/// A map_run of nine pieces of which number k has the fault; nothing of it has happened.
Outcome faulty_run(Test &t, const DeviceFacts &device, LongRun &run, RunFault fault, uint64_t k) {
  Granule there(t, device.index), own(t, device.index);
  Range elsewhere(t, device.index);
  Map taken(t, device.index), first(t, device.index);
  std::vector<weir_be_piece> wrong = run.pieces;
  const uint32_t no_device = t.no_device();
  uint32_t others = 0;
  switch (fault) {
    case RunFault::taken:
      TRY(there.create(device.unit));
      TRY(taken.map(run.at(k), device.unit, there));
      TRY(write_ends(run.mover, run.at(k), device.unit, 77));
      break;
    case RunFault::twice:
      TRY(own.create(device.unit));
      TRY(elsewhere.reserve(device.unit, device.unit));
      TRY(first.map(elsewhere.address(), device.unit, own));
      wrong[k].granule = own.get();
      break;
    case RunFault::none:
      wrong[k].granule = 0;
      break;
    case RunFault::half:
      wrong[k].bytes += device.unit / 2;
      break;
    case RunFault::nothing:
      wrong[k].bytes = 0;
      break;
    case RunFault::uneven:
      wrong[k].offset = device.unit / 2;
      break;
    case RunFault::beyond:
      wrong[k].offset = wrong[k].bytes;
      break;
    case RunFault::longer:
      wrong[k].bytes *= 2;
      break;
    case RunFault::no_peer:
      others = 1;
      break;
  }
  REFUSED_ONE_WAY_OR_OTHER(map_run, device.index, run.at(0), wrong.data(), row_length,
                           others != 0 ? &no_device : nullptr, others);
  TRY(told_a_code(t));
  if (fault == RunFault::taken) {
    TRY(check_ends(run.mover, run.at(k), device.unit, 77));
    TRY(taken.unmap());
  }
  // Whatever the refused call left would be in the way of one of these.
  TRY(run.map(0, row_length));
  TRY(run.unmap(0, row_length));
  return run.renew();
}

REQUIRE(
    "VM-043", alone(needs(run_capabilities)),
    "A run of which any one piece can't be mapped maps none of them, and leaves nothing behind.") {
  return each_device(t, run_capabilities, [&](const DeviceFacts &device) -> Outcome {
    LongRun run(t, device);
    TRY(run.make(row_length, {1}));
    CHECK(run.count() == row_length, "the device has no room for ", row_length, " granules");
    const Holdings held = holdings();
    uint64_t before = 0, after = 0;
    TRY(free_bytes_of(t, device.index, &before));
    for (const auto &[fault, name] : run_faults) {
      if (fault == RunFault::twice && device.has(WEIR_CAP_MULTI_MAP)) continue;
      for (uint64_t k = 0; k < row_length; ++k)
        TRY(in_shape(words("piece ", k, " ", name), faulty_run(t, device, run, fault, k)));
    }
    // The last piece beyond the end of the range.
    for (uint64_t k = 1; k < row_length; ++k) {
      REFUSED(map_run, device.index, run.at(k), run.pieces.data(), row_length, nullptr, 0);
      TRY(run.map(0, row_length));
      TRY(run.unmap(0, row_length));
    }
    TRY(run.renew());
    TRY(free_bytes_of(t, device.index, &after));
    CHECK(after + device.slack >= before, "of ", before, " free bytes ", after, " are left");
    return holdings_back(held, 4);
  });
}

/// Nine places mapped in different ways, the fifth of them of two units.
Outcome map_mixed(LongRun &run) {
  TRY(run.map(0, 3));
  TRY(run.map_one(3));
  TRY(run.map(4, 6));
  TRY(run.map_one(6));
  return run.map(7, row_length);
}

REQUIRE(
    "VM-044", needs(run_capabilities),
    "An unmap of a run with a gap, a part or an end anywhere in it that is none removes nothing.") {
  return each_device(t, run_capabilities, [&](const DeviceFacts &device) -> Outcome {
    LongRun run(t, device);
    const uint64_t unit = device.unit;
    const uint32_t index = device.index;
    TRY(run.make(row_length, {1, 1, 1, 1, 2}));
    CHECK(run.count() == row_length, "the device has no room for ", row_length, " granules");
    TRY(map_mixed(run));
    TRY(run.write_all());
    const uint64_t all = run.bytes(0, row_length);
    for (uint64_t k = 0; k < row_length; ++k) {
      const auto refused = [&](uint64_t address, uint64_t bytes) -> Outcome {
        REFUSED(unmap_run, index, address, bytes);
        return told_a_code(t);
      };
      TRY(run.unmap(k));
      TRY(in_shape(words("a gap at ", k), refused(run.at(0), all)));
      TRY(in_shape(words("a gap at ", k, ", at the end"), refused(run.at(0), run.bytes(0, k + 1))));
      TRY(in_shape(words("a gap at ", k, ", at once"),
                   refused(run.at(k), run.bytes(k, row_length))));
      TRY(run.check_all());
      TRY(run.map_one(k));
      TRY(in_shape(words("half of piece ", k), refused(run.at(0), run.bytes(0, k) + unit / 2)));
      TRY(in_shape(words("from the midst of piece ", k),
                   refused(run.at(k) + unit / 2, run.bytes(k, row_length) - unit / 2)));
      if (run.pieces[k].bytes > unit) {
        TRY(in_shape(words("a part of piece ", k), refused(run.at(0), run.bytes(0, k) + unit)));
        TRY(in_shape(words("but a part of piece ", k),
                     refused(run.at(k) + unit, run.bytes(k, row_length) - unit)));
      }
      // Addresses that go round: to the range's own start, and to a piece before this one.
      TRY(in_shape(words("round, from piece ", k), refused(run.at(k), 0 - run.bytes(0, k))));
      TRY(in_shape(words("to the end of addresses, from piece ", k),
                   refused(run.at(k), 0 - run.at(k))));
      TRY(run.check_all());
    }
    REFUSED(unmap_run, index, run.at(0), all + unit);
    REFUSED(unmap_run, index, run.at(0) - unit, all + unit);
    TRY(run.check_all());
    return run.unmap(0, row_length);
  });
}

}  // namespace
}  // namespace weir::conformance
