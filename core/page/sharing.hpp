// SPDX-License-Identifier: Apache-2.0
//
// Sharing: which regions of one device lie in one granule with others, so that rounding a buffer to whole granules need not
// cost one. Who shares what is settled when a region is made and holds for its life, so that its address does; a bundle is
// one such granule, whether there is memory under it or not. Where a granule may be mapped at several addresses a region's
// first bytes may lie at the rear of any granule and its last at the front of any other (granule_sharing.hpp); where it has
// one address, neighbours on a line of addresses share the granule at their boundary (line_sharing.hpp).
//
// A bundle's granule is claimed with the first of its fragments that comes into place and given back with the last that
// leaves. While one plan makes it (`maker`), everybody else waits: they would map what is not there yet. Only regions of one
// client share: what one of them leaves behind another may see.
//
// Brought in without its neighbours, a region may need a granule more than if it began with one of its own. So what is more
// than a quarter of the budget shares nothing; a set of smaller ones that fills all but a few granules may be refused for it.
//
// Under the pool's lock.
#pragma once

#include "core/backend/timeline.hpp"
#include "core/base/memory.hpp"
#include "core/page/geometry.hpp"
#include "core/physical/granule_ledger.hpp"
#include "core/physical/shared_line.hpp"
#include "core/physical/shared_mapping.hpp"

#include <variant>
#include <vector>

namespace weir::page {

class GranuleSharing;

/// A granule that fragments of several regions lie in.
struct Bundle {
  physical::GranuleId granule = physical::no_granule;
  uint32_t users = 0;           ///< fragments in place, or on their way in
  uint32_t held = 0;            ///< of those, of held regions
  uint32_t lots = 0;            ///< on a line: regions that have a fragment in it, in place or not
  const void *maker = nullptr;  ///< the plan that brings the first of them
  backend::Stamp wiped;  ///< of its memory, before it was shared: what comes in comes after that
  uint64_t seen = 0;     ///< the last count (Sharing::begin_count) that came by
  uint32_t next_unused = UINT32_MAX;
  Owned<physical::SharedMapping> mapping;  ///< where it has one address; else each fragment maps it
};

class Sharing {
 public:
  /// Addresses of regions are multiples of this: what HOST and its views can map, and any device wants.
  static constexpr uint64_t alignment = 4096;
  /// A region's run on one of its client's lines.
  struct LinePlace {
    physical::SharedLine::Run run;
    uint32_t line = 0;
  };
  using Lot = std::variant<physical::GranuleLedger::Claim, LinePlace>;

  /// Regions of more than a quarter of the budget share nothing.
  Sharing(uint64_t page, uint64_t large_page, uint64_t budget, std::pmr::memory_resource *memory)
      : page_(page),
        large_page_(large_page),
        largest_(budget / 4),
        memory_(memory),
        bundles_(memory) {}
  virtual ~Sharing() = default;
  Sharing(const Sharing &) = delete;
  Sharing &operator=(const Sharing &) = delete;

  /// Pages that can be shared at all.
  static bool possible(uint64_t page) noexcept {
    return page > alignment && (page & (page - 1)) == 0;
  }

  /// The shape of a region of `size` bytes; `shared` tells whether it has a lot, which is leave()'s then.
  /// Throws std::bad_alloc with nothing changed.
  virtual Geometry place(uint32_t client, uint64_t size, uint64_t address_alignment, Lot *lot) = 0;
  /// The region is no more; nothing of it is on the device.
  virtual void leave(uint32_t client, const Lot &lot) noexcept = 0;
  /// Of the region's first byte; 0: wherever the region has a range of addresses.
  virtual uint64_t address(uint32_t /*client*/, const Lot & /*lot*/) const noexcept { return 0; }
  /// The kind whose fragments can be moved; nullptr: they lie where their neighbours want them.
  virtual GranuleSharing *movable() noexcept { return nullptr; }

  /// The bundle of a fragment: of the region's first page, or its last one.
  Bundle &bundle(uint32_t client, const Lot &lot, bool first) noexcept {
    return bundles_[bundle_at(client, lot, first)];
  }

  /// Starts a count of bundles in which each counts once: the first call of counted() for it answers false.
  void begin_count() noexcept { ++count_; }
  bool counted(Bundle &bundle) noexcept {
    const bool before = bundle.seen == count_;
    bundle.seen = count_;
    return before;
  }

  /// "" or the first thing that is wrong.
  virtual std::string validate() const;

 protected:
  static constexpr uint32_t none = UINT32_MAX;

  virtual uint32_t bundle_at(uint32_t client, const Lot &lot, bool first) const noexcept = 0;
  /// An empty one. Throws std::bad_alloc with nothing changed.
  uint32_t take_bundle();
  void give_bundle(uint32_t index) noexcept;
  /// With a lot; `head` bytes on its first page (0: it begins with a whole page), `cut` as in Geometry.
  Geometry shared_shape(uint64_t size, uint64_t head, bool cut) const noexcept {
    Geometry shape = Geometry::led(size, page_, large_page_, head);
    shape.shared = true;
    shape.cut = cut;
    return shape;
  }

  const uint64_t page_, large_page_;
  const uint64_t largest_;  ///< region that shares
  std::pmr::memory_resource *memory_;
  std::pmr::vector<Bundle> bundles_;

 private:
  uint32_t unused_ = none;
  uint64_t count_ = 0;
};

}  // namespace weir::page
