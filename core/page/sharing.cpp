// SPDX-License-Identifier: Apache-2.0
//
// The table of bundles.

#include "core/page/sharing.hpp"

#include "core/base/grow.hpp"

#include <cassert>

namespace weir::page {

uint32_t Sharing::take_bundle() {
  if (unused_ == none) {
    grow_by(bundles_);
    bundles_.emplace_back();
    return static_cast<uint32_t>(bundles_.size() - 1);
  }
  const uint32_t index = unused_;
  unused_ = bundles_[index].next_unused;
  Bundle fresh;
  fresh.mapping = std::move(bundles_[index].mapping);
  bundles_[index] = std::move(fresh);
  return index;
}

void Sharing::give_bundle(uint32_t index) noexcept {
  if (index == none) return;
  assert(bundles_[index].users == 0);
  bundles_[index].next_unused = unused_;
  unused_ = index;
}

std::string Sharing::validate() const {
  for (const Bundle &bundle : bundles_) {
    if ((bundle.users != 0) != (bundle.granule != physical::no_granule))
      return "shared granules: users without a granule, or a granule without users";
    if (bundle.held > bundle.users) return "shared granules: more held fragments than there are";
  }
  return {};
}

}  // namespace weir::page
