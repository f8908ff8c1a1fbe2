// SPDX-License-Identifier: Apache-2.0
//
// PlaceIndex: which regions have a page at a place, and which are at home on a device, so that no caller has to look through a million
// regions for a few. It is told by Page's verbs, whose answers are [[nodiscard]], and by the steps of a
// page on a device. Guarded by the pool's lock.
//
// What must hold: it equals a recount (check()). It allocates in reserve() and open() alone, before what it is told of exists. A
// walk is by number, so regions may come, go and move meanwhile, and the lock may be dropped.
#pragma once

#include "core/base/place.hpp"
#include "core/base/pool_lock.hpp"
#include "core/page/id_set.hpp"
#include "core/page/region.hpp"

#include <deque>

namespace weir::page {

class PlaceIndex {
 public:
  static constexpr uint32_t none = IdSet::none;
  /// What a walk is over: regions in any of several sets, as bits.
  using Sets = uint64_t;

  explicit PlaceIndex(std::pmr::memory_resource *memory);

  /// With pages at the place: of a device, pages that are not ABSENT there; of HOST, with a slot there, too.
  static constexpr Sets at(Place place) noexcept {
    return Sets{1} << (place.is_device() ? before_devices + 2U * place.device() : place.tier());
  }
  static constexpr Sets home(uint8_t device) noexcept { return at(Place(device)) << 1U; }
  /// With pages at home on several devices.
  static constexpr Sets sharded() noexcept { return Sets{1} << tiers; }

  // Both throw std::bad_alloc with nothing changed but capacities.
  void open(uint8_t device);  ///< one more, or one that was there before
  void reserve(size_t regions);

  void note(const Region &region, PlaceChange change) noexcept;
  /// Whether the region has pages on the device now.
  void note(const Region &region, const Residence &here) noexcept;
  void settle(Region &region, uint8_t home) noexcept;
  /// The region has shards from now on.
  void note_shards(const Region &region) noexcept { set(sharded()).insert(region.id); }
  /// The region is about to go, with all its pages.
  void forget(const Region &region) noexcept;

  uint32_t next(Sets sets, uint32_t from) const noexcept;
  /// Of those with pages in a tier the one after the one that the last such call found, round and round; none: there is none.
  uint32_t next_around(Place tier) noexcept;
  size_t count(Place place) const noexcept;
  /// Whether all that is known of the number is so; nullptr: no region has it.
  bool check(uint32_t id, const Region *region) const noexcept;

 private:
  static constexpr uint8_t tiers = 3, before_devices = tiers + 1;
  IdSet &set(Sets one) noexcept { return sets_[static_cast<size_t>(std::countr_zero(one))]; }

  std::pmr::vector<IdSet> sets_;
  std::array<uint32_t, tiers> found_{};                  ///< by next_around()
  std::pmr::deque<std::array<uint32_t, tiers>> counts_;  ///< by region, of its pages in each tier
};

/// for (Region &region : Walk(index, sets, regions)): those that are in one of the sets as the walk comes by, by their numbers.
template <class Regions>
class Walk {
 public:
  struct Iterator {
    const Walk *walk;
    uint32_t id;
    Region &operator*() const noexcept WEIR_HELD { return walk->regions_.at(id); }
    bool operator!=(const Iterator &other) const noexcept { return id != other.id; }
    Iterator &operator++() noexcept {
      visits::count();
      id = walk->index_.next(walk->sets_, id + 1);
      return *this;
    }
  };
  Walk(const PlaceIndex &index, PlaceIndex::Sets sets, Regions &regions) noexcept
      : index_(index), sets_(sets), regions_(regions) {}
  Iterator begin() const noexcept { return {this, index_.next(sets_, 0)}; }
  Iterator end() const noexcept { return {this, PlaceIndex::none}; }

 private:
  const PlaceIndex &index_;
  const PlaceIndex::Sets sets_;
  Regions &regions_;
};

}  // namespace weir::page
