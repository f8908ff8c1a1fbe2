// SPDX-License-Identifier: Apache-2.0
//
// MoveNotes: tells the tape of pages that were moved, neighbours that went the same way as one; and counts how long each took whose end
// the host has seen. Under the pool's lock, as pages are settled; where no trace listens the tape costs a load.
#pragma once

#include "core/base/notes.hpp"
#include "core/page/env.hpp"
#include "core/page/region.hpp"

#include <algorithm>
#include <bit>

namespace weir::move {

class MoveNotes {
 public:
  /// When a move began, and how it ended: by then, or as the stamp passes.
  struct Times {
    uint64_t begin_ns = 0, end_ns = 0;
    Stamp ends{};
  };

  MoveNotes(const Env &env, notes::Move::Why why) noexcept
      : tape_(env.sync.tap.tape()), times_(env.sync.tap.moves()) {
    if (tape_ == nullptr || (tape_->wanted() & notes::timeline) == 0) {
      tape_ = nullptr;
      return;
    }
    note_.pool_id = env.config.pool_id;
    note_.why = why;
  }
  ~MoveNotes() { tell(); }
  MoveNotes(const MoveNotes &) = delete;
  MoveNotes &operator=(const MoveNotes &) = delete;

  /// `from` and `to`: bits of a mask of copies; 0: zeros.
  void add(const page::Region &region, uint32_t page, uint64_t bytes, uint32_t from, uint32_t to,
           const Times &times) noexcept {
    if (times.begin_ns != 0 && times.end_ns != 0 && from != 0)
      times_.add(from, to, times.end_ns - times.begin_ns);
    if (tape_ == nullptr || times.begin_ns == 0) return;
    const uint8_t source = place_of(from), goal = place_of(to);
    const bool goes_on = note_.moved_bytes != 0 && region.id == note_.region &&
                         page == note_.last + 1 && source == note_.from && goal == note_.to;
    if (!goes_on) {
      tell();
      note_.begin_ns = times.begin_ns;
      note_.region = region.id;
      note_.owner = region.owner.buffer;
      note_.first = page;
      note_.from = source;
      note_.to = goal;
    }
    note_.begin_ns = std::min(note_.begin_ns, times.begin_ns);
    note_.end_ns = std::max(note_.end_ns, times.end_ns);
    note_.stamp = times.ends.bits;
    note_.last = page;
    note_.moved_bytes += bytes;
  }

 private:
  static uint8_t place_of(uint32_t bit) noexcept {
    return bit != 0 ? static_cast<uint8_t>(std::countr_zero(bit)) : notes::Move::zeros;
  }
  void tell() noexcept {
    if (tape_ == nullptr || note_.moved_bytes == 0) return;
    notes::put(*tape_, notes::move, &note_);
    note_.moved_bytes = note_.ns = note_.end_ns = 0;
  }

  Tape *tape_;
  MoveTimes &times_;
  notes::Move note_;
};

}  // namespace weir::move
