// SPDX-License-Identifier: Apache-2.0
//
// What wrong bytes say of themselves: whose they are, how many, and where. It takes its time, which is spent in failing tests
// alone. What it says is a hint for a person; nothing is decided by it.
#pragma once

#include "conformance/outcome.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weir::conformance {

/// What a test puts where bytes are to come to, so that bytes that did not come are seen as such.
inline constexpr uint8_t nothing_came = 0xEE;
/// What a test puts around bytes, and what must still be there.
inline constexpr uint8_t surroundings = 0xC3;

/// One of the last 64 seeds that patterns were made of. Thread-safe.
void remember_seed(uint64_t seed);
/// Bytes that follow from a seed, which is not remembered (make_pattern in fixtures.hpp remembers it).
void fill_pattern(std::span<std::byte> bytes, uint64_t seed);

/// "byte 5 of 4096 is 238 (nothing was copied), not 17; 4091 bytes are wrong, the last is 4095". The two differ. `wanted` may go on
/// beyond `is`: bytes are looked for there, too.
std::string explain(std::span<const std::byte> is, std::span<const std::byte> wanted);

}  // namespace weir::conformance
