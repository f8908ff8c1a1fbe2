// SPDX-License-Identifier: Apache-2.0
//
// Slabs: regions whose pages tenants share, buffers below a page, placed by the offset allocator and grouped by device, client and
// priority, so that they grow cold together. A tenant that is used elsewhere than on its home device leaves its slab for pages of
// its own.
//
// Memory of weir_malloc lies in lines: slabs of the pool's own client whose tenants never move. With virtual-memory management a
// line has many more pages than it has memory for: a range on pages that have tenants is taken first, and only if there is none as
// long are pages opened, no more than it takes beside what is free at their edge. So a request is refused only if no range of a page
// in use holds it and the budget has no further page. Pages without tenants stay, idle, until somebody else needs them
// (page/slab.hpp).
#pragma once

#include "core/acquire/homes.hpp"
#include "core/lease/layer.hpp"
#include "core/move/host_room.hpp"
#include "core/move/region_life.hpp"
#include "core/page/env.hpp"

namespace weir::acquire {

class CpuCopies;

class Slabs {
 public:
  struct Others {
    page::PageTable &pages;
    move::HostRoom &host_room;
  };
  Slabs(const Env &env, const PageLayer &page, const LeaseLayer &lease, const Others &others,
        move::RegionLife &life, Homes &homes, CpuCopies &cpu) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        others_(others),
        life_(life),
        homes_(homes),
        cpu_(cpu) {}

  // ---- places ----
  Status place_tenant(uint32_t index, const weir_buffer_desc &desc, uint8_t home, uint32_t client,
                      bool pinned) WEIR_HELD;

  // ---- tenants that can't stay ----
  /// A tenant whose bytes are lost, and which no lease covers, parts from its slab; its own page says that it is lost. True: it was the
  /// last of the slab, which ends. Throws std::bad_alloc with nothing changed.
  bool own_lost_page(uint32_t index, uint8_t home) WEIR_HELD;
  /// Gives a tenant that is to be used elsewhere than at home pages of its own, through HOST: tenants share a page, and a page has
  /// one latest version, so one of them can't be used elsewhere alone.
  Status unslab_for(Releasable &lock, uint32_t index, uint8_t place) WEIR_HELD;

  // ---- first use ----
  /// Whether the pages under a tenant's place are there, with no thread at work on them.
  bool in_place(Region &slab, uint64_t begin, uint64_t size, PoolDevice &device) noexcept WEIR_HELD;
  /// A range has a new version, on the device alone.
  void write_pages(Region &slab, uint64_t begin, uint64_t size,
                   PoolDevice &device) noexcept WEIR_HELD;
  /// Opens the hit path to the first lease of a new tenant whose place is there; what may still run on it becomes its own past.
  /// Returns the flags for its word. What lies beside it must be the latest of its pages already, so that a write makes nothing
  /// stale, and a page never written has nothing to be kept.
  uint64_t open_to_first(uint32_t index, PoolDevice &device) noexcept WEIR_HELD;

 private:
  /// A slab without tenants.
  Status open(const page::Geometry &shape, const page::Kin &kin, Region **out) WEIR_HELD;
  /// A range of so many bytes in a line, on pages in use if there is one. Throws std::bad_alloc with nothing changed.
  Status place_pinned(const page::Kin &kin, uint64_t size, Region **out,
                      page::SlabAllocator::Place *place) WEIR_HELD;

  /// A tenant that has left its slab is at home there, and no more at `before`.
  void note_home(uint32_t index, uint64_t size, uint8_t before, uint8_t home) noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  move::RegionLife &life_;
  Homes &homes_;
  CpuCopies &cpu_;
};

}  // namespace weir::acquire
