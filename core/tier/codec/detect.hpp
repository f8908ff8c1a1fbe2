// SPDX-License-Identifier: Apache-2.0
//
// What memory holds, by a look at a few thousand of its bytes: nobody tells. Elements are as wide as makes the planes of
// their bytes most alike; a wrong answer costs ratio, never a byte. The same bytes give the same answer everywhere.
#pragma once

#include "core/tier/codec/form.hpp"

namespace weir::tier {

struct Detection {
  Form form = Form::bytes;
  bool integers =
      false;  ///< elements of the form's width, but no floats: their sign stays where it is
  bool two_valued = false;  ///< no more than two values of bytes were seen
  bool same = false;        ///< one pattern of 8 bytes was seen and nothing else
  uint16_t zeros = 0;       ///< elements of zero bytes only, in 1/256 of all
  uint16_t coded = 256;     ///< what entropy coding of planes would leave, in 1/256 of the bytes
};

/// Looks at no more than `detect_sample_bytes`, spread over all. The first element starts with the first byte.
constexpr uint64_t detect_sample_bytes = uint64_t{16} << 10U;
Detection detect(const unsigned char *bytes, uint64_t count) noexcept;

}  // namespace weir::tier
