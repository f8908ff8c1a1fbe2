// SPDX-License-Identifier: Apache-2.0
//
// The reader's side: records become operations again. What has lost a part is dropped whole.

#include "core/lease/use_ring.hpp"

#include "core/page/hot.hpp"

namespace weir::lease {

static_assert(UseRecord::generation_at + UseRecord::generation_down ==
              page::Word::generation_shift);

bool UseRing::ready() noexcept {
  for (size_t i = ready_; ready_ == 0;) {
    const auto records = records_.copied();
    if (i == records.size()) {
      if (!records_.full()) return false;
      miss(i);  // an operation with more records than there is room for
      return false;
    }
    const uint64_t what = records[i][0];
    if (what == 0) {
      missed_ += records[i][1];
      missed_ += i;
      records_.drop(i + 1);
      i = 0;
    } else if (((what & UseRecord::first) != 0) != (i == 0)) {
      // The end of one whose beginning is missing.
      miss(i != 0 ? i : 1);
      i = 0;
    } else if ((what & UseRecord::last) != 0) {
      ready_ = i + 1;
    } else {
      ++i;
    }
  }
  return true;
}

void UseRing::skip() noexcept {
  ready_ = 0;
  for (const auto &[what, when] : records_.copied()) missed_ += what != 0 ? 1 : when;
  missed_ += records_.skip();
}

uint32_t UseRing::take(std::pmr::vector<ObservedUse> *uses) {
  const auto records = records_.copied().first(std::exchange(ready_, 0));
  const auto name = static_cast<uint32_t>(records[0][1] >> 32);
  uses->clear();
  try {
    uses->reserve(records.size());
  } catch (...) {
    miss(records.size());
    throw;
  }
  for (const auto &[what, when] : records) {
    if ((what & UseRecord::range) != 0) {
      uses->back().begin = what & UseRecord::offset_mask;
      uses->back().end = when;
      continue;
    }
    const uint64_t generation = (what & UseRecord::buffer_mask) >> UseRecord::generation_at;
    uses->push_back({static_cast<uint32_t>(what), generation << page::Word::generation_shift,
                     static_cast<uint8_t>((what >> UseRecord::mode_at) & 3), 0, UINT64_MAX});
  }
  records_.drop(records.size());
  return name;
}

}  // namespace weir::lease
