// SPDX-License-Identifier: Apache-2.0
//
// Maps, runs, parts and aliases in any order, against a model of what is mapped where and what each unit of each granule
// holds. The model says of every call whether it is good; a call that is not changes nothing.
#include "conformance/walks.hpp"

#include <algorithm>
#include <array>
#include <memory>

namespace weir::conformance {
namespace {

/// What one map call, or one piece of a run, has made. All in units.
struct ModelMap {
  uint64_t place, units;
  size_t granule;
  uint64_t offset;
};

class MapModel {
 public:
  static constexpr uint64_t places = 24;

  MapModel(Test &t, const DeviceFacts &device)
      : t_(t), device_(device), range_(t, device.index), mover_(t, device.index) {}
  ~MapModel() {
    if (!come_to_rest()) return;
    for (const ModelMap &each : maps_)
      t_.keep(t_.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "unmap", t_.table.unmap,
                        device_.index, at(each.place), each.units * device_.unit));
  }
  MapModel(const MapModel &) = delete;
  MapModel &operator=(const MapModel &) = delete;

  Outcome make() {
    for (const uint64_t units : {1, 1, 1, 1, 2, 2, 2, 3, 3, 4}) {
      granules_.push_back(std::make_unique<Granule>(t_, device_.index));
      sizes_.push_back(units);
      holds_.push_back({});
      TRY(granules_.back()->create(units * device_.unit));
    }
    TRY(range_.reserve(places * device_.unit, device_.unit));
    return mover_.make(end_bytes);
  }
  Outcome step() {
    switch (t_.random.below(8)) {
      case 0:
      case 1:
        return map_one();
      case 2:
      case 3:
        return map_several();
      case 4:
        return unmap_one();
      case 5:
        return unmap_several();
      default:
        return write();
    }
  }
  Outcome check_all() {
    for (const ModelMap &each : maps_) {
      for (uint64_t i = 0; i < each.units; ++i) {
        const uint64_t seed = holds_[each.granule][each.offset + i];
        if (seed == 0) continue;
        TRY(in_shape(words("unit ", each.offset + i, " of granule ", uint64_t{each.granule},
                           " at place ", each.place + i),
                     check_ends(mover_, at(each.place + i), device_.unit, seed)));
      }
    }
    return {};
  }

