// SPDX-License-Identifier: Apache-2.0
//
// Doubts: pages that came, or come, through memory of a third device or of the host. The second hop of such a copy succeeds even if
// the first never arrived, and the fences of a lost device count as passed. So a page is remembered here until the fences of its
// first hop are known to have signalled; if a device on its way is lost before, its copy is not believed. Guarded by the pool's lock.
//
// Invariant: there is room for all pages that room was made for and not given back, so that noting one can't fail.
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/grow.hpp"
#include "core/base/pool_lock.hpp"
#include "core/transfer/paths.hpp"

#include <algorithm>
#include <array>

namespace weir::page {

class Doubts {
 public:
  struct Copy {
    uint32_t region = 0, page = 0;
    uint16_t generation = 0;  ///< of the region
    uint8_t place = 0;        ///< where it came to
    uint32_t passed = 0;      ///< devices it came from and passed, as bits
    std::array<backend::Stamp, transfer::Ways::most> there{};  ///< of its copies to where it passes
  };

  explicit Doubts(std::pmr::memory_resource *memory) : copies_(memory) {}

  /// Throws std::bad_alloc with nothing changed.
  void make_room(size_t pages) {
    grow_by(copies_, promised_ + pages);
    promised_ += pages;
  }
  void give_room_back(size_t pages) noexcept { promised_ -= pages; }
  void note(const Copy &copy) noexcept { copies_.push_back(copy); }
  /// Those that have come for certain are in doubt no more. `done` says so of a copy's stamp (StreamTable::done).
  template <class Done>
  void settle(Done &&done) {
    std::erase_if(copies_, [&done](const Copy &copy) {
      return std::all_of(copy.there.begin(), copy.there.end(), done);
    });
  }
  /// The device is lost: those that may not have come through it are told, and no longer known.
  template <class Done, class Tell>
  void lose(uint32_t device_bit, Done &&done, Tell &&tell) WEIR_HELD {
    settle(done);
    std::erase_if(copies_, [&](const Copy &copy) WEIR_HELD {
      if ((copy.passed & device_bit) == 0) return false;
      tell(copy);
      return true;
    });
  }

 private:
  std::pmr::vector<Copy> copies_;
  size_t promised_ = 0;  ///< pages of plans that may come to it
};

}  // namespace weir::page
