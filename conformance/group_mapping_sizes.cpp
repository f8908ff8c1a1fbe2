// SPDX-License-Identifier: Apache-2.0
//
// Maps of all sizes side by side in one range, against a model of what is where. A refused call leaves the model as it
// was; what the model says is looked at as bytes.
#include "conformance/walks.hpp"

#include <algorithm>
#include <iterator>
#include <memory>

namespace weir::conformance {
namespace {

/// A granule, and the place where it is mapped, if it is.
struct PackedPiece {
  PackedPiece(Test &t, uint32_t device, uint64_t units_)
      : units(units_), granule(t, device), map(t, device) {}
  uint64_t units;
  uint64_t place = 0;  ///< in units
  bool mapped = false;
  Granule granule;
  Map map;
};

/// A range of places and what is mapped there.
class Packed {
 public:
  Packed(Test &t, const DeviceFacts &device)
      : t_(t), device_(device), range_(t, device.index), mover_(t, device.index) {}

  Outcome make() {
    const uint64_t unit = device_.unit, large = device_.about.granule_large / unit;
    uint64_t left = device_.budget / unit;
    for (uint64_t i = 0; i < 40; ++i) {
      const uint64_t sizes[] = {1, 3, 1, 8, 2, 1};
      uint64_t units = sizes[i % 6];
      if (i == 3 && large != 0 && large <= left / 2) units = large;
      if (units > left) units = 1;
      if (left == 0) break;
      left -= units;
      total_ += units;
      pieces_.push_back(std::make_unique<PackedPiece>(t_, device_.index, units));
      TRY(pieces_.back()->granule.create(units * unit));
    }
    // Room for the pieces and a few gaps.
    total_ += 8;
    TRY(range_.reserve(total_ * unit, unit));
    return mover_.make(end_bytes);
  }

  /// Maps the piece at the first place that is large enough from `from` on, if there is one.
  Outcome put(PackedPiece &piece, uint64_t from) {
    for (uint64_t n = 0; n < total_; ++n) {
      const uint64_t place = (from + n) % total_;
      if (place + piece.units > total_ || !is_free(place, piece.units)) continue;
      TRY(piece.map.map(at(place), piece.units * device_.unit, piece.granule));
      piece.place = place;
      piece.mapped = true;
      if (!piece_has_bytes(piece)) return write(piece);
      return check(piece);
    }
    return {};
  }
  Outcome take(PackedPiece &piece) {
    TRY(piece.map.unmap());
    piece.mapped = false;
    return {};
  }
  /// Where the piece, mapped nowhere, does not fit: over the end of a gap.
  Outcome too_small(const PackedPiece &piece, uint64_t from) {
    Test &t = t_;
    for (uint64_t n = 0; n < total_; ++n) {
      const uint64_t place = (from + n) % total_;
      if (place + piece.units > total_) continue;
      if (is_free(place, piece.units)) continue;
      REFUSED(map, device_.index, at(place), piece.units * device_.unit, piece.granule.get(), 0,
              nullptr, 0);
      return told_a_code(t_);
    }
    return {};
  }
  /// Unmaps of something else than what one call mapped.
  Outcome wrong_unmaps(const PackedPiece &piece) {
    Test &t = t_;
    const uint64_t address = at(piece.place), unit = device_.unit;
    if (piece.units > 1) {
      REFUSED(unmap, device_.index, address, unit);
      REFUSED(unmap, device_.index, address + unit, (piece.units - 1) * unit);
    }
    const auto next = std::find_if(pieces_.begin(), pieces_.end(), [&](const auto &each) {
      return each->mapped && each->place == piece.place + piece.units;
    });
    if (next == pieces_.end()) return {};
    REFUSED(unmap, device_.index, address, (piece.units + (*next)->units) * unit);
    return told_a_code(t_);
  }
  Outcome check_all() {
    for (const auto &piece : pieces_)
      if (piece->mapped) TRY(check(*piece));
    return {};
  }
  PackedPiece &any() { return *pieces_[t_.random.below(pieces_.size())]; }
  uint64_t any_place() { return t_.random.below(total_); }

 private:
  uint64_t at(uint64_t place) const { return range_.address() + place * device_.unit; }
  bool is_free(uint64_t place, uint64_t units) const {
    return std::none_of(pieces_.begin(), pieces_.end(), [&](const auto &each) {
      return each->mapped && place < each->place + each->units && each->place < place + units;
    });
  }
  bool piece_has_bytes(const PackedPiece &piece) const {
    return std::find(written_.begin(), written_.end(), &piece) != written_.end();
  }
  Outcome write(PackedPiece &piece) {
    written_.push_back(&piece);
    return write_ends(mover_, at(piece.place), piece.units * device_.unit, piece.granule.get());
  }
  Outcome check(const PackedPiece &piece) {
    return in_shape(
        words("the piece of ", piece.units, " units at place ", piece.place),
        check_ends(mover_, at(piece.place), piece.units * device_.unit, piece.granule.get()));
  }

