// SPDX-License-Identifier: Apache-2.0
//
// Which of the device's streams fills a plan's pages. What is ordered after a fill is so by its fence, never by the stream that it is on.

#include "core/move/filler.hpp"

#include <algorithm>

namespace weir::move {

/// On which stream a plan's pages are filled. What is only zeroed does not stand in line behind the copies of others: an operation that
/// writes its results needs none of what comes for the next ones. A granule that is wiped for all buffers that share it stays on the stream after
/// which moves of its parts come (remap.cpp).
Stream &Filler::stream_for(const Plan &plan) noexcept {
  const bool comes = std::ranges::any_of(plan.pages, [](const PlanPage &page) {
    return page.filling && (page.source.bit != 0 || page.zero.granule);
  });
  backend::TransferStreams &streams = plan.device->streams;
  return comes ? *streams.up() : streams.have_fills(env_.streams);
}

}  // namespace weir::move
