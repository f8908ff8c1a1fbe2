// SPDX-License-Identifier: Apache-2.0
//
// What a walk over all ranges of an arena tells: totals, the longest, and a histogram by powers of two. Counts from
// the ranges alone, not from the arena's own counters, so that the two can be compared.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace weir::physical {

struct ArenaReport {
  struct Kind {
    uint64_t ranges = 0;
    uint64_t units = 0;
    uint64_t longest = 0;

    void add(uint64_t length) {
      ++ranges;
      units += length;
      longest = std::max(longest, length);
    }
  };
  /// Class k: 2^k .. 2^(k+1) - 1 units.
  static constexpr size_t class_count = 49;

  Kind free;
  Kind live;
  std::array<Kind, class_count> free_classes;
  std::array<Kind, class_count> live_classes;
  uint64_t tail = 0;

  /// 1 - longest / units of what is free, in parts per million, rounded down.
  uint32_t fragmentation_ppm() const {
    if (free.units == 0) return 0;
    // Times a million, 2^48 units fill 68 bits: what is beyond 2^43 gives up its low ones.
    const auto bits = static_cast<uint32_t>(std::bit_width(free.units));
    const uint32_t shift = bits > 43 ? bits - 43 : 0;
    return static_cast<uint32_t>(((free.units - free.longest) >> shift) * 1000000 /
                                 (free.units >> shift));
  }
};

template <class A>
ArenaReport report(const A &arena) {
  ArenaReport counted;
  arena.each_range([&counted](uint64_t, uint64_t size, auto node) {
    const auto size_class = static_cast<size_t>(std::bit_width(size)) - 1;
    const bool live = node != A::none;
    (live ? counted.live : counted.free).add(size);
    (live ? counted.live_classes : counted.free_classes)[size_class].add(size);
    return true;
  });
  counted.tail = arena.tail_units();
  return counted;
}

}  // namespace weir::physical
