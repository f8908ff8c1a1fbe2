// SPDX-License-Identifier: Apache-2.0
//
// Layouts: where a region that shares granules begins and ends in them, looked at once more before anybody is told. A lot is
// chosen when a buffer is made, and by then the room that fits best may be a dead buffer's, whose memory is kept for the next of
// its size. While there is memory enough that does not matter; where there is not, each such choice opens a granule too many, and
// holds it for as long as the buffer lives. So when a region is first to be brought in, would open one, and memory is nearly used
// up, dead buffers that lie beside others go, and the lot is chosen anew. From then on it holds for the region's life, as its
// address does.
#pragma once

#include "core/move/plan.hpp"
#include "core/page/env.hpp"

namespace weir::move {
class Evictor;
class RegionLife;
}  // namespace weir::move

namespace weir::acquire {

class Layouts {
 public:
  Layouts(const Env &env, const PageLayer &page, move::RegionLife &life,
          move::Evictor &evictor) noexcept
      : env_(env), page_(page), life_(life), evictor_(evictor) {}

  /// Before a set's regions are brought in: those that nobody has used yet and that would open granules. May drop the lock.
  void settle(Releasable &lock, move::Plan &plan) WEIR_HELD;

 private:
  /// Whether nothing of it is or was in place anywhere, and no thread is at work on it: no caller knows an address of it.
  bool may_lay_anew(const Region &region) noexcept;
  /// Another lot, or the same. It has no addresses afterwards: code that needs them makes them (RegionLife). Throws std::bad_alloc with
  /// nothing changed, or with a region that shares nothing.
  void lay_anew(Region &region) WEIR_HELD;
  /// Pages of dead regions that have a part of a granule in which others lie.
  void list_neighbours(PoolDevice &device, std::pmr::vector<PageRef> *pages) WEIR_HELD;
  /// Whether it would have a granule for a part of a page that no other region has in place.
  bool opens_granule(const Region &region) noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  move::RegionLife &life_;
  move::Evictor &evictor_;
};

}  // namespace weir::acquire
