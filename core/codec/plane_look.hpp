// SPDX-License-Identifier: Apache-2.0
//
// What a plane is like, by a look that takes a tenth of the time of coding it: what its values cost, and whether parts of it
// come back. Most planes hold numbers that do not, and to look for matches takes three times as long as all the rest.
// The same bytes give the same answer everywhere.
#pragma once

#include <cstdint>

namespace weir::codec {

/// Codes follow the data in parts of so many bytes, and so does the look.
constexpr uint64_t plane_part_bytes = uint64_t{32} << 10U;

struct PlaneLook {
  uint64_t bits =
      0;  ///< about what is left of the plane if each value is coded by how often it stands in its part
  unsigned char often = 0;   ///< a value that stands at about one place of 128 ...
  unsigned char seldom = 0;  ///< ... one at about one of 512 ...
  unsigned char mark = 0;    ///< ... and one at about one of 24

  /// Whether the bytes are as good as random.
  bool is_noise(uint64_t count) const noexcept { return bits > count * 31 / 4; }
};

/// Looks at a sample of each part.
PlaneLook look_at_plane(const unsigned char *in, uint64_t count) noexcept;

/// Whether one place in 64 has the same value as the eight behind it.
bool has_runs(const unsigned char *in, uint64_t count) noexcept;

/// Whether what follows these values has followed them before, over as many bytes as tell more than chance does: nowhere, somewhere,
/// or at one in fifty of their places.
enum class Repeats : uint8_t { none, few, many };
Repeats repeats_of(const unsigned char *in, uint64_t count, const PlaneLook &look) noexcept;

}  // namespace weir::codec