 private:
  uint64_t at(uint64_t place) const { return range_.address() + place * device_.unit; }
  ModelMap any_map(uint64_t place) {
    const size_t which = t_.random.below(granules_.size());
    uint64_t offset = 0, units = sizes_[which];
    if (device_.has(WEIR_CAP_MAP_PART) && t_.random.below(3) == 0) {
      offset = t_.random.below(units);
      units = 1 + t_.random.below(units - offset);
    }
    return {place, units, which, offset};
  }
  weir_be_piece piece(const ModelMap &map) const {
    return {granules_[map.granule]->get(), map.offset * device_.unit, map.units * device_.unit};
  }
  bool fits(const ModelMap &map) const {
    if (map.place + map.units > places) return false;
    return std::none_of(maps_.begin(), maps_.end(), [&](const ModelMap &each) {
      return (map.place < each.place + each.units && each.place < map.place + map.units) ||
             (each.granule == map.granule && !device_.has(WEIR_CAP_MULTI_MAP));
    });
  }
  Outcome map_one() {
    Test &t = t_;
    const ModelMap map = any_map(t_.random.below(places));
    const weir_be_piece what = piece(map);
    if (fits(map)) {
      MUST(map, device_.index, at(map.place), what.bytes, what.granule, what.offset, nullptr, 0);
      maps_.push_back(map);
      return {};
    }
    REFUSED_ONE_WAY_OR_OTHER(map, device_.index, at(map.place), what.bytes, what.granule,
                             what.offset, nullptr, 0);
    return told_a_code(t_);
  }
  Outcome map_several() {
    if (!device_.has(WEIR_CAP_MAP_RUN)) return {};
    Test &t = t_;
    const size_t before = maps_.size();
    std::vector<weir_be_piece> pieces;
    bool good = true;
    const uint64_t first = t_.random.below(places), count = 1 + t_.random.below(5);
    for (uint64_t i = 0, place = first; i < count; ++i) {
      const ModelMap map = any_map(place);
      good = good && fits(map);
      maps_.push_back(map);
      pieces.push_back(piece(map));
      place += map.units;
    }
    if (!good) maps_.resize(before);
    const auto number_of = static_cast<uint32_t>(pieces.size());
    if (good) {
      MUST(map_run, device_.index, at(first), pieces.data(), number_of, nullptr, 0);
      return {};
    }
    REFUSED_ONE_WAY_OR_OTHER(map_run, device_.index, at(first), pieces.data(), number_of, nullptr,
                             0);
    return told_a_code(t_);
  }
  Outcome unmap_one() {
    Test &t = t_;
    ModelMap wanted{t_.random.below(places), 1 + t_.random.below(3), 0, 0};
    // As often as not something that is there.
    if (!maps_.empty() && t_.random.below(2) == 0) wanted = maps_[t_.random.below(maps_.size())];
    if (wanted.place + wanted.units > places) return {};
    const auto found = std::find_if(maps_.begin(), maps_.end(), [&](const ModelMap &each) {
      return each.place == wanted.place && each.units == wanted.units;
    });
    const uint64_t bytes = wanted.units * device_.unit;
    if (found != maps_.end()) {
      MUST(unmap, device_.index, at(wanted.place), bytes);
      maps_.erase(found);
      return {};
    }
    REFUSED(unmap, device_.index, at(wanted.place), bytes);
    return told_a_code(t_);
  }
  /// Whether whole maps cover the places without a gap.
  bool covered(uint64_t first, uint64_t end) const {
    std::array<bool, places> there{};
    for (const ModelMap &each : maps_) {
      const uint64_t last = each.place + each.units;
      if (last <= first || each.place >= end) continue;
      if (each.place < first || last > end) return false;
      for (uint64_t i = each.place; i < last; ++i) there[i] = true;
    }
    return std::all_of(there.begin() + static_cast<std::ptrdiff_t>(first),
                       there.begin() + static_cast<std::ptrdiff_t>(end),
                       [](bool is) { return is; });
  }
  Outcome unmap_several() {
    if (!device_.has(WEIR_CAP_MAP_RUN)) return {};
    Test &t = t_;
    uint64_t first = t_.random.below(places);
    uint64_t end = first + 1 + t_.random.below(std::min<uint64_t>(places - first, 8));
    if (!maps_.empty() && t_.random.below(2) == 0) {
      // From the start of one map on, as far as others follow.
      first = maps_[t_.random.below(maps_.size())].place;
      end = first;
      for (uint64_t i = first + 1; i <= places; ++i)
        if (covered(first, i)) end = i;
      if (end == first) return {};
    }
    if (covered(first, end)) {
      MUST(unmap_run, device_.index, at(first), (end - first) * device_.unit);
      std::erase_if(maps_,
                    [&](const ModelMap &each) { return each.place >= first && each.place < end; });
      return {};
    }
    REFUSED(unmap_run, device_.index, at(first), (end - first) * device_.unit);
    return told_a_code(t_);
  }
  Outcome write() {
    if (maps_.empty()) return {};
    const ModelMap &map = maps_[t_.random.below(maps_.size())];
    const uint64_t unit = t_.random.below(map.units);
    holds_[map.granule][map.offset + unit] = ++seed_;
    return write_ends(mover_, at(map.place + unit), device_.unit, seed_);
  }

  Test &t_;
  const DeviceFacts device_;
  Range range_;
  std::vector<std::unique_ptr<Granule>> granules_;
  std::vector<uint64_t> sizes_;
  std::vector<std::array<uint64_t, 4>> holds_;  ///< seeds; 0 is unknown
  std::vector<ModelMap> maps_;
  uint64_t seed_ = 0;
  Mover mover_;
};

REQUIRE("VM-045", vmm,
        "Maps, runs, parts and aliases come and go in any order, good calls and bad ones, and each "
        "address shows what is mapped there.") {
  return each_device(t, WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
    if (device.budget < 20 * device.unit) return t.nothing("it is too small");
    MapModel model(t, device);
    TRY(model.make());
    for (int step = 1; step <= 500; ++step) {
      TRY(in_shape(words("step ", step), model.step()));
      if (step % 10 == 0) TRY(in_shape(words("after step ", step), model.check_all()));
    }
    return {};
  });
}

}  // namespace
}  // namespace weir::conformance