  Test &t_;
  const DeviceFacts device_;
  uint64_t total_ = 0;
  Range range_;
  std::vector<std::unique_ptr<PackedPiece>> pieces_;
  std::vector<const PackedPiece *> written_;
  Mover mover_;
};

REQUIRE("VM-040", vmm,
        "Maps of all sizes stand side by side, come and go in any order, and what does not fit is "
        "refused.") {
  return each_device(t, WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
    Packed packed(t, device);
    TRY(packed.make());
    for (int step = 1; step <= 300; ++step) {
      PackedPiece &piece = packed.any();
      if (piece.mapped) {
        TRY(packed.wrong_unmaps(piece));
        if (t.random.below(2) == 0) TRY(packed.take(piece));
      } else {
        TRY(packed.too_small(piece, packed.any_place()));
        TRY(packed.put(piece, packed.any_place()));
      }
      if (step % 50 == 0) TRY(in_shape(words("step ", step), packed.check_all()));
    }
    return packed.check_all();
  });
}

REQUIRE("VM-039", needs(WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP | WEIR_CAP_MAP_PART),
        "Parts of a granule that overlap, mapped at once, are the same bytes.") {
  return each_device(
      t, WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP | WEIR_CAP_MAP_PART,
      [&](const DeviceFacts &device) -> Outcome {
        constexpr uint64_t units = 8;
        struct Part {
          uint64_t first, end;
        };
        constexpr Part parts[] = {{0, 4}, {2, 6}, {7, 8}, {0, 8}, {3, 4}};
        const uint64_t unit = device.unit;
        if (device.budget < units * unit) return t.nothing("it is too small");
        Granule granule(t, device.index);
        Range range(t, device.index);
        std::vector<std::unique_ptr<Map>> maps;
        Mover mover(t, device.index);
        TRY(granule.create(units * unit));
        TRY(range.reserve(std::size(parts) * units * unit, unit));
        TRY(mover.make(end_bytes));
        for (const auto &[first, end] : parts) {
          maps.push_back(std::make_unique<Map>(t, device.index));
          TRY(maps.back()->map(range.address() + (maps.size() - 1) * units * unit,
                               (end - first) * unit, granule, first * unit));
        }
        // Each unit is written through each part that has it, and read through all of them.
        uint64_t seed = 0;
        for (uint64_t i = 0; i < units; ++i) {
          for (size_t writer = 0; writer < std::size(parts); ++writer) {
            if (i < parts[writer].first || i >= parts[writer].end) continue;
            TRY(write_ends(mover, maps[writer]->address() + (i - parts[writer].first) * unit, unit,
                           ++seed));
            for (size_t reader = 0; reader < std::size(parts); ++reader) {
              if (i < parts[reader].first || i >= parts[reader].end) continue;
              TRY(in_shape(
                  words("unit ", i, " through part ", uint64_t{writer}, ", read through ",
                        uint64_t{reader}),
                  check_ends(mover, maps[reader]->address() + (i - parts[reader].first) * unit,
                             unit, seed)));
            }
          }
        }
        return {};
      });
}

REQUIRE("VM-041", vmm,
        "A map that begins in one reservation and ends in the next one is refused.") {
  return each_device(t, WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
    const uint64_t unit = device.unit;
    std::vector<std::unique_ptr<Range>> ranges;
    const Range *low = nullptr, *high = nullptr;
    // Come and go at random: what is given fills gaps, and touches what lies there.
    for (int i = 0; i < 256 && low == nullptr; ++i) {
      if (ranges.size() > 8 && t.random.below(3) == 0) {
        ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(t.random.below(ranges.size())));
        continue;
      }
      ranges.push_back(std::make_unique<Range>(t, device.index));
      TRY(ranges.back()->reserve((1 + t.random.below(4)) * unit, unit));
      const Range &last = *ranges.back();
      for (const auto &each : ranges) {
        if (each->address() + each->bytes() == last.address()) low = each.get(), high = &last;
        if (last.address() + last.bytes() == each->address()) low = &last, high = each.get();
      }
    }
    if (low == nullptr) return t.nothing("it gave no two reservations that touch");
    Granule two(t, device.index), one(t, device.index);
    TRY(two.create(2 * unit));
    TRY(one.create(unit));
    const uint64_t border = high->address();
    REFUSED(map, device.index, border - unit, 2 * unit, two.get(), 0, nullptr, 0);
    TRY(told_a_code(t));
    if (device.has(WEIR_CAP_MAP_RUN)) {
      const weir_be_piece pieces[] = {{two.get(), 0, 2 * unit}, {one.get(), 0, unit}};
      REFUSED(map_run, device.index, border - unit, pieces, 2, nullptr, 0);
    }
    // Both sides of the border are free, and no granule is mapped.
    for (const uint64_t address : {border - unit, border}) {
      Map map(t, device.index);
      TRY(map.map(address, unit, one));
    }
    TRY(one.destroy());
    return two.destroy();
  });
}

}  // namespace
}  // namespace weir::conformance
