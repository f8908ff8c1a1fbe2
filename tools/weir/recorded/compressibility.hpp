// SPDX-License-Identifier: Apache-2.0
//
// How well the bytes of a recorded program compress. They are not in the trace, but what its pools counted of COMPRESSED is.
#pragma once

#include "tools/weir/recorded/program.hpp"

#include <cstdint>
#include <optional>

namespace weir::tool::recorded {

/// So many words of 64 are random in contents that compress as the program's did (DataMode::mixed), 1 .. 64; of all its pools together.
/// Nothing: no page of it was compressed, or the trace does not say.
std::optional<uint64_t> random_words_of(const Program &program);

}  // namespace weir::tool::recorded
