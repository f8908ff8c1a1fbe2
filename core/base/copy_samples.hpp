// SPDX-License-Identifier: Apache-2.0
//
// CopySamples: how long it takes to bring pages up from HOST to a device, measured for a sample of the copies. Such copies end on the
// device and no thread waits for them, so one copy at a time is watched: a thread that has the pool's lock anyway polls its fence, and the
// pool's background thread, when it rests, polls again after a quarter of the copy's age. A pause before the next copy keeps the cost small.
//
// What must hold: what is counted is known to within half of it, or `finest_ns`; a copy whose end was seen later is only counted as
// missed. Nothing here decides anything, allocates or calls the runtime but by `ended`.
#pragma once

#include "core/base/pool_lock.hpp"
#include "core/base/waits.hpp"

#include <algorithm>
#include <cstdint>

namespace weir {

class CopySamples {
 public:
  static constexpr uint64_t pause_ns = 50'000'000, first_look_ns = 250'000, finest_ns = 1'000'000;

  enum class End : uint8_t { not_yet, passed, lost };

  bool watches() const noexcept WEIR_HELD { return stamp_ != 0; }
  /// Whether the next one that begins is to be watched.
  bool due(uint64_t now_ns) const noexcept WEIR_HELD { return stamp_ == 0 && now_ns >= next_ns_; }
  /// A copy that began then, and ends when `stamp` has passed.
  void watch(uint64_t began_ns, uint64_t stamp, uint64_t now_ns) noexcept WEIR_HELD {
    began_ns_ = began_ns;
    seen_ns_ = now_ns;
    stamp_ = stamp;
  }
  /// ended(stamp) says how it is. True: it has ended, and took so long.
  template <class Ended>
  bool look(uint64_t now_ns, Ended &&ended, uint64_t *took_ns) noexcept WEIR_HELD {
    if (stamp_ == 0) return false;
    const End end = ended(stamp_);
    if (end == End::not_yet) {
      seen_ns_ = now_ns;
      return false;
    }
    stamp_ = 0;
    next_ns_ = now_ns + pause_ns;
    *took_ns = now_ns - began_ns_;
    const bool known = now_ns - seen_ns_ <= std::max(finest_ns, *took_ns / 2);
    if (end == End::passed && !known) ++missed_;
    return end == End::passed && known;
  }
  /// Nanoseconds from now until the next look is worth while; UINT64_MAX: no copy is watched.
  uint64_t rest_ns(uint64_t now_ns) const noexcept WEIR_HELD {
    if (stamp_ == 0) return UINT64_MAX;
    return std::max(first_look_ns, (now_ns - std::min(now_ns, began_ns_)) / 4);
  }
  uint64_t missed() const noexcept WEIR_HELD { return missed_; }

 private:
  uint64_t stamp_ WEIR_GUARDED = 0;  ///< 0: none is watched
  uint64_t began_ns_ WEIR_GUARDED = 0;
  uint64_t seen_ns_ WEIR_GUARDED = 0;  ///< when it had not ended yet
  uint64_t next_ns_ WEIR_GUARDED = 0;
  uint64_t missed_ WEIR_GUARDED = 0;
};

}  // namespace weir
