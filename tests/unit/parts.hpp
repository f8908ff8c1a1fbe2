// SPDX-License-Identifier: Apache-2.0
//
// Parts: counts how often a walk that goes in parts has let go of the pool's lock, by the named point that it passes then.
#pragma once

#include "tests/unit/interleaving.hpp"

#include <atomic>
#include <string_view>

namespace weir::test {

class Parts {
 public:
  Parts(World &world, const char *point) : points_(engine_of(world).points), point_(point) {
    points_.listen(&Parts::arrive, this);
  }
  ~Parts() { points_.leave(this); }
  Parts(const Parts &) = delete;
  Parts &operator=(const Parts &) = delete;
  /// Since the last call.
  uint32_t take() { return count_.exchange(0); }

 private:
  static void arrive(void *user, const char *point) {
    Parts &self = *static_cast<Parts *>(user);
    if (self.point_ == point) ++self.count_;
  }
  weir::SeqPoints &points_;
  const std::string_view point_;
  std::atomic<uint32_t> count_{0};
};

}  // namespace weir::test
