// SPDX-License-Identifier: Apache-2.0
//
// What the devices of one card imported of another card's mapped memory. As in Intel's driver an import is remembered by the
// address at which the memory was mapped, and forgotten when the reservation is freed, not when the memory is unmapped:
// what is mapped there later is not what the other card reaches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "tests/drivers/sim/address_space.hpp"

namespace weir::sim::ze {

class PeerImports {
 public:
  /// Where a reader of `card` finds the piece, which begins `offset` bytes into the mapping at `mapped`.
  void redirect(uint32_t card, uint64_t mapped, uint64_t offset, Piece *piece) {
    const std::lock_guard lock(mutex_);
    const auto [import, fresh] =
        imports_.try_emplace({mapped, card}, Import{piece->memory - offset, piece->keep});
    if (fresh) return;
    piece->memory = import->second.memory + offset;
    piece->keep = import->second.keep;
  }
  /// The reservation is freed.
  void forget(uint64_t address, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    imports_.erase(imports_.lower_bound({address, 0}), imports_.lower_bound({address + bytes, 0}));
  }

 private:
  struct Import {
    std::byte *memory = nullptr;
    std::shared_ptr<const Physical> keep;
  };
  std::mutex mutex_;
  std::map<std::pair<uint64_t, uint32_t>, Import>
      imports_;  ///< by the mapping's address, and by the reader's card
};

}  // namespace weir::sim::ze
