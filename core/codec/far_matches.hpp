// SPDX-License-Identifier: Apache-2.0
//
// Matches that are long and far apart, as rows of a table that come back: zstd's quick searches run out of memory for them, and
// its thorough ones take as long as all else together. Found from places that the data itself marks, and given to libzstd to
// code, with what is between them.
#pragma once

#include "core/codec/plane_look.hpp"

#include <cstdint>

namespace weir::codec {

/// `length` bytes that follow `literals` bytes of no match, and stand `distance` bytes before too.
struct FarMatch {
  uint32_t distance, literals, length;
};

constexpr uint32_t most_far_matches = 4096;
/// In longer planes none are found: to libzstd they would be more than one block, which it cuts by itself.
constexpr uint64_t most_far_bytes = uint64_t{128} << 10U;

/// What there is in a plane, in order, up to most_far_matches of them.
struct FarMatches {
  uint32_t count = 0;
  uint64_t covered = 0;  ///< bytes in matches
};
FarMatches find_far_matches(const unsigned char *in, uint64_t count, const PlaneLook &look,
                            FarMatch *matches) noexcept;

/// Of those of another plane of as many bytes what holds for this one too: elements that come back do so in all of their bytes.
FarMatches keep_far_matches(const unsigned char *in, FarMatches known, FarMatch *matches) noexcept;

}  // namespace weir::codec
