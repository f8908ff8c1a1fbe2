// SPDX-License-Identifier: Apache-2.0
//
// The page's template, made of the folder page/, as the build puts it into the program.
#pragma once

#include <string_view>

namespace weir::tool::frag {

extern const std::string_view page_template;

}  // namespace weir::tool::frag
