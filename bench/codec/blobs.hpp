// SPDX-License-Identifier: Apache-2.0
//
// What whole blobs cost, beside memcpy, LZ4 and zstd over the same bytes in the same run.
#pragma once

#include "bench/codec/data.hpp"

namespace weir::bench {

/// Prints a line for each way to code the data.
void measure_blobs(const CodecData &data);

}  // namespace weir::bench
