// SPDX-License-Identifier: Apache-2.0
//
// A film as a picture for a report: the curves, and the map at the film's marks. Drawn by cairo; a build without it has
// none.
#pragma once

#include "tools/weir/frag/palette.hpp"

#include <string>

namespace weir::tool::frag {

/// Why there are no pictures; "" if there are.
std::string png_missing();

/// A PNG file's bytes. Throws ToolError (NOT_SUPPORTED) without cairo, or with its reason.
std::string film_png(const Film &film, const Story &story, ColourMode mode);

}  // namespace weir::tool::frag
