// SPDX-License-Identifier: Apache-2.0
//
// RegionStore: every region of a pool, by its id. An id is used again once its region is gone; its generation tells the one from
// the other, but once in 65536 lives. Regions never move. Those whose owner is gone and that are whole are listed by shape, for a
// new owner of the same shape, home and client to take over. What a region has on devices and in tiers is not known here: who
// frees it has given that back. Guarded by the pool's lock.
#pragma once

#include "core/base/pool_lock.hpp"
#include "core/page/region_pin.hpp"

#include <deque>
#include <memory_resource>
#include <unordered_map>

namespace weir::page {

class RegionStore {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  /// Frees regions that have ended, with all that they have elsewhere.
  class Releaser {
   public:
    /// Something that kept the region may have gone. If it has ended it is free afterwards.
    virtual void retire_region(Region &region) noexcept WEIR_HELD = 0;

   protected:
    ~Releaser() = default;
  };

  /// Without a releaser nothing may be unpinned.
  explicit RegionStore(std::pmr::memory_resource *memory, Releaser *releaser = nullptr);

  /// A region of that shape, its pages absent everywhere. Throws std::bad_alloc with nothing changed.
  Region &make(const Geometry &shape, uint8_t home, uint32_t client) WEIR_HELD;
  /// Whether nothing keeps the region any more, so that it is to be freed: it has no owner (kept, or a slab without tenants),
  /// nobody works on it, and no page of it is on a device. To be asked whenever one of the three may have become true.
  static bool ended(const Region &region) noexcept;
  void free(Region &region) noexcept WEIR_HELD;
  void retire(Region &region) noexcept WEIR_HELD { releaser_->retire_region(region); }
  /// The pin ends, and its region with it, if nothing else keeps that.
  void unpin(RegionPin &pin) noexcept WEIR_HELD {
    Region *const region = pin.give_back();
    if (region != nullptr) retire(*region);
  }
  /// Another shape for a region that nothing has come to yet and that has room for the pages.
  void reshape(Region &region, const Geometry &shape) WEIR_HELD;

  Region &at(uint32_t id) noexcept WEIR_HELD { return *regions_[id]; }
  /// The region that has the id now, or nullptr.
  Region *live(size_t id) noexcept WEIR_HELD {
    return id < regions_.size() ? regions_[id].get() : nullptr;
  }
  /// nullptr: that one is gone.
  Region *find(uint32_t id, uint64_t generation) noexcept WEIR_HELD {
    Region *region = live(id);
    return region != nullptr && generations_[id] == generation ? region : nullptr;
  }
  /// The same of a slab.
  Region *find_slab(uint32_t id, uint64_t generation) noexcept WEIR_HELD;
  uint16_t generation(const Region &region) const noexcept WEIR_HELD {
    return generations_[region.id];
  }
  /// Ids there have been so far: no region has another.
  uint32_t ids() const noexcept WEIR_HELD { return static_cast<uint32_t>(regions_.size()); }
  uint64_t pages() const noexcept WEIR_HELD { return pages_; }

  /// All regions by their ids. Any may be made or freed on the way, the one looked at too.
  class Iterator {
   public:
    explicit Iterator(RegionStore &store) noexcept WEIR_HELD : store_(store) { skip(); }
    Region &operator*() const noexcept WEIR_HELD { return store_.at(id_); }
    Iterator &operator++() noexcept WEIR_HELD {
      visits::count();
      ++id_;
      skip();
      return *this;
    }
    bool operator!=(std::nullptr_t) const noexcept WEIR_HELD { return id_ < store_.ids(); }

   private:
    void skip() noexcept WEIR_HELD {
      while (id_ < store_.ids() && store_.live(id_) == nullptr) ++id_;
    }
    RegionStore &store_;
    uint32_t id_ = 0;
  };
  Iterator begin() noexcept WEIR_HELD { return Iterator(*this); }
  static std::nullptr_t end() noexcept { return nullptr; }

  // ---- kept regions ----
  /// A new region of its shape may take it over, the latest first. Without memory for that it is not offered, no more.
  void list_kept(Region &region) noexcept WEIR_HELD;
  /// Its shape, home and client are what they were when it was listed, if it is.
  void unlist_kept(Region &region) noexcept WEIR_HELD;
  /// A kept region that a new one of the shape and alignment could be, with everything in place; or nullptr.
  Region *find_kept(const Geometry &shape, uint64_t alignment, uint8_t home,
                    uint32_t client) noexcept WEIR_HELD;
  /// It has an owner again, of so many bytes.
  void adopt(Region &region, uint64_t size) noexcept WEIR_HELD;
  /// Those listed, list by list. `visit` says whether to go on with this list, all of which are of one kind.
  template <class Visit>
  void for_each_kept(Visit &&visit) WEIR_HELD {
    for (const auto &[key, first] : kept_) {
      for (uint32_t id = first; id != none && visit(at(id)); id = at(id).kept.after) {
      }
    }
  }

 private:
  std::pmr::memory_resource *memory_;
  Releaser *const releaser_;
  std::pmr::deque<Compact<Region>> regions_ WEIR_GUARDED;  ///< by id
  std::pmr::deque<uint16_t> generations_ WEIR_GUARDED;
  std::pmr::deque<uint32_t> next_free_ WEIR_GUARDED;  ///< of a free id, the next such
  uint32_t free_ WEIR_GUARDED = none;                 ///< the first
  /// Shape -> the latest such kept region, from which a list goes through the regions: each leaves it in one step.
  std::pmr::unordered_map<uint64_t, uint32_t> kept_ WEIR_GUARDED;
  uint64_t pages_ WEIR_GUARDED = 0;
};

}  // namespace weir::page
