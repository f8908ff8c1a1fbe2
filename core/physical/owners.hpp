// SPDX-License-Identifier: Apache-2.0
//
// Owners: whose bytes the memory of a chunk or segment holds. One word a block: no client (its bytes are zero), one client (each byte is
// that client's or zero), or several clients. So before a client is given a range, its store knows which bytes must be zeroed: those that
// are not the client's own. A client's own old bytes are left as they are, which is why a pool with one client zeroes nothing.
//
// A range is entered before another client can be given bytes of it: from then on another client's bytes and its own may lie side
// by side. HOST does that when a range is handed out, and knows of ranges in use too; segments when it comes back, and know of
// free ones only. It is settled when all of it is its client's, zeroed or written: blocks that lie in it as a whole are that client's
// then. A block that ranges of two clients share stays `several` until one range covers it. Guarded by its store's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::physical {

template <uint64_t block_bytes>
class Owners {
 public:
  static constexpr uint32_t nobody = UINT32_MAX;
  static constexpr uint32_t several = UINT32_MAX - 1;

  /// `first`: `nobody`, or `several` where it is not known what the memory holds.
  Owners(uint64_t bytes, uint32_t first, std::pmr::memory_resource *memory)
      : blocks_((bytes + block_bytes - 1) / block_bytes, first, memory) {}

  void enter(uint64_t begin, uint64_t end, uint32_t client) noexcept {
    for (uint64_t i = begin / block_bytes; i * block_bytes < end; ++i) {
      if (blocks_[i] != client) blocks_[i] = blocks_[i] == nobody ? client : several;
    }
  }
  void settle(uint64_t begin, uint64_t end, uint32_t client) noexcept {
    for (uint64_t i = (begin + block_bytes - 1) / block_bytes; (i + 1) * block_bytes <= end; ++i)
      blocks_[i] = client;
  }
  /// visit(begin, end): what of an entered range may hold another client's bytes.
  template <class Visit>
  void each_foreign(uint64_t begin, uint64_t end, uint32_t client, Visit visit) const {
    for (uint64_t at = begin; at < end;) {
      const uint64_t stop = std::min(end, (at / block_bytes + 1) * block_bytes);
      if (blocks_[at / block_bytes] != client) visit(at, stop);
      at = stop;
    }
  }
  bool all_of(uint64_t begin, uint64_t end, uint32_t client) const noexcept {
    bool own = true;
    each_foreign(begin, end, client, [&own](uint64_t, uint64_t) { own = false; });
    return own;
  }

 private:
  std::pmr::vector<uint32_t> blocks_;
};

}  // namespace weir::physical
