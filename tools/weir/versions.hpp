// SPDX-License-Identifier: Apache-2.0
//
// Versions: which version each byte of a block has: a map from ranges to numbers, kept minimal.
// Version 0 is "never written". Most blocks have one version all over, and then nothing is
// allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::tool {

class Versions {
 public:
  /// Bytes [offset, offset + length) of a block of `size` bytes get `version`.
  void write(uint64_t offset, uint64_t length, uint64_t size, uint32_t version);

  /// Calls visit(offset, length, version) for the pieces of the range, in order.
  template <class Visit>
  void read(uint64_t offset, uint64_t length, Visit &&visit) const {
    if (pieces_.empty()) {
      visit(offset, length, whole_);
      return;
    }
    const uint64_t end = offset + length;
    for (size_t i = find(offset); offset < end; ++i) {
      const uint64_t piece_end =
          i + 1 < pieces_.size() && pieces_[i + 1].begin < end ? pieces_[i + 1].begin : end;
      visit(offset, piece_end - offset, pieces_[i].version);
      offset = piece_end;
    }
  }

  void clear() {
    whole_ = 0;
    std::vector<Piece>().swap(pieces_);
  }
  size_t pieces() const { return pieces_.empty() ? 1 : pieces_.size(); }

 private:
  struct Piece {
    uint64_t begin;
    uint32_t version;
  };
  /// The piece that holds the byte; pieces_ is not empty.
  size_t find(uint64_t offset) const;

  uint32_t whole_ = 0;         ///< of all bytes, while pieces_ is empty
  std::vector<Piece> pieces_;  ///< the first begins at 0, each ends where the next begins
};

}  // namespace weir::tool
