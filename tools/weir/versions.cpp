// SPDX-License-Identifier: Apache-2.0
//
// Versions: writing a range replaces the pieces under it and joins equal neighbours.
#include "versions.hpp"

#include <algorithm>

namespace weir::tool {

size_t Versions::find(uint64_t offset) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                       [](uint64_t at, const Piece &piece) { return at < piece.begin; });
  return static_cast<size_t>(after - pieces_.begin()) - 1;
}

void Versions::write(uint64_t offset, uint64_t length, uint64_t size, uint32_t version) {
  if (length == 0) return;
  if (offset == 0 && length == size) {
    whole_ = version;
    pieces_.clear();
    return;
  }
  if (pieces_.empty()) pieces_.push_back({0, whole_});
  const uint64_t end = offset + length;
  const size_t last = find(end - 1);
  const uint32_t tail_version = pieces_[last].version;
  const bool tail = end < size && !(last + 1 < pieces_.size() && pieces_[last + 1].begin == end);

  size_t first = find(offset);
  if (pieces_[first].begin < offset) ++first;
  const bool joins_front = first > 0 && pieces_[first - 1].version == version;

  Piece fresh[2];
  size_t count = 0;
  if (!joins_front) fresh[count++] = {offset, version};
  if (tail && tail_version != version) fresh[count++] = {end, tail_version};

  size_t stop = last + 1;
  if (!tail && stop < pieces_.size() && pieces_[stop].version == version) ++stop;
  const auto at =
      pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(first),
                    pieces_.begin() + static_cast<std::ptrdiff_t>(std::max(first, stop)));
  pieces_.insert(at, fresh, fresh + count);
  if (pieces_.size() == 1) {
    whole_ = pieces_[0].version;
    pieces_.clear();
  }
}

}  // namespace weir::tool
