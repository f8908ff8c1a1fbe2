// SPDX-License-Identifier: Apache-2.0
//
// The film as the page carries it: JSON, with the long columns packed. A column is base64 of LEB128 numbers; "delta"
// columns hold zigzag differences from the number before. docs/frag.md has the fields.
#pragma once

#include "tools/weir/frag/palette.hpp"

#include <span>
#include <string>

namespace weir::tool::frag {

std::string packed(std::span<const uint64_t> numbers);
std::string packed_deltas(std::span<const uint64_t> numbers);
/// What packed() and packed_deltas() were given. Throws std::invalid_argument for anything else.
std::vector<uint64_t> unpacked(std::string_view column);
std::vector<uint64_t> unpacked_deltas(std::string_view column);

std::string film_json(const Film &film, const Story &story, ColourMode mode);

/// The whole page: the template with the film in it.
std::string film_page(const Film &film, const Story &story, ColourMode mode);

}  // namespace weir::tool::frag
