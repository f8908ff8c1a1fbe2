// SPDX-License-Identifier: Apache-2.0
//
// RegionLife: how regions begin, come to devices, and end. A destroyed buffer's region is "kept": its pages stay mapped and are
// the first to be evicted, unless a new buffer of the same shape and client takes them over as they are, with the fences of the
// work that may still be running on them. So destruction never waits for a device. All under the pool's lock.
#pragma once

#include "core/move/prefetcher.hpp"
#include "core/page/env.hpp"
#include "core/page/page_table.hpp"
#include "core/page/sizes.hpp"

namespace weir::move {

class RegionLife final : public page::RegionStore::Releaser {
 public:
  RegionLife(const Env &env, const PageLayer &page, page::PageTable &pages, page::IdleMemory &idle,
             const page::Sizes &sizes, Prefetcher &prefetcher) noexcept
      : env_(env),
        page_(page),
        pages_(pages),
        idle_(idle),
        sizes_(sizes),
        prefetcher_(prefetcher) {}

  // ---- beginning ----
  /// The lot of a shape that shares granules becomes the region's, or is left.
  Region &make(const page::Geometry &shape, uint8_t home, uint32_t client,
               const page::Sharing::Lot &lot = {}) WEIR_HELD;
  /// A region that has its addresses on its home device.
  Status make_at_home(const page::Geometry &shape, uint8_t home, uint32_t client, Region **region,
                      const page::Sharing::Lot &lot = {}) WEIR_HELD;
  /// A kept region of the shape, with everything in place and paid for, or nullptr.
  Region *adopt_kept(const page::Geometry &shape, uint64_t alignment, uint8_t home,
                     uint32_t client) WEIR_HELD;
  /// The region's state on a device, made at first use.
  Status make_residence(Region &region, PoolDevice &device) WEIR_HELD;

  // ---- end ----
  /// Nothing of the region is on the device that it shares granules of.
  void leave_lot(Region &region) noexcept WEIR_HELD;
  /// The region has lost its owner. Nobody leases it; its host copies go, its device pages become disposable.
  void keep_or_free(Region &region) noexcept WEIR_HELD;
  void free(Region &region) noexcept WEIR_HELD;
  /// A place in a slab. One that has no tenants stays for as long as pages of it are there: it is used again before another is
  /// opened, and its pages go before any other.
  void free_place(Region &region, uint32_t node) noexcept WEIR_HELD;
  /// Something that kept the region may have gone: its owner or last tenant, a page on a device, or work on it. If nothing keeps it
  /// now it is gone afterwards.
  void retire_region(Region &region) noexcept override WEIR_HELD;

 private:
  const Env &env_;
  const PageLayer &page_;
  page::PageTable &pages_;
  page::IdleMemory &idle_;
  const page::Sizes &sizes_;
  Prefetcher &prefetcher_;
};

}  // namespace weir::move
