// SPDX-License-Identifier: Apache-2.0
//
// What the codec's methods are measured on: bytes of a known form, far more than any cache holds.
#pragma once

#include "core/codec/form.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weir::bench {

struct CodecData {
  std::string name;
  codec::Form form;
  bool two_valued;
  std::vector<unsigned char> bytes;
};

/// Calls take() with one after the other, each of `total` bytes: recorded data of WEIR_SHARED_DIR, repeated as often as
/// it has to be, or where there is none some that is generated.
void for_each_data(uint64_t total, const std::function<void(const CodecData &)> &take);

/// Generated, in any case: what recorded data has nothing like. Doubles, floats of 8 bits and integers of 4, bytes of pictures
/// and of quantised weights, fields of doubles and floats with gaps, tables of small numbers, text.
void for_each_other(uint64_t total, const std::function<void(const CodecData &)> &take);

}  // namespace weir::bench
