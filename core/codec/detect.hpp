// SPDX-License-Identifier: Apache-2.0
//
// What memory holds, guessed from a few thousand of its bytes. Elements are as wide as makes the planes of
// their bytes most alike; a wrong answer costs ratio, never a byte. The same bytes give the same answer everywhere.
#pragma once

#include "core/codec/form.hpp"

namespace weir::codec {

struct Detection {
  Form form = Form::bytes;
  /// Elements of the form's width, but no floats: their sign stays where it is.
  bool integers = false;
  uint16_t zeros = 0;  ///< elements of zero bytes only, in 1/256 of all
};

/// Looks at no more than `detect_sample_bytes`, spread over all. The first element starts with the first byte.
constexpr uint64_t detect_sample_bytes = uint64_t{16} << 10U;
Detection detect(const unsigned char *bytes, uint64_t count) noexcept;

/// The rest of it, where the form is known: a quarter of the time. Of the form `bytes` nothing is, and it is detect().
Detection detect_in(Form form, const unsigned char *bytes, uint64_t count) noexcept;

}  // namespace weir::codec
